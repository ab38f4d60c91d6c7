//! Which of the jobs that PBS shows are a run's own.

use super::ids;
use crate::job::ArraySpec;
use crate::record::QueueEntry;
use crate::scheduler::{Entries, JobRef, by_key};

/// Picks for each run the entries that are really its own: same id, and not submitted before it. A server that was set up
/// again gives the same ids again. `entries` have the ids that PBS shows, those of elements their own.
pub(in crate::scheduler) fn own_entries(jobs: &[JobRef], entries: &[QueueEntry]) -> Entries {
    let entries = by_key(
        entries
            .iter()
            .map(|entry| (ids::number(&entry.job_id.0), entry)),
    );
    let submissions = jobs
        .iter()
        .filter_map(|job| Some((ids::number(&job.job_id.0), job.submitted_at_ms?)));
    let submissions = by_key(submissions);
    let mut own = Entries::new();
    for job in jobs {
        let number = ids::number(&job.job_id.0);
        let others = submissions
            .get(number)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let found = entries.get(number).into_iter().flatten();
        let found = found.filter(|entry| job.is_own(entry.submitted_at_ms, others));
        let of_job: Vec<QueueEntry> = found.filter_map(|entry| owned(job, entry)).collect();
        // Elements say more than their array.
        let has_elements = of_job.iter().any(|entry| entry.elements.is_some());
        let of_job: Vec<QueueEntry> = of_job
            .into_iter()
            .filter(|entry| entry.elements.is_some() == has_elements)
            .collect();
        if !of_job.is_empty() {
            own.insert(job.run_id.clone(), of_job);
        }
    }
    own
}

/// The entry as the run counts it, where it is its own. An element that gave itself a run goes by its own id.
fn owned(job: &JobRef, entry: &QueueEntry) -> Option<QueueEntry> {
    let shown = &entry.job_id.0;
    if ids::same(shown, &job.job_id.0) {
        return Some(entry.clone());
    }
    let (array, index) = ids::element(shown)?;
    let elements = Some(ArraySpec::of(&[index], None));
    ids::same(&array, &job.job_id.0).then(|| QueueEntry {
        job_id: job.job_id.clone(),
        elements,
        ..entry.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobState;
    use crate::job::{JobId, RunId};

    fn job(number: u8, id: &str) -> JobRef {
        JobRef {
            run_id: RunId::from_random([number; 10]),
            job_id: JobId(id.into()),
            parts: Vec::new(),
            submitted_at_ms: Some(1_000_000),
            run_dir: "/run".into(),
        }
    }

    fn entry(id: &str, submitted_at_ms: u64, state: JobState) -> QueueEntry {
        QueueEntry {
            expected_start_ms: None,
            job_id: JobId(id.into()),
            state,
            raw_state: "RAW".into(),
            reason: None,
            submitted_at_ms: Some(submitted_at_ms),
            started_at_ms: None,
            ended_at_ms: None,
            exit: None,
            nodes: None,
            elements: None,
            stuck: false,
        }
    }

    fn seen(id: &str, entries: &[QueueEntry]) -> Vec<(Option<String>, JobState)> {
        let job = job(1, id);
        let found = own_entries(std::slice::from_ref(&job), entries)
            .remove(&job.run_id)
            .unwrap_or_default();
        found
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
    fn an_id_is_matched_whole_and_by_its_time() {
        let others = [
            entry("114.vm", 1_000_000, JobState::Failed),
            entry("1.vm", 1_000_000, JobState::Failed),
            entry("14[2].vm", 1_000_000, JobState::Failed),
            entry("14.vm", 500_000, JobState::Failed),
        ];
        assert_eq!(seen("14.vm", &others), []);
        assert_eq!(
            seen("14", &[entry("14.vm", 1_000_500, JobState::Running)]),
            [(None, JobState::Running)]
        );
    }

    #[test]
    fn elements_say_more_than_their_array() {
        let mut entries: Vec<QueueEntry> = (2..5)
            .map(|index| entry(&format!("12[{index}].vm"), 1_000_000, JobState::Pending))
            .collect();
        entries.push(entry("12[1].vm", 1_000_000, JobState::Running));
        entries.push(entry("12[].vm", 1_000_000, JobState::Running));
        let expected = [
            (Some("2".into()), JobState::Pending),
            (Some("3".into()), JobState::Pending),
            (Some("4".into()), JobState::Pending),
            (Some("1".into()), JobState::Running),
        ];
        assert_eq!(seen("12[].vm", &entries), expected);
        assert_eq!(seen("12[1].vm", &entries), [(None, JobState::Running)]);
    }
}
