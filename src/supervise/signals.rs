//! Signals as events: blocked, then read from a descriptor.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Signals that the supervisor passes on to the command.
const FORWARDED: [Signal; 7] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGCONT,
    Signal::SIGQUIT,
];

/// What arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// A child ended (or the time is over).
    Look,
    /// This signal may be the command's business.
    Signal {
        /// Which one.
        signal: Signal,
        /// Sent by Slurm itself, not by the batch shell or a user.
        by_slurm: bool,
    },
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
        set.thread_block()?;
        Ok(Self { fd: SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)? })
    }

    /// Waits for the next events, `pause` at most; for ever where it is `None`.
    pub(super) fn wait(&mut self, pause: Option<Duration>) -> Vec<Event> {
        let timeout =
            pause.map_or(PollTimeout::NONE, |pause| PollTimeout::try_from(pause).unwrap_or(PollTimeout::MAX));
        let _ = poll(&mut [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)], timeout);
        let mut events = Vec::new();
        while let Ok(Some(info)) = self.fd.read_signal() {
            let signal = i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
            match signal {
                Some(Signal::SIGCHLD) | None => events.push(Event::Look),
                Some(signal) => {
                    let by_slurm = name_of(info.ssi_pid).as_deref() == Some("slurmstepd");
                    events.push(Event::Signal { signal, by_slurm });
                }
            }
        }
        events
    }
}

fn name_of(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|name| name.trim_end().to_owned())
}

/// True where Slurm started this process itself, as a task of `srun`: no batch shell stands between.
pub(super) fn is_task() -> bool {
    name_of(std::os::unix::process::parent_id()).as_deref() == Some("slurmstepd")
}

/// True where `signal` waits in the process `pid`, which blocks it (`proc_pid_status(5)`).
pub(super) fn is_pending(pid: i32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
    let bits = set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    bits >> (signal as i32 - 1) & 1 == 1
}

/// Finds the second half of a signal that came two ways: Slurm signals the group of the batch shell, to which we belong,
/// and the shell passes on what it gets.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    unpaired: BTreeMap<Signal, (bool, Instant)>,
}

impl Echoes {
    /// For so long after Slurm the shell's copy may come: it runs its trap when it gets to run.
    const SHELL_PATIENCE: Duration = Duration::from_secs(2);
    /// For so long after the shell's copy Slurm's may come: Slurm signals one process right after the other.
    const SLURM_PATIENCE: Duration = Duration::from_millis(50);

    /// Says whether this one was heard the other way shortly before.
    pub(super) fn is_echo(&mut self, signal: Signal, by_slurm: bool, now: Instant) -> bool {
        let patience = if by_slurm { Self::SLURM_PATIENCE } else { Self::SHELL_PATIENCE };
        let half = self.unpaired.remove(&signal);
        let paired =
            half.is_some_and(|(way, at)| way != by_slurm && now.saturating_duration_since(at) < patience);
        if !paired {
            self.unpaired.insert(signal, (by_slurm, now));
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

#[cfg(test)]
mod tests {
    use nix::sys::signal::kill;
    use nix::sys::wait::waitpid;

    use super::*;
    use crate::command::{Destination, spawn_companion};

    #[test]
    fn a_signal_that_comes_two_ways_counts_once() {
        let mut echoes = Echoes::default();
        let start = Instant::now();
        let mut is_echo =
            |signal, by_slurm, ms| echoes.is_echo(signal, by_slurm, start + Duration::from_millis(ms));
        assert!(!is_echo(Signal::SIGUSR1, true, 0));
        assert!(!is_echo(Signal::SIGTERM, false, 1), "another signal");
        assert!(is_echo(Signal::SIGUSR1, false, 2));
        assert!(!is_echo(Signal::SIGUSR1, false, 3), "the next one, to the batch shell alone");
        assert!(!is_echo(Signal::SIGUSR1, false, 4), "and one more");
        assert!(is_echo(Signal::SIGUSR1, true, 5), "the shell was quicker than Slurm");
        assert!(!is_echo(Signal::SIGUSR1, true, 6));
        assert!(!is_echo(Signal::SIGUSR1, false, 5_000), "long after");
        assert!(!is_echo(Signal::SIGUSR1, true, 5_300), "the next one, to all");
        assert!(is_echo(Signal::SIGUSR1, false, 5_900), "passed on by a shell that had to wait");
    }

    #[test]
    fn a_blocked_signal_waits() {
        let signal = Signal::SIGUSR2;
        SigSet::from_iter([signal]).thread_block().expect("it may be blocked");
        let nothing = fs::File::open("/dev/null").expect("it is always there").into();
        let child = spawn_companion(&["sleep".into(), "60".into()], nothing, Destination::Inherit);
        let pid = child.expect("sleep is there");
        assert!(!is_pending(pid.as_raw(), signal));
        kill(pid, signal).expect("it is ours");
        assert!(is_pending(pid.as_raw(), signal) && !is_pending(pid.as_raw(), Signal::SIGUSR1));
        kill(pid, Signal::SIGKILL).expect("it is ours");
        waitpid(pid, None).expect("it ends");
        SigSet::from_iter([signal]).thread_unblock().expect("it may be unblocked");
    }
}
