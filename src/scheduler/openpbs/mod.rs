//! OpenPBS and PBS Pro through their commands: `qsub`, `qstat`, `qdel` and `pbsnodes`.
//!
//! Checked with OpenPBS 23.06; recorded answers of 20.0 and 2022.0 are read as well.

mod adapter;
mod answer;
mod directives;
pub(super) mod json;
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

pub(super) use answer::entry;

pub use adapter::Known;

const NAME: &str = "openpbs";

/// OpenPBS as this process reaches it.
#[derive(Debug, Clone)]
pub struct OpenPbs(Commands);

impl OpenPbs {
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

impl Scheduler for OpenPbs {
    fn kind(&self) -> SchedulerKind {
        SchedulerKind::OpenPbs
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

    /// The server's history comes with every question; it keeps two weeks unless the site says otherwise.
    fn history(&self, jobs: &[JobRef]) -> Result<Entries, SchedulerError> {
        qstat::queue(&self.0, jobs)
    }

    fn cancel(&self, job: &JobRef, elements: Option<&ArraySpec>) -> Result<(), SchedulerError> {
        qdel::cancel(&self.0, job, elements)
    }

    fn site(&self) -> Result<SiteModel, SchedulerError> {
        site::site(&self.0)
    }
}

/// Words by which OpenPBS's commands say that they never reached the server. Exit codes differ by command: 255, 162, 1.
const UNREACHABLE: [&str; 5] = [
    "cannot connect to server",
    "Couldn't connect to cluster",
    "Connection refused",
    "Unknown Host",
    "Unable to authenticate connection",
];

/// Words by which they say that a server was reached, or nearly so, and gave no answer.
const UNANSWERED: [&str; 4] = [
    "Batch protocol error",
    "Communication failure",
    "No free connections",
    "timed out",
];
