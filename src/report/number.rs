//! Numbers as people read them: few digits, a unit, and the same number of decimals down a column.

/// The sign for what is unknown.
pub(super) const UNKNOWN: &str = "–";

/// A value as `shown` writes it, or the sign for what is not known.
pub(super) fn or_unknown<T>(value: Option<T>, shown: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), shown)
}

/// `0.98 – 1.02`; below 0 `-0.10 to 0.20`, where a dash would be read as another minus.
pub(super) fn interval(bounds: Option<(f64, f64)>, shown: impl Fn(f64) -> String) -> String {
    or_unknown(bounds, |(low, high)| {
        let dash = if low < 0.0 { "to" } else { "–" };
        format!("{} {dash} {}", shown(low), shown(high))
    })
}

/// A ratio with three decimals.
pub(super) fn three(value: f64) -> String {
    format!("{value:.3}")
}

/// By how much a time is longer or shorter, of its ratio to the other: `12 % longer`.
pub(super) fn change(ratio: f64) -> String {
    let way = if ratio > 1.0 { "longer" } else { "shorter" };
    format!("{} {way}", percent((ratio - 1.0).abs()))
}

/// `1 node`, `2 nodes`.
pub(super) fn counted(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", count(number))
}

/// From here on digits are noise: nothing that is measured is so large, and a damaged record may hold hundreds of them.
const HUGE: f64 = 1e15;

/// A whole number for arithmetic.
pub(super) fn real(value: u64) -> f64 {
    value as f64
}

/// The least and the largest of numbers; of none the least is above the largest.
pub(super) fn range(numbers: impl Iterator<Item = f64>) -> (f64, f64) {
    numbers.fold(
        (f64::INFINITY, f64::NEG_INFINITY),
        |(least, most), number| (least.min(number), most.max(number)),
    )
}

/// So many decimals that three digits are seen of a number of this size.
fn decimals(size: f64) -> usize {
    match size.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 || size == 0.0 => 2,
        size if size >= 0.09995 => 3,
        _ => 4,
    }
}

/// Less than this would lose digits.
const TINY: f64 = 0.00095;

/// As [`short`], of a figure that may be small and is no remainder: `1.71e-4`.
pub(super) fn short_or_tiny(value: f64) -> String {
    let size = value.abs();
    match size > 0.0 && size < TINY {
        true => format!("{value:.2e}"),
        false => short(value),
    }
}

/// Three digits, without trailing zeros behind the point.
pub(super) fn short(value: f64) -> String {
    if !value.is_finite() {
        return UNKNOWN.to_owned();
    }
    if value.abs() >= HUGE {
        return format!("{value:.2e}");
    }
    let text = format!("{value:.*}", decimals(value));
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    if text == "-0" {
        "0".to_owned()
    } else {
        grouped(text)
    }
}

/// Thin spaces between the thousands of what is long.
fn grouped(text: &str) -> String {
    let (whole, rest) = text
        .split_once('.')
        .map_or((text, None), |(whole, rest)| (whole, Some(rest)));
    let digits = whole.trim_start_matches('-');
    if digits.len() < 5 {
        return text.to_owned();
    }
    let mut shown = whole[..whole.len() - digits.len()].to_owned();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            shown.push('\u{202f}');
        }
        shown.push(digit);
    }
    rest.map_or(shown.clone(), |rest| format!("{shown}.{rest}"))
}

/// A count.
pub(super) fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// Bytes with a binary unit.
pub(super) fn bytes(value: f64) -> String {
    let (factor, unit) = byte_unit(value);
    format!("{} {unit}", short(value / factor))
}

/// The largest binary unit that leaves at least one.
pub(super) fn byte_unit(value: f64) -> (f64, &'static str) {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut factor = 1.0;
    let mut place = 0;
    while place + 1 < UNITS.len() && value.abs() >= factor * 1024.0 {
        factor *= 1024.0;
        place += 1;
    }
    (factor, UNITS[place])
}

/// A duration: milliseconds, seconds, or minutes and hours.
pub(super) fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return UNKNOWN.to_owned();
    }
    if seconds > 0.0 && seconds < 1.0 {
        return format!("{} ms", short(seconds * 1e3));
    }
    if seconds < 120.0 {
        return format!("{} s", short(seconds));
    }
    let whole = seconds.round();
    let (hours, minutes, rest) = (
        (whole / 3600.0).floor(),
        (whole / 60.0).floor() % 60.0,
        whole % 60.0,
    );
    if whole >= HUGE {
        return format!("{} h", short(seconds / 3600.0));
    }
    if hours >= 1.0 {
        format!("{hours} h {minutes:02} min")
    } else {
        format!("{minutes} min {rest:02} s")
    }
}

/// A share of 1, in percent.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", short(share * 100.0))
}

/// A probability, as far as it means something.
pub(super) fn probability(p: f64) -> String {
    if p < 0.001 {
        "< 0.001".to_owned()
    } else {
        format!("{p:.3}")
    }
}

/// A time of day, in UTC: `2026-11-20 14:05:31`.
pub(super) fn instant(at_ms: u64) -> String {
    let timestamp = i64::try_from(at_ms)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    let zoned = timestamp.map(|timestamp| timestamp.to_zoned(jiff::tz::TimeZone::UTC));
    zoned.map_or_else(
        || UNKNOWN.to_owned(),
        |zoned| zoned.strftime("%Y-%m-%d %H:%M:%S").to_string(),
    )
}

/// Seconds between two times; 0 where the second is earlier.
pub(super) fn seconds_between(from_ms: u64, to_ms: u64) -> f64 {
    real(to_ms.saturating_sub(from_ms)) / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_no_idle_ones() {
        for (value, text) in [
            (0.0, "0"),
            (12.345, "12.3"),
            (9.0, "9"),
            (147.3, "147"),
            (0.012_34, "0.0123"),
            (25_557_032.0, "25\u{202f}557\u{202f}032"),
            (-0.000_001, "0"),
            (f64::NAN, "–"),
            (9999.0, "9999"),
            (f64::MAX, "1.80e308"),
            (-1e300, "-1.00e300"),
        ] {
            assert_eq!(short(value), text, "{value}");
        }
    }

    #[test]
    fn sizes_and_durations_have_the_unit_of_their_size() {
        assert_eq!(
            [0.0, 512.0, 1536.0, 6.4e10, 1e300].map(bytes)[..4],
            ["0 B", "512 B", "1.5 KiB", "59.6 GiB"]
        );
        let durations = [0.012_3, 9.1, 119.0, 245.0, 3600.0, 90_061.0, -1.0].map(duration);
        assert_eq!(
            durations,
            [
                "12.3 ms",
                "9.1 s",
                "119 s",
                "4 min 05 s",
                "1 h 00 min",
                "25 h 01 min",
                "–"
            ]
        );
        for text in [duration(f64::MAX), bytes(f64::MAX), percent(f64::MAX / 1e9)] {
            assert!(text.len() < 16, "{text}");
        }
        assert_eq!(probability(0.0004), "< 0.001");
        assert_eq!(instant(1_763_650_000_000), "2025-11-20 14:46:40");
        assert_eq!(instant(u64::MAX), "–");
    }
}
