//! Lines that differ from the one before only in a counter: of a bar that is redrawn a thousand times a second, the last
//! says all.

/// Bytes of a line beyond which it is not compared.
pub(super) const MAX_COMPARED: usize = 1024;

/// The step that a line was read to be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) step: u64,
    /// True where the number of all steps stands behind it.
    pub(super) of: bool,
}

/// Where `new` is the line `old` again with a later step, that step: what `old` says need not be read.
///
/// Up to the counter both are equal, but for the numbers of a clock before the first letter; behind it stands the same.
pub(super) fn supersedes(old: &[u8], new: &[u8], counted: Counted) -> Option<u64> {
    let (mut old, mut new) = (Tokens(old), Tokens(new));
    let mut letters = false;
    loop {
        let text = old.text();
        if !same_text(text, new.text()) {
            return None;
        }
        letters |= text.iter().any(u8::is_ascii_alphabetic) && !matches!(text, b"T" | b"I");
        let digits = old.0.len();
        let (was, is) = (old.number()?, new.number()?);
        let digits = digits - old.0.len();
        if was == counted.step && is > was {
            return same_behind(old, new, counted).then_some(is);
        }
        // tqdm draws the share of the steps and a bar before their number.
        if is > was && old.0.starts_with(b"%|") && new.0.starts_with(b"%|") {
            return later_bar(old, new, counted);
        }
        let clock = text == b":" || old.0.starts_with(b":") && digits == 2;
        let fraction = matches!(text, b"." | b",") && digits >= 3;
        if is != was && (letters || !(clock || fraction)) {
            return None;
        }
    }
}

/// What stands behind the counter up to the next number, and the number of all steps, must be the same.
fn same_behind(mut old: Tokens<'_>, mut new: Tokens<'_>, counted: Counted) -> bool {
    let text = old.text();
    if !same_text(text, new.text()) {
        return false;
    }
    if !counted.of {
        return true;
    }
    let of = matches!(text.trim_ascii(), b"/" | b"of");
    of && old.number() == new.number()
}

/// The counters behind the drawings of two bars.
fn later_bar(mut old: Tokens<'_>, mut new: Tokens<'_>, counted: Counted) -> Option<u64> {
    // `%|████▍     | 225/1875 [`
    let (was, is) = (old.behind_bar()?, new.behind_bar()?);
    (was == counted.step && is > was && same_behind(old, new, counted)).then_some(is)
}

/// Equal but for blanks, with which counters are padded.
fn same_text(a: &[u8], b: &[u8]) -> bool {
    a == b
        || a.iter()
            .filter(|byte| **byte != b' ')
            .eq(b.iter().filter(|byte| **byte != b' '))
}

/// A line as texts and whole numbers in turn; this is what is left of it.
#[derive(Clone, Copy)]
struct Tokens<'a>(&'a [u8]);

impl<'a> Tokens<'a> {
    /// Takes off the text before the next number.
    fn text(&mut self) -> &'a [u8] {
        let end = self
            .0
            .iter()
            .position(u8::is_ascii_digit)
            .unwrap_or(self.0.len());
        let (text, rest) = self.0.split_at(end);
        self.0 = rest;
        text
    }

    /// Takes off a number of at most 18 digits.
    fn number(&mut self) -> Option<u64> {
        let end = self
            .0
            .iter()
            .position(|byte| !byte.is_ascii_digit())
            .unwrap_or(self.0.len());
        let (digits, rest) = self.0.split_at(end);
        self.0 = rest;
        (1..=18).contains(&digits.len()).then(|| {
            digits
                .iter()
                .fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
        })
    }

    /// Goes behind `%|...|` and takes off the number there.
    fn behind_bar(&mut self) -> Option<u64> {
        let drawing = self.0.get(2..)?;
        let end = drawing.iter().position(|byte| *byte == b'|')?;
        self.0 = drawing[end + 1..].trim_ascii_start();
        self.number()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later(old: &str, new: &str, step: u64, of: bool) -> Option<u64> {
        supersedes(old.as_bytes(), new.as_bytes(), Counted { step, of })
    }

    #[test]
    fn a_later_step_of_the_same_counter_supersedes() {
        for (old, new, step, of, is) in [
            (
                "Epoch: [3][ 10/782]\tTime 1.0",
                "Epoch: [3][100/782]\tTime 2.0",
                10,
                true,
                100,
            ),
            (
                " 9/1875 ━ 4s 3ms/step",
                "10/1875 ━ 4s 2ms/step",
                9,
                true,
                10,
            ),
            (
                "\u{1b}[1m 9/1875\u{1b}[0m ━",
                "\u{1b}[1m12/1875\u{1b}[0m ━",
                9,
                true,
                12,
            ),
            (
                "Epoch 0:  12%|█▏  | 225/1875 [0",
                "Epoch 0:  13%|█▎  | 241/1875 [0",
                225,
                true,
                241,
            ),
            (
                "2022/08/22 15:51:56 - x - [1][10/1563]",
                "2022/08/22 15:51:57 - x - [1][20/1563]",
                10,
                true,
                20,
            ),
            ("iter 40: loss 6.2", "iter 80: loss 4.5", 40, false, 80),
        ] {
            assert_eq!(later(old, new, step, of), Some(is), "{old} {new}");
        }
    }

    #[test]
    fn another_epoch_rank_or_bar_does_not() {
        for (old, new, step, of) in [
            ("Epoch: [3][781/782]", "Epoch: [4][  0/782]", 781, true),
            ("Epoch: [3][ 10/782]", "Epoch: [4][ 20/782]", 10, true),
            (
                "[1,0]<stdout>:Epoch: [3][ 10/782]",
                "[1,1]<stdout>:Epoch: [3][ 20/782]",
                10,
                true,
            ),
            ("1875/1875 ━ 4s", "79/79 ━ 0s", 1875, true),
            ("78/1875 ━ 4s", "79/79 ━ 0s", 78, true),
            (
                "Epoch 0: 100%|███| 8/8 [",
                "Epoch 0:   0%|   | 0/8 [",
                8,
                true,
            ),
            (
                "Epoch 0:  12%|█▏ | 1/8 [",
                "Epoch 1:  13%|█▎ | 2/8 [",
                1,
                true,
            ),
            ("Epoch 3/10 took 2 s", "Epoch 4/10 took 2 s", 7, false),
            ("a", "a", 0, false),
            ("", "", 0, false),
        ] {
            assert_eq!(later(old, new, step, of), None, "{old} {new}");
        }
    }
}
