//! The ticket of a local job: `local.json` in the run's directory, written by `submit` and then only by the runner.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use super::process::Identity;
use super::share::Asked;
use super::{End, file_error};
use crate::job::{JobId, JobState, RunId};
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
    pub(super) end: Option<End>,
    /// Why the runner could not do its work.
    pub(super) note: Option<String>,
    /// What went wrong without harm to the job.
    #[serde(default)]
    pub(super) warning: Option<String>,
}

/// Opens a file for its owner alone, making it where it is missing.
fn open_private(path: &Path) -> io::Result<File> {
    let mut options = fs::OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    options.open(path)
}

impl Ticket {
    pub(super) const FORMAT: u32 = 1;

    pub(super) fn path(run_dir: &Path) -> PathBuf {
        run_dir.join("local.json")
    }

    /// The file whose being there asks the runner to end the job, also before it began.
    fn cancel_path(run_dir: &Path) -> PathBuf {
        run_dir.join("local.cancel")
    }

    /// Asks for the job's end.
    pub(super) fn ask_cancel(run_dir: &Path) -> Result<(), SchedulerError> {
        let path = Self::cancel_path(run_dir);
        open_private(&path)
            .map(drop)
            .map_err(file_error("write", &path))
    }

    /// Says whether the job's end was asked for.
    pub(super) fn is_cancel_asked(run_dir: &Path) -> bool {
        Self::cancel_path(run_dir).exists()
    }

    fn lock_path(run_dir: &Path) -> PathBuf {
        run_dir.join("local.lock")
    }

    pub(super) fn read(run_dir: &Path) -> Result<Self, SchedulerError> {
        let path = Self::path(run_dir);
        let mut text = String::new();
        let read = File::open(&path).and_then(|file| file.take(1 << 20).read_to_string(&mut text));
        read.map_err(file_error("read", &path))?;
        serde_json::from_str(&text).map_err(|error| file_error("read", &path)(error.into()))
    }

    /// Writes the ticket whole and renames it into place.
    pub(super) fn write(&self, run_dir: &Path) -> Result<(), SchedulerError> {
        let path = Self::path(run_dir);
        let part = run_dir.join("local.json.part");
        let text = serde_json::to_vec(self).expect("a ticket is plain data with text keys");
        let written = open_private(&part).and_then(|mut file| {
            file.set_len(0)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&part, &path)
        });
        written.map_err(file_error("write", &path))
    }

    /// Takes the lock that says "my runner is alive"; `None` where another runner has it.
    pub(super) fn hold(run_dir: &Path) -> io::Result<Option<Flock<File>>> {
        let mut file = open_private(&Self::lock_path(run_dir))?;
        // Somebody who just asks whether we live holds the lock for a moment.
        for _ in 0..40 {
            file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(Some(lock)),
                Err((file, nix::errno::Errno::EWOULDBLOCK)) => file,
                Err((_, errno)) => return Err(errno.into()),
            };
            std::thread::sleep(Duration::from_millis(25));
        }
        Ok(None)
    }

    /// Says whether a runner holds the ticket.
    pub(super) fn is_held(run_dir: &Path) -> bool {
        let Ok(file) = File::open(Self::lock_path(run_dir)) else {
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
        fs::write(Ticket::path(dir.path()), text).expect("ours");
        let ticket = Ticket::read(dir.path()).expect("it is read");
        assert_eq!((ticket.asked, ticket.warning), (Asked::default(), None));
        assert_eq!(
            (ticket.job_id.0.as_str(), ticket.phase),
            ("L7", Phase::Pending)
        );
    }
}
