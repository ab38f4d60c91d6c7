//! How far a run is that runs now.

use serde::Serialize;

use super::{Event, EventKind, ExpectedEnd, Outcome, RunRecord, Status};
use crate::foundation::vocabulary::vocabulary;
use crate::job::JobState;

vocabulary! {
    /// Where an expected end comes from.
    #[cfg_attr(test, derive(schemars::JsonSchema))]
    pub enum EndSource {
        /// The run's own epochs or steps.
        Progress = "progress",
        /// The performance model's forecast for it, made before it began.
        Forecast = "forecast",
    }
}

/// How far a run is, by its records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RunProgress {
    /// Epochs that are done, by the number of the last one; 0 until the newest start has ended one.
    pub epochs_done: u64,
    /// Epochs that are planned, by the program or the job file.
    pub epochs_planned: Option<u64>,
    /// When the training will end.
    pub expected_end: Option<ExpectedEnd>,
    /// Where that comes from.
    pub expected_by: Option<EndSource>,
    /// When the job reaches its time limit, in Unix milliseconds UTC; `None` where the job file names none, and of a run that continues.
    pub time_limit_ms: Option<u64>,
    /// Since when the program seems to hang, in Unix milliseconds UTC.
    pub hangs_since_ms: Option<u64>,
    /// What is to be warned of: its memory will exceed its limit, or it has held GPUs or CPUs without work for long.
    pub warning: Option<String>,
    /// The number of nodes on which the run is to continue once its work is saved, as `dlrun scale` asked.
    pub nodes_asked: Option<u32>,
}

impl RunProgress {
    /// Of a run that runs and is no array, by what its newest start left.
    #[must_use]
    pub fn of(record: &RunRecord, status: &Status, outcome: &Outcome, now_ms: u64) -> Option<Self> {
        if status.state != JobState::Running || record.array.is_some() {
            return None;
        }
        // The time limit of one of several starts is none of the training.
        let continues = outcome.attempt.is_some();
        let (nodes, nodes_asked) = (&outcome.nodes, outcome.nodes_asked);
        let newest = nodes.iter().map(|node| node.key.attempt).max();
        let nodes = nodes
            .iter()
            .filter(|node| Some(node.key.attempt) == newest)
            .collect::<Vec<_>>();
        let timed = nodes
            .iter()
            .max_by_key(|node| node.progress.epochs_completed);
        let own = timed.and_then(|node| node.progress.expected_end);
        // The forecast is of a run that trains from its beginning.
        let forecast = || {
            let total = record.forecast.as_ref()?.total_seconds?;
            let began_ms = status.started_at_ms.filter(|_| newest.unwrap_or(0) == 0)?;
            let end = ExpectedEnd::new(began_ms, (total.low, total.median, total.high), began_ms)?;
            // One that it has outlived was wrong.
            Some(end).filter(|end| end.latest_ms > now_ms)
        };
        let hangs_since_ms = nodes.iter().filter_map(|node| hangs(&node.events)).min();
        let expected_end = own.or_else(forecast).filter(|_| hangs_since_ms.is_none());
        let by = own.map_or(EndSource::Forecast, |_| EndSource::Progress);
        let asked = record.identity.as_ref().map(|identity| &identity.asked);
        let limit = asked.and_then(|asked| asked.walltime_seconds);
        let announced = timed.and_then(|node| node.progress.epochs_announced);
        Some(Self {
            epochs_done: timed.map_or(0, |node| node.progress.epochs_done()),
            epochs_planned: announced.or(record.workload.epochs),
            expected_end,
            expected_by: expected_end.map(|_| by),
            time_limit_ms: timed
                .and_then(|node| node.progress.time_limit_ms)
                .or_else(|| {
                    Some(
                        status
                            .started_at_ms?
                            .saturating_add(limit?.saturating_mul(1000)),
                    )
                })
                .filter(|_| !continues),
            hangs_since_ms,
            warning: nodes.iter().find_map(|node| {
                let found = node.remarks(now_ms).into_iter();
                found
                    .filter(|(warns, _)| *warns)
                    .map(|(_, text)| text)
                    .next()
            }),
            nodes_asked,
        })
    }

    /// Whether the time limit comes before the training most likely ends.
    #[must_use]
    pub fn is_too_long(&self) -> bool {
        let end = self.expected_end.zip(self.time_limit_ms);
        end.is_some_and(|(end, limit_ms)| end.at_ms > limit_ms)
    }
}

/// Since when a program seems to hang, by what happened, oldest first.
#[must_use]
pub fn hangs(events: &[Event]) -> Option<u64> {
    let last = events.iter().rev().find(|event| {
        let kinds = [EventKind::Hang, EventKind::HangOver, EventKind::HangEnded];
        kinds.contains(&event.kind)
    })?;
    (last.kind == EventKind::Hang).then_some(last.at_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_hangs_until_it_works_again_or_is_ended() {
        let events = |kinds: &[EventKind]| -> Vec<Event> {
            let event = |(at_ms, kind): (u64, &EventKind)| Event {
                at_ms,
                kind: *kind,
                detail: String::new(),
            };
            (1..).zip(kinds).map(event).collect()
        };
        let (hang, note) = (EventKind::Hang, EventKind::Note);
        assert_eq!(
            hangs(&events(&[hang, EventKind::HangOver, hang, note])),
            Some(3)
        );
        assert_eq!(hangs(&events(&[hang, EventKind::HangOver])), None);
        assert_eq!(hangs(&events(&[hang, EventKind::HangEnded])), None);
        assert_eq!(hangs(&events(&[note])), None);
    }
}
