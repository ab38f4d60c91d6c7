//! Time limits in the spellings of MODAK, Slurm and PBS, in seconds.

use crate::foundation::units::digits;

/// `[D-][[H:]M:]S` of PBS and MODAK: `12:30` is minutes and seconds, a number alone is seconds.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let (days, numbers) = parts(text)?;
    let factors: &[u64] = match numbers.len() {
        count @ 1..=3 => &[3600, 60, 1][3 - count..],
        _ => return None,
    };
    total(days.unwrap_or(0), &numbers, factors)
}

/// Slurm's forms (`sbatch(1)`, `--time`): `M`, `M:S`, `H:M:S`, `D-H`, `D-H:M`, `D-H:M:S`.
pub(crate) fn slurm(text: &str) -> Option<u64> {
    let (days, numbers) = parts(text)?;
    let factors: &[u64] = match (numbers.len(), days) {
        (1 | 2, Some(_)) => &[3600, 60],
        (1 | 2, None) => &[60, 1],
        (3, _) => &[3600, 60, 1],
        _ => return None,
    };
    total(days.unwrap_or(0), &numbers, factors)
}

/// Days, and the numbers between colons.
fn parts(text: &str) -> Option<(Option<u64>, Vec<u64>)> {
    let (days, clock) = match text.trim().split_once('-') {
        Some((days, clock)) => (Some(digits(days)?), clock),
        None => (None, text.trim()),
    };
    // Fractions of a second are dropped: no scheduler has them.
    let clock = clock.split_once('.').map_or(clock, |(whole, _)| whole);
    let numbers: Option<Vec<u64>> = clock.split(':').map(digits).collect();
    Some((days, numbers?))
}

fn total(days: u64, numbers: &[u64], factors: &[u64]) -> Option<u64> {
    let days = days.checked_mul(86_400)?;
    let mut products = numbers.iter().zip(factors);
    products.try_fold(days, |sum, (number, factor)| {
        sum.checked_add(number.checked_mul(*factor)?)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spellings_of_time_limits() {
        for (text, expected) in [
            ("12:00:00 ", 43_200),
            ("1:00:00", 3600),
            ("30:00", 1800),
            ("3600", 3600),
            ("1-12:00:00", 129_600),
            ("00:00:01.5", 1),
            ("7200.0", 7200),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
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
            assert_eq!(seconds(text), None, "{text}");
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
            let _ = (seconds(&text), slurm(&text));
        }
    }
}
