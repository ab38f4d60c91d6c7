//! Times for people.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use crate::foundation::clock::now_ms;
use crate::foundation::units::Walltime;

/// A time in the user's zone, such as `2026-11-20 14:05:31`.
pub(crate) fn local_time(at_ms: u64) -> String {
    let timestamp = i64::try_from(at_ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok());
    timestamp.map_or_else(
        || "unknown".to_owned(),
        |timestamp| {
            timestamp
                .to_zoned(TimeZone::system())
                .strftime("%Y-%m-%d %H:%M:%S")
                .to_string()
        },
    )
}

/// How long ago, in one unit: `12 s ago`, `3 h ago`.
pub(crate) fn ago(at_ms: u64) -> String {
    let seconds = now_ms().saturating_sub(at_ms) / 1000;
    match seconds {
        0..=119 => format!("{seconds} s ago"),
        120..=7199 => format!("{} min ago", seconds / 60),
        7200..=172_799 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// Seconds between two times.
#[expect(
    clippy::cast_precision_loss,
    reason = "spans stay far below 2^53 milliseconds"
)]
pub(crate) fn seconds_between(from_ms: u64, to_ms: u64) -> f64 {
    to_ms.saturating_sub(from_ms) as f64 / 1000.0
}

/// Reads a time: a date or date with time in the user's zone, one with its own zone (RFC 3339), or how long before `now_ms`
/// (`7d`, `12h`, `90m`). In Unix milliseconds UTC.
///
/// # Errors
/// A sentence for the user.
pub(crate) fn parse_time(text: &str, now_ms: u64) -> Result<u64, String> {
    if let Ok(ago) = Walltime::parse(text) {
        return Ok(now_ms.saturating_sub(ago.0.saturating_mul(1000)));
    }
    let zoned = text.parse::<Timestamp>();
    let at = zoned.or_else(|_| {
        let local = text
            .parse::<DateTime>()
            .or_else(|_| text.parse::<Date>().map(DateTime::from))?;
        Ok(local.to_zoned(TimeZone::system())?.timestamp())
    });
    let ms = at
        .map_err(|_: jiff::Error| ())
        .and_then(|at| u64::try_from(at.as_millisecond()).map_err(drop));
    ms.map_err(|()| {
        format!("`{text}` is not a valid time; write 2026-11-20, 2026-11-20T08:00, 2026-11-20T08:00:00Z, or an age such as 7d or 12h")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_and_without_a_zone_and_as_spans() {
        let now = 1_800_000_000_000;
        assert_eq!(parse_time("7d", now), Ok(now - 7 * 86_400_000));
        assert_eq!(parse_time("1970-01-02T00:00:00Z", now), Ok(86_400_000));
        assert_eq!(
            parse_time("1970-01-02T01:00:00.250+01:00", now),
            Ok(86_400_250)
        );
        let day = parse_time("2026-11-20", now).expect("a date");
        assert_eq!(parse_time("2026-11-20T08:00", now), Ok(day + 8 * 3_600_000));
        for wrong in [
            "",
            "yesterday",
            "7",
            "2026-13-01",
            "1960-01-01T00:00:00Z",
            "2026-11-20T25:00",
        ] {
            assert!(parse_time(wrong, now).is_err(), "{wrong}");
        }
    }
}
