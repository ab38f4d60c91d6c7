//! When a job may start at the earliest.

use std::fmt;

use jiff::civil::{Date, DateTime};
use serde::{Deserialize, Serialize};

/// A moment in the scheduler's local time, to the second; from 1970 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Begin(DateTime);

impl Begin {
    /// Reads `2027-01-31T08:00` or `2027-01-31T08:00:30`, `2027-01-31` for its midnight; a blank may stand for the `T`.
    ///
    /// # Errors
    /// For anything else, and for days that no calendar has.
    pub fn parse(text: &str) -> Result<Self, String> {
        let joined = text.replacen(' ', "T", 1);
        let is_plain = |c: char| c.is_ascii_digit() || "-:T".contains(c);
        ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M"]
            .iter()
            .find_map(|format| DateTime::strptime(format, &joined).ok())
            .or_else(|| {
                let date = Date::strptime("%Y-%m-%d", &joined).ok()?;
                Some(date.at(0, 0, 0, 0))
            })
            .filter(|moment| moment.year() >= 1970 && joined.chars().all(is_plain))
            .map(Self)
            .ok_or_else(|| format!("`{text}` is not a valid time; write `2027-01-31T08:00`"))
    }

    /// PBS's form, `CCYYMMDDhhmm.SS` (`qsub(1B)`, `-a`).
    #[must_use]
    pub fn to_pbs(self) -> String {
        self.0.strftime("%Y%m%d%H%M.%S").to_string()
    }
}

/// Slurm's form, `2027-01-31T08:00:00` (`sbatch(1)`, `--begin`).
impl fmt::Display for Begin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.strftime("%Y-%m-%dT%H:%M:%S"))
    }
}

impl TryFrom<String> for Begin {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<Begin> for String {
    fn from(begin: Begin) -> Self {
        begin.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_and_written_in_both_forms() {
        for (text, slurm, pbs) in [
            ("2027-01-31T08:00", "2027-01-31T08:00:00", "202701310800.00"),
            (
                "2028-02-29 23:59:07",
                "2028-02-29T23:59:07",
                "202802292359.07",
            ),
            ("2027-01-31", "2027-01-31T00:00:00", "202701310000.00"),
        ] {
            let begin = Begin::parse(text).expect("a moment");
            assert_eq!(
                (begin.to_string().as_str(), begin.to_pbs().as_str()),
                (slurm, pbs)
            );
        }
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "tomorrow",
            "2027-02-29T08:00",
            "2027-13-01",
            "2027-01-31T24:00",
            "2027-01-31T08",
            "12:00",
            "2027-1-31T8:0:0:0",
        ] {
            assert!(Begin::parse(text).is_err(), "{text}");
        }
    }
}
