//! A run that is an array: one state out of those of its elements.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Cause, ElementCounts, ExitStatus, QueueEntry, Status};
use crate::job::{ArraySpec, JobState};

/// The state of one element of an array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Element {
    /// Its index, as the run counts.
    pub element: u32,
    /// The newest attempt that left something, counted from 0; `None`: it never started.
    pub attempt: Option<u32>,
    /// Its state.
    #[serde(flatten)]
    pub status: Status,
}

/// The entry that speaks of each element; what a scheduler says of one element counts before what it says of many. The
/// order of the entries means nothing.
#[must_use]
pub fn cover<'e>(array: &ArraySpec, entries: &'e [QueueEntry]) -> BTreeMap<u32, &'e QueueEntry> {
    let mut ranked: Vec<&QueueEntry> = entries.iter().collect();
    // The last one wins: of few elements, of the later start, of the later state.
    ranked.sort_by_cached_key(|entry| {
        let many = entry.elements.as_ref().map_or(u64::MAX, ArraySpec::count);
        (
            std::cmp::Reverse(many),
            entry.started_at_ms,
            entry.state,
            entry.ended_at_ms,
            entry.raw_state.clone(),
        )
    });
    let mut covered = BTreeMap::new();
    for entry in ranked {
        match &entry.elements {
            Some(some) => {
                covered.extend(
                    some.indexes()
                        .filter(|index| array.contains(*index))
                        .map(|index| (index, entry)),
                );
            }
            None => covered.extend(array.indexes().map(|index| (index, entry))),
        }
    }
    covered
}

/// The state of the whole array.
///
/// It runs while any element runs, and waits while any waits; then the worst state is its own, in the order of
/// `wait`'s exit codes. It started with its first element and is over with its last.
#[must_use]
pub fn merge_elements(elements: &[Element]) -> Status {
    let mut counts = ElementCounts {
        total: elements.len() as u64,
        states: BTreeMap::new(),
    };
    for element in elements {
        *counts.states.entry(element.status.state).or_default() += 1;
    }
    let going_on = [JobState::Running, JobState::Suspended, JobState::Pending];
    let going_on = going_on.into_iter().find(|state| counts.of(*state) > 0);
    // States stand in the order of the exit codes.
    let state = going_on
        .or_else(|| counts.states.keys().next_back().copied())
        .unwrap_or(JobState::Unknown);
    let deciding = || {
        elements
            .iter()
            .filter(|element| element.status.state == state)
    };
    let worst = deciding().max_by_key(|element| {
        let code = element.status.exit.map_or(-1, ExitStatus::shell_code);
        (code, std::cmp::Reverse(element.element))
    });
    let waiting = |element: &&Element| element.status.state == JobState::Pending;
    let reason = |element: &Element| element.status.reason.clone();
    let times = |of: fn(&Status) -> Option<u64>| {
        elements
            .iter()
            .filter_map(move |element| of(&element.status))
    };
    let exit = worst
        .filter(|_| going_on.is_none())
        .and_then(|element| element.status.exit);
    let cause = worst.and_then(|element| {
        let cause = Cause::of(state, exit, None)?;
        let others = counts.of(state) - 1;
        let more = if others > 0 {
            format!(" and {others} more")
        } else {
            String::new()
        };
        Some(Cause {
            text: format!("element {}{more}: {}", element.element, cause.text),
            ..cause
        })
    });
    Status {
        expected_start_ms: None,
        state,
        raw_state: deciding().find_map(|element| element.status.raw_state.clone()),
        // Why the rest waits is news even while some run.
        reason: elements
            .iter()
            .filter(waiting)
            .find_map(reason)
            .or_else(|| worst.and_then(reason)),
        exit,
        started_at_ms: times(|status| status.started_at_ms).min(),
        ended_at_ms: if going_on.is_some() {
            None
        } else {
            times(|status| status.ended_at_ms).max()
        },
        stuck: elements.iter().any(|element| element.status.stuck),
        cause,
        elements: Some(counts),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::JobId;
    use crate::record::{Outcome, Sentinel, resolve};

    fn entry(state: JobState, elements: Option<&str>) -> QueueEntry {
        QueueEntry {
            expected_start_ms: None,
            job_id: JobId("95".into()),
            state,
            raw_state: state.as_str().to_uppercase(),
            reason: Some("Why".into()),
            submitted_at_ms: None,
            started_at_ms: None,
            ended_at_ms: None,
            exit: None,
            nodes: None,
            elements: elements.map(|text| ArraySpec::parse(text).expect("an array")),
            stuck: state == JobState::Pending,
        }
    }

    fn element(element: u32, state: JobState, exit: Option<i32>) -> Element {
        let exit = exit.map(ExitStatus::from_shell_code);
        let times = (
            Some(1_000 + u64::from(element)),
            state.is_final().then_some(9_000),
        );
        let status = Status {
            exit,
            started_at_ms: times.0,
            ended_at_ms: times.1,
            ..Status::of(state)
        };
        Element {
            element,
            attempt: Some(0),
            status,
        }
    }

    #[test]
    fn an_element_is_told_by_the_entry_that_is_most_its_own() {
        let array = ArraySpec::parse("0-5").expect("an array");
        let entries = [
            entry(JobState::Running, Some("1")),
            entry(JobState::Pending, Some("2-9")),
            entry(JobState::Completed, None),
        ];
        let covered = cover(&array, &entries);
        let states: Vec<JobState> = covered.values().map(|entry| entry.state).collect();
        let (done, run, wait) = (JobState::Completed, JobState::Running, JobState::Pending);
        assert_eq!(states, [done, run, wait, wait, wait, wait]);
    }

    #[test]
    fn the_worst_element_is_the_whole_once_all_are_over() {
        use JobState::{Cancelled, Completed, Failed, Pending, Running, Timeout};
        let of = |elements: &[Element]| merge_elements(elements);
        let good = element(0, Completed, Some(0));
        assert_eq!(
            of(&[good.clone(), element(1, Pending, None)]).state,
            Pending
        );
        let running = of(&[
            good.clone(),
            element(1, Running, None),
            element(2, Pending, None),
        ]);
        assert_eq!(
            (running.state, running.started_at_ms, running.ended_at_ms),
            (Running, Some(1_000), None)
        );
        assert_eq!(
            running
                .elements
                .as_ref()
                .map(|counts| (counts.over(), counts.total)),
            Some((1, 3))
        );
        let failed = [
            good.clone(),
            element(1, Failed, Some(3)),
            element(2, Failed, Some(139)),
        ];
        let status = of(&failed);
        assert_eq!(
            (status.state, status.exit),
            (Failed, Some(ExitStatus::Signal(11)))
        );
        let cause = status.cause.expect("a cause");
        assert_eq!(
            cause.text,
            "element 2 and 1 more: the program was ended by SIGSEGV"
        );
        let mixed = [
            good.clone(),
            element(1, Timeout, Some(143)),
            element(2, Cancelled, None),
        ];
        assert_eq!(of(&mixed).state, Cancelled);
        assert_eq!(
            (of(&[good]).state, of(&[]).state),
            (Completed, JobState::Unknown)
        );
    }

    fn any_state() -> impl Strategy<Value = JobState> {
        prop::sample::select(vec![
            JobState::Pending,
            JobState::Running,
            JobState::Suspended,
            JobState::Completed,
            JobState::Failed,
            JobState::Timeout,
            JobState::OutOfMemory,
            JobState::Preempted,
            JobState::NodeFail,
            JobState::Cancelled,
            JobState::Unknown,
        ])
    }

    fn any_entry() -> impl Strategy<Value = QueueEntry> {
        let some = prop::option::of((0_u32..8, 0_u32..8));
        (any_state(), some, prop::option::of(0_u64..9_000)).prop_map(
            |(state, some, started_at_ms)| {
                let some = some.map(|(from, more)| format!("{from}-{}", from + more));
                QueueEntry {
                    started_at_ms,
                    ..entry(state, some.as_deref())
                }
            },
        )
    }

    fn any_outcome() -> impl Strategy<Value = Outcome> {
        let mark = |at_ms, exit_code| Sentinel {
            format: 1,
            at_ms,
            uptime_ms: None,
            node: "n1".into(),
            job_id: None,
            exit_code,
            refused: None,
        };
        let start = prop::option::of(0_u64..5_000).prop_map(move |at| at.map(|at| mark(at, None)));
        let end = prop::option::of((5_000_u64..9_000, prop::sample::select(vec![0, 3, 143])));
        let end = end.prop_map(move |end| end.map(|(at, code)| mark(at, Some(code))));
        (start, end).prop_map(|(start, end)| Outcome {
            start,
            end,
            ..Outcome::default()
        })
    }

    fn resolved(array: &ArraySpec, entries: &[QueueEntry], outcomes: &[Outcome]) -> Status {
        let covered = cover(array, entries);
        let one = |(index, outcome): (u32, &Outcome)| Element {
            element: index,
            attempt: None,
            status: resolve(outcome, covered.get(&index).copied()),
        };
        let elements: Vec<Element> = array.indexes().zip(outcomes).map(one).collect();
        merge_elements(&elements)
    }

    proptest! {
        #[test]
        fn the_order_of_entries_means_nothing(
            entries in prop::collection::vec(any_entry(), 0..6).prop_flat_map(|entries| {
                (Just(entries.clone()), Just(entries).prop_shuffle())
            }),
            outcomes in prop::collection::vec(any_outcome(), 6),
        ) {
            let array = ArraySpec::parse("0-5").expect("an array");
            let status = resolved(&array, &entries.0, &outcomes);
            prop_assert_eq!(&status, &resolved(&array, &entries.1, &outcomes));
            let counts = status.elements.expect("counted");
            prop_assert_eq!((counts.total, counts.states.values().sum::<u64>()), (6, 6));
            prop_assert!(counts.of(status.state) > 0);
            prop_assert_eq!(status.state.is_final(), counts.over() == 6);
        }

        #[test]
        fn an_empty_answer_ends_no_run(outcomes in prop::collection::vec(any_outcome(), 6)) {
            let array = ArraySpec::parse("0-5").expect("an array");
            let all_marked = outcomes.iter().all(|outcome| outcome.end.is_some());
            prop_assert_eq!(resolved(&array, &[], &outcomes).state.is_final(), all_marked);
        }
    }
}
