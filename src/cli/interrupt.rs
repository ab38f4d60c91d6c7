//! Ctrl-C while a command waits for runs: they go on, and the user must be told so.

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Ctrl-C as something to be asked for instead of an end.
pub(crate) struct Interrupt(Option<SignalFd>);

impl Interrupt {
    /// Takes SIGINT over, for the rest of the command.
    pub(crate) fn take() -> Self {
        let set = SigSet::from_iter([Signal::SIGINT]);
        let taken = set
            .thread_block()
            .and_then(|()| SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK));
        Self(taken.ok())
    }

    /// Says whether it came.
    pub(crate) fn came(&self) -> bool {
        self.0.as_ref().is_some_and(|fd| matches!(fd.read_signal(), Ok(Some(_))))
    }
}
