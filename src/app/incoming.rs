//! Lines of an import, one after the other, into a database.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, Read};

use serde::Serialize;

use crate::app::progress::Display;
use crate::foundation::diagnostic::chain;
use crate::foundation::private::FileError;
use crate::record::rundir::ImportCopy;
use crate::record::store::{Importer, StoreError, Taken};
use crate::record::{Incoming, LineFault, MAX_LINE_BYTES};

/// Wrong lines that are reported one by one.
const TOLD: usize = 20;
/// Between two words on how far it came.
const LINES_A_WORD: u64 = 10_000;

/// What came of a file.
#[derive(Debug, Default, Clone, Serialize)]
pub(crate) struct Counts {
    /// Lines, but for empty ones.
    pub(crate) lines: u64,
    /// Rows that were not there.
    pub(crate) new: u64,
    /// Rows that replace older versions.
    pub(crate) newer: u64,
    /// Rows that were there, in this version or a newer one.
    pub(crate) known: u64,
    /// Rows of runs that have a directory of their own here.
    pub(crate) own: u64,
    /// Rows that wait for their run, or for their measurement.
    pub(crate) waiting: u64,
    /// Lines that are wrong.
    pub(crate) wrong: u64,
    /// Good rows by kind.
    #[serde(rename = "rows")]
    kinds: BTreeMap<&'static str, u64>,
    /// The first wrong lines.
    pub(crate) problems: Vec<Problem>,
}

/// A wrong line.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Problem {
    line: u64,
    #[serde(flatten)]
    fault: LineFault,
}

/// Why no more lines are taken in.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A line is wrong.
    Wrong(Problem),
    /// The input cannot be read.
    Unreadable(io::Error),
    /// The copy cannot be written.
    Copy(FileError),
    /// The database does not take it.
    Store(StoreError),
    /// All was read, and nothing is to change.
    DryRun(Box<Counts>),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(problem) => f.write_str(&problem.fault.message),
            Self::Unreadable(error) => write!(f, "it cannot be read: {error}"),
            Self::Copy(error) => f.write_str(&chain(error).join(": ")),
            Self::Store(error) => f.write_str(&chain(error).join(": ")),
            Self::DryRun(_) => f.write_str("nothing is to change"),
        }
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<FileError> for Stop {
    fn from(error: FileError) -> Self {
        Self::Copy(error)
    }
}

impl Problem {
    /// `FILE:LINE:COLUMN: what is wrong`.
    pub(crate) fn text(&self, file: &str) -> String {
        format!(
            "{file}:{}:{}: {}",
            self.line, self.fault.column, self.fault.message
        )
    }

    pub(crate) fn hint(&self) -> Option<&str> {
        self.fault.hint.as_deref()
    }
}

impl Counts {
    /// Says whether something came that was not there.
    pub(crate) fn is_news(&self) -> bool {
        self.new + self.newer + self.waiting > 0
    }

    fn count(&mut self, kind: &'static str, taken: Taken) {
        *self.kinds.entry(kind).or_default() += 1;
        *self.of(taken) += 1;
    }

    /// A row that had to wait for one further down found its place.
    fn arrived(&mut self, taken: Taken) {
        self.waiting = self.waiting.saturating_sub(1);
        *self.of(taken) += 1;
    }

    fn of(&mut self, taken: Taken) -> &mut u64 {
        match taken {
            Taken::New => &mut self.new,
            Taken::Newer => &mut self.newer,
            Taken::Known => &mut self.known,
            Taken::Own => &mut self.own,
            Taken::Waits => &mut self.waiting,
        }
    }

    /// `3 lines: 1 new, 2 known`.
    pub(crate) fn to_text(&self) -> String {
        let words = [
            (self.new, "new"),
            (self.newer, "newer than what was there"),
            (self.known, "known"),
            (self.own, "of own runs, left alone"),
            (self.waiting, "waiting for what they belong to"),
            (self.wrong, "wrong, passed over"),
        ];
        let parts: Vec<String> = words
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        let plural = if self.lines == 1 { "" } else { "s" };
        let parts = if parts.is_empty() {
            String::new()
        } else {
            format!(": {}", parts.join(", "))
        };
        format!("{} line{plural}{parts}", self.lines)
    }
}

/// Takes all lines in. Those that were taken go into `copy` too. Wrong ones are passed over: anybody whose run is in a file could keep
/// all of it from being imported. A file with nothing but wrong lines is another kind of file. `owner` may speak only of runs of their
/// own.
pub(crate) fn take_lines(
    mut from: impl BufRead,
    owner: Option<u32>,
    importer: &mut Importer<'_>,
    mut copy: Option<&mut ImportCopy>,
    progress: Option<(&mut Display, &str)>,
) -> Result<Counts, Stop> {
    let mut counts = Counts::default();
    let (mut line, mut number, mut progress) = (Vec::new(), 0_u64, progress);
    while next_line(&mut from, &mut line).map_err(Stop::Unreadable)? {
        number += 1;
        if line.iter().all(u8::is_ascii_whitespace) && line.len() <= MAX_LINE_BYTES {
            continue;
        }
        counts.lines += 1;
        let row = read(&line).and_then(|(incoming, text)| match owner {
            Some(uid) => incoming.check_owner(uid).map(|()| (incoming, text)),
            None => Ok((incoming, text)),
        });
        match row {
            Ok((incoming, text)) => {
                let kind = incoming.table.kind();
                counts.count(kind, importer.take(incoming, text)?);
                importer
                    .arrived()
                    .into_iter()
                    .for_each(|taken| counts.arrived(taken));
                if let Some(copy) = &mut copy {
                    copy.add(text.as_bytes())?;
                }
            }
            Err(fault) => {
                let problem = Problem {
                    line: number,
                    fault,
                };
                counts.wrong += 1;
                if counts.problems.len() < TOLD {
                    counts.problems.push(problem);
                }
            }
        }
        if let Some((display, file)) = progress
            .as_mut()
            .filter(|_| counts.lines % LINES_A_WORD == 0)
        {
            display.now(&format!("{file}: {} lines", counts.lines), false);
        }
    }
    if counts.wrong == counts.lines && !counts.problems.is_empty() {
        return Err(Stop::Wrong(counts.problems.swap_remove(0)));
    }
    Ok(counts)
}

fn read(line: &[u8]) -> Result<(Incoming, &str), LineFault> {
    if line.len() > MAX_LINE_BYTES {
        let message = format!("the line is longer than {MAX_LINE_BYTES} bytes, which no row is");
        return Err(LineFault {
            column: MAX_LINE_BYTES + 1,
            message,
            hint: None,
        });
    }
    let incoming = Incoming::read(line)?;
    // It was read as text.
    Ok((incoming, std::str::from_utf8(line).unwrap_or_default()))
}

/// Reads a line without its break; `false` at the end. Of one that is too long a little more than the longest is kept, and the
/// rest passed over.
fn next_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let limit = MAX_LINE_BYTES as u64 + 2;
    let read = from.by_ref().take(limit).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    } else if read as u64 == limit {
        skip_line(from)?;
    }
    Ok(read > 0)
}

fn skip_line(from: &mut impl BufRead) -> io::Result<()> {
    loop {
        let seen = from.fill_buf()?;
        match seen.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                from.consume(end + 1);
                return Ok(());
            }
            None if seen.is_empty() => return Ok(()),
            None => {
                let length = seen.len();
                from.consume(length);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Vec<usize> {
        let (mut from, mut line, mut found) = (text, Vec::new(), Vec::new());
        while next_line(&mut from, &mut line).expect("memory can be read") {
            found.push(line.len());
        }
        found
    }

    #[test]
    fn lines_end_at_their_breaks_and_at_the_end() {
        assert_eq!(lines(b""), Vec::<usize>::new());
        assert_eq!(lines(b"ab\r\n\nc"), [2, 0, 1]);
        assert_eq!(lines(b"ab\n"), [2]);
        let longest = vec![b'x'; MAX_LINE_BYTES];
        assert_eq!(
            lines(&[&longest[..], b"\r\ny"].concat()),
            [MAX_LINE_BYTES, 1]
        );
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_in_constant_memory() {
        let long = vec![b'x'; 3 * MAX_LINE_BYTES];
        let found = lines(&[&long[..], b"\nshort\n", &long[..]].concat());
        assert_eq!(found, [MAX_LINE_BYTES + 2, 5, MAX_LINE_BYTES + 2]);
    }
}
