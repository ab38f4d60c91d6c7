//! Time limits in the spellings of MODAK, Slurm and PBS, in seconds.

use crate::foundation::units::digits;

/// `[[H:]M:]S` with days before it, as MODAK's validator and PBS read it: `12:30` is minutes and seconds, a number
/// alone is seconds. Also ISO 8601, `PT12H`.
pub(super) fn in_seconds(text: &str) -> Option<u64> {
    let text = text.trim();
    if text.starts_with(['P', 'p']) {
        return iso_8601(text);
    }
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (digits(days)?, clock),
        // Python's own text of a duration, `1 day, 12:00:00`.
        None => match text.split_once(' ') {
            Some((days, rest)) => {
                let rest = rest.trim_start();
                let rest = rest
                    .strip_prefix("days")
                    .or_else(|| rest.strip_prefix("day"))
                    .unwrap_or(rest);
                (digits(days)?, rest.trim_start_matches(',').trim_start())
            }
            None => (0, text),
        },
    };
    // Fractions of a second are let go: no scheduler knows them.
    let clock = clock.split_once('.').map_or(clock, |(whole, _)| whole);
    let seconds = match numbers(clock)?[..] {
        [seconds] => seconds,
        [minutes, seconds] => clock_seconds(0, minutes, seconds)?,
        [hours, minutes, seconds] => clock_seconds(hours, minutes, seconds)?,
        _ => return None,
    };
    days.checked_mul(86_400)?.checked_add(seconds)
}

/// Slurm's forms (`sbatch(1)`, `--time`): `M`, `M:S`, `H:M:S`, `D-H`, `D-H:M`, `D-H:M:S`.
pub(super) fn slurm(text: &str) -> Option<u64> {
    let (days, clock) = match text.trim().split_once('-') {
        Some((days, clock)) => (Some(digits(days)?), clock),
        None => (None, text.trim()),
    };
    let seconds = match (days, &numbers(clock)?[..]) {
        (_, &[hours, minutes, seconds]) => clock_seconds(hours, minutes, seconds)?,
        (Some(_), &[hours, minutes]) => clock_seconds(hours, minutes, 0)?,
        (Some(_), &[hours]) => clock_seconds(hours, 0, 0)?,
        (None, &[minutes, seconds]) => clock_seconds(0, minutes, seconds)?,
        (None, &[minutes]) => clock_seconds(0, minutes, 0)?,
        _ => return None,
    };
    days.unwrap_or(0).checked_mul(86_400)?.checked_add(seconds)
}

fn numbers(clock: &str) -> Option<Vec<u64>> {
    clock.split(':').map(digits).collect()
}

fn clock_seconds(hours: u64, minutes: u64, seconds: u64) -> Option<u64> {
    hours
        .checked_mul(3600)?
        .checked_add(minutes.checked_mul(60)?)?
        .checked_add(seconds)
}

/// `P1DT12H30M`; weeks too, no months and years.
fn iso_8601(text: &str) -> Option<u64> {
    let text = text.to_ascii_uppercase();
    let (days, clock) = text
        .strip_prefix('P')?
        .split_once('T')
        .unwrap_or((&text[1..], ""));
    let days = fields(days, &[("W", 7 * 86_400), ("D", 86_400)])?;
    let clock = fields(clock, &[("H", 3600), ("M", 60), ("S", 1)])?;
    (text.len() > 2).then(|| days.checked_add(clock))?
}

fn fields(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (mut rest, mut total) = (text, 0_u64);
    for (unit, factor) in units {
        if let Some((number, after)) = rest.split_once(unit) {
            let whole = number.split_once('.').map_or(number, |(whole, _)| whole);
            total = total.checked_add(digits(whole)?.checked_mul(*factor)?)?;
            rest = after;
        }
    }
    rest.is_empty().then_some(total)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spellings_of_time_limits() {
        for (text, seconds) in [
            ("12:00:00 ", 43_200),
            ("1:00:00", 3600),
            ("30:00", 1800),
            ("3600", 3600),
            ("1-12:00:00", 129_600),
            ("1 day, 12:00:00", 129_600),
            ("2 01:00:00", 176_400),
            ("PT12H", 43_200),
            ("P1DT12H30M5S", 131_405),
            ("P1W", 604_800),
            ("PT90M", 5400),
            ("00:00:01.5", 1),
            ("7200.0", 7200),
        ] {
            assert_eq!(in_seconds(text), Some(seconds), "{text}");
        }
        for text in [
            "",
            "x",
            "1:2:3:4",
            "P",
            "PT",
            "PT1X",
            "P1Y",
            "-1",
            "1-",
            "99999999999999999999",
        ] {
            assert_eq!(in_seconds(text), None, "{text}");
        }
    }

    #[test]
    fn slurm_counts_a_bare_number_in_minutes() {
        for (text, seconds) in [
            ("90", 5400),
            ("1:30", 90),
            ("1:00:00", 3600),
            ("2-0", 172_800),
            ("1-12:30", 131_400),
            ("1-0:0:1", 86_401),
        ] {
            assert_eq!(slurm(text), Some(seconds), "{text}");
        }
        assert_eq!(
            (slurm("UNLIMITED"), slurm("1-2-3"), slurm("")),
            (None, None, None)
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*|[0-9:PTDHM. -]{0,24}") {
            let _ = (in_seconds(&text), slurm(&text));
        }
    }
}
