//! How far a run is, for people.

use crate::app::times::{local_time, seconds_between};
use crate::foundation::clock::now_ms;
use crate::foundation::units::{counted, display_seconds};
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
    let (end, limit) = progress.expected_end.zip(progress.time_limit_ms)?;
    let comes = match limit {
        limit if end.at_ms > limit => "comes",
        limit if end.latest_ms > limit => "may come",
        _ => return None,
    };
    Some(format!(
        "its time limit at {} {comes} before its end",
        local_time(limit)
    ))
}

/// The size at which it will continue, as `dlrun scale` asked.
pub(crate) fn next_size(progress: &RunProgress) -> Option<String> {
    let nodes = counted(progress.nodes_asked?.into(), "node");
    Some(format!("continues on {nodes} once its work is saved"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At epoch 12 of 50, with so many seconds to the likely end, and so many to the time limit.
    fn progress(left: i64, limit: Option<u64>) -> RunProgress {
        let at_ms = now_ms().saturating_add_signed(left * 1000 + 500);
        RunProgress {
            epochs_done: 12,
            epochs_planned: Some(50),
            expected_end: Some(ExpectedEnd {
                at_ms,
                earliest_ms: at_ms,
                latest_ms: at_ms + 60_000,
            }),
            expected_by: Some(EndSource::Progress),
            time_limit_ms: limit.map(|seconds| now_ms() + seconds * 1000),
            hangs_since_ms: None,
            warning: None,
            nodes_asked: None,
        }
    }

    #[test]
    fn time_left_is_given_until_the_expected_end_and_not_after_it() {
        let line = |left| left_line(&progress(left, None)).expect("a line");
        assert_eq!(epochs(&progress(9, None)).as_deref(), Some("12/50"));
        assert!(left(&progress(4000, None)).is_some_and(|left| left.starts_with("1 h 06 min")));
        assert!(line(4000).starts_with("about 1 h 06 min (1 h 06 min to 1 h 07 min), until "));
        assert!(line(4000).ends_with(", by its own epochs"));
        assert_eq!(left(&progress(-9, None)), None);
        assert!(line(-9).starts_with("it was expected to end at "));
    }

    #[test]
    fn a_limit_before_the_end_and_a_hang_are_trouble() {
        assert_eq!(trouble(&progress(100, None)), None);
        assert_eq!(trouble(&progress(100, Some(500))), None);
        let nearly = trouble(&progress(100, Some(130))).expect("the interval is a minute longer");
        assert!(nearly.ends_with(" may come before its end"), "{nearly}");
        let limited = trouble(&progress(500, Some(100))).expect("trouble");
        assert!(limited.ends_with(" comes before its end"), "{limited}");
        let hanging = RunProgress {
            hangs_since_ms: Some(now_ms()),
            ..progress(500, Some(100))
        };
        assert!(trouble(&hanging).is_some_and(|text| text.starts_with("seems to hang since ")));
        let scaled = RunProgress {
            nodes_asked: Some(3),
            ..progress(100, None)
        };
        let text = next_size(&scaled).expect("it was asked for");
        assert_eq!(text, "continues on 3 nodes once its work is saved");
    }
}
