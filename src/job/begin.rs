//! When a job may start at the earliest.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A moment in the scheduler's local time, to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Begin {
    /// 1970 to 9999.
    pub year: u16,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
}

impl Begin {
    /// Reads `2027-01-31T08:00` or `2027-01-31T08:00:30`, `2027-01-31` for its midnight; a blank may stand for the `T`.
    ///
    /// # Errors
    /// For anything else, and for days that no calendar has.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is no moment; write `2027-01-31T08:00`");
        let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
        let date = numbers(date, '-').ok_or_else(bad)?;
        let time = numbers(time, ':').ok_or_else(bad)?;
        let (&[year, month, day], &[hour, minute, ref second @ ..]) = (&date[..], &time[..]) else {
            return Err(bad());
        };
        let second = match second {
            [] => 0,
            [second] => *second,
            _ => return Err(bad()),
        };
        let in_calendar = (1970..=9999).contains(&year) && (1..=12).contains(&month) && day >= 1;
        if !in_calendar || day > days_of(year, month) || hour > 23 || minute > 59 || second > 59 {
            return Err(bad());
        }
        let small = |number: u16| u8::try_from(number).unwrap_or(0);
        let (month, day, hour, minute) = (small(month), small(day), small(hour), small(minute));
        Ok(Self {
            year,
            month,
            day,
            hour,
            minute,
            second: small(second),
        })
    }

    /// PBS's form, `CCYYMMDDhhmm.SS` (`qsub(1B)`, `-a`).
    #[must_use]
    pub fn to_pbs(self) -> String {
        let Self {
            year,
            month,
            day,
            hour,
            minute,
            second,
        } = self;
        format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}.{second:02}")
    }
}

fn numbers(text: &str, separator: char) -> Option<Vec<u16>> {
    let number = |part: &str| {
        let is_one = (1..=4).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        is_one.then(|| part.parse().ok())?
    };
    text.split(separator).map(number).collect()
}

fn days_of(year: u16, month: u16) -> u16 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Slurm's form, `2027-01-31T08:00:00` (`sbatch(1)`, `--begin`).
impl fmt::Display for Begin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            year,
            month,
            day,
            hour,
            minute,
            second,
        } = self;
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
        )
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
