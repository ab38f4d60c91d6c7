//! Output as lines: cut at line feeds, and where a program draws over what it wrote.
//!
//! Progress bars write `\r` or backspaces and then a new state over the old one; each state is a line here.

use std::borrow::Cow;

/// Longest line in bytes; what is beyond it is skipped up to the line's end. Ours: lines that speak of epochs are short,
/// and the memory of a follower must not depend on the output.
pub(super) const MAX_LINE: usize = 8 * 1024;

/// Backspace, 0x08.
const BACKSPACE: u8 = 8;

/// A line, or one of the states that a bar went through.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) bytes: &'a [u8],
    /// True where it is drawn over.
    pub(super) redrawn: bool,
    /// When it ended, in Unix milliseconds UTC.
    pub(super) at_ms: Option<u64>,
    /// When its beginning was seen: what is drawn over may stand for a while.
    pub(super) since_ms: Option<u64>,
    /// The number of its line, from 1.
    pub(super) line: u64,
}

/// Cuts a stream of bytes into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The beginning of a line whose end has not come.
    held: Vec<u8>,
    /// When it was seen.
    held_since_ms: Option<u64>,
    /// True where `held` ended with a carriage return: whether a line feed follows is not known yet.
    returned: bool,
    /// When that carriage return was seen.
    returned_at_ms: Option<u64>,
    /// Line feeds so far.
    ended: u64,
}

impl Lines {
    /// Calls `each` with every line that ends in `bytes`. Empty lines are left out.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        at_ms: Option<u64>,
        mut each: impl FnMut(Piece<'_>),
    ) {
        if self.returned
            && let Some(first) = bytes.first()
        {
            self.release(*first != b'\n', self.returned_at_ms, &mut each);
        }
        let mut begin = 0;
        for end in memchr::memchr3_iter(b'\n', b'\r', BACKSPACE, bytes) {
            let piece = &bytes[begin..end];
            let next = bytes.get(end + 1);
            if bytes[end] == b'\r' && next.is_none() {
                self.hold(piece, at_ms);
                (self.returned, self.returned_at_ms) = (true, at_ms);
                return;
            }
            let redrawn = bytes[end] != b'\n' && !(bytes[end] == b'\r' && next == Some(&b'\n'));
            if !self.held.is_empty() {
                self.hold(piece, at_ms);
                self.release(redrawn, at_ms, &mut each);
            } else if !piece.is_empty() {
                let bytes = &piece[..piece.len().min(MAX_LINE)];
                each(Piece {
                    bytes,
                    redrawn,
                    at_ms,
                    since_ms: at_ms,
                    line: self.ended + 1,
                });
            }
            self.ended += u64::from(bytes[end] == b'\n');
            begin = end + 1;
        }
        self.hold(&bytes[begin..], at_ms);
    }

    /// Takes what is held as a line.
    pub(super) fn finish(&mut self, at_ms: Option<u64>, mut each: impl FnMut(Piece<'_>)) {
        let at_ms = if self.returned {
            self.returned_at_ms
        } else {
            at_ms
        };
        self.release(false, at_ms, &mut each);
    }

    /// True where no beginning of a line is held.
    pub(super) fn holds_none(&self) -> bool {
        self.held.is_empty()
    }

    /// Forgets the beginning of a line whose end never comes.
    pub(super) fn drop_partial(&mut self) {
        self.held.clear();
        self.returned = false;
    }

    fn hold(&mut self, piece: &[u8], at_ms: Option<u64>) {
        if self.held.is_empty() {
            self.held_since_ms = at_ms;
        }
        let room = MAX_LINE - self.held.len();
        self.held.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    fn release(&mut self, redrawn: bool, at_ms: Option<u64>, each: &mut impl FnMut(Piece<'_>)) {
        if !self.held.is_empty() {
            each(Piece {
                bytes: &self.held,
                redrawn,
                at_ms,
                since_ms: self.held_since_ms,
                line: self.ended + 1,
            });
        }
        self.held.clear();
        self.returned = false;
    }
}

/// The text of a line: what is not UTF-8 replaced, escape sequences and control characters other than tabs removed.
pub(super) fn plain(line: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(line);
    // The system's logger and collectors of clouds write CR as `#015` and ESC as `#033`.
    if text.contains("#015") || text.contains("#033[") {
        return Cow::Owned(without_escapes(
            &last_painted(&text).replace("#033", "\u{1b}"),
        ));
    }
    if text
        .bytes()
        .any(|byte| byte.is_ascii_control() && byte != b'\t')
    {
        Cow::Owned(without_escapes(&text))
    } else {
        text
    }
}

/// What was painted last in a line whose carriage returns are written `#015`, behind the mark of its process.
fn last_painted(text: &str) -> String {
    let mut states = text.split("#015");
    let first = states.next().unwrap_or_default();
    let marked = first.ends_with("<stdout>:") || first.ends_with("<stderr>:");
    let mark = if marked { first } else { "" };
    let last = states.filter(|state| !state.trim().is_empty()).last();
    format!("{mark}{}", last.unwrap_or(if marked { "" } else { first }))
}

/// Removes escape sequences as ECMA-48 (5th edition, 5.3 to 5.6) forms them, and other control characters.
fn without_escapes(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '\u{1b}' {
            if character == '\t' || !character.is_control() {
                kept.push(character);
            }
            continue;
        }
        match characters.next() {
            // Control sequence: parameters and intermediates, then one final character.
            Some('[') => {
                while characters
                    .next_if(|c| ('\u{20}'..='\u{3f}').contains(c))
                    .is_some()
                {}
                characters.next_if(|c| ('\u{40}'..='\u{7e}').contains(c));
            }
            // Control string: up to BEL or ESC \.
            Some(']' | 'P' | 'X' | '^' | '_') => {
                while let Some(inner) = characters.next() {
                    if inner == '\u{7}'
                        || inner == '\u{1b}' && characters.next_if_eq(&'\\').is_some()
                    {
                        break;
                    }
                }
            }
            Some(' '..='/') => {
                while characters
                    .next_if(|c| ('\u{20}'..='\u{2f}').contains(c))
                    .is_some()
                {}
                characters.next();
            }
            _ => {}
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(chunks: &[&[u8]]) -> Vec<(String, bool)> {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for chunk in chunks {
            lines.feed(chunk, None, |piece| {
                seen.push((plain(piece.bytes).into_owned(), piece.redrawn))
            });
        }
        lines.finish(None, |piece| {
            seen.push((plain(piece.bytes).into_owned(), piece.redrawn))
        });
        seen
    }

    fn texts(lines: &[(String, bool)]) -> Vec<&str> {
        lines.iter().map(|(text, _)| text.as_str()).collect()
    }

    #[test]
    fn lines_end_at_line_feeds_and_redraws() {
        let seen = cut(&[b"a\nb\r\nc\rd\x08\x08\x08\re"]);
        let expected = [
            ("a", false),
            ("b", false),
            ("c", true),
            ("d", true),
            ("e", false),
        ];
        assert_eq!(
            seen,
            expected.map(|(text, redrawn)| (text.to_owned(), redrawn))
        );
    }

    #[test]
    fn a_carriage_return_at_a_chunks_end_waits_for_the_next_byte() {
        assert_eq!(cut(&[b"a\r", b"\nb\r", b"c"]), cut(&[b"a\r\nb\rc"]));
        let mut times = Vec::new();
        let mut lines = Lines::default();
        lines.feed(b"a\r", Some(5), |piece| times.push(piece.at_ms));
        assert!(times.is_empty());
        lines.feed(b"b", Some(9), |piece| times.push(piece.at_ms));
        assert_eq!(times, [Some(5)]);
    }

    #[test]
    fn long_lines_are_cut_and_the_rest_skipped() {
        let long = vec![b'x'; 3 * MAX_LINE];
        let seen = cut(&[&long, &long, b"\nnext\n"]);
        assert_eq!(seen[0].0.len(), MAX_LINE);
        assert_eq!(seen[1].0, "next");
        assert_eq!(seen.len(), 2);
    }

    #[test]
    fn escape_sequences_and_controls_are_removed() {
        assert_eq!(
            plain(b"\x1b[1m 907/907\x1b[0m \x1b[32mok\x1b[0m"),
            " 907/907 ok"
        );
        assert_eq!(
            plain(b"\x1b]0;title\x07a\x1b]8;;u\x1b\\b\x1b(Bc\x00\td"),
            "abc\td"
        );
        assert_eq!(plain(b"cut \x1b[3"), "cut ");
        assert_eq!(plain(b"bad \xff byte"), "bad \u{fffd} byte");
        assert_eq!(
            texts(&cut(&[b"\x1b[2K\x1b[1mEpoch 1/2\x1b[0m\n"])),
            ["Epoch 1/2"]
        );
    }
}
