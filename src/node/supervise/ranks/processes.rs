//! The ranks of this node as processes: their variables, files, ends and what they used.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::foundation::clock::now_ms;
use crate::foundation::command::{CommandError, TrainingCommand, spawn_training};
use crate::foundation::wait;
use crate::launch::Worker;
use crate::observe::monitor;
use crate::record::{LAST_WORDS_BYTES, RankRecord, add_root_cause, last_words};

/// A process of this node.
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) record: RankRecord,
    /// Helpers serve the ranks, TensorFlow's workers and parameter servers their chief; the training is over without them.
    pub(super) is_helper: bool,
}

/// The processes of this node.
#[derive(Default)]
pub(super) struct Processes {
    all: Vec<Process>,
    /// When KILL follows TERM.
    kill_at: Option<Instant>,
}

/// How a process of the group is started.
pub(super) struct Start<'a> {
    pub(super) worker: &'a Worker,
    pub(super) argv: &'a [OsString],
    pub(super) variables: Vec<(OsString, OsString)>,
    pub(super) removals: Vec<OsString>,
    /// Its file; `None`: our own output is its.
    pub(super) output: Option<PathBuf>,
    pub(super) record: RankRecord,
    /// CPUs that it is bound to; empty: as we are.
    pub(super) cpus: Vec<u32>,
}

impl Processes {
    pub(super) fn start(&mut self, start: Start<'_>) -> Result<(), CommandError> {
        let file = start.output.as_deref().and_then(open);
        let stream = |file: &Option<File>| {
            let twin = file.as_ref().and_then(|file| file.try_clone().ok());
            twin.map_or_else(Stdio::inherit, Stdio::from)
        };
        let pid = spawn_training(TrainingCommand {
            argv: start.argv.to_vec(),
            sets: start.variables,
            removals: start.removals,
            stdout: stream(&file),
            stderr: stream(&file),
            leads_group: false,
            dies_with_us: true,
            cpus: start.cpus,
        })?;
        self.all.push(Process {
            pid,
            record: RankRecord {
                started_at_ms: now_ms(),
                ..start.record
            },
            is_helper: start.worker.rank.is_none()
                || matches!(start.worker.role, Some("ps" | "worker")),
        });
        Ok(())
    }

    pub(super) fn records(&self) -> Vec<RankRecord> {
        self.all
            .iter()
            .map(|process| process.record.clone())
            .collect()
    }

    fn running(&self) -> impl Iterator<Item = &Process> {
        self.all
            .iter()
            .filter(|process| process.record.exit.is_none())
    }

    /// How many helpers were started.
    pub(super) fn helpers(&self) -> u32 {
        let helpers = self.all.iter().filter(|process| process.is_helper);
        u32::try_from(helpers.count()).unwrap_or(u32::MAX)
    }

    pub(super) fn are_over(&self) -> bool {
        self.running().next().is_none()
    }

    pub(super) fn ranks_are_over(&self) -> bool {
        self.running().all(|process| process.is_helper)
    }

    pub(super) fn signal(&self, signal: Signal) {
        for process in self.running() {
            let _ = kill(process.pid, signal);
        }
    }

    /// TERM now, KILL after `grace`; further calls change nothing. A stopped process takes TERM when it continues.
    pub(super) fn stop(&mut self, grace: Duration) {
        if self.kill_at.is_none() {
            self.kill_at = Some(Instant::now() + grace);
            self.signal(Signal::SIGTERM);
            self.signal(Signal::SIGCONT);
        }
    }

    pub(super) fn kill_when_due(&mut self) {
        if self.kill_at.is_some_and(|at| Instant::now() >= at) {
            self.signal(Signal::SIGKILL);
        }
    }

    /// Looks at what the running ones use.
    pub(super) fn look(&mut self) {
        for process in self
            .all
            .iter_mut()
            .filter(|process| process.record.exit.is_none())
        {
            let pid = process.pid.as_raw().unsigned_abs();
            let peak = match process.record.role.as_deref() {
                Some("agent") => monitor::memory_peak_below(pid),
                _ => monitor::memory_peak(pid),
            };
            process.record.mem_peak_bytes = process.record.mem_peak_bytes.max(peak);
        }
    }

    /// Collects those that ended: their places.
    pub(super) fn reap(&mut self) -> Vec<usize> {
        let mut ended = Vec::new();
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        loop {
            let pid = match waitid(Id::All, look) {
                Ok(WaitStatus::StillAlive) => return ended,
                Ok(status) => status.pid(),
                // A real-time signal ended it.
                Err(_) => None,
            };
            // While it is a zombie the kernel still knows what it used.
            let pid_of = |pid: Pid| pid.as_raw().unsigned_abs();
            let used = pid.and_then(|pid| monitor::cpu_seconds_with_children(pid_of(pid)));
            let Ok(Some((pid, status))) = wait::collect(pid) else {
                return ended;
            };
            if let Some(at) = self.all.iter().position(|process| process.pid == pid) {
                let record = &mut self.all[at].record;
                (record.exit, record.ended_at_ms) = (Some(status.into()), Some(now_ms()));
                record.cpu_seconds = used;
                ended.push(at);
            }
        }
    }

    /// Marks the rank or helper that fell before all others, if it is one of these, with the last line that it wrote into its own file.
    pub(super) fn fell_first(&mut self, rank: Option<u32>, shown: impl Fn(&str) -> String) {
        let is_it = |process: &&mut Process| rank == Some(process.record.rank);
        if let Some(process) = self.all.iter_mut().find(is_it) {
            let record = &mut process.record;
            record.fell_first = true;
            let tail = record
                .output
                .as_deref()
                .and_then(|path| tail(Path::new(path), 0).ok());
            let words = tail.zip(record.exit).map(|(tail, exit)| {
                let mut words = last_words(&tail, exit);
                add_root_cause(&mut words, &String::from_utf8_lossy(&tail));
                words
            });
            record.last_words = words.and_then(|words| words.last().map(|line| shown(line)));
        }
    }

    pub(super) fn at(&mut self, place: usize) -> &mut Process {
        &mut self.all[place]
    }
}

/// The end of an output of which the first bytes are another command's.
pub(in crate::node::supervise) fn tail(path: &Path, begin: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(LAST_WORDS_BYTES as u64).max(begin);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(LAST_WORDS_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn open(path: &Path) -> Option<File> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.inspect_err(|error| tracing::warn!(%error, ?path, "no output file for a rank"))
        .ok()
}
