//! How far a run is, for people.

use crate::app::times::{local_time, seconds_between};
use crate::foundation::clock::now_ms;
use crate::foundation::units::display_seconds;
use crate::record::{EndSource, ExpectedEnd, RunProgress};

/// `12/50`, or as many as are known.
pub(crate) fn epochs(progress: &RunProgress) -> Option<String> {
    match (progress.epochs_done, progress.epochs_planned) {
        (0, _) => None,
        (done, None) => Some(done.to_string()),
        (done, Some(planned)) => Some(format!("{done}/{planned}")),
    }
}

/// The time that is left, most likely.
pub(crate) fn left(progress: &RunProgress) -> Option<String> {
    let end = progress.expected_end?;
    // The record is up to some minutes old.
    (end.at_ms > now_ms()).then(|| seconds_left(end.at_ms))
}

fn seconds_left(at_ms: u64) -> String {
    let left = seconds_between(now_ms(), at_ms);
    // Tenths of a second are beyond what is known.
    match left < 100.0 {
        true => format!("{left:.0} s"),
        false => display_seconds(left),
    }
}

/// `about 1 h 12 min (1 h 05 min to 1 h 20 min), until 2026-11-20 14:05:31, by its own epochs`.
pub(crate) fn left_line(progress: &RunProgress) -> Option<String> {
    let end: ExpectedEnd = progress.expected_end?;
    let by = match progress.expected_by? {
        EndSource::Progress if progress.epochs_planned.is_some() => "by its own epochs",
        EndSource::Progress => "by its own steps",
        EndSource::Forecast => "by the forecast",
    };
    let [at, earliest, latest] = [end.at_ms, end.earliest_ms, end.latest_ms].map(seconds_left);
    let until = local_time(end.at_ms);
    if end.at_ms <= now_ms() {
        return Some(format!("it was expected to end at {until}, {by}"));
    }
    Some(format!(
        "about {at} ({earliest} to {latest}), until {until}, {by}"
    ))
}

/// What is wrong with it: it seems to hang, or its time limit comes first.
pub(crate) fn trouble(progress: &RunProgress) -> Option<String> {
    if let Some(since_ms) = progress.hangs_since_ms {
        return Some(format!("seems to hang since {}", local_time(since_ms)));
    }
    let limit = progress.time_limit_ms.filter(|_| progress.is_too_long())?;
    Some(format!(
        "its time limit at {} comes before its end",
        local_time(limit)
    ))
}
