//! Torque through its commands: `qsub`, `qstat`, `qdel` and `pbsnodes`.
//!
//! Checked with 6.1.3. Its history is in files that only root reads (`tracejob`), so there is none.

mod adapter;
mod directives;
mod qdel;
mod qstat;
mod qsub;
mod site;
mod states;

use std::path::PathBuf;
use std::time::Duration;

use super::pbs::commands::Commands;
use super::{Entries, JobRef, Scheduler, SchedulerError, Submission, Submitted};
use crate::config::site::SiteModel;
use crate::job::{ArraySpec, SchedulerKind};

pub(super) use states::entry;

pub use adapter::Known;

const NAME: &str = "torque";

/// Torque as this process reaches it.
#[derive(Debug, Clone)]
pub struct Torque(Commands);

impl Torque {
    /// Commands are looked for in `bin_dir`, then in `PATH`; each may take `timeout`.
    #[must_use]
    pub fn new(bin_dir: Option<PathBuf>, timeout: Duration) -> Self {
        Self(Commands {
            scheduler: NAME,
            unreachable: &UNREACHABLE,
            unanswered: &UNANSWERED,
            bin_dirs: bin_dir.into_iter().collect(),
            timeout,
        })
    }
}

impl Scheduler for Torque {
    fn kind(&self) -> SchedulerKind {
        SchedulerKind::Torque
    }

    fn command_line(&self, submission: &Submission<'_>) -> Vec<String> {
        qsub::command_line(submission)
    }

    fn submit(&self, submission: &Submission<'_>) -> Result<Submitted, SchedulerError> {
        qsub::submit(&self.0, submission)
    }

    fn queue(&self, jobs: &[JobRef]) -> Result<Entries, SchedulerError> {
        qstat::queue(&self.0, jobs)
    }

    /// The server forgets jobs after `keep_completed` seconds, and its logs are root's.
    fn history(&self, jobs: &[JobRef]) -> Result<Entries, SchedulerError> {
        if jobs.is_empty() {
            return Ok(Entries::new());
        }
        Err(SchedulerError::NoHistory {
            scheduler: NAME,
            source: None,
        })
    }

    fn cancel(&self, job: &JobRef, elements: Option<&ArraySpec>) -> Result<(), SchedulerError> {
        qdel::cancel(&self.0, job, elements)
    }

    fn site(&self) -> Result<SiteModel, SchedulerError> {
        site::site(&self.0)
    }
}

/// Words by which Torque's commands say that they never reached the server. The exit code is 111, 33 without trqauthd.
const UNREACHABLE: [&str; 5] = [
    "cannot connect to server",
    "cannot connect to default server",
    "could not connect to trqauthd",
    "Connection refused",
    "cannot resolve",
];

/// Words by which they say that the server was reached and its answer was not (`pbs_error_db.h`).
const UNANSWERED: [&str; 6] = [
    "Premature End of File",
    "Error reading data from socket",
    "Socket close detected",
    "Time out",
    "timed out",
    "No free connections",
];
