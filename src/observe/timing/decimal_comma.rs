//! Lines of programs that write `0,125` for 0.125.

use std::borrow::Cow;

/// The line with points in those of its numbers whose comma can only be that of decimals, if it has no number with a point. `1,234` may be thousands.
pub(super) fn with_points(text: Cow<'_, str>) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let between = |at: &usize| {
        let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        *at > 0 && is_digit(at - 1) && is_digit(at + 1)
    };
    let commas = || memchr::memchr_iter(b',', bytes).filter(between);
    let is_prose = || {
        bytes
            .iter()
            .any(|byte| byte.is_ascii_alphabetic() && !b"eE".contains(byte))
    };
    if commas().next().is_none() || !is_prose() {
        return text;
    }
    let has_point = memchr::memchr_iter(b'.', bytes).filter(between);
    if { has_point }.any(|at| Number::around(bytes, at).is_one()) {
        return text;
    }
    let decimal = commas().filter(|at| Number::around(bytes, *at).is_decimal());
    let decimal: Vec<usize> = decimal.collect();
    if decimal.is_empty() {
        return text;
    }
    let mut text = text.into_owned();
    for place in decimal {
        text.replace_range(place..=place, ".");
    }
    Cow::Owned(text)
}

/// The digits on both sides of a comma or point, and what stands around them.
struct Number<'a> {
    before: &'a [u8],
    whole: &'a [u8],
    fraction: &'a [u8],
    behind: &'a [u8],
}

impl<'a> Number<'a> {
    fn around(bytes: &'a [u8], at: usize) -> Self {
        let digits = |bytes: &mut dyn Iterator<Item = &u8>| {
            bytes.take_while(|byte| byte.is_ascii_digit()).count()
        };
        let begin = at - digits(&mut bytes[..at].iter().rev());
        let end = at + 1 + digits(&mut bytes[at + 1..].iter());
        Self {
            before: &bytes[..begin],
            whole: &bytes[begin..at],
            fraction: &bytes[at + 1..end],
            behind: &bytes[end..],
        }
    }

    /// No part of a list, date or version: `[1,0]`, `20:12:26,123`, `(3,22)`, `1,2,3`, `30.11.2026`.
    fn is_one(&self) -> bool {
        let is_alone = match self.before {
            [] | [.., b' ' | b'\t' | b'=' | b'|'] => true,
            [.., b'-' | b'+'] => true,
            [.., last, b':'] => !last.is_ascii_digit(),
            _ => false,
        };
        let goes_on =
            matches!(self.behind, [b',' | b'.' | b'-' | b':', next, ..] if next.is_ascii_digit());
        is_alone && !goes_on
    }

    fn is_decimal(&self) -> bool {
        self.is_one() && (self.fraction.len() != 3 || self.whole == b"0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_are_points_where_they_can_be_nothing_else() {
        for (text, expected) in [
            (
                "step 200/200 loss: 0,1040 acc: 0,966",
                "step 200/200 loss: 0.1040 acc: 0.966",
            ),
            (
                "Epoche 3: Verlust=12,5, Dauer 4,6 s",
                "Epoche 3: Verlust=12.5, Dauer 4.6 s",
            ),
            ("loss:0,005", "loss:0.005"),
            ("30.11.2026 20:42 acc=81,0", "30.11.2026 20:42 acc=81.0"),
            ("loss 1,234 val 0,5", "loss 1,234 val 0.5"),
            (
                "2026-11-30 20:12:26,123 - INFO - Epoch 3: acc 0,5",
                "2026-11-30 20:12:26,123 - INFO - Epoch 3: acc 0.5",
            ),
            (
                "[1,0]<stdout>:Epoch 3 loss=0,52",
                "[1,0]<stdout>:Epoch 3 loss=0.52",
            ),
        ] {
            assert_eq!(with_points(text.into()), expected);
        }
        for text in [
            "tokens/s: 40,960",
            "2026-11-30 20:12:26,12 Epoch 3",
            "[1,0]<stdout>:Epoch 3",
            "gpus 0,1,2",
            "shape (3,22)",
            "loss 0.5, 1,25 of 3",
            "a,b",
            "5,1",
            "3,1e-05",
            "0,50 steps of 0.5",
            "Epoch 3, loss 5",
        ] {
            assert_eq!(with_points(text.into()), text);
        }
    }
}
