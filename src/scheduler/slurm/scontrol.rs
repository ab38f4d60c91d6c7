//! What `scontrol show` prints: `Key=Value` pairs between blanks, in lines or, with `-o`, one line for each thing.
//!
//! Values hold blanks and `=` themselves (names, comments, commands, the reason of a node).

use crate::job::convert::slurm_seconds;

/// The pairs of one record. A pair begins only where a known kind of key does: a capital letter at the beginning or after a
/// blank, letters up to the `=`.
pub(in crate::scheduler) fn pairs(record: &str) -> Vec<(&str, &str)> {
    let key_before = |equals: usize| {
        let before = record[..equals].rsplit(char::is_whitespace).next();
        let key = equals - before.map_or(0, str::len);
        let name = &record[key..equals];
        let is_sign = |c: char| c.is_ascii_alphanumeric() || "/:_-".contains(c);
        let is_key =
            name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(is_sign);
        is_key.then_some((key, equals))
    };
    let equals = record.match_indices('=').map(|(equals, _)| equals);
    let starts: Vec<(usize, usize)> = equals.filter_map(key_before).collect();
    let ends = starts.iter().skip(1).map(|(next, _)| *next);
    let pair = |((key, equals), end): (&(usize, usize), usize)| {
        (&record[*key..*equals], record[*equals + 1..end].trim())
    };
    starts
        .iter()
        .zip(ends.chain([record.len()]))
        .map(pair)
        .collect()
}

/// `[D-]HH:MM:SS`, `MM:SS`, `D-HH`, in seconds (`squeue(1)`, `scontrol(1)`); `sacct` prints fractions of the last, which are
/// left out. `UNLIMITED`, `INVALID`, `NOT_SET` and `Partition_Limit` are no time.
pub(in crate::scheduler) fn seconds(text: &str) -> Option<u64> {
    // A number alone, which `sbatch` takes for minutes, is none of these forms.
    slurm_seconds(text).filter(|_| text.contains([':', '-']))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_hold_blanks_and_equal_signs() {
        let text = "JobId=130 JobName=we ird|name x=1 UserId=tester(1001)\n   Comment=a=b c \n StdOut=/o ut";
        let values: Vec<&str> = pairs(text).into_iter().map(|(_, value)| value).collect();
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
            let _ = (pairs(&text), seconds(&text));
        }
    }
}
