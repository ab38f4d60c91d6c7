//! The ticket of a local job: `local.json` in the run's directory, written by `submit` and then only by the runner.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use super::file_error;
use super::process::Identity;
use super::share::Asked;
use crate::foundation::private::PrivateDir;
use crate::job::{JobId, JobState, RunId};
use crate::launch::Seat;
use crate::record::ExitStatus;
use crate::scheduler::SchedulerError;

/// What a local job is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    Pending,
    Running,
    Ended,
}

impl Phase {
    pub(super) fn state(self) -> JobState {
        match self {
            Self::Pending => JobState::Pending,
            Self::Running => JobState::Running,
            Self::Ended => JobState::Unknown,
        }
    }
}

/// All that runner and client know of a local job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Ticket {
    pub(super) format: u32,
    pub(super) run_id: RunId,
    pub(super) job_id: JobId,
    /// The job's name, for the eyes of those who wait for it.
    #[serde(default)]
    pub(super) name: String,
    /// What it takes of the machine. dlrun 0.1 did not write it: then the whole machine.
    #[serde(default)]
    pub(super) asked: Asked,
    /// The part of a job that a trial has. It waits for nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) seat: Option<Seat>,
    pub(super) host: String,
    pub(super) script: PathBuf,
    pub(super) workdir: PathBuf,
    pub(super) output: PathBuf,
    pub(super) queue_dir: PathBuf,
    pub(super) lock_dir: PathBuf,
    /// For so long it waits for jobs of other users. dlrun 0.1 did not write it.
    #[serde(default)]
    pub(super) others_wait_seconds: Option<u64>,
    pub(super) walltime_seconds: Option<u64>,
    pub(super) kill_wait_seconds: u64,
    pub(super) queued_at_ms: u64,
    pub(super) phase: Phase,
    pub(super) runner: Option<Identity>,
    pub(super) shell: Option<Identity>,
    pub(super) started_at_ms: Option<u64>,
    pub(super) ended_at_ms: Option<u64>,
    pub(super) exit: Option<ExitStatus>,
    /// `cancelled` or `timeout`, where the runner ended it.
    pub(super) end: Option<JobState>,
    /// Why the runner could not do its work.
    pub(super) note: Option<String>,
    /// What went wrong without harm to the job.
    #[serde(default)]
    pub(super) warning: Option<String>,
}

/// The directory of the run. That it is closed to others was checked above it.
fn opened(run_dir: &Path) -> Result<PrivateDir, SchedulerError> {
    Ok(PrivateDir::open_shared(run_dir)?)
}

impl Ticket {
    pub(super) const FORMAT: u32 = 1;
    pub(super) const FILE: &str = "local.json";
    /// The file whose being there asks the runner to end the job, also before it began.
    const CANCEL: &str = "local.cancel";
    const LOCK: &str = "local.lock";

    /// Asks for the job's end.
    pub(super) fn ask_cancel(run_dir: &Path) -> Result<(), SchedulerError> {
        let asked = opened(run_dir)?.open_or_create(Self::CANCEL).map(drop);
        asked.map_err(file_error("write", &run_dir.join(Self::CANCEL)))
    }

    /// Says whether the job's end was asked for.
    pub(super) fn is_cancel_asked(run_dir: &Path) -> bool {
        run_dir.join(Self::CANCEL).exists()
    }

    pub(super) fn read(run_dir: &Path) -> Result<Self, SchedulerError> {
        Ok(opened(run_dir)?.read_json(Self::FILE, 1 << 20)?)
    }

    /// Writes the ticket whole and renames it into place.
    pub(super) fn write(&self, run_dir: &Path) -> Result<(), SchedulerError> {
        Ok(opened(run_dir)?.write_json(Self::FILE, self)?)
    }

    /// Takes the lock that says "my runner is alive"; `None` where another runner has it.
    pub(super) fn hold(run_dir: &Path) -> Result<Option<Flock<File>>, SchedulerError> {
        let path = run_dir.join(Self::LOCK);
        let opened = opened(run_dir)?.open_or_create(Self::LOCK);
        let mut file = opened.map_err(file_error("lock", &path))?;
        // Somebody who just asks whether we live holds the lock for a moment.
        for _ in 0..40 {
            file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(Some(lock)),
                Err((file, nix::errno::Errno::EWOULDBLOCK)) => file,
                Err((_, errno)) => return Err(file_error("lock", &path)(errno.into())),
            };
            std::thread::sleep(Duration::from_millis(25));
        }
        Ok(None)
    }

    /// Says whether a runner holds the ticket.
    pub(super) fn is_held(run_dir: &Path) -> bool {
        let Ok(file) = File::open(run_dir.join(Self::LOCK)) else {
            return false;
        };
        matches!(
            Flock::lock(file, FlockArg::LockSharedNonblock),
            Err((_, nix::errno::Errno::EWOULDBLOCK))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticket_of_dlrun_0_1_asks_for_the_whole_machine() {
        let text = r#"{"format":1,"run_id":"0000000000000000","job_id":"L7","host":"h","script":"/s","workdir":"/w",
            "output":"/o","queue_dir":"/q","lock_dir":"/var/tmp","walltime_seconds":null,"kill_wait_seconds":30,
            "queued_at_ms":5,"phase":"pending","runner":{"pid":7,"start":8},"shell":null,"started_at_ms":null,
            "ended_at_ms":null,"exit":null,"end":null,"note":null}"#;
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join(Ticket::FILE), text).expect("ours");
        let ticket = Ticket::read(dir.path()).expect("it is read");
        assert_eq!((ticket.asked, ticket.warning), (Asked::default(), None));
        assert_eq!(
            (ticket.job_id.0.as_str(), ticket.phase),
            ("L7", Phase::Pending)
        );
    }
}
