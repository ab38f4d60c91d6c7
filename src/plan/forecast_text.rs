//! Forecasts in words. Each figure of plans, records and predictions is written by one function.

pub use crate::foundation::units::counted as count;
use crate::foundation::units::{Bytes, display_seconds};
use crate::record::{Basis, Forecast, Interval, Shift};

/// `3.10 s (2.80 s to 3.50 s)`: as likely below as above, and where nine of ten times lie.
#[must_use]
pub fn seconds(interval: &Interval) -> String {
    format!("{} ({})", signed(interval.median), range(interval))
}

/// `2.80 s to 3.50 s`.
#[must_use]
pub fn range(interval: &Interval) -> String {
    format!("{} to {}", signed(interval.low), signed(interval.high))
}

/// A first epoch may be shorter than a steady one.
fn signed(seconds: f64) -> String {
    if seconds < 0.0 {
        format!("-{}", display_seconds(-seconds))
    } else {
        display_seconds(seconds)
    }
}

/// `1.5GiB (1.2GiB to 1.9GiB)`.
#[must_use]
pub fn memory(interval: &Interval) -> String {
    format!(
        "{} ({} to {})",
        size(interval.median),
        size(interval.low),
        size(interval.high)
    )
}

/// Bytes, to the mebibyte.
#[must_use]
pub fn size(bytes: f64) -> Bytes {
    const MEBIBYTE: u64 = 1 << 20;
    let mebibytes = whole_bytes(bytes / MEBIBYTE as f64).map_or(0, |mebibytes| mebibytes.0);
    Bytes(mebibytes.saturating_mul(MEBIBYTE))
}

/// A number of bytes; `None`: it is none.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked"
)]
pub(super) fn whole_bytes(bytes: f64) -> Option<Bytes> {
    (0.0..9e18)
        .contains(&bytes)
        .then_some(Bytes(bytes.ceil() as u64))
}

/// What a forecast rests on: `12 runs like this`, with what speaks against them.
#[must_use]
pub fn basis(forecast: &Forecast) -> String {
    let counted = count(forecast.runs, "run");
    let rests_on = match forecast.basis {
        Basis::Alike => format!("{counted} like this"),
        Basis::Workload => {
            format!("{counted} of this workload in other configurations")
        }
        Basis::Software => format!("{counted} of other workloads with this software"),
        Basis::Priors if forecast.runs > 0 => {
            return format!(
                "published effects and {counted} that share neither workload nor software"
            );
        }
        Basis::Priors => return "published effects alone".to_owned(),
    };
    match forecast.doubt_words() {
        Some(doubts) => format!("{rests_on} ({doubts})"),
        None => rests_on,
    }
}

/// The same behind a figure: `from 12 runs like this`.
pub(super) fn basis_of(forecast: &Forecast) -> String {
    format!("from {}", basis(forecast))
}

/// By what the last runs differ from those before: `the last 3 runs are 48 % slower than the 20 before, and count alone`.
#[must_use]
pub fn shift(shift: &Shift) -> String {
    let Shift {
        runs,
        before,
        time_ratio,
        ..
    } = *shift;
    let way = if time_ratio > 1.0 {
        "slower"
    } else {
        "quicker"
    };
    let much = per_cent((time_ratio - 1.0).abs());
    format!("the last {runs} runs are {much} {way} than the {before} before, and count alone")
}

/// The same in a table: `alike, 12 runs`.
#[must_use]
pub fn basis_in_short(forecast: &Forecast) -> String {
    let doubts = match forecast.doubtful {
        0 => String::new(),
        doubtful => format!(", {doubtful} in doubt"),
    };
    format!(
        "{}, {}{doubts}",
        forecast.basis.as_str(),
        count(forecast.runs, "run")
    )
}

/// `3.10 s an epoch`.
fn each(forecast: &Forecast) -> String {
    let median = forecast.time().map_or(f64::NAN, |time| time.median);
    format!("{} {}", display_seconds(median), forecast.time_of())
}

/// What candidates are ranked by, with what it is made of: `31.0 s in all, 3.10 s an epoch`.
pub(super) fn time(forecast: &Forecast) -> String {
    match whole(forecast) {
        Some(total) => format!("{} in all, {}", signed(total.median), each(forecast)),
        None => each(forecast),
    }
}

/// The same with the range of the first: `31.0 s in all (28.0 s to 35.0 s), 3.10 s an epoch`.
pub(super) fn time_with_range(forecast: &Forecast) -> String {
    match whole(forecast) {
        Some(total) => format!(
            "{} in all ({}), {}",
            signed(total.median),
            range(total),
            each(forecast)
        ),
        None => each_with_range(forecast),
    }
}

/// The whole run, where epochs are known too.
fn whole(forecast: &Forecast) -> Option<&Interval> {
    let total = forecast.total_seconds.as_ref();
    total.filter(|_| forecast.epoch_seconds.is_some())
}

fn each_with_range(forecast: &Forecast) -> String {
    let range = forecast.time().map(range).unwrap_or_default();
    format!("{} ({range})", each(forecast))
}

/// All of a forecast, in one line.
pub(super) fn all_of(forecast: &Forecast) -> String {
    let mut words = vec![each_with_range(forecast)];
    if let Some(total) = whole(forecast) {
        words.push(format!(
            "{} in all ({})",
            signed(total.median),
            range(total)
        ));
    }
    words.extend(
        forecast
            .memory_bytes
            .as_ref()
            .map(|bytes| format!("memory {}", memory(bytes))),
    );
    words.join(", ")
}

/// A share in per cent.
pub(super) fn per_cent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An epoch of so many seconds, ten of them in all, and as many gigabytes, from 12 alike runs.
    pub(in crate::plan) fn forecast(seconds: f64) -> Forecast {
        let interval = |middle: f64| Interval {
            mean: middle,
            median: middle,
            low: middle * 0.9,
            high: middle * 1.1,
        };
        Forecast {
            model: "m".into(),
            basis: Basis::Alike,
            runs: 12,
            epoch_seconds: Some(interval(seconds)),
            total_seconds: Some(interval(10.0 * seconds)),
            memory_bytes: Some(interval(1e9 * seconds)),
            ..Forecast::default()
        }
    }

    #[test]
    fn forecasts_are_told_in_one_line() {
        let forecast = forecast(3.0);
        assert_eq!(
            all_of(&forecast),
            "3.00 s an epoch (2.70 s to 3.30 s), 30.0 s in all (27.0 s to 33.0 s), memory 2.8GiB (2.5GiB to 3.1GiB)"
        );
        assert_eq!(basis_of(&forecast), "from 12 runs like this");
        let doubts = vec!["others kept the node busy".to_owned()];
        let one = Forecast {
            runs: 1,
            doubtful: 1,
            doubts: doubts.clone(),
            ..forecast.clone()
        };
        assert_eq!(
            basis(&one),
            "1 run like this (in doubt: others kept the node busy)"
        );
        let some = Forecast {
            doubtful: 2,
            doubts,
            ..forecast.clone()
        };
        assert_eq!(
            basis(&some),
            "12 runs like this (2 of 12 in doubt: others kept the node busy)"
        );
        assert_eq!(basis_in_short(&some), "alike, 12 runs, 2 in doubt");
        let alone = Forecast {
            basis: Basis::Priors,
            runs: 0,
            epoch_seconds: None,
            ..forecast
        };
        assert_eq!(basis_of(&alone), "from published effects alone");
        assert_eq!(
            all_of(&alone),
            "30.0 s the whole run (27.0 s to 33.0 s), memory 2.8GiB (2.5GiB to 3.1GiB)"
        );
        assert_eq!(
            seconds(&Interval {
                mean: 0.0,
                median: -1.0,
                low: -2.0,
                high: 1.0
            }),
            "-1.00 s (-2.00 s to 1.00 s)"
        );
        assert_eq!(count(1, "run"), "1 run");
    }
}
