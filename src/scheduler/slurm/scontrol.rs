//! What `scontrol show` prints: `Key=Value` pairs between blanks, in lines or, with `-o`, one line for each thing.
//!
//! Values hold blanks and `=` themselves (names, comments, commands, the reason of a node), so a record is split at the
//! keys that are known and nowhere else.

use std::collections::BTreeMap;

/// Splits `text` at those of `keys` that stand at its beginning or behind white space. The first of several counts.
pub(super) fn fields<'t>(text: &'t str, keys: &[&'static str]) -> BTreeMap<&'static str, &'t str> {
    let mut found: Vec<(usize, usize, &'static str)> = Vec::new();
    let starts = text.char_indices().filter(|(at, c)| {
        !c.is_whitespace()
            && text[..*at]
                .chars()
                .next_back()
                .is_none_or(char::is_whitespace)
    });
    for (at, _) in starts {
        let rest = &text[at..];
        let key = keys.iter().find(|key| {
            rest.strip_prefix(**key)
                .is_some_and(|rest| rest.starts_with('='))
        });
        found.extend(key.map(|key| (at, at + key.len() + 1, *key)));
    }
    let mut fields = BTreeMap::new();
    for (place, (_, begin, key)) in found.iter().enumerate() {
        let end = found.get(place + 1).map_or(text.len(), |(next, ..)| *next);
        fields.entry(*key).or_insert(text[*begin..end].trim());
    }
    fields
}

/// A value that says something.
pub(super) fn said(value: Option<&&str>) -> Option<String> {
    let value = value?.trim();
    let silent = matches!(
        value,
        "" | "(null)" | "N/A" | "None" | "n/a" | "Unknown" | "UNLIMITED" | "NONE"
    );
    (!silent).then(|| value.to_owned())
}

/// `[D-]HH:MM:SS`, `MM:SS`, `D-HH`, in seconds (`squeue(1)`, `scontrol(1)`); `sacct` prints fractions of the last, which are
/// left out. `UNLIMITED`, `INVALID`, `NOT_SET` and `Partition_Limit` are no time.
pub(in crate::scheduler) fn seconds(text: &str) -> Option<u64> {
    let (days, clock) = match text.trim().split_once('-') {
        Some((days, clock)) => (Some(days.parse::<u64>().ok()?), clock),
        None => (None, text.trim()),
    };
    let clock = clock.split('.').next().unwrap_or_default();
    let parts: Option<Vec<u64>> = clock.split(':').map(|part| part.parse().ok()).collect();
    let (hours, minutes, seconds) = match (&parts?[..], days) {
        (&[hours, minutes, seconds], _) => (hours, minutes, seconds),
        (&[hours, minutes], Some(_)) => (hours, minutes, 0),
        (&[hours], Some(_)) => (hours, 0, 0),
        (&[minutes, seconds], None) => (0, minutes, seconds),
        _ => return None,
    };
    let days = days.unwrap_or(0).checked_mul(86_400)?;
    let hours = hours.checked_mul(3600)?;
    days.checked_add(hours)?
        .checked_add(minutes.checked_mul(60)?)?
        .checked_add(seconds)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_hold_blanks_and_equal_signs() {
        let text = "JobId=130 JobName=we ird|name x=1 UserId=tester(1001)\n   Comment=a=b c \n StdOut=/o ut";
        let fields = fields(text, &["JobId", "JobName", "UserId", "Comment", "StdOut"]);
        let values: Vec<&str> = ["JobId", "JobName", "UserId", "Comment", "StdOut"]
            .iter()
            .map(|key| fields[key])
            .collect();
        assert_eq!(
            values,
            ["130", "we ird|name x=1", "tester(1001)", "a=b c", "/o ut"]
        );
    }

    #[test]
    fn times_are_read() {
        for (text, expected) in [
            ("7-00:00:00", Some(604_800)),
            ("00:30:00", Some(1800)),
            ("5:00", Some(300)),
            ("1-02:03:04", Some(93_784)),
            ("2-12", Some(216_000)),
            ("1-12:30", Some(131_400)),
            ("0:04", Some(4)),
            ("00:00:30.123", Some(30)),
            ("5", None),
            ("UNLIMITED", None),
            ("NOT_SET", None),
            ("", None),
            ("99999999999999999-00:00:00", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "[A-Za-z= :0-9\\n-]{0,60}|\\PC{0,40}") {
            let _ = (fields(&text, &["A", "JobId"]), seconds(&text));
        }
    }
}
