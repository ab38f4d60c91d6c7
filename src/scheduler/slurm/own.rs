//! Which of the lines that Slurm prints are about a run's own jobs.

use std::collections::BTreeMap;

use super::ids::{SeenId, shifted};
use super::{reasons, states};
use crate::job::{JobId, JobState};
use crate::record::{ExitStatus, QueueEntry};
use crate::scheduler::{Entries, JobRef, by_key};

/// A line about a job or about elements of one.
#[derive(Debug, Clone)]
pub(super) struct Line {
    /// Its id, as shown.
    pub(super) id: SeenId,
    /// What it says.
    pub(super) entry: QueueEntry,
}

impl Line {
    /// Reads id, state, submission, start, end, nodes and reason. `exit` gives how the job ended, where that is known, and a reason
    /// where the line has none.
    pub(super) fn read(
        [id, raw, submitted, started, ended, nodes, reason]: [&str; 7],
        exit: impl FnOnce(JobState) -> (Option<ExitStatus>, Option<String>),
    ) -> Option<Self> {
        let id = SeenId::read(id)?;
        let state = states::state(raw);
        let is_pending = state == JobState::Pending;
        let (exit, doubt) = exit(state);
        let reason = states::reason(reason).or(doubt);
        let is_stuck = reason.as_deref().is_some_and(reasons::is_stuck) || states::is_held(raw);
        let started = states::time_ms(started);
        let entry = QueueEntry {
            // A pending job's start and a running job's end are expectations, not facts.
            expected_start_ms: started.filter(|_| is_pending),
            started_at_ms: started.filter(|_| !is_pending),
            ended_at_ms: states::time_ms(ended).filter(|_| state.is_final()),
            job_id: JobId(id.base.clone()),
            state,
            raw_state: raw.to_owned(),
            submitted_at_ms: states::time_ms(submitted),
            exit,
            nodes: Some(nodes.to_owned()).filter(|nodes| !nodes.is_empty()),
            elements: None,
            stuck: is_pending && is_stuck,
            reason: reasons::for_state(reason, state),
        };
        Some(Self { id, entry })
    }
}

/// Picks for each run the lines that are really its own: same id, and not submitted before it. A controller that lost its
/// state hands the same ids out again, and an old job of the same id must not lend us its state. Of several lines about
/// one element (requeues and shrunk jobs in accounting) the latest counts.
pub(super) fn own_entries(jobs: &[JobRef], mut lines: Vec<Line>) -> Entries {
    lines.sort_by_key(|line| line.entry.submitted_at_ms);
    // An element that is a separate run has its own id.
    let lines = by_key(lines.iter().flat_map(|line| {
        let shown = Some(&line.id.shown).filter(|shown| **shown != line.id.base);
        let ids = std::iter::once(&line.id.base).chain(shown);
        ids.map(move |id| (id.as_str(), line))
    }));
    let submissions = by_key(jobs.iter().flat_map(|job| {
        let at = job.submitted_at_ms;
        let ids = job.offsets().into_iter().map(|(id, _)| id.0.as_str());
        ids.filter_map(move |id| Some((id, at?)))
    }));
    let mut own = Entries::new();
    for job in jobs {
        let mut of_run = BTreeMap::new();
        for (part, (id, offset)) in job.offsets().into_iter().enumerate() {
            let others = submissions
                .get(id.0.as_str())
                .map(Vec::as_slice)
                .unwrap_or_default();
            let lines = lines.get(id.0.as_str()).into_iter().flatten();
            for line in lines.filter(|line| job.is_own(line.entry.submitted_at_ms, others)) {
                let elements = line
                    .id
                    .elements
                    .as_ref()
                    .and_then(|elements| shifted(elements, offset));
                let key = (part, line.id.elements.as_ref().map(ToString::to_string));
                let entry = QueueEntry {
                    elements,
                    ..line.entry.clone()
                };
                of_run.insert(key, entry);
            }
        }
        if !of_run.is_empty() {
            own.insert(job.run_id.clone(), of_run.into_values().collect());
        }
    }
    own
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::job::RunId;
    use crate::record::ArrayPart;

    pub(in crate::scheduler::slurm) fn job(number: u8, id: &str, parts: &[(&str, u32)]) -> JobRef {
        let part = |(id, offset): &(&str, u32)| ArrayPart {
            job_id: JobId((*id).to_owned()),
            offset: *offset,
        };
        JobRef {
            run_id: RunId::from_random([number; 10]),
            job_id: JobId(id.to_owned()),
            parts: parts.iter().map(part).collect(),
            submitted_at_ms: Some(1_000_000),
            run_dir: "/run".into(),
        }
    }

    fn line(id: &str, submitted_at_ms: u64, state: JobState) -> Line {
        let entry = QueueEntry {
            expected_start_ms: None,
            job_id: JobId(id.to_owned()),
            state,
            raw_state: "RAW".to_owned(),
            reason: None,
            submitted_at_ms: Some(submitted_at_ms),
            started_at_ms: None,
            ended_at_ms: None,
            exit: None,
            nodes: None,
            elements: None,
            stuck: false,
        };
        Line {
            id: SeenId::read(id).expect("an id"),
            entry,
        }
    }

    fn seen(job: &JobRef, lines: Vec<Line>) -> Vec<(Option<String>, JobState)> {
        let entries = own_entries(std::slice::from_ref(job), lines)
            .remove(&job.run_id)
            .unwrap_or_default();
        entries
            .iter()
            .map(|entry| {
                (
                    entry.elements.as_ref().map(ToString::to_string),
                    entry.state,
                )
            })
            .collect()
    }

    #[test]
    fn elements_of_all_parts_are_told_in_the_runs_own_numbers() {
        let array = job(1, "95", &[("96", 1000)]);
        let lines = vec![
            line("96_[0-2]", 1_000_000, JobState::Pending),
            line("95_7", 1_000_000, JobState::Running),
            line("195_7", 1_000_000, JobState::Failed),
        ];
        let expected = [
            (Some("7".into()), JobState::Running),
            (Some("1000-1002".into()), JobState::Pending),
        ];
        assert_eq!(seen(&array, lines), expected);
    }

    #[test]
    fn the_first_job_may_have_an_offset_too() {
        let array = job(1, "95", &[("95", 5000), ("96", 6000)]);
        let lines = vec![line("95_1", 1_000_000, JobState::Running)];
        assert_eq!(
            seen(&array, lines),
            [(Some("5001".into()), JobState::Running)]
        );
    }

    #[test]
    fn an_element_that_gave_itself_a_run_is_found_by_its_own_id() {
        let element = job(1, "95_7", &[]);
        let lines = vec![line("95_7", 1_000_000, JobState::Running)];
        assert_eq!(
            seen(&element, lines),
            [(Some("7".into()), JobState::Running)]
        );
    }

    #[test]
    fn an_old_job_of_the_same_id_lends_nothing_and_the_latest_line_counts() {
        let own = job(1, "95", &[]);
        assert_eq!(
            seen(&own, vec![line("95", 500_000, JobState::Completed)]),
            []
        );
        let lines = vec![
            line("95", 1_100_000, JobState::Running),
            line("95", 1_000_000, JobState::Preempted),
        ];
        assert_eq!(seen(&own, lines), [(None, JobState::Running)]);
    }

    #[test]
    fn of_two_runs_of_one_id_the_later_has_the_later_job() {
        let first = job(1, "95", &[]);
        let second = JobRef {
            submitted_at_ms: Some(9_000_000),
            ..job(2, "95", &[])
        };
        let own = own_entries(
            &[first.clone(), second.clone()],
            vec![line("95", 9_000_000, JobState::Running)],
        );
        assert_eq!(own.keys().collect::<Vec<_>>(), [&second.run_id]);
        let own = own_entries(
            &[first.clone(), second],
            vec![line("95", 2_000_000, JobState::Running)],
        );
        assert_eq!(own.keys().collect::<Vec<_>>(), [&first.run_id]);
    }

    #[test]
    fn a_run_that_dlrun_did_not_submit_may_have_waited_for_long() {
        let minted = JobRef {
            submitted_at_ms: None,
            ..job(1, "95", &[])
        };
        assert_eq!(
            seen(&minted, vec![line("95", 5, JobState::Running)]),
            [(None, JobState::Running)]
        );
    }
}
