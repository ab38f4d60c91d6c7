//! What stands on the screen, for programs that go up and paint several lines again, such as the bars of `rich`: a line that
//! is painted as it was says nothing new.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::lines::Piece;

/// Lines kept at most: more than any program paints again.
const MAX: usize = 64;

/// The last lines, as hashes. Before a program goes up for the first time only lines with escape sequences are kept.
#[derive(Debug, Default)]
pub(super) struct Screen {
    lines: VecDeque<u64>,
    /// The line that the cursor is on: an index of `lines` or one beyond.
    at: usize,
    /// The number of that line in the output.
    number: u64,
    used: bool,
}

impl Screen {
    /// Takes the next line, or state of one. True where it is on the screen already.
    pub(super) fn repeats(&mut self, piece: &Piece<'_>) -> bool {
        if !self.used && memchr::memchr(0x1b, piece.bytes).is_none() {
            return false;
        }
        let (before, after, painted) = moves(piece.bytes);
        self.used |= before + after > 0;
        let lines_down = usize::try_from(piece.line - self.number).unwrap_or(usize::MAX);
        self.number = piece.line;
        self.at = self.at.saturating_add(lines_down).saturating_sub(before);
        if self.at >= self.lines.len().saturating_add(MAX) {
            (self.at, self.lines) = (0, VecDeque::new());
        }
        while self.lines.len() <= self.at {
            self.lines.push_back(0);
        }
        let mut hasher = DefaultHasher::new();
        piece.bytes[painted..].hash(&mut hasher);
        let hash = hasher.finish();
        let repeated = std::mem::replace(&mut self.lines[self.at], hash) == hash && self.used;
        self.at = self.at.saturating_sub(after);
        while self.lines.len() > MAX {
            self.lines.pop_front();
            self.at = self.at.saturating_sub(1);
        }
        repeated
    }
}

/// Lines that `ESC [ n A` goes up before a line is painted, and behind it; and where its painting begins.
fn moves(line: &[u8]) -> (usize, usize, usize) {
    let (mut before, mut after, mut begin) = (0, 0, 0);
    for at in memchr::memchr_iter(0x1b, line) {
        let sequence = line
            .get(at + 1..)
            .and_then(|rest| rest.strip_prefix(b"["))
            .unwrap_or_default();
        let digits = sequence
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let number = || {
            std::str::from_utf8(&sequence[..digits])
                .ok()?
                .parse::<usize>()
                .ok()
        };
        let up = if sequence.get(digits) == Some(&b'A') {
            number().unwrap_or(1).min(MAX)
        } else {
            0
        };
        if at == begin {
            before += up;
            begin = (at + 3 + digits).min(line.len());
        } else {
            after += up;
        }
    }
    (before, after, begin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::timing::lines::{Lines, plain};

    fn kept(output: &str) -> Vec<String> {
        let (mut screen, mut lines, mut kept) = (Screen::default(), Lines::default(), Vec::new());
        let mut each = |piece: Piece<'_>| {
            if !screen.repeats(&piece) {
                kept.push(plain(piece.bytes).trim().to_owned());
            }
        };
        lines.feed(output.as_bytes(), None, &mut each);
        lines.finish(None, &mut each);
        kept.retain(|line| !line.is_empty());
        kept
    }

    #[test]
    fn lines_that_are_painted_again_as_they_were_are_left_out() {
        let up = "\r\u{1b}[2K\u{1b}[1A\u{1b}[2K";
        let frames = format!("a 1\nb 1{up}a 1\nb 2{up}a 1\nb 3{up}a 2\nb 3\nend\n");
        // Of the first frame nothing was kept: it had no escape sequence.
        assert_eq!(
            kept(&frames),
            ["a 1", "b 1", "a 1", "b 2", "b 3", "a 2", "end"]
        );
        let coloured = frames
            .replace("a ", "a \u{1b}[1m\u{1b}[0m")
            .replace("b ", "b \u{1b}[1m\u{1b}[0m");
        assert_eq!(kept(&coloured), ["a 1", "b 1", "b 2", "b 3", "a 2", "end"]);
        // tqdm goes up behind its second bar.
        let nested = "out 1\n\rin 1\u{1b}[A\rout 1\n\rin 2\u{1b}[A\rout 1\n\rin 3\u{1b}[A\r";
        assert_eq!(kept(nested), ["out 1", "in 1", "out 1", "in 2", "in 3"]);
    }

    #[test]
    fn equal_lines_below_each_other_are_two_lines() {
        assert_eq!(
            kept("a\na\n\u{1b}[1Aa\na\nb\nb\n"),
            ["a", "a", "a", "a", "b", "b"]
        );
    }
}
