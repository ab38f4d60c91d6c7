//! Times for people.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::clock::now_ms;

/// A time in the user's zone, such as `2026-11-20 14:05:31`.
pub(crate) fn local_time(at_ms: u64) -> String {
    let timestamp = i64::try_from(at_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    timestamp.map_or_else(
        || "unknown".to_owned(),
        |timestamp| timestamp.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
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
#[expect(clippy::cast_precision_loss, reason = "spans stay far below 2^53 milliseconds")]
pub(crate) fn seconds_between(from_ms: u64, to_ms: u64) -> f64 {
    to_ms.saturating_sub(from_ms) as f64 / 1000.0
}
