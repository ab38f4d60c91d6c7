//! Asks schedulers for the states of runs, each with one question for any number of them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use super::Tracker;
use crate::foundation::diagnostic::chain;
use crate::job::{JobState, RunId, SchedulerKind};
use crate::record::rundir::RunDir;
use crate::record::{QueueEntry, RunRecord};
use crate::scheduler::{Entries, JobRef};

/// What a scheduler said of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Answer {
    pub(super) entries: Vec<QueueEntry>,
    /// True where it gave no answer: elements stay what they were.
    pub(super) silent: bool,
}

/// The reason of a state that is the last one known.
pub(super) const NO_ANSWER: &str = "its scheduler gives no answer";

impl Tracker<'_> {
    /// Completes records of clients that were killed while they handed their job over, where it waits in the queue.
    pub(super) fn find_unheard(&self, due: &mut [(RunDir, RunRecord)]) {
        if due.iter().all(|(_, record)| record.job_id.is_some()) {
            return;
        }
        let unfinished = self.store.unfinished().unwrap_or_default();
        let known = unfinished.into_iter().filter_map(|row| row.record.job_id);
        let known: BTreeSet<String> = known.map(|job| job.0).collect();
        for kind in SchedulerKind::ALL {
            let is_meant =
                |record: &&RunRecord| record.job_id.is_none() && record.scheduler == kind;
            let runs: Vec<&RunRecord> = due
                .iter()
                .map(|(_, record)| record)
                .filter(is_meant)
                .collect();
            if runs.is_empty() {
                continue;
            }
            // Where it gives no answer they stay as they are.
            let found = self
                .session
                .scheduler(kind)
                .ok()
                .and_then(|it| it.unheard(&runs, &known).ok());
            for (run_id, job_id) in found.unwrap_or_default() {
                if let Some((run, record)) = due.iter_mut().find(|(run, _)| *run.run_id() == run_id)
                {
                    super::set_job(run, record, job_id);
                }
            }
        }
    }

    /// What the schedulers say now. Of one that gives no answer nothing new is known: its runs stay what they were.
    pub(super) fn ask(
        &mut self,
        due: &[(RunDir, RunRecord)],
        history: bool,
    ) -> BTreeMap<RunId, Answer> {
        let mut answers: BTreeMap<RunId, Answer> = BTreeMap::new();
        for kind in SchedulerKind::ALL {
            let jobs: Vec<(JobRef, bool)> = due
                .iter()
                .filter(|(_, record)| record.scheduler == kind)
                .filter_map(|(run, record)| Some((job_ref(run, record)?, record.array.is_some())))
                .collect();
            if jobs.is_empty() {
                continue;
            }
            let mut refs: Vec<JobRef> = jobs.iter().map(|(job, _)| job.clone()).collect();
            refs.extend(self.namesakes(kind, &refs));
            match self.queue(kind, &refs) {
                Ok(found) => answers.extend(found.into_iter().map(|(run_id, entries)| {
                    let silent = false;
                    (run_id, Answer { entries, silent })
                })),
                Err(why) => {
                    let text = format!("states are those last heard of: {why}");
                    self.warn(kind.as_str(), &text);
                    for (job, is_array) in &jobs {
                        let last = (!is_array).then(|| self.last_entry(job));
                        let entries = last.into_iter().collect();
                        let silent = true;
                        answers.insert(job.run_id.clone(), Answer { entries, silent });
                    }
                }
            }
            if history {
                self.ask_history(kind, refs, &mut answers);
            }
        }
        answers
    }

    /// Commands that are none of this scheduler's give no answer either.
    fn queue(&self, kind: SchedulerKind, jobs: &[JobRef]) -> Result<Entries, String> {
        let scheduler = self.session.scheduler(kind);
        let entries = scheduler.map_err(|error| error.message())?.queue(jobs);
        entries.map_err(|error| chain(&error).join(": "))
    }

    /// Further runs with the same job ids: what their jobs do must not be taken for what these do.
    fn namesakes(&self, kind: SchedulerKind, jobs: &[JobRef]) -> Vec<JobRef> {
        if kind.is_local() {
            return Vec::new();
        }
        let ids: Vec<&str> = jobs.iter().map(|job| job.job_id.0.as_str()).collect();
        let asked: HashSet<&RunId> = jobs.iter().map(|job| &job.run_id).collect();
        let found = self
            .store
            .runs_with_jobs(kind, &ids)
            .unwrap_or_default()
            .into_iter();
        let others = found.filter(|(run_id, ..)| !asked.contains(run_id));
        let other = |(run_id, job_id, submitted_at_ms)| JobRef {
            run_dir: PathBuf::new(),
            run_id,
            job_id,
            parts: Vec::new(),
            submitted_at_ms: Some(submitted_at_ms),
        };
        others.map(other).collect()
    }

    /// What accounting remembers of jobs that the queue has forgotten, or of whose array it has forgotten elements.
    fn ask_history(
        &mut self,
        kind: SchedulerKind,
        jobs: Vec<JobRef>,
        answers: &mut BTreeMap<RunId, Answer>,
    ) {
        let Ok(scheduler) = self.session.scheduler(kind) else {
            return;
        };
        let whole = |answer: &Answer| answer.entries.iter().any(|entry| entry.elements.is_none());
        let forgotten: Vec<JobRef> = jobs
            .into_iter()
            .filter(|job| !answers.get(&job.run_id).is_some_and(whole))
            .collect();
        match scheduler.history(&forgotten) {
            Ok(found) => {
                for (run_id, past) in found {
                    let known = answers.entry(run_id).or_default();
                    // What the queue says now counts before what was.
                    let live = |past: &QueueEntry| {
                        known
                            .entries
                            .iter()
                            .any(|entry| entry.goes_on() && entry.elements == past.elements)
                    };
                    let past: Vec<QueueEntry> =
                        past.into_iter().filter(|past| !live(past)).collect();
                    known.entries.extend(past);
                    known.silent = false;
                }
            }
            Err(error) => self.warn("history", &chain(&error).join(": ")),
        }
    }

    /// A run as it stood when its scheduler last answered; at first it waits.
    fn last_entry(&self, job: &JobRef) -> QueueEntry {
        let status = self
            .store
            .run(&job.run_id)
            .ok()
            .flatten()
            .map(|row| row.status);
        let state = status
            .as_ref()
            .map_or(JobState::Pending, |status| status.state);
        let known = status.as_ref().filter(|status| status.state.is_final());
        QueueEntry {
            expected_start_ms: None,
            job_id: job.job_id.clone(),
            state,
            raw_state: status
                .as_ref()
                .and_then(|status| status.raw_state.clone())
                .unwrap_or_default(),
            // What is over has its own reason and times.
            reason: known.map_or_else(|| Some(NO_ANSWER.to_owned()), |known| known.reason.clone()),
            submitted_at_ms: None,
            started_at_ms: known.and_then(|known| known.started_at_ms),
            ended_at_ms: known.and_then(|known| known.ended_at_ms),
            exit: known.and_then(|known| known.exit),
            nodes: None,
            elements: None,
            stuck: false,
        }
    }
}

/// What a scheduler must know of a run; `None` where it never got a job id.
pub(crate) fn job_ref(run: &RunDir, record: &RunRecord) -> Option<JobRef> {
    Some(JobRef {
        run_id: record.run_id.clone(),
        job_id: record.job_id.clone()?,
        parts: record.parts.clone(),
        // A run of `dlrun render | sbatch` was noted at its start; its job may have waited for hours.
        submitted_at_ms: record.job_file.as_ref().map(|_| record.submitted_at_ms),
        run_dir: run.path().to_owned(),
    })
}
