//! Signals as events: blocked, then read from a descriptor.

use std::fs;
use std::os::fd::AsFd;
use std::time::Duration;

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
    /// This signal is to be passed on.
    Forward(Signal),
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
                Some(signal) if came_to_all(info.ssi_pid) => {
                    tracing::debug!(%signal, "the whole step has it already")
                }
                Some(signal) => events.push(Event::Forward(signal)),
            }
        }
        events
    }
}

/// `slurmstepd` signals every process of a step by itself: the command has the signal already, and a second SIGUSR1
/// would be a second checkpoint.
fn came_to_all(sender: u32) -> bool {
    fs::read_to_string(format!("/proc/{sender}/comm")).is_ok_and(|name| name.trim_end() == "slurmstepd")
}

/// Blocks in this process what a batch system sends to all processes of a job: the watcher ends by itself, after the
/// command.
pub(super) fn ignore_all() {
    let set: SigSet = FORWARDED.into_iter().chain([Signal::SIGPIPE]).collect();
    let _ = set.thread_block();
}
