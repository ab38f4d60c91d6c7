//! Figures and names in few characters.

pub(super) use crate::cli::table::one_line;
use crate::cli::table::or_dash;
use crate::foundation::units::Bytes;

pub(super) fn bytes(bytes: Option<u64>) -> String {
    or_dash(bytes.map(Bytes))
}

/// A number of CPUs in percent of one.
pub(super) fn cpu_percent(cpus: Option<f64>) -> String {
    or_dash(cpus.map(|cpus| format!("{:.0}", cpus * 100.0)))
}

pub(super) fn percent(percent: Option<f64>) -> String {
    or_dash(percent.map(|percent| format!("{percent:.0}%")))
}

/// Microseconds in a second as a share of the time, 0 to 1.
pub(super) fn share(us_per_second: Option<u64>) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "about a million")]
    us_per_second.map(|us| us as f64 / 1e6)
}

/// A duration as a clock shows it: `4:05`, `3:20:05`, `2d 03h`.
pub(super) fn clock(ms: u64) -> String {
    let seconds = ms / 1000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{:02}", seconds % 60),
        (0, _) => format!("{hours}:{minutes:02}:{:02}", seconds % 60),
        _ => format!("{days}d {hours:02}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        for (seconds, text) in [
            (5, "0:05"),
            (245, "4:05"),
            (12_005, "3:20:05"),
            (183_600, "2d 03h"),
        ] {
            assert_eq!(clock(seconds * 1000), text);
        }
    }

    #[test]
    fn text_from_outside_stays_on_its_line() {
        assert_eq!(
            one_line("a\u{1b}[31m\nb\tc\u{9b}"),
            "a\u{fffd}[31m b c\u{fffd}"
        );
    }
}
