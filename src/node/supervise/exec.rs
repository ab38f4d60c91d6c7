//! The supervisor.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeVal;
use nix::unistd::{Pid, pipe2};
use serde::Serialize;

use super::handover::{DROP_SIGNALS, Ended, Handover};
use super::output;
use super::prepare::Prepared;
use super::ranks;
use super::signals::{Echoes, STOP_EARLY, Sender, Signals, is_in_set, is_pending};
use super::time_limit::TimeLimit;
use crate::foundation::clock::{self, now_ms};
use crate::foundation::command::{CommandError, TrainingCommand, spawn_companion, spawn_training};
use crate::foundation::wait;
use crate::job::Launcher;
use crate::observe::monitor;
use crate::observe::protocol::Process;
use crate::record::{ExitStatus, TimeStop, unreported_end};

/// How often a killed watcher is restarted.
const RESTARTS: u32 = 5;
/// How long a command that was asked for something during its trial may take until it handles the signal.
const ASKED: Duration = Duration::from_secs(300);
/// How long the end of a job waits for the watcher's last words: a state directory that hangs must not hold it up.
const LAST_WORDS: Duration = Duration::from_secs(8);
/// How long the end of the output may take to be read, where it decides how the command ended.
const READING: Duration = Duration::from_secs(2);

/// Starts the command, watches over it and returns how it ended.
///
/// # Errors
/// When the command cannot be started; [`CommandError::shell_code`] is then the exit code.
pub fn exec(prepared: Prepared) -> Result<ExitStatus, CommandError> {
    // Orphans of the command come back to us instead of to init, so that their CPU time is counted.
    let _ = nix::sys::prctl::set_child_subreaper(true);
    let signals = Signals::take();
    let output = output::choose(&prepared.context);
    // In the process group of the batch shell, as without us: a signal to the group reaches the command by itself.
    let training = TrainingCommand {
        argv: prepared.argv,
        sets: prepared.sets,
        removals: prepared.removals,
        stdout: output.stdout,
        stderr: output.stderr,
        leads_group: false,
        dies_with_us: false,
        cpus: Vec::new(),
    };
    let before = Children::so_far();
    let booted_at_ms = clock::booted_at_ms();
    clock::count_from(booted_at_ms);
    let started_at_ms = now_ms();
    let pid = spawn_training(training)?;
    let Ok(signals) = signals else {
        return Ok(wait_plainly(pid));
    };
    let number = pid.as_raw().unsigned_abs();
    let time_limit = TimeLimit::of(&prepared.context, prepared.events.clone());
    let plan = prepared.context.plan.as_ref();
    let has_steps = plan.is_some_and(|plan| plan.scheduler.has_steps());
    let is_refused = prepared.is_refused;
    let asked = prepared
        .context
        .asked
        .map(|signal| (signal, Instant::now() + ASKED));
    let handover = Handover {
        context: prepared.context,
        container: prepared.container,
        is_runtime: prepared.is_runtime,
        is_refused,
        unfit: prepared.unfit,
        command: Process {
            pid: number,
            start_time_ticks: monitor::start_time_ticks(number).unwrap_or(0),
        },
        supervisor: std::process::id(),
        step: if has_steps {
            Process::slurm_step()
        } else {
            None
        },
        started_at_ms,
        booted_at_ms,
        output: output.file,
        events: prepared.events,
        echo: output.echo,
        resumes: false,
    };
    let mut supervisor = Supervisor {
        training: pid,
        signals,
        echoes: Echoes::default(),
        asked,
        time_limit,
        watcher: Watcher {
            handover,
            before,
            pid: None,
            pipe: None,
            restarts: 0,
            restart_at: None,
            was_killed: false,
        },
    };
    supervisor.watcher.start();
    Ok(supervisor.run())
}

/// Without a descriptor for signals the command is still waited for.
fn wait_plainly(pid: Pid) -> ExitStatus {
    wait::wait_for(pid).map_or(ExitStatus::Code(125), ExitStatus::from)
}

struct Supervisor {
    training: Pid,
    signals: Signals,
    echoes: Echoes,
    /// A signal that came during the trial, and until when the command may begin to handle it.
    asked: Option<(Signal, Instant)>,
    time_limit: Option<TimeLimit>,
    watcher: Watcher,
}

impl Supervisor {
    fn run(&mut self) -> ExitStatus {
        let exit = loop {
            if let Some(exit) = self.reap() {
                break exit;
            }
            let pauses = [
                self.watcher.restart_in(),
                self.time_limit.as_ref().map(TimeLimit::due_in),
                self.asked.map(|_| Duration::from_millis(200)),
            ];
            for (signal, sender) in self.signals.wait(pauses.into_iter().flatten().min()) {
                self.forward(signal, sender);
            }
            self.pass_on_asked();
            self.watcher.restart_when_due();
            if let Some(limit) = &mut self.time_limit {
                limit.tend(self.training);
            }
        };
        let exit = self.as_the_output_shows(exit);
        let time_stop = self.time_limit.as_ref().and_then(TimeLimit::done);
        self.watcher.tell_end(exit, time_stop);
        let deadline = Instant::now() + LAST_WORDS;
        let mut told_again = false;
        while self.watcher.pid.is_some() && Instant::now() < deadline {
            self.reap();
            if self.watcher.was_killed && !std::mem::replace(&mut told_again, true) {
                self.watcher.tell_end(exit, time_stop);
            }
            if self.watcher.pid.is_some() {
                self.signals
                    .wait(Some(deadline.saturating_duration_since(Instant::now())));
            }
        }
        exit
    }

    /// `srun` returns 0 also where ranks were not launched or their step was cancelled.
    fn as_the_output_shows(&self, exit: ExitStatus) -> ExitStatus {
        let Handover {
            context, output, ..
        } = &self.watcher.handover;
        let plan = context.plan.as_ref();
        let by_srun =
            plan.is_some_and(|plan| plan.launcher == Launcher::Mpi && plan.scheduler.has_steps());
        let Some(output) = output.clone().filter(|_| by_srun && exit.is_success()) else {
            return exit;
        };
        // The file system may hang, and the job must end.
        let (sender, end) = channel();
        let reads = std::thread::Builder::new().spawn(move || {
            let end = ranks::tail(&output.path, output.offset).unwrap_or_default();
            sender.send(unreported_end(&String::from_utf8_lossy(&end)).is_some())
        });
        let shows = reads.is_ok() && end.recv_timeout(READING).unwrap_or(false);
        if shows { ExitStatus::Code(1) } else { exit }
    }

    /// A command that has just begun would die of a signal that it handles later.
    fn pass_on_asked(&mut self) {
        let Some((signal, until)) = self.asked else {
            return;
        };
        let is_handled = is_in_set(self.training.as_raw().unsigned_abs(), "SigCgt:", signal);
        if is_handled {
            let _ = kill(self.training, signal);
        }
        self.asked = self.asked.filter(|_| !is_handled && Instant::now() < until);
    }

    /// Passes a signal on to the command alone, where it was meant for the process whose place the command has: the
    /// batch script or the task. Where a whole process group, session or job was signalled, the command has it already.
    fn forward(&mut self, signal: Signal, sender: Sender) {
        if signal == STOP_EARLY {
            self.time_limit.iter_mut().for_each(TimeLimit::stop_early);
        } else if self.echoes.is_echo(signal, sender, Instant::now()) {
            tracing::debug!(%signal, "the batch shell passed on what came here directly too");
        } else if self.watcher.has_it_too(signal, sender) {
            tracing::debug!(%signal, "it came to every process");
        } else {
            let _ = kill(self.training, signal);
        }
    }

    /// Collects all children that ended: the command, the watcher, adopted orphans.
    fn reap(&mut self) -> Option<ExitStatus> {
        let mut exit = None;
        while let Ok(Some((pid, status))) = wait::collect(None) {
            if Some(pid) == self.watcher.pid {
                self.watcher.ended(!status.success());
            } else if pid == self.training {
                exit = Some(status.into());
            }
        }
        exit
    }
}

/// The watcher as its supervisor sees it.
struct Watcher {
    handover: Handover,
    /// What ran before the command used.
    before: Children,
    pid: Option<Pid>,
    pipe: Option<File>,
    restarts: u32,
    restart_at: Option<Instant>,
    /// True from the violent end of a watcher to the start of the next.
    was_killed: bool,
}

impl Watcher {
    /// Starts the watcher. That it cannot be started costs the record, never the run.
    fn start(&mut self) {
        self.was_killed = false;
        let Ok((reader, writer)) = pipe2(OFlag::O_CLOEXEC) else {
            return;
        };
        // Room for the whole plan: a watcher that does not read must not hold the supervisor up.
        let _ = fcntl(&writer, FcntlArg::F_SETPIPE_SZ(1 << 20));
        let _ = fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
        // The binary that runs now, even where it was replaced or its file system hangs.
        let argv = ["/proc/self/exe", "exec-watch"].map(OsString::from);
        let stdout = if self.handover.echo {
            Stdio::inherit()
        } else {
            Stdio::null()
        };
        match spawn_companion(&argv, reader, stdout) {
            Ok(pid) => self.pid = Some(pid),
            Err(error) => {
                tracing::warn!(%error, "the run is not watched");
                return;
            }
        }
        let mut pipe = File::from(writer);
        // A watcher that died at once has closed its end; SIGPIPE is ignored in Rust programs.
        self.pipe = write_line(&mut pipe, &self.handover).ok().map(|()| pipe);
    }

    /// Says whether a signal came to every process of our group, session or job. Whom Slurm signals depends on the signal,
    /// the step, `ProctrackType` and the version; PBS's MOM signals the processes of a session one by one. Where the sender does not
    /// show it, the watcher does: it is in our session and blocks the signals, so they stay pending until it is asked to drop them.
    fn has_it_too(&mut self, signal: Signal, sender: Sender) -> bool {
        if sender == Sender::Everybody {
            return true;
        }
        // One process is signalled after the other.
        std::thread::sleep(Duration::from_millis(20));
        let Some(pid) = self.pid else {
            return sender == Sender::Other;
        };
        let has_it = is_pending(pid.as_raw(), signal);
        if let Some(pipe) = self.pipe.as_mut().filter(|_| has_it) {
            let _ = pipe.write_all(format!("{DROP_SIGNALS}\n").as_bytes());
        }
        has_it
    }

    fn ended(&mut self, was_killed: bool) {
        self.was_killed = was_killed;
        self.pid = None;
        self.pipe = None;
        if self.restarts < RESTARTS {
            self.restart_at = Some(Instant::now() + Duration::from_secs(1 << self.restarts));
        }
    }

    fn restart_in(&self) -> Option<Duration> {
        self.restart_at
            .map(|at| at.saturating_duration_since(Instant::now()))
    }

    fn restart_when_due(&mut self) {
        if self.restart_at.is_some_and(|at| Instant::now() >= at) {
            self.restart_at = None;
            self.restarts += 1;
            self.handover.resumes = true;
            self.start();
        }
    }

    fn tell_end(&mut self, exit: ExitStatus, time_stop: Option<TimeStop>) {
        if self.pid.is_none() && (self.restart_at.take().is_some() || self.was_killed) {
            // The watcher died shortly before the end: one more writes the end down.
            self.handover.resumes = true;
            self.start();
        }
        self.restarts = RESTARTS;
        let (all, before) = (Children::so_far(), self.before);
        let ended = Ended {
            exit,
            ended_at_ms: now_ms(),
            cpu_user_us: all.user_us.saturating_sub(before.user_us),
            cpu_system_us: all.system_us.saturating_sub(before.system_us),
            // Below that it may be of what ran before.
            mem_peak_bytes: Some(all.peak_bytes).filter(|peak| *peak > before.peak_bytes),
            time_stop,
        };
        if let Some(mut pipe) = self.pipe.take() {
            let _ = write_line(&mut pipe, &ended);
        }
    }
}

fn write_line(pipe: &mut File, line: &impl Serialize) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    pipe.write_all(&bytes)
}

/// What all children that were waited for used (`getrusage(2)`).
#[derive(Debug, Clone, Copy, Default)]
struct Children {
    user_us: u64,
    system_us: u64,
    /// The most that was resident in one of them, in bytes.
    peak_bytes: u64,
}

impl Children {
    fn so_far() -> Self {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok();
        usage.map_or_else(Self::default, |usage| Self {
            user_us: micros(usage.user_time()),
            system_us: micros(usage.system_time()),
            peak_bytes: u64::try_from(usage.max_rss()).unwrap_or(0) * 1024,
        })
    }
}

fn micros(time: TimeVal) -> u64 {
    u64::try_from(time.tv_sec()).unwrap_or(0) * 1_000_000
        + u64::try_from(time.tv_usec()).unwrap_or(0)
}
