//! What a program says of its own progress through `DLRUN_EVENTS`: lines of JSON, described in `docs/events.md`.
//!
//! Pure, as all of the module: bytes and the time at which they were seen go into an [`EventLog`]. [`EventLog::over`] puts
//! them over what the output says: the program wins.

mod account;
mod line;

use crate::record::Progress;

use super::lines::{Lines, MAX_LINE, Piece};
use account::Account;
use line::Line;

/// Reads the lines of `DLRUN_EVENTS`, one after the other.
#[derive(Debug, Default)]
pub struct EventLog {
    lines: Lines,
    refused: u64,
    /// Why the first line that cannot be used cannot be.
    first_refused: Option<String>,
    account: Account,
}

impl EventLog {
    /// Takes the next bytes of the file. `at_ms` is when they were seen, in Unix milliseconds UTC; `None` for what stood
    /// there before anybody looked.
    pub fn feed(&mut self, bytes: &[u8], at_ms: Option<u64>) {
        let mut lines = std::mem::take(&mut self.lines);
        let bytes = if lines.holds_none() {
            behind_hole(bytes)
        } else {
            bytes
        };
        lines.feed(bytes, at_ms, |piece| self.take(piece));
        self.lines = lines;
    }

    /// Takes a last line without line end as whole: nobody writes any more.
    pub fn finish(&mut self, at_ms: Option<u64>) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.finish(at_ms, |piece| self.take(piece));
        self.lines = lines;
    }

    /// The file was emptied or replaced: what is held of a line has no end.
    pub fn drop_partial_line(&mut self) {
        self.lines.drop_partial();
    }

    /// What the program said, over what its output said.
    #[must_use]
    pub fn over(&self, heard: Progress) -> Progress {
        self.account.over(heard)
    }

    /// Which lines could not be used, in words; `None` where all could.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let first = self.first_refused.as_ref()?;
        let lines = if self.refused == 1 { "line" } else { "lines" };
        Some(format!(
            "{} {lines} of DLRUN_EVENTS could not be used; the first: {first}",
            self.refused
        ))
    }

    fn take(&mut self, piece: Piece<'_>) {
        let line = behind_hole(piece.bytes).trim_ascii();
        if line.is_empty() {
            return;
        }
        let read = if piece.bytes.len() < MAX_LINE {
            Line::read(line)
        } else {
            Err(format!("it is longer than {MAX_LINE} bytes"))
        };
        match read {
            Ok(line) => self.account.take(line, piece.at_ms),
            Err(why) => {
                self.refused += 1;
                self.first_refused
                    .get_or_insert_with(|| format!("line {}: {why}", piece.line));
            }
        }
    }
}

/// What follows the NUL bytes that a writer without `O_APPEND` leaves where the file was emptied.
fn behind_hole(bytes: &[u8]) -> &[u8] {
    let begin = bytes.iter().position(|byte| *byte != 0);
    &bytes[begin.unwrap_or(bytes.len())..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn heard(chunks: &[&[u8]]) -> EventLog {
        let mut log = EventLog::default();
        for chunk in chunks {
            log.feed(chunk, None);
        }
        log.finish(None);
        log
    }

    fn epochs(log: &EventLog) -> Vec<u64> {
        log.over(Progress::default())
            .epochs
            .iter()
            .map(|epoch| epoch.epoch)
            .collect()
    }

    #[test]
    fn lines_come_in_pieces_and_the_last_needs_no_end() {
        let log = heard(&[b"{\"epoch\":1}\r\n\n{\"ep", b"och\":2}", b"\n{\"epoch\":3}"]);
        assert_eq!((epochs(&log), log.trouble()), (vec![1, 2, 3], None));
    }

    #[test]
    fn what_cannot_be_used_is_counted_and_the_rest_counts() {
        let long = [
            b"{\"epoch\":1,\"note\":\"".as_slice(),
            &[b'x'; MAX_LINE],
            b"\"}",
        ]
        .concat();
        let log = heard(&[
            b"epoch 1\n",
            &long,
            b"\n",
            &long,
            &long,
            b"\n\0\0\0{\"epoch\":7}\n\xff\xfe\n",
        ]);
        assert_eq!(epochs(&log), [7]);
        let trouble = log.trouble().expect("four lines");
        assert!(
            trouble.starts_with("4 lines of DLRUN_EVENTS could not be used; the first: line 1: ")
        );
    }

    #[test]
    fn an_emptied_file_ends_no_line() {
        let mut log = EventLog::default();
        log.feed(b"{\"epoch\":1}\n{\"epoch\":2,\"se", None);
        log.drop_partial_line();
        log.feed(b"{\"epoch\":2}\n", None);
        assert_eq!((epochs(&log), log.trouble()), (vec![1, 2], None));
    }

    #[test]
    fn without_events_the_output_stands() {
        let heard = Progress {
            recogniser: Some("keras".into()),
            epochs_completed: 3,
            ..Progress::default()
        };
        assert_eq!(EventLog::default().over(heard.clone()), heard);
    }

    proptest! {
        #[test]
        fn the_cut_of_the_bytes_changes_nothing(
            lines in proptest::collection::vec("(\\{(\"(epoch|seconds|phase|step|loss|begin)\":(1|2|0.5|true|\"evaluation\"|null|NaN),?){0,4}\\}|\\PC{0,20})", 0..20),
            cuts in proptest::collection::vec(1usize..40, 1..30),
        ) {
            let text = lines.join("\n");
            let whole = heard(&[text.as_bytes()]);
            let mut log = EventLog::default();
            let mut rest = text.as_bytes();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                log.feed(piece, None);
                rest = after;
            }
            log.finish(None);
            prop_assert_eq!(format!("{:?}", log.over(Progress::default())), format!("{:?}", whole.over(Progress::default())));
            prop_assert_eq!(log.trouble(), whole.trouble());
        }
    }
}
