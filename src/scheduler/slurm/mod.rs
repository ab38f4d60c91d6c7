//! Slurm through its commands: `sbatch`, `squeue`, `scancel`, and `sacct` when history is asked for.
//!
//! Checked with 22.05; later versions differ in their JSON, which is not used here.

mod adapter;
mod directives;
mod export;
mod gres;
mod handed_through;
mod ids;
mod nodes;
mod own;
mod reasons;
mod sacct;
mod sbatch;
mod scontrol;
mod site;
mod squeue;
mod srun;
mod standing;
mod states;
mod time_limit;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::commands::{Commands, Words};
use super::{
    Entries, JobRef, RunJobs, Scheduler, SchedulerError, Standing, Submission, Submitted, TimeLimit,
};
use crate::config::site::SiteModel;
use crate::foundation::command::find;
use crate::job::{ArraySpec, JobId};
use crate::launch::Plan;
use crate::record::RunRecord;

pub use adapter::Known;

pub(super) use reasons::is_hopeless;
pub use reasons::meaning;
pub use sbatch::OWN_VARIABLES;
pub(super) use scontrol::{pairs as scontrol_pairs, seconds};
pub(super) use states::state as job_state;

const NAME: &str = "slurm";

/// Slurm as this process reaches it.
#[derive(Debug, Clone)]
pub struct Slurm {
    commands: Commands,
}

impl Slurm {
    /// Commands are looked for in `bin_dir`, then in `PATH`; each may take `timeout`.
    #[must_use]
    pub fn new(bin_dir: Option<PathBuf>, timeout: Duration) -> Self {
        let commands = Commands {
            words: WORDS,
            bin_dirs: bin_dir.into_iter().collect(),
            timeout,
            // Users set `SQUEUE_FORMAT` and its like, and times as epoch seconds need no time zone.
            pinned: |tool| {
                tool.env("SLURM_TIME_FORMAT", "%s")
                    // Else lists of array indexes end in `...` after 64 bytes.
                    .env("SLURM_BITSTR_LEN", "0")
                    .env_remove_prefixes(&["SQUEUE_", "SACCT_", "SCANCEL_"])
            },
        };
        Self { commands }
    }

    /// Where `sbatch` is, if Slurm's commands are installed.
    #[must_use]
    pub fn sbatch(&self) -> Option<PathBuf> {
        find("sbatch", &self.commands.bin_dirs)
    }
}

impl Scheduler for Slurm {
    fn command_line(&self, submission: &Submission<'_>) -> Vec<String> {
        let command = std::iter::once("sbatch".to_owned());
        command.chain(sbatch::arguments(submission.plan)).collect()
    }

    fn submit(&self, submission: &Submission<'_>) -> Result<Submitted, SchedulerError> {
        sbatch::submit(self, submission)
    }

    fn queue(&self, jobs: &[JobRef]) -> Result<Entries, SchedulerError> {
        squeue::queue(&self.commands, jobs)
    }

    fn unheard(
        &self,
        runs: &[&RunRecord],
        known: &BTreeSet<String>,
    ) -> Result<RunJobs, SchedulerError> {
        squeue::unheard(&self.commands, runs, known)
    }

    fn history(&self, jobs: &[JobRef]) -> Result<Entries, SchedulerError> {
        sacct::history(&self.commands, jobs)
    }

    /// `scancel JOBID ..` or `scancel JOBID_[3,7-9] ..`. It exits with 0 for unknown ids, so its success proves nothing; the
    /// state is asked for afterwards.
    fn cancel(&self, job: &JobRef, elements: Option<&ArraySpec>) -> Result<(), SchedulerError> {
        let name = |(job_id, own): (JobId, Option<ArraySpec>)| match own {
            Some(own) => format!("{job_id}_[{own}]"),
            None => job_id.0,
        };
        let names: Vec<String> = job.jobs_of(elements).into_iter().map(name).collect();
        let ran = self.commands.tool("scancel").args(&names).run();
        let done = ran.and_then(|output| output.require_success("scancel"));
        let what = || format!("cancel job {}", names.join(", "));
        done.map(drop)
            .map_err(|source| self.commands.failed(&what(), source))
    }

    fn standing(&self, job: &str) -> Option<Standing> {
        standing::standing(&self.commands, job)
    }

    fn requeue(&self, job: &str) -> Option<Result<(), SchedulerError>> {
        Some(standing::requeue(&self.commands, job))
    }

    fn out_of_order(&self, nodes: &str) -> Option<Vec<super::BrokenNode>> {
        nodes::out_of_order(&self.commands, nodes)
    }

    fn exclude(&self, job: &str, nodes: &[String]) -> Option<Result<(), SchedulerError>> {
        Some(nodes::exclude(&self.commands, job, nodes))
    }

    fn annotate(&self, job: &str, text: &str) -> Option<Result<bool, SchedulerError>> {
        Some(standing::annotate(&self.commands, job, text))
    }

    fn time_limit(&self, job: &str) -> Result<Option<TimeLimit>, SchedulerError> {
        time_limit::time_limit(&self.commands, job)
    }

    fn longest_limit(&self, job: &str) -> Result<Option<u64>, SchedulerError> {
        time_limit::longest(&self.commands, job)
    }

    fn set_time_limit(&self, job: &str, seconds: u64) -> Result<(), SchedulerError> {
        let minutes = u32::try_from(seconds / 60).unwrap_or(u32::MAX);
        let what = "raise the time limit";
        let value = ("TimeLimit", minutes);
        standing::update(&self.commands, job, value, what)
    }

    fn resize(&self, job: &JobId, nodes: u32) -> Option<Result<(), SchedulerError>> {
        let what = format!("give job {job} {nodes} nodes");
        Some(standing::update(
            &self.commands,
            &job.0,
            ("NumNodes", nodes),
            &what,
        ))
    }

    fn throttle(&self, array: &JobId, elements: u32) -> Option<Result<(), SchedulerError>> {
        Some(standing::throttle(&self.commands, &array.0, elements))
    }

    fn keep_nodes(&self, job: &str, nodes: &[String]) -> Option<Result<(), SchedulerError>> {
        Some(nodes::keep(&self.commands, job, nodes))
    }

    fn site(&self) -> Result<SiteModel, SchedulerError> {
        site::site(&self.commands)
    }

    /// `sbatch --test-only`.
    fn test(&self, plan: &Plan, script: &str) -> Option<Result<String, SchedulerError>> {
        Some(sbatch::test(self, plan, script))
    }
}

/// Says whether a person must let a job go that waits for this reason (`JobHeldUser`, `launch failed requeued held`).
pub(super) fn is_hold(reason: &str) -> bool {
    reason.to_ascii_lowercase().contains("held")
}

/// As seen in 22.05 to 26.05. It is busy where too many jobs are queued (`EAGAIN`), or their creation is stopped
/// (`slurm_errno.c` 22.05).
const WORDS: Words = Words {
    scheduler: NAME,
    unreachable: &[
        "Unable to contact slurm controller",
        "Connection refused",
        "establish configuration source",
        "establish a configuration source",
        "Slurm backup controller in standby mode",
    ],
    unanswered: &[
        "Socket timed out",
        "Connection timed out",
        "Zero Bytes were transmitted",
    ],
    busy: &[
        "Resource temporarily unavailable",
        "Slurm job queue full",
        "Unable to create job record, try again",
        "Requested nodes are busy",
    ],
};
