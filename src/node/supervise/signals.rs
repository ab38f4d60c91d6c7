//! Signals as events: blocked, then read from a descriptor.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::process::parent_id;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, getpgid, getpgrp};

use super::step::{SLURM_STEP_PROCESS, name_of};

/// Signals that the supervisor passes on to the command.
const FORWARDED: [Signal; 14] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGCONT,
    Signal::SIGQUIT,
    Signal::SIGALRM,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGXCPU,
    Signal::SIGIO,
    Signal::SIGPWR,
    Signal::SIGSTKFLT,
];

/// By it the watcher asks for the end of this start: the run continues on another number of nodes. Nothing sends it by itself.
pub(super) const STOP_EARLY: Signal = Signal::SIGURG;

/// Who sent a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sender {
    /// The process that started us: the batch shell, which passes on what it got.
    Parent,
    /// A sender that signals a whole group or job: a process of our own group (`kill 0`), the kernel for a terminal, Slurm at a batch
    /// job, of which it signals the batch script alone or everybody.
    Everybody,
    /// Anybody else: PBS's MOM, a user.
    Other,
}

impl Sender {
    fn from_pid(pid: u32) -> Self {
        let raw = i32::try_from(pid).unwrap_or(0);
        let is_of_our_group =
            || getpgid(Some(Pid::from_raw(raw))).is_ok_and(|group| group == getpgrp());
        if pid == parent_id() {
            Self::Parent
        } else if raw == 0
            || name_of(pid).as_deref() == Some(SLURM_STEP_PROCESS)
            || is_of_our_group()
        {
            Self::Everybody
        } else {
            Self::Other
        }
    }
}

/// The supervisor's signals.
pub(super) struct Signals {
    fd: SignalFd,
}

impl Signals {
    /// Blocks the signals and opens their descriptor.
    pub(super) fn take() -> nix::Result<Self> {
        let mut set: SigSet = FORWARDED.into_iter().collect();
        set.add(Signal::SIGCHLD);
        set.add(STOP_EARLY);
        set.thread_block()?;
        Ok(Self {
            fd: SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?,
        })
    }

    /// Waits for the next signals or the end of a child, `pause` at most; for ever where it is `None`.
    pub(super) fn wait(&mut self, pause: Option<Duration>) -> Vec<(Signal, Sender)> {
        let timeout = pause.map_or(PollTimeout::NONE, |pause| {
            PollTimeout::try_from(pause).unwrap_or(PollTimeout::MAX)
        });
        let _ = poll(
            &mut [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)],
            timeout,
        );
        let mut signals = Vec::new();
        while let Ok(Some(info)) = self.fd.read_signal() {
            let signal = i32::try_from(info.ssi_signo)
                .ok()
                .and_then(|number| Signal::try_from(number).ok());
            let signal = signal.filter(|signal| *signal != Signal::SIGCHLD);
            signals.extend(signal.map(|signal| (signal, Sender::from_pid(info.ssi_pid))));
        }
        signals
    }
}

/// True where `signal` waits in the process `pid`, which blocks it.
pub(super) fn is_pending(pid: i32, signal: Signal) -> bool {
    is_in_set(pid.unsigned_abs(), "ShdPnd:", signal)
}

/// True where a process has `signal` in one of its sets (`proc_pid_status(5)`): `ShdPnd:` waits, `SigCgt:` is handled.
pub(super) fn is_in_set(pid: u32, set: &str, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix(set));
    let bits = bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.unwrap_or(0) >> (signal as i32 - 1) & 1 == 1
}

/// Finds the second half of a signal that came two ways: to us as one of many processes, and from the batch shell, which
/// was one of these too and passes on what it gets.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    unpaired: BTreeMap<Signal, (Sender, Instant)>,
}

impl Echoes {
    /// For so long after the direct one the shell's copy may come: it runs its trap when it gets to run.
    const SHELL_PATIENCE: Duration = Duration::from_secs(2);
    /// For so long after the shell's copy the direct one may come: one process is signalled right after the other.
    const DIRECT_PATIENCE: Duration = Duration::from_millis(50);

    /// Says whether this one came the other way shortly before.
    pub(super) fn is_echo(&mut self, signal: Signal, sender: Sender, now: Instant) -> bool {
        let patience = match sender {
            Sender::Parent => Self::SHELL_PATIENCE,
            Sender::Everybody | Sender::Other => Self::DIRECT_PATIENCE,
        };
        let half = self.unpaired.remove(&signal);
        let other_way = |other: Sender| (other == Sender::Parent) != (sender == Sender::Parent);
        let paired = half.is_some_and(|(other, at)| {
            other_way(other) && now.saturating_duration_since(at) < patience
        });
        if !paired {
            self.unpaired.insert(signal, (sender, now));
        }
        paired
    }
}

/// Blocks in this process what a batch system sends to all processes of a job: the watcher ends by itself, after the
/// command.
pub(super) fn ignore_all() {
    let set: SigSet = FORWARDED.into_iter().chain([Signal::SIGPIPE]).collect();
    let _ = set.thread_block();
}

/// Drops the blocked signals that wait in this process.
pub(super) fn drop_pending() {
    let set: SigSet = FORWARDED.into_iter().collect();
    if let Ok(fd) = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK) {
        while let Ok(Some(_)) = fd.read_signal() {}
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::kill;
    use nix::sys::wait::waitpid;

    use super::*;
    use std::process::Stdio;

    use crate::foundation::command::spawn_companion;

    #[test]
    fn a_signal_that_comes_two_ways_counts_once() {
        use Sender::{Other, Parent};
        let mut echoes = Echoes::default();
        let start = Instant::now();
        let mut is_echo =
            |signal, sender, ms| echoes.is_echo(signal, sender, start + Duration::from_millis(ms));
        assert!(!is_echo(Signal::SIGUSR1, Other, 0));
        assert!(!is_echo(Signal::SIGTERM, Parent, 1), "another signal");
        assert!(is_echo(Signal::SIGUSR1, Parent, 2));
        assert!(
            !is_echo(Signal::SIGUSR1, Parent, 3),
            "the next one, to the batch shell alone"
        );
        assert!(!is_echo(Signal::SIGUSR1, Parent, 4), "and one more");
        assert!(is_echo(Signal::SIGUSR1, Other, 5), "the shell was quicker");
        assert!(!is_echo(Signal::SIGUSR1, Other, 6));
        assert!(!is_echo(Signal::SIGUSR1, Parent, 5_000), "long after");
        assert!(
            !is_echo(Signal::SIGUSR1, Other, 5_300),
            "the next one, to all"
        );
        assert!(
            is_echo(Signal::SIGUSR1, Parent, 5_900),
            "passed on by a shell that had to wait"
        );
    }

    #[test]
    fn a_blocked_signal_waits() {
        let signal = Signal::SIGUSR2;
        SigSet::from_iter([signal])
            .thread_block()
            .expect("it may be blocked");
        let nothing = fs::File::open("/dev/null")
            .expect("it is always there")
            .into();
        let child = spawn_companion(&["sleep".into(), "60".into()], nothing, Stdio::inherit());
        let pid = child.expect("sleep is there");
        assert!(!is_pending(pid.as_raw(), signal));
        kill(pid, signal).expect("it is ours");
        assert!(is_pending(pid.as_raw(), signal) && !is_pending(pid.as_raw(), Signal::SIGUSR1));
        kill(pid, Signal::SIGKILL).expect("it is ours");
        waitpid(pid, None).expect("it ends");
        SigSet::from_iter([signal])
            .thread_unblock()
            .expect("it may be unblocked");
    }
}
