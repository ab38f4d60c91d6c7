//! Ctrl-C while a command waits for runs: they continue, and the user must know. While it makes an image: what is
//! half made must go away.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc::c_int;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

static CAME: AtomicBool = AtomicBool::new(false);

/// Ctrl-C as something to be asked for instead of an end.
pub(crate) struct Interrupt;

extern "C" fn note(_signal: c_int) {
    CAME.store(true, Ordering::Relaxed);
}

impl Interrupt {
    /// Takes SIGINT over, for the rest of the command. A handler, since the signal may be handed to any thread, also to one
    /// that was there before: to block it in this one would not be enough.
    pub(crate) fn take() -> Self {
        let action = SigAction::new(
            SigHandler::Handler(note),
            SaFlags::SA_RESTART,
            SigSet::empty(),
        );
        // SAFETY: the handler only stores to an atomic, which is async-signal-safe (`signal-safety(7)`).
        let _ = unsafe { sigaction(Signal::SIGINT, &action) };
        Self
    }

    /// Takes SIGTERM and SIGHUP (a lost connection) over too: for what must clear up before it ends.
    pub(crate) fn take_all() -> Self {
        let action = SigAction::new(
            SigHandler::Handler(note),
            SaFlags::SA_RESTART,
            SigSet::empty(),
        );
        for signal in [Signal::SIGTERM, Signal::SIGHUP] {
            // SAFETY: as above.
            let before = unsafe { sigaction(signal, &action) };
            // `nohup` ignores it, and then it must not end anything.
            if let Ok(before) = before.as_ref()
                && matches!(before.handler(), SigHandler::SigIgn)
            {
                // SAFETY: it is the disposition that was there.
                let _ = unsafe { sigaction(signal, before) };
            }
        }
        Self::take()
    }

    /// Says whether it came, also when asked again.
    pub(crate) fn is_here(&self) -> bool {
        Self::has_come()
    }

    /// The same, where it may not have been taken over: then it ends the process and never comes here.
    pub(crate) fn has_come() -> bool {
        CAME.load(Ordering::Relaxed)
    }

    /// Says whether it came.
    pub(crate) fn came(&self) -> bool {
        CAME.swap(false, Ordering::Relaxed)
    }
}
