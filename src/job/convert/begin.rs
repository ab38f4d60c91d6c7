//! When a job may start: the dates of Slurm and PBS that do not hang on the day of submission.

use crate::job::Begin;

/// The moment as the job file has it; `None` where the text is none, or depends on when it is read (`now+1hour`, `0800`).
pub(super) fn moment(text: &str) -> Option<String> {
    let text = text.trim();
    let moment = Begin::parse(text)
        .ok()
        .or_else(|| Begin::parse(&pbs(text)?).ok())?;
    let shown = moment.to_string();
    // A person leaves the seconds out where there are none.
    Some(
        shown
            .strip_suffix(":00")
            .map_or(shown.clone(), str::to_owned),
    )
}

/// `[CC]YYMMDDhhmm[.SS]` (`qsub(1B)`, `-a`).
fn pbs(text: &str) -> Option<String> {
    let (digits, second) = text.split_once('.').unwrap_or((text, "00"));
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (century, rest) = match digits.len() {
        12 => digits.split_at(2),
        10 => ("20", digits),
        _ => return None,
    };
    let part = |at: usize| rest.get(at..at + 2).unwrap_or("");
    Some(format!(
        "{century}{}-{}-{}T{}:{}:{second}",
        part(0),
        part(2),
        part(4),
        part(6),
        part(8)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_both_families() {
        for (text, expected) in [
            ("2027-01-31T08:00", "2027-01-31T08:00"),
            ("2027-01-31T08:00:30", "2027-01-31T08:00:30"),
            ("2027-01-31", "2027-01-31T00:00"),
            ("202701310800", "2027-01-31T08:00"),
            ("2701310800.15", "2027-01-31T08:00:15"),
        ] {
            assert_eq!(moment(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "now+1hour",
            "16:00",
            "0800",
            "01/31/27",
            "date/time",
            "",
            "999999999999",
            "äöü",
        ] {
            assert_eq!(moment(text), None, "{text}");
        }
    }
}
