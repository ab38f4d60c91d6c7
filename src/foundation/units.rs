//! Quantities with their units: sizes in bytes, time limits in seconds.
//!
//! Text without a unit is refused: `memory = "64"` and `walltime = "12"` mean different things on every scheduler.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a quantity was refused. The text is a fragment that ends a sentence such as "`memory`: ...".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct QuantityError {
    message: String,
}

fn refused(message: impl Into<String>) -> QuantityError {
    QuantityError {
        message: message.into(),
    }
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(
    /// The number, in bytes.
    pub u64,
);

/// Suffixes and factors that [`Bytes::parse`] knows. Binary and decimal ones are distinguished, as SI and IEC have it;
/// single letters are binary, as for Slurm.
const BYTE_UNITS: [(&str, u64); 13] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    // As Slurm and PBS write them.
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
];

impl Bytes {
    /// Reads `64GiB`, `500 MB`, `1.5GiB`.
    ///
    /// # Errors
    /// When the number is missing, negative or too large, or the unit is missing or unknown.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let text = text.trim();
        let split = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = (&text[..split], text[split..].trim());
        if number.is_empty() {
            return Err(refused("needs a number and a unit, such as `64GiB`"));
        }
        if unit.is_empty() {
            return Err(refused(format!(
                "`{text}` has no unit; write `{text}GiB` or `{text}MiB`"
            )));
        }
        let Some((_, factor)) = BYTE_UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(refused(format!(
                "`{unit}` is not a unit of size; use {}",
                byte_unit_names()
            )));
        };
        let bytes = match number.parse::<u64>() {
            Ok(whole) => whole.checked_mul(*factor),
            Err(_) => fraction_of(number, *factor),
        };
        bytes
            .map(Self)
            .ok_or_else(|| refused(format!("`{number}` is not a usable number of {unit}")))
    }

    /// Whole mebibytes, rounded up: Slurm's `--mem` takes no fractions.
    #[must_use]
    pub fn mebibytes_up(self) -> u64 {
        self.0.div_ceil(1 << 20)
    }
}

/// `1.5` times a factor, or `None` where the text is not a number or the product does not fit.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "checked"
)]
fn fraction_of(number: &str, factor: u64) -> Option<u64> {
    let product = number.parse::<f64>().ok()? * factor as f64;
    (product < u64::MAX as f64).then_some(product as u64)
}

fn byte_unit_names() -> String {
    BYTE_UNITS.map(|(name, _)| name).join(", ")
}

impl fmt::Display for Bytes {
    /// The largest binary unit that leaves at least one; one decimal where the division leaves a rest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = BYTE_UNITS[..5]
            .iter()
            .rev()
            .find(|(_, factor)| self.0 >= *factor);
        let (name, factor) = unit.copied().unwrap_or(("B", 1));
        if self.0.is_multiple_of(factor) {
            return write!(f, "{}{name}", self.0 / factor);
        }
        let tenths = (u128::from(self.0) * 10 + u128::from(factor) / 2) / u128::from(factor);
        write!(f, "{}.{}{name}", tenths / 10, tenths % 10)
    }
}

/// A limit on the run time of a job, in whole seconds, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Walltime(
    /// The limit, in seconds.
    pub u64,
);

const DAY: u64 = 86_400;

impl Walltime {
    /// Reads `12h`, `90m`, `45s`, `2d`, `1h30m`, `36:00:00`, `1-12:00:00`.
    ///
    /// # Errors
    /// For a bare number (Slurm takes it as minutes, PBS as seconds), for `12:30` (minutes on Slurm, hours to most
    /// readers), for zero and for anything else.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let text = text.trim();
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(refused(format!(
                "`{text}` has no unit (Slurm would read minutes, PBS seconds); write `{text}h`, `{text}m` or `{text}s`"
            )));
        }
        let seconds = if text.contains(':') {
            parse_clock(text)
        } else {
            parse_spans(text)
        };
        match seconds {
            Some(0) => Err(refused("must be longer than zero")),
            Some(seconds) if seconds <= 3650 * DAY => Ok(Self(seconds)),
            Some(_) => Err(refused(format!("`{text}` is longer than ten years"))),
            None => Err(refused(format!(
                "`{text}` is not a time limit; write `12h`, `90m`, `36:00:00` or `1-12:00:00`"
            ))),
        }
    }

    /// Slurm's form, `[D-]HH:MM:SS`.
    #[must_use]
    pub fn to_slurm(self) -> String {
        let (days, rest) = (self.0 / DAY, self.0 % DAY);
        let clock = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
        if days == 0 {
            clock
        } else {
            format!("{days}-{clock}")
        }
    }
}

/// `36:00:00` or `1-12:00:00`: exactly hours, minutes and seconds after the days.
fn parse_clock(text: &str) -> Option<u64> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (digits(days)?, clock),
        None => (0, text),
    };
    let parts: Vec<u64> = clock.split(':').map(digits).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = parts[..] else {
        return None;
    };
    if minutes > 59 || seconds > 59 || (days > 0 && hours > 23) {
        return None;
    }
    days.checked_mul(DAY)?
        .checked_add(hours.checked_mul(3600)?)?
        .checked_add(minutes * 60 + seconds)
}

/// `1h30m`: numbers with units, each unit at most once and in falling order.
fn parse_spans(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = 0_u64;
    let mut last = u64::MAX;
    while !rest.is_empty() {
        let split = rest.find(|c: char| !c.is_ascii_digit())?;
        let number = digits(&rest[..split])?;
        let unit_end = rest[split..]
            .find(|c: char| c.is_ascii_digit())
            .map_or(rest.len(), |end| split + end);
        let factor = match rest[split..unit_end].trim() {
            "d" => DAY,
            "h" => 3600,
            "m" | "min" => 60,
            "s" => 1,
            _ => return None,
        };
        if factor >= last {
            return None;
        }
        last = factor;
        total = total.checked_add(number.checked_mul(factor)?)?;
        rest = &rest[unit_end..];
    }
    (last != u64::MAX).then_some(total)
}

/// A number in plain digits, without a sign.
pub(crate) fn digits(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

impl fmt::Display for Walltime {
    /// The job file's short form: `36h`, `90m`, `1h30m`, `45s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.0 / 3600, "h"),
            (self.0 / 60 % 60, "m"),
            (self.0 % 60, "s"),
        ];
        if self.0 == 0 {
            return f.write_str("0s");
        }
        for (number, unit) in parts.into_iter().filter(|(number, _)| *number > 0) {
            write!(f, "{number}{unit}")?;
        }
        Ok(())
    }
}

/// A duration in seconds as people read it: `12 ms`, `0.42 s`, `12.3 s`, `4 min 05 s`, `3 h 20 min`.
#[must_use]
pub fn display_seconds(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "unknown".to_owned();
    }
    if seconds > 0.0 && seconds < 0.1 {
        // Two digits: a clock tick is 10 ms.
        let digits = if seconds < 0.001 {
            2
        } else {
            usize::from(seconds < 0.01)
        };
        return format!("{:.digits$} ms", seconds * 1e3);
    }
    if seconds < 10.0 {
        return format!("{seconds:.2} s");
    }
    if seconds < 100.0 {
        return format!("{seconds:.1} s");
    }
    let whole = whole_seconds(seconds);
    if whole < 3600 {
        return format!("{} min {:02} s", whole / 60, whole % 60);
    }
    format!("{} h {:02} min", whole / 3600, whole / 60 % 60)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked by the caller, saturating"
)]
fn whole_seconds(seconds: f64) -> u64 {
    seconds.round() as u64
}

/// `1 run`, `12 runs`.
#[must_use]
pub fn counted(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// Bytes as lower-case hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_with_units_are_read() {
        for (text, bytes) in [
            ("64GiB", 64 << 30),
            ("500 MB", 500_000_000),
            ("1.5GiB", 3 << 29),
            ("1B", 1),
            ("0.5KiB", 512),
            ("4G", 4 << 30),
            ("512M", 512 << 20),
            ("1T", 1 << 40),
        ] {
            assert_eq!(Bytes::parse(text), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn bytes_without_unit_are_refused_with_the_next_step() {
        let error = Bytes::parse("64").expect_err("no unit").to_string();
        assert!(error.contains("`64GiB`"), "{error}");
        for text in [
            "",
            "GiB",
            "64 gib",
            "-1GiB",
            "1.2.3GiB",
            "99999999999TiB",
            "64g",
            "١GiB",
        ] {
            assert!(Bytes::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn walltime_forms_are_read() {
        for (text, seconds) in [
            ("12h", 43_200),
            ("90m", 5_400),
            ("45s", 45),
            ("2d", 172_800),
            ("1h30m", 5_400),
            ("36:00:00", 129_600),
            ("1-12:00:00", 129_600),
        ] {
            assert_eq!(Walltime::parse(text), Ok(Walltime(seconds)), "{text}");
        }
    }

    #[test]
    fn walltime_ambiguities_are_refused() {
        let error = Walltime::parse("12").expect_err("bare number").to_string();
        assert!(error.contains("`12h`"), "{error}");
        for text in [
            "",
            "12:30",
            "0h",
            "1-24:00:00",
            "00:60:00",
            "m",
            "1h1h",
            "30m1h",
            "1.5h",
            "-1h",
            "99999999d",
        ] {
            assert!(Walltime::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn walltime_is_written_for_slurm() {
        assert_eq!(Walltime(129_600).to_slurm(), "1-12:00:00");
        assert_eq!(Walltime(5_400).to_slurm(), "01:30:00");
    }

    #[test]
    fn seconds_are_shown_for_people() {
        assert_eq!(display_seconds(0.012_34), "12 ms");
        assert_eq!(
            [0.001_406, 0.000_2].map(display_seconds),
            ["1.4 ms", "0.20 ms"]
        );
        assert_eq!(display_seconds(0.0), "0.00 s");
        assert_eq!(display_seconds(0.417), "0.42 s");
        assert_eq!(display_seconds(245.2), "4 min 05 s");
        assert_eq!(display_seconds(12_000.0), "3 h 20 min");
        assert_eq!(display_seconds(f64::NAN), "unknown");
    }

    proptest! {
        #[test]
        fn parsers_never_panic(text in ".{0,40}") {
            let _ = Bytes::parse(&text);
            let _ = Walltime::parse(&text);
        }

        #[test]
        fn walltime_survives_display(seconds in 1_u64..(3650 * DAY)) {
            prop_assert_eq!(Walltime::parse(&Walltime(seconds).to_string()), Ok(Walltime(seconds)));
            if seconds >= DAY || seconds % DAY > 0 {
                prop_assert_eq!(Walltime::parse(&Walltime(seconds).to_slurm()), Ok(Walltime(seconds)));
            }
        }

        #[test]
        fn whole_mebibytes_survive_display(mebibytes in 1_u64..1023) {
            let bytes = Bytes(mebibytes << 20);
            prop_assert_eq!(Bytes::parse(&bytes.to_string()), Ok(bytes));
        }
    }
}
