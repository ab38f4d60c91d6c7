//! OpenPBS and PBS Pro through their commands: `qsub`, `qstat`, `qdel` and `pbsnodes`.
//!
//! Checked with OpenPBS 23.06; recorded answers of 20.0 and 2022.0 are read as well.

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

use super::{Entries, JobRef, Scheduler, SchedulerError, Submission, Submitted};
use crate::config::site::SiteModel;
use crate::foundation::command::{CommandError, Output, Tool};
use crate::job::{ArraySpec, SchedulerKind};

pub use directives::directives;

const NAME: &str = "openpbs";

/// OpenPBS as this process reaches it.
#[derive(Debug, Clone)]
pub struct OpenPbs {
    bin_dirs: Vec<PathBuf>,
    timeout: Duration,
}

impl OpenPbs {
    /// Commands are looked for in `bin_dir`, then in `PATH`; each may take `timeout`.
    #[must_use]
    pub fn new(bin_dir: Option<PathBuf>, timeout: Duration) -> Self {
        Self {
            bin_dirs: bin_dir.into_iter().collect(),
            timeout,
        }
    }

    /// A command that asks. `qstat` writes times in the zone of its environment, so that is pinned.
    fn tool(&self, program: &str) -> Tool {
        Tool::new(program)
            .in_dirs(&self.bin_dirs)
            .timeout(self.timeout)
            .env("TZ", "UTC0")
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
        qsub::submit(self, submission)
    }

    fn queue(&self, jobs: &[JobRef]) -> Result<Entries, SchedulerError> {
        qstat::queue(self, jobs)
    }

    /// The server's history comes with every question; it keeps two weeks unless the site says otherwise.
    fn history(&self, jobs: &[JobRef]) -> Result<Entries, SchedulerError> {
        qstat::queue(self, jobs)
    }

    fn cancel(&self, job: &JobRef, elements: Option<&ArraySpec>) -> Result<(), SchedulerError> {
        qdel::cancel(self, job, elements)
    }

    fn site(&self) -> Result<SiteModel, SchedulerError> {
        site::site(self)
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

fn says(output: &Output, any: &[&str]) -> bool {
    !output.status.success() && any.iter().any(|words| output.stderr.contains(words))
}

fn unreachable(output: &Output) -> bool {
    says(output, &UNREACHABLE)
}

fn unanswered(output: &Output) -> bool {
    says(output, &UNANSWERED)
}

fn failed(what: String) -> impl FnOnce(CommandError) -> SchedulerError {
    move |source| SchedulerError::of_question(NAME, what, source)
}
