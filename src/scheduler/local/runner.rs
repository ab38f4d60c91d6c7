//! The detached process behind a local job: waits for its turn, runs the script, writes down how it ended.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, getpid, setsid};

use super::process::{Identity, left_over};
use super::ticket::{Phase, Ticket};
use super::turn::{Claim, Turn};
use super::{file_error, open_append};
use crate::foundation::clock::{booted_at_ms, count_from, now_ms};
use crate::foundation::command::{TrainingCommand, spawn_training};
use crate::foundation::diagnostic::chain;
use crate::foundation::private::PrivateDir;
use crate::foundation::wait;
use crate::job::{JobState, OF_ONE_START, SchedulerVariables};
use crate::record::rundir::{Attempt, attempt_record};
use crate::record::{ExitStatus, Next, ending};
use crate::scheduler::SchedulerError;
use crate::scheduler::script::PRIVILEGED;

/// Between two attempts to write down how a job ended, and how long they go on.
const END_PAUSE: Duration = Duration::from_secs(2);
const END_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// Between two looks at a job that runs, and at whether one was cancelled that cannot be signalled.
const LONGEST_REST: Duration = Duration::from_secs(60);
const CANCEL_PAUSE: Duration = Duration::from_secs(5);

/// Runs the job whose ticket lies in `run_dir` to its end. Cancelled by SIGTERM.
///
/// # Errors
/// When the ticket, the queue or the script cannot be used; the ticket then says that the job ended.
pub fn run(run_dir: &Path) -> Result<(), SchedulerError> {
    // Fails for a group's leader, which `submit` never makes us; then the session is somebody else's.
    let session = setsid().ok();
    let mut signals = Signals::take();
    let mut ticket = Ticket::read(run_dir)?;
    let lock = Ticket::hold(run_dir)?;
    let (Some(_lock), Phase::Pending) = (lock, ticket.phase) else {
        return Ok(());
    };
    ticket.runner = Identity::from_pid(getpid().as_raw());
    ticket.write(run_dir)?;
    let result = wait_and_run(&mut ticket, run_dir, &mut signals, session);
    if let Err(error) = &result {
        ticket.note = Some(chain(error).join(": "));
    }
    if ticket.phase != Phase::Ended {
        ticket.exit = ticket.exit.or(Some(ExitStatus::Code(70)));
        end(&mut ticket);
    }
    result.and(write_end(&ticket, run_dir, &mut signals))
}

/// Writes down how the job ended, for a day if need be: where the disk is full nobody else knows it. Ends at a signal to end, and
/// where the directory is gone.
fn write_end(ticket: &Ticket, run_dir: &Path, signals: &mut Signals) -> Result<(), SchedulerError> {
    let (mut is_said, begun) = (false, Instant::now());
    loop {
        let Err(error) = ticket.write(run_dir) else {
            return Ok(());
        };
        if !is_said && let Ok(mut output) = open_append(&ticket.output) {
            let (why, exit) = (
                chain(&error).join(": "),
                ticket.exit.map_or("ended".to_owned(), ending),
            );
            let _ = writeln!(
                output,
                "dlrun: the job {exit}; that cannot be recorded yet: {why}"
            );
        }
        is_said = true;
        let is_over = begun.elapsed() > END_TIMEOUT;
        if is_over || signals.wait(END_PAUSE) || !run_dir.exists() {
            return Err(error);
        }
    }
}

fn end(ticket: &mut Ticket) {
    ticket.phase = Phase::Ended;
    ticket.ended_at_ms = Some(now_ms());
}

fn wait_and_run(
    ticket: &mut Ticket,
    run_dir: &Path,
    signals: &mut Signals,
    session: Option<Pid>,
) -> Result<(), SchedulerError> {
    let claim = match ticket.seat {
        Some(_) => None,
        None => match wait_for_turn(ticket, run_dir, signals) {
            None => return Ok(()),
            claim => claim,
        },
    };
    // It stays for as long as the job: where the runner is killed, for as long as the runner's session has processes.
    let mut attempt = 0;
    let ran = loop {
        let ran = run_script(ticket, run_dir, signals, session, attempt);
        attempt += 1;
        // One that ran and could not be noted did run.
        if ticket.exit.is_none() || ticket.end.is_some() || !starts_again(run_dir, attempt - 1) {
            break ran;
        }
    };
    if ticket.exit.is_some() {
        end(ticket);
    }
    drop(claim);
    ran
}

/// Waits for room on the machine; `None`: the job was cancelled before.
fn wait_for_turn(ticket: &mut Ticket, run_dir: &Path, signals: &mut Signals) -> Option<Claim> {
    let mut turn = Turn::take(ticket);
    loop {
        if let Some(claim) = turn.claim(ticket) {
            return Some(claim);
        }
        // Asked by a file too, which a cancel leaves that came before this could be signalled.
        if signals.wait(turn.pause) || Ticket::is_cancel_asked(run_dir) {
            ticket.end = Some(JobState::Cancelled);
            end(ticket);
            return None;
        }
    }
}

/// Whether the job itself noted that another start follows this one.
fn starts_again(run_dir: &Path, attempt: u32) -> bool {
    let attempt = Attempt {
        element: 0,
        attempt,
    };
    let noted = PrivateDir::open_shared(run_dir)
        .ok()
        .and_then(|dir| attempt_record(&dir, attempt));
    let end = noted.and_then(|record| record.end);
    end.is_some_and(|end| end.next == Next::Restart)
}

fn run_script(
    ticket: &mut Ticket,
    run_dir: &Path,
    signals: &mut Signals,
    session: Option<Pid>,
    attempt: u32,
) -> Result<(), SchedulerError> {
    // Orphans of the job come back to us, so that none outlives it.
    let _ = nix::sys::prctl::set_child_subreaper(true);
    let output = open_append(&ticket.output).map_err(file_error("open", &ticket.output))?;
    let errors = output
        .try_clone()
        .map_err(file_error("open", &ticket.output))?;
    let attempt = attempt.to_string();
    let sets = [
        ("DLRUN_RUN_ID", ticket.run_id.as_str()),
        ("DLRUN_JOB_ID", ticket.job_id.0.as_str()),
        ("DLRUN_ATTEMPT", attempt.as_str()),
    ];
    let training = TrainingCommand {
        argv: shell_of(&ticket.script),
        sets: sets
            .map(|(name, value)| (OsString::from(name), OsString::from(value)))
            .to_vec(),
        removals: of_another_job(),
        stdout: output.into(),
        stderr: errors.into(),
        dies_with_us: false,
        cpus: ticket
            .seat
            .as_ref()
            .map(|seat| seat.cpus.clone())
            .unwrap_or_default(),
        // The time limit and a cancel reach all of the job by it.
        leads_group: true,
    };
    std::env::set_current_dir(&ticket.workdir).map_err(file_error("enter", &ticket.workdir))?;
    let shell = spawn_training(training).map_err(|source| SchedulerError::Unreachable {
        scheduler: super::NAME,
        source,
    })?;
    ticket.phase = Phase::Running;
    // That of an earlier start is no longer the job's.
    ticket.exit = None;
    ticket.shell = Identity::from_pid(shell.as_raw());
    // The job's time is counted from here on, whatever the wall clock is set to.
    count_from(booted_at_ms());
    ticket.started_at_ms = Some(now_ms());
    // A ticket that cannot be written costs the record, not the job.
    let noted = ticket.write(run_dir);
    if Ticket::is_cancel_asked(run_dir) {
        ticket.end = Some(JobState::Cancelled);
    }
    ticket.exit = Some(watch(ticket, (shell, run_dir), signals, session));
    clear_away(shell, session);
    noted
}

/// Variables of a job from inside of which this one was submitted: its job id, node and shape are not ours.
fn of_another_job() -> Vec<OsString> {
    let of_scheduler = |name: &str, its: &SchedulerVariables| {
        let names_server = its.address.contains(&name) || its.server.contains(&name);
        !names_server && its.prefixes.iter().any(|prefix| name.starts_with(prefix))
    };
    let foreign = |name: &OsString| {
        let name = name.to_string_lossy();
        let of_run = OF_ONE_START.contains(&&*name) || name == "DLRUN_INSIDE";
        let mut all = SchedulerVariables::ALL.iter();
        of_run || all.any(|its| of_scheduler(&name, its))
    };
    std::env::vars_os()
        .map(|(name, _)| name)
        .filter(foreign)
        .collect()
}

/// Waits for the script; at a cancel or the time limit it gets CONT and TERM, and later KILL, as Slurm does it.
fn watch(
    ticket: &mut Ticket,
    (shell, run_dir): (Pid, &Path),
    signals: &mut Signals,
    session: Option<Pid>,
) -> ExitStatus {
    let started = Instant::now();
    let limit = ticket
        .walltime_seconds
        .map(|seconds| started + Duration::from_secs(seconds));
    let mut kill_at: Option<Instant> = None;
    loop {
        if let Some(exit) = reap(shell) {
            return exit;
        }
        let now = Instant::now();
        if kill_at.is_some_and(|at| now >= at) {
            let _ = kill(Pid::from_raw(-shell.as_raw()), Signal::SIGKILL);
            if let Some(exit) = clear_away(shell, session) {
                return exit;
            }
        } else if ticket.end.is_none() && limit.is_some_and(|limit| now >= limit) {
            ticket.end = Some(JobState::Timeout);
        }
        if ticket.end.is_some() && kill_at.is_none() {
            kill_at = Some(now + Duration::from_secs(ticket.kill_wait_seconds));
            // CONT goes past the shell to what it started. If it trapped both, it could lose the second: bash leaves
            // its `wait` in the first one's handler.
            let _ = kill(Pid::from_raw(-shell.as_raw()), Signal::SIGCONT);
            let _ = kill(shell, Signal::SIGTERM);
        }
        let next = [
            kill_at.filter(|at| *at > now),
            limit.filter(|limit| *limit > now),
        ];
        let pause = next
            .into_iter()
            .flatten()
            .min()
            .map_or(LONGEST_REST, |at| at - now);
        // One in a part of a job may be cancelled from another node.
        let longest = ticket.seat.as_ref().map_or(LONGEST_REST, |_| CANCEL_PAUSE);
        let is_asked = signals.wait(pause.min(longest))
            || (ticket.seat.is_some() && Ticket::is_cancel_asked(run_dir));
        if is_asked && ticket.end.is_none() {
            ticket.end = Some(JobState::Cancelled);
        }
    }
}

/// The words that run a script, as its first line asks for.
fn shell_of(script: &Path) -> Vec<OsString> {
    let mut begin = vec![0; PRIVILEGED.len()];
    let file = File::open(script).and_then(|mut file| file.read_exact(&mut begin));
    let is_privileged = file.is_ok() && begin == PRIVILEGED.as_bytes();
    let flag = is_privileged.then(|| OsString::from("-p"));
    let words = std::iter::once("/bin/bash".into()).chain(flag);
    words.chain([script.as_os_str().to_owned()]).collect()
}

/// Collects ended children, adopted ones too; the exit of the shell when it is among them.
fn reap(shell: Pid) -> Option<ExitStatus> {
    let mut exit = None;
    while let Ok(Some((pid, status))) = wait::collect(None) {
        if pid == shell {
            exit = Some(status.into());
        }
    }
    exit
}

/// Kills what the job left behind: a batch system's node is empty after a job. Returns the exit of the shell when it was
/// among that.
fn clear_away(shell: Pid, session: Option<Pid>) -> Option<ExitStatus> {
    let mut exit = None;
    for _ in 0..20 {
        let left = left_over(session, getpid());
        if left.is_empty() {
            break;
        }
        for pid in left {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(20));
        exit = reap(shell).or(exit);
    }
    exit
}

/// Signals that are waited for instead of interrupting.
struct Signals {
    fd: Option<SignalFd>,
}

impl Signals {
    fn take() -> Self {
        let mut set = SigSet::empty();
        for signal in [
            Signal::SIGTERM,
            Signal::SIGINT,
            Signal::SIGHUP,
            Signal::SIGCHLD,
        ] {
            set.add(signal);
        }
        let fd = set.thread_block().and_then(|()| {
            SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        });
        Self { fd: fd.ok() }
    }

    /// Waits until time has passed or a child has ended. True: somebody cancelled the job.
    fn wait(&mut self, pause: Duration) -> bool {
        let Some(fd) = &mut self.fd else {
            std::thread::sleep(pause.min(Duration::from_millis(100)));
            return false;
        };
        let timeout = PollTimeout::try_from(pause).unwrap_or(PollTimeout::MAX);
        let _ = poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)], timeout);
        let mut is_cancelled = false;
        while let Ok(Some(info)) = fd.read_signal() {
            let number = i32::try_from(info.ssi_signo).unwrap_or(0);
            is_cancelled |= [Signal::SIGTERM as i32, Signal::SIGINT as i32].contains(&number);
        }
        is_cancelled
    }
}
