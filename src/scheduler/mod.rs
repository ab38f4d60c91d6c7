//! Batch schedulers: handing a job over, asking for it, cancelling it.
//!
//! Each scheduler is a directory with one file per external verb. Its words are translated here and nowhere else.
//! What Torque and OpenPBS have in common is in `pbs/`.

pub mod adapter;
mod commands;
pub mod find;
pub mod local;
pub mod openpbs;
mod option_value;
mod pbs;
pub mod printed;
pub mod refusal;
mod retry;
pub mod script;
pub mod slurm;
pub mod torque;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use adapter::Adapter;

use crate::config::site::SiteModel;
use crate::foundation::command::CommandError;
use crate::foundation::private::FileError;
use crate::job::{ArraySpec, JobId, RunId, SchedulerKind};
use crate::launch::{Plan, PlannedResources};
use crate::record::{ArrayPart, QueueEntry, RunRecord};

/// What is handed over.
#[derive(Clone, Copy)]
pub struct Submission<'a> {
    /// The run.
    pub run_id: &'a RunId,
    /// Its plan.
    pub plan: &'a Plan,
    /// The rendered script, as a file.
    pub script: &'a Path,
    /// The run's directory.
    pub run_dir: &'a Path,
}

/// A job that was handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    /// The scheduler's id.
    pub job_id: JobId,
    /// The job's output file, absolute. Of an array, `%a` is the index.
    pub output: PathBuf,
}

/// A job to be asked for or cancelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRef {
    /// The run.
    pub run_id: RunId,
    /// The scheduler's id.
    pub job_id: JobId,
    /// Further jobs of the run's array, which dlrun 0.1 split where it went beyond the site's largest index.
    pub parts: Vec<ArrayPart>,
    /// When it was submitted, in Unix milliseconds UTC: a controller that restarts gives the same ids again. `None`:
    /// not by dlrun, so nobody noted when.
    pub submitted_at_ms: Option<u64>,
    /// The run's directory.
    pub run_dir: PathBuf,
}

/// Clocks of the login node and the controller may differ by this much, in milliseconds.
const CLOCK_SKEW_MS: u64 = 120_000;

impl JobRef {
    /// Says whether a job of the same id that was submitted at `at_ms` is this run's own: not one from before it, which must
    /// not lend it its state, and not that of a later run of the same id; `others_ms` are when such were submitted. A requeue
    /// may count as a submission.
    fn is_own(&self, at_ms: Option<u64>, others_ms: &[u64]) -> bool {
        let (Some(at), Some(own)) = (at_ms, self.submitted_at_ms) else {
            return true;
        };
        let latest = at.saturating_add(CLOCK_SKEW_MS);
        own <= latest
            && !others_ms
                .iter()
                .any(|other| (own + 1..=latest).contains(other))
    }

    /// All its jobs, each with what is added to its indexes. The first is among the parts too where that is not 0.
    fn offsets(&self) -> Vec<(&JobId, u32)> {
        let mut jobs: Vec<(&JobId, u32)> = self
            .parts
            .iter()
            .map(|part| (&part.job_id, part.offset))
            .collect();
        if !jobs.iter().any(|(job_id, _)| *job_id == &self.job_id) {
            jobs.push((&self.job_id, 0));
        }
        jobs.sort_by_key(|(_, offset)| *offset);
        jobs
    }

    /// All its jobs; with `elements` those that have any of them, each with its own indexes of them.
    #[must_use]
    pub fn jobs_of(&self, elements: Option<&ArraySpec>) -> Vec<(JobId, Option<ArraySpec>)> {
        let jobs = self.offsets();
        let ends: Vec<u32> = jobs[1..]
            .iter()
            .map(|(_, offset)| *offset)
            .chain([u32::MAX])
            .collect();
        let of = |((job_id, offset), end): ((&JobId, u32), u32)| {
            let Some(elements) = elements else {
                return Some((job_id.clone(), None));
            };
            let own: Vec<u32> = elements
                .indexes()
                .filter(|index| (offset..end).contains(index))
                .map(|index| index - offset)
                .collect();
            (!own.is_empty()).then(|| (job_id.clone(), Some(ArraySpec::of(&own, None))))
        };
        jobs.into_iter().zip(ends).filter_map(of).collect()
    }
}

/// Why a scheduler did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    /// It read the request and said no. Nothing is queued.
    #[error("{scheduler} refused the job")]
    Refused {
        /// Which one.
        scheduler: &'static str,
        /// Its words.
        #[source]
        source: CommandError,
    },
    /// It takes no job at the moment, and the same one later. Nothing is queued.
    #[error("{scheduler} is too busy to take the job")]
    Busy {
        /// Which one.
        scheduler: &'static str,
        /// Its words.
        #[source]
        source: CommandError,
    },
    /// Its commands are missing or its controller does not answer. Nothing is queued.
    #[error("{scheduler} {}", if is_missing(.source) { "is not installed here" } else { "cannot be reached" })]
    Unreachable {
        /// Which one.
        scheduler: &'static str,
        /// What was tried.
        #[source]
        source: CommandError,
    },
    /// It was asked to take a job and gave no clear answer: the job may be queued.
    #[error("{scheduler} gave no clear answer; the job may be queued all the same")]
    Unclear {
        /// Which one.
        scheduler: &'static str,
        /// What happened.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It failed at a question or a cancellation.
    #[error("{scheduler} did not {what}")]
    Failed {
        /// Which one.
        scheduler: &'static str,
        /// `list jobs`, `cancel job 7`.
        what: String,
        /// Its words.
        #[source]
        source: CommandError,
    },
    /// It keeps no record of jobs that are over.
    #[error("{scheduler} keeps no history here")]
    NoHistory {
        /// Which one.
        scheduler: &'static str,
        /// Its words, where it was asked.
        #[source]
        source: Option<CommandError>,
    },
    /// A file of the local scheduler could not be used.
    #[error("cannot {what} `{}`", .path.display())]
    File {
        /// `write`, `lock`, ...
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The same of one in a private directory.
    #[error(transparent)]
    Private(#[from] FileError),
}

/// Says whether the command itself is missing.
fn is_missing(error: &CommandError) -> bool {
    matches!(error, CommandError::NotFound { .. })
}

impl SchedulerError {
    /// Of a question or a cancellation whose command did not do it. A command that is missing or gives no answer in time
    /// reached nobody.
    fn from_question(scheduler: &'static str, what: String, source: CommandError) -> Self {
        match source {
            CommandError::NotFound { .. }
            | CommandError::NotExecutable { .. }
            | CommandError::TimedOut { .. } => Self::Unreachable { scheduler, source },
            source => Self::Failed {
                scheduler,
                what,
                source,
            },
        }
    }

    /// Says whether what was handed over may be queued all the same.
    #[must_use]
    pub fn may_be_queued(&self) -> bool {
        matches!(self, Self::Unclear { .. })
    }
}

/// How this process reaches a scheduler.
#[derive(Debug, Clone)]
pub struct Reach {
    /// Where its commands are looked for, before `PATH`.
    pub bin_dir: Option<PathBuf>,
    /// How long each may take.
    pub timeout: Duration,
    /// This machine's name.
    pub host: String,
    /// The program that runs local jobs.
    pub dlrun: PathBuf,
    /// Below it waiting local jobs are kept.
    pub state_dir: PathBuf,
    /// How local jobs of all users share this machine.
    pub shared: local::Shared,
}

/// How a running job stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// What is left of its time, in seconds, by its scheduler's clock.
    pub left_seconds: Option<u64>,
    /// How often it was put back into the queue, this time included where that is decided already.
    pub requeues: u32,
    /// Whether it is to make room for another.
    pub is_preempted: bool,
}

/// The time limit of a running job, by its scheduler's clock, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeLimit {
    /// All of it.
    pub limit: u64,
    /// How long the job has run.
    pub ran: u64,
}

/// A node that its scheduler gives no job now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenNode {
    /// Its name there.
    pub name: String,
    /// Its state, in the scheduler's words.
    pub state: String,
    /// Whether what ran on it is gone.
    pub is_dead: bool,
}

/// Runs, each with its job.
pub type RunJobs = Vec<(RunId, JobId)>;

/// A batch scheduler.
pub trait Scheduler {
    /// The command line that [`Scheduler::submit`] would use, for people.
    fn command_line(&self, submission: &Submission<'_>) -> Vec<String>;

    /// Hands a job over.
    ///
    /// # Errors
    /// [`SchedulerError::Refused`], [`SchedulerError::Busy`] and [`SchedulerError::Unreachable`] when nothing is queued,
    /// [`SchedulerError::Unclear`] when that cannot be known.
    fn submit(&self, submission: &Submission<'_>) -> Result<Submitted, SchedulerError>;

    /// What the live queue knows of `jobs`, in one question for any number of them: of each one entry, of an array one or
    /// more for its elements. A job that is not in the answer is not thereby known to have ended.
    ///
    /// # Errors
    /// When the scheduler gives no answer.
    fn queue(&self, jobs: &[JobRef]) -> Result<Entries, SchedulerError>;

    /// What accounting remembers of `jobs`. Slow, and many sites have none: asked only on request.
    ///
    /// # Errors
    /// When there is no accounting or it gives no answer.
    fn history(&self, jobs: &[JobRef]) -> Result<Entries, SchedulerError>;

    /// Those of `runs` that are jobs of this user's in the queue, each with its job: a client that was killed while it handed
    /// one over did not hear the id. `known`: ids of jobs of other runs.
    ///
    /// # Errors
    /// When the scheduler gives no answer.
    fn unheard(
        &self,
        _runs: &[&RunRecord],
        _known: &BTreeSet<String>,
    ) -> Result<RunJobs, SchedulerError> {
        Ok(Vec::new())
    }

    /// Cancels one job with all parts of its array, or some elements of it. A job that is over is no error.
    ///
    /// # Errors
    /// When the scheduler does not take the request.
    fn cancel(&self, job: &JobRef, elements: Option<&ArraySpec>) -> Result<(), SchedulerError>;

    /// How a job stands that asks about itself, by the name that the scheduler's commands know it by; `None`: not known.
    fn standing(&self, _job: &str) -> Option<Standing> {
        None
    }

    /// Puts a running job of one's own back into the queue; `None`: users may not do that here.
    fn requeue(&self, _job: &str) -> Option<Result<(), SchedulerError>> {
        None
    }

    /// Those of a list of nodes, as a job's variables have it, that are out of order, each with its state; `None`: not known.
    fn out_of_order(&self, _nodes: &str) -> Option<Vec<BrokenNode>> {
        None
    }

    /// Keeps a waiting job of one's own off these nodes too; `None`: the scheduler has nothing for that.
    fn exclude(&self, _job: &str, _nodes: &[String]) -> Option<Result<(), SchedulerError>> {
        None
    }

    /// Writes the comment of a running job of one's own, which begins with `dlrun: `; false: it has another one, which stays. `None`:
    /// jobs have none here.
    fn annotate(&self, _job: &str, _text: &str) -> Option<Result<bool, SchedulerError>> {
        None
    }

    /// The time limit of a running job of one's own; `None`: it has none, or limits are not raised here.
    ///
    /// # Errors
    /// When the scheduler gives no answer.
    fn time_limit(&self, _job: &str) -> Result<Option<TimeLimit>, SchedulerError> {
        Ok(None)
    }

    /// The longest limit that queue and quality of service allow a job, in seconds; `None`: they have none.
    ///
    /// # Errors
    /// When the scheduler gives no answer.
    fn longest_limit(&self, _job: &str) -> Result<Option<u64>, SchedulerError> {
        Ok(None)
    }

    /// Gives a running job of one's own another time limit, in seconds from its start.
    ///
    /// # Errors
    /// When the scheduler refuses, or gives no answer.
    fn set_time_limit(&self, _job: &str, _seconds: u64) -> Result<(), SchedulerError> {
        Ok(())
    }

    /// Gives a waiting job another number of nodes; `None`: it has to be submitted again.
    fn resize(&self, _job: &JobId, _nodes: u32) -> Option<Result<(), SchedulerError>> {
        None
    }

    /// Lets so many elements of an array of one's own run at a time; those that run stay. `None`: it keeps its limit.
    fn throttle(&self, _array: &JobId, _elements: u32) -> Option<Result<(), SchedulerError>> {
        None
    }

    /// Gives the nodes of a running job back but for these; `None`: it keeps all.
    fn keep_nodes(&self, _job: &str, _nodes: &[String]) -> Option<Result<(), SchedulerError>> {
        None
    }

    /// What the site has: queues, nodes, limits.
    ///
    /// # Errors
    /// When the scheduler gives no answer.
    fn site(&self) -> Result<SiteModel, SchedulerError>;

    /// Asks whether it would take the job, without queueing it. Returns its words, such as when the job would start; `None`
    /// where it has no dry run.
    fn test(&self, _plan: &Plan, _script: &str) -> Option<Result<String, SchedulerError>> {
        None
    }
}

/// A job's output file, as its script makes it; of an array, `%a` is the index. PBS's ids go without the server.
#[must_use]
pub fn output_file(plan: &Plan, job_id: &JobId) -> PathBuf {
    plan.output_of(adapter_for(plan.scheduler).id_in_names(&job_id.0))
}

/// All schedulers.
static ADAPTERS: [&'static dyn Adapter; 4] = [
    &slurm::Known,
    &torque::TORQUE,
    &openpbs::OPENPBS,
    &local::Known,
];

/// That of a scheduler; `auto` is none yet, and like this machine.
#[must_use]
pub fn adapter_for(kind: SchedulerKind) -> &'static dyn Adapter {
    let mut all = ADAPTERS.into_iter();
    all.find(|adapter| adapter.kind() == kind)
        .unwrap_or(&local::Known)
}

/// What a job waits for, all of it: `afterok:14:15,afterany:16`.
fn depends(resources: &PlannedResources) -> Option<String> {
    let by_kind = by_key(resources.depends.iter().flat_map(|depend| {
        let ids = depend.job_ids.iter();
        ids.map(|id| (depend.kind, id.0.as_str()))
    }));
    let all = by_kind
        .iter()
        .map(|(kind, ids)| format!("{kind}:{}", ids.join(":")));
    Some(all.collect::<Vec<_>>().join(",")).filter(|all| !all.is_empty())
}

/// Licences as `matlab:2,ansys:1`, with `joint` between them.
fn licenses(resources: &PlannedResources, joint: &str) -> Option<String> {
    let one = |(name, count): &(String, u32)| format!("{name}:{count}");
    let all: Vec<String> = resources.licenses.iter().map(one).collect();
    Some(all.join(joint)).filter(|all| !all.is_empty())
}

/// Values with their keys, by key.
fn by_key<K: Ord, V>(pairs: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, Vec<V>> {
    let mut groups: BTreeMap<K, Vec<V>> = BTreeMap::new();
    for (key, value) in pairs {
        groups.entry(key).or_default().push(value);
    }
    groups
}

/// What a scheduler knows of runs.
pub type Entries = BTreeMap<RunId, Vec<QueueEntry>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_those_of_the_part_that_has_them() {
        let part = |job: &str, offset| ArrayPart {
            job_id: JobId(job.into()),
            offset,
        };
        let job = JobRef {
            run_id: RunId::from_random([7; 10]),
            job_id: JobId("95".into()),
            parts: vec![part("97", 2000), part("96", 1000)],
            submitted_at_ms: None,
            run_dir: PathBuf::from("/"),
        };
        let shown_of = |job: &JobRef, elements: Option<&str>| {
            let elements = elements.map(|text| ArraySpec::parse(text).expect("an array"));
            let jobs = job.jobs_of(elements.as_ref()).into_iter();
            let of = |(id, own): (JobId, Option<ArraySpec>)| {
                format!(
                    "{id}:{}",
                    own.map(|own| own.to_string()).unwrap_or_default()
                )
            };
            jobs.map(of).collect::<Vec<_>>()
        };
        let shown = |elements| shown_of(&job, elements);
        assert_eq!(shown(None), ["95:", "96:", "97:"]);
        assert_eq!(shown(Some("3,7-9")), ["95:3,7-9"]);
        assert_eq!(shown(Some("999-1001,2500")), ["95:999", "96:0-1", "97:500"]);
        // An array whose first index is beyond the site's largest: its first job is among the parts.
        let shifted = JobRef {
            parts: vec![part("95", 1000), part("96", 2000)],
            ..job.clone()
        };
        assert_eq!(shown_of(&shifted, None), ["95:", "96:"]);
        assert_eq!(shown_of(&shifted, Some("1003,2001")), ["95:3", "96:1"]);
    }
}
