//! This machine as a scheduler: jobs share its CPUs, memory and GPUs by what they ask for, and wait where there is no room.
//!
//! There is no daemon. `submit` leaves a ticket in the run's directory and starts a detached runner (`dlrun local-run`),
//! which waits for its turn, runs the script and writes down how it ended. A runner shows that it is alive by the lock
//! it holds on its ticket. Runners of all users see each other by entries, one small file for each job (`board.rs`).

mod adapter;
mod board;
mod counter;
mod entry;
mod line;
mod process;
mod runner;
mod share;
mod ticket;
mod turn;

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Entries, JobRef, Reach, Scheduler, SchedulerError, Submission, Submitted};
use crate::config::site::SiteModel;
use crate::foundation::clock::now_ms;
use crate::foundation::command::spawn_detached;
use crate::job::{ArraySpec, JobId, JobState, SchedulerKind};
use crate::record::QueueEntry;
use board::{Board, Look};
use share::{Asked, Machine};
use ticket::{Phase, Ticket};

pub use adapter::Known;
pub use runner::run;

const NAME: &str = "the local scheduler";

/// How the jobs of all users of this machine share it.
#[derive(Debug, Clone)]
pub struct Shared {
    /// Where they say what they hold.
    pub dir: PathBuf,
    /// How long a job waits for those of other users.
    pub others_wait: Duration,
}

/// The local scheduler as one process reaches it.
#[derive(Debug, Clone)]
struct Local(Reach);

impl Local {
    fn queue_dir(&self) -> PathBuf {
        self.0.state_dir.join("local").join(&self.0.host)
    }
}

fn file_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SchedulerError {
    let path = path.to_owned();
    move |source| SchedulerError::File { what, path, source }
}

impl Scheduler for Local {
    fn command_line(&self, submission: &Submission<'_>) -> Vec<String> {
        vec![
            "/bin/bash".to_owned(),
            submission.script.to_string_lossy().into_owned(),
        ]
    }

    fn submit(&self, submission: &Submission<'_>) -> Result<Submitted, SchedulerError> {
        let plan = submission.plan;
        let (number, output) = counter::numbered_output(&self.queue_dir(), plan)?;
        let ticket = Ticket {
            format: Ticket::FORMAT,
            run_id: submission.run_id.clone(),
            job_id: JobId(format!("L{number}")),
            name: plan.name.clone(),
            asked: Asked::from_plan(plan, Machine::here()),
            seat: plan.seat.clone(),
            host: self.0.host.clone(),
            script: submission.script.to_owned(),
            workdir: PathBuf::from(&plan.workdir),
            output: output.clone(),
            queue_dir: self.queue_dir(),
            lock_dir: self.0.shared.dir.clone(),
            others_wait_seconds: Some(self.0.shared.others_wait.as_secs()),
            walltime_seconds: plan.resources.walltime.map(|walltime| walltime.0),
            kill_wait_seconds: plan.kill_wait_seconds,
            queued_at_ms: now_ms(),
            phase: Phase::Pending,
            runner: None,
            shell: None,
            started_at_ms: None,
            ended_at_ms: None,
            exit: None,
            end: None,
            note: None,
            warning: None,
        };
        ticket.write(submission.run_dir)?;
        let argv: Vec<OsString> = vec![
            self.0.dlrun.clone().into(),
            "local-run".into(),
            submission.run_dir.as_os_str().to_owned(),
        ];
        let env = [(
            OsString::from("DLRUN_RUN_ID"),
            OsString::from(submission.run_id.as_str()),
        )];
        spawn_detached(&argv, &env, Path::new("/")).map_err(|source| {
            SchedulerError::Unreachable {
                scheduler: NAME,
                source,
            }
        })?;
        Ok(Submitted {
            job_id: ticket.job_id,
            output,
        })
    }

    fn queue(&self, jobs: &[JobRef]) -> Result<Entries, SchedulerError> {
        // One look at the machine serves all jobs that wait.
        let look = OnceCell::new();
        let entries = jobs
            .iter()
            .filter_map(|job| Some((job.run_id.clone(), vec![self.entry(job, &look)?])));
        Ok(entries.collect())
    }

    /// The tickets are the accounting.
    fn history(&self, jobs: &[JobRef]) -> Result<Entries, SchedulerError> {
        self.queue(jobs)
    }

    /// A local job has no elements.
    fn cancel(&self, job: &JobRef, _elements: Option<&ArraySpec>) -> Result<(), SchedulerError> {
        let ticket = Ticket::read(&job.run_dir)?;
        if ticket.host != self.0.host && ticket.seat.is_some() {
            // Its runner looks for that by itself: nobody can log in to its node.
            return Ticket::ask_cancel(&job.run_dir);
        }
        if ticket.host != self.0.host {
            let error = io::Error::other(format!("the job is on {}; cancel it there", ticket.host));
            return Err(file_error(
                "cancel the job of",
                &job.run_dir.join(Ticket::FILE),
            )(error));
        }
        if ticket.phase == Phase::Ended {
            return Ok(());
        }
        // A runner that is only starting finds the file; one that waits or watches gets the signal too.
        Ticket::ask_cancel(&job.run_dir)?;
        let ticket = Ticket::read(&job.run_dir)?;
        if let Some(runner) = ticket.runner.filter(|_| Ticket::is_held(&job.run_dir)) {
            return signal(runner.pid, Signal::SIGTERM, &job.run_dir);
        }
        // The runner was killed: the shell of the job is stopped directly, and nobody else writes the ticket.
        let Some(shell) = ticket.shell.filter(|shell| shell.is_alive()) else {
            return Ok(());
        };
        stop_group(
            shell,
            Duration::from_secs(ticket.kill_wait_seconds),
            &job.run_dir,
        )?;
        Ticket {
            phase: Phase::Ended,
            end: Some(JobState::Cancelled),
            ended_at_ms: Some(now_ms()),
            ..ticket
        }
        .write(&job.run_dir)
    }

    /// This machine alone, with one queue that has no name.
    fn site(&self) -> Result<SiteModel, SchedulerError> {
        Ok(SiteModel::asked_now(SchedulerKind::Local))
    }
}

/// Notes for the ticket in `run_dir` that the job, on another node, ended with the job that it was a part of: its runner was ended
/// too.
///
/// # Errors
/// Where the ticket cannot be read or written.
pub fn note_lost(run_dir: &Path, why: &str) -> Result<(), SchedulerError> {
    let ticket = Ticket::read(run_dir)?;
    if ticket.phase == Phase::Ended {
        return Ok(());
    }
    let ended = Ticket {
        phase: Phase::Ended,
        end: Some(JobState::NodeFail),
        note: Some(why.to_owned()),
        ..ticket
    };
    ended.write(run_dir)
}

fn signal(pid: i32, which: Signal, run_dir: &Path) -> Result<(), SchedulerError> {
    match kill(Pid::from_raw(pid), which) {
        Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
        Err(errno) => Err(file_error("signal the job of", run_dir)(errno.into())),
    }
}

fn stop_group(
    shell: process::Identity,
    wait: Duration,
    run_dir: &Path,
) -> Result<(), SchedulerError> {
    signal(-shell.pid, Signal::SIGTERM, run_dir)?;
    let deadline = Instant::now() + wait;
    while shell.is_alive() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    signal(-shell.pid, Signal::SIGKILL, run_dir)
}

impl Local {
    /// What `ticket`'s job waits for.
    fn waits_for(&self, ticket: &Ticket, look: &OnceCell<Look>) -> String {
        let look = look.get_or_init(|| Board::new(&self.0.shared.dir).read());
        let user = nix::unistd::geteuid().as_raw();
        let is_own = |runner, seen: &&board::Seen| seen.user == user && seen.entry.runner == runner;
        let reason = ticket.runner.and_then(|runner| {
            let me = look.waiting.iter().find(|seen| is_own(runner, seen))?;
            line::reason(look, me, Machine::here())
        });
        reason.unwrap_or_else(|| "waits for its turn on this machine".to_owned())
    }

    fn entry(&self, job: &JobRef, look: &OnceCell<Look>) -> Option<QueueEntry> {
        let ticket = Ticket::read(&job.run_dir).ok()?;
        let here = ticket.host == self.0.host;
        let held = here && Ticket::is_held(&job.run_dir);
        // Between the writing of the ticket and the runner's first act lies a moment without a lock.
        let young = now_ms().saturating_sub(ticket.queued_at_ms) < 10_000;
        let shell_alive = here && ticket.shell.is_some_and(process::Identity::is_alive);
        let (state, raw, reason) = match (ticket.phase, ticket.end) {
            (Phase::Ended, Some(end)) => (end, end.as_str(), ticket.note.clone()),
            (Phase::Ended, None) => match ticket.exit {
                Some(exit) if exit.is_success() => (JobState::Completed, "ended", None),
                _ => (JobState::Failed, "ended", ticket.note.clone()),
            },
            (phase, _) if !here => (
                phase.state(),
                "elsewhere",
                Some(match ticket.seat {
                    Some(seat) => format!("a part of job {} on {}", seat.job_id.0, ticket.host),
                    None => format!("it is on {}; ask there", ticket.host),
                }),
            ),
            (Phase::Pending, _) if held || (young && ticket.runner.is_none()) => (
                JobState::Pending,
                "waiting",
                held.then(|| self.waits_for(&ticket, look)),
            ),
            (Phase::Running, _) if held && !shell_alive => {
                // Where its script could leave its mark, there is room: its runner ends what the job left, and writes the end down.
                let is_marked = job.run_dir.join("0.0/end.json").exists();
                let why = "it has ended, and its runner tries to write that down: is there room in the state directory?";
                let why = (!is_marked).then(|| why.to_owned());
                (JobState::Running, "ending", why)
            }
            (Phase::Running, _) if held || shell_alive => {
                (JobState::Running, "running", ticket.warning.clone())
            }
            (Phase::Running, _) => {
                let why = "its runner is gone and did not write down how the job ended: it was killed, or the state directory could not be written";
                (JobState::Unknown, "gone", Some(why.to_owned()))
            }
            _ => (
                JobState::Unknown,
                "gone",
                Some(
                    "its runner is gone: it was killed, or the state directory could not be written"
                        .to_owned(),
                ),
            ),
        };
        Some(QueueEntry {
            expected_start_ms: None,
            job_id: ticket.job_id,
            state,
            raw_state: raw.to_owned(),
            reason,
            submitted_at_ms: Some(ticket.queued_at_ms),
            started_at_ms: ticket.started_at_ms,
            ended_at_ms: ticket.ended_at_ms,
            exit: ticket.exit,
            nodes: Some(ticket.host),
            elements: None,
            stuck: false,
        })
    }
}

fn open_append(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o666)
        .open(path)
}
