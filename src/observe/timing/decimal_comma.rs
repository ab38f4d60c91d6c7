//! Lines of programs that write `0,125` for 0.125.

use std::borrow::Cow;

/// The line with points in its decimals, where its commas are those of decimals: it has no number with a point, each comma between two
/// digits may be one, and at least one can be nothing else. `1,234` alone may be thousands.
pub(super) fn with_points(text: Cow<'_, str>) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let is_between = |at: &usize| *at > 0 && is_digit(at - 1) && is_digit(at + 1);
    let places: Vec<usize> = memchr::memchr_iter(b',', bytes)
        .filter(is_between)
        .collect();
    // A date or a version, `30.11.2026`, is no number with a point.
    let mut points = bytes.split(|byte| !byte.is_ascii_digit() && *byte != b'.');
    let is_number = |word: &[u8]| {
        let points = memchr::memchr_iter(b'.', word).count();
        points == 1 && !word.starts_with(b".") && !word.ends_with(b".")
    };
    if places.is_empty() || points.any(is_number) {
        return text;
    }
    let mut is_certain = false;
    for place in &places {
        let whole = bytes[..*place]
            .iter()
            .rev()
            .take_while(|byte| byte.is_ascii_digit());
        let begin = place - whole.count();
        let fraction = bytes[place + 1..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit());
        let fraction = fraction.count();
        let before = begin.checked_sub(1).map(|at| bytes[at]);
        let behind = bytes.get(place + 1 + fraction);
        // `[1,0]` is a list, `20:12:26,123` a time of day, `(3,224)` a shape, `1,2,3` too.
        let stands_alone = matches!(
            before,
            None | Some(b' ' | b'\t' | b'=' | b'-' | b'+' | b'|')
        ) || before == Some(b':') && !is_digit(begin.saturating_sub(2));
        if !stands_alone
            || behind.is_some_and(|byte| matches!(byte, b',' | b'-' | b':'))
                && is_digit(place + 2 + fraction)
        {
            return text;
        }
        is_certain |= fraction != 3 || &bytes[begin..*place] == b"0";
    }
    if !is_certain {
        return text;
    }
    let mut text = text.into_owned();
    for place in places {
        text.replace_range(place..=place, ".");
    }
    Cow::Owned(text)
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
            // All digits of a number that may be one of thousands, beside another.
            ("loss 1,234 val 0,5", "loss 1.234 val 0.5"),
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
            "Epoch 3, loss 5",
        ] {
            assert_eq!(with_points(text.into()), text);
        }
    }
}
