//! What a program says of its own progress through `DLRUN_EVENTS`: lines of JSON, described in `docs/events.md`.
//!
//! Pure, as all of the module: bytes and the time at which they were seen go into an [`EventLog`]. [`EventLog::over`] lays
//! what it heard over what the output said: the program's word wins.

mod account;
mod line;

use crate::record::Progress;

use account::Account;
use line::Line;

/// Longest line in bytes; a longer one is not used. Ours: the memory of a reader must not depend on the program.
const MAX_LINE: usize = 8 * 1024;

/// Reads the lines of `DLRUN_EVENTS`, one after the other.
#[derive(Debug, Default)]
pub struct EventLog {
    /// The beginning of a line whose end has not come.
    held: Vec<u8>,
    /// That line is too long: the rest of it is skipped.
    is_skipping: bool,
    /// Lines so far, empty ones too.
    lines: u64,
    refused: u64,
    /// Why the first line that cannot be used cannot be.
    first_refused: Option<String>,
    account: Account,
}

impl EventLog {
    /// Takes the next bytes of the file. `at_ms` is when they were seen, in Unix milliseconds UTC; `None` for what stood
    /// there before anybody looked.
    pub fn feed(&mut self, mut bytes: &[u8], at_ms: Option<u64>) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (piece, rest) = (self.without_hole(&bytes[..end]), &bytes[end + 1..]);
            if self.held.is_empty() && !self.is_skipping && piece.len() <= MAX_LINE {
                self.take(piece, at_ms);
            } else {
                self.hold(piece);
                self.release(at_ms);
            }
            bytes = rest;
        }
        let bytes = self.without_hole(bytes);
        self.hold(bytes);
    }

    /// A writer without `O_APPEND` leaves a hole where the file was emptied: NUL bytes before a line.
    fn without_hole<'a>(&self, piece: &'a [u8]) -> &'a [u8] {
        let begins = self.held.is_empty() && !self.is_skipping;
        let from = if begins {
            piece
                .iter()
                .position(|byte| *byte != 0)
                .unwrap_or(piece.len())
        } else {
            0
        };
        &piece[from..]
    }

    /// Takes a last line without line end as whole: nobody writes any more.
    pub fn finish(&mut self, at_ms: Option<u64>) {
        if self.is_skipping || !self.held.is_empty() {
            self.release(at_ms);
        }
    }

    /// The file was emptied or replaced: what is held of a line has no end.
    pub fn begin_anew(&mut self) {
        self.held.clear();
        self.is_skipping = false;
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

    fn hold(&mut self, piece: &[u8]) {
        if self.held.len() + piece.len() > MAX_LINE {
            self.is_skipping = true;
            self.held.clear();
        } else if !self.is_skipping {
            self.held.extend_from_slice(piece);
        }
    }

    fn release(&mut self, at_ms: Option<u64>) {
        if std::mem::take(&mut self.is_skipping) {
            self.lines += 1;
            self.refuse(&format!("it is longer than {MAX_LINE} bytes"));
        } else {
            let held = std::mem::take(&mut self.held);
            self.take(&held, at_ms);
            // Its room serves the next line.
            self.held = held;
        }
        self.held.clear();
    }

    fn take(&mut self, line: &[u8], at_ms: Option<u64>) {
        self.lines += 1;
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        match Line::read(line) {
            Ok(line) => self.account.take(line, at_ms),
            Err(why) => self.refuse(&why),
        }
    }

    fn refuse(&mut self, why: &str) {
        self.refused += 1;
        self.first_refused
            .get_or_insert_with(|| format!("line {}: {why}", self.lines));
    }
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
        log.begin_anew();
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
