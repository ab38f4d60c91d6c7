//! Ctrl-C while a command waits for runs: they continue, and the user must know. While it makes an image: what is
//! half made must go away.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc::c_int;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

static CAME: AtomicBool = AtomicBool::new(false);
static JOB_ENDS: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: c_int) {
    CAME.store(true, Ordering::Relaxed);
}

extern "C" fn note_end_of_job(_signal: c_int) {
    JOB_ENDS.store(true, Ordering::Relaxed);
}

/// Takes over the signals by which the job ends in which this process runs: SIGTERM, SIGHUP, SIGUSR1, which comes before the time
/// limit, and SIGINT.
pub(crate) fn take_end_of_job() {
    for signal in [Signal::SIGTERM, Signal::SIGUSR1] {
        let _ = take_over(signal, note_end_of_job);
    }
    take_unless_ignored(&[Signal::SIGINT, Signal::SIGHUP], note_end_of_job);
}

/// Says whether the job is about to end.
pub(crate) fn job_ends() -> bool {
    JOB_ENDS.load(Ordering::Relaxed)
}

/// Takes SIGINT over, for the rest of the command. A handler, since the signal may be handed to any thread, also to one
/// that was there before: to block it in this one would not be enough.
pub(crate) fn take() {
    let _ = take_over(Signal::SIGINT, note);
}

/// Takes SIGTERM and SIGHUP (a lost connection) over too: for what must clear up before it ends.
pub(crate) fn take_all() {
    take_unless_ignored(&[Signal::SIGTERM, Signal::SIGHUP], note);
    take();
}

/// `nohup` ignores one, and then it must not end anything.
fn take_unless_ignored(signals: &[Signal], handler: extern "C" fn(c_int)) {
    for signal in signals {
        let before = take_over(*signal, handler);
        if let Some(before) = before.filter(|before| matches!(before.handler(), SigHandler::SigIgn))
        {
            // SAFETY: it is the disposition that was there.
            let _ = unsafe { sigaction(*signal, &before) };
        }
    }
}

fn take_over(signal: Signal, handler: extern "C" fn(c_int)) -> Option<SigAction> {
    let handler = SigHandler::Handler(handler);
    let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: each handler only stores to an atomic, which is async-signal-safe (`signal-safety(7)`).
    unsafe { sigaction(signal, &action) }.ok()
}

/// Says whether it came, also when asked again. Where it was not taken over, it ends the process.
pub(crate) fn has_come() -> bool {
    CAME.load(Ordering::Relaxed)
}

/// Says whether it came, once.
pub(crate) fn came() -> bool {
    CAME.swap(false, Ordering::Relaxed)
}
