//! Whose failure it was: the runtime's, which started nothing, or the command's.
//!
//! A runtime that fails and a command that fails may end with the same code (255), and a command may print what looks like
//! the runtime's words. Proof that the command ran is its process: one behind the runtime that executes another file in
//! another mount namespace. That it never ran is inferred: it was not seen, the exit code is the runtime's, and the output
//! ends in a line of the runtime's form. A command that prints such a line, ends with 255 and lives shorter than the
//! pauses between two looks (5 ms) would be taken for a container that did not start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::image::runtime::StartFailure;
use crate::observe::monitor::runs_in_container;
use crate::record::ExitStatus;

/// How often it looks while a container usually starts: the shortest Python program lives longer than two of these pauses.
const QUICK: Duration = Duration::from_millis(5);
/// How often later: an image may take minutes to be unpacked.
const SLOW: Duration = Duration::from_millis(100);
const QUICK_FOR: Duration = Duration::from_secs(3);

/// Gathers the evidence.
#[derive(Debug)]
pub(crate) struct Judge {
    /// The command was seen in its container.
    was_seen: Arc<AtomicBool>,
    start_failure: StartFailure,
}

impl Judge {
    /// `runtime` is the process that was started: the container's runtime, which starts the command.
    pub(crate) fn new(runtime: u32) -> Self {
        let was_seen = Arc::new(AtomicBool::new(false));
        let wanted = Arc::downgrade(&was_seen);
        let begun = Instant::now();
        // Until the command is seen, the runtime has ended, or nobody wants to know any more.
        std::thread::spawn(move || {
            while let Some(was_seen) = wanted.upgrade() {
                match runs_in_container(runtime) {
                    Some(true) => return was_seen.store(true, Ordering::Relaxed),
                    Some(false) => {}
                    None => return,
                }
                drop(was_seen);
                let is_quick = begun.elapsed() < QUICK_FOR;
                std::thread::sleep(if is_quick { QUICK } else { SLOW });
            }
        });
        Self {
            was_seen,
            start_failure: StartFailure::default(),
        }
    }

    /// Takes in what was written to the output.
    pub(crate) fn hear(&mut self, bytes: &[u8]) {
        self.start_failure.feed(bytes);
    }

    /// Why the container did not start, where it did not.
    pub(crate) fn failure(&mut self, exit: ExitStatus) -> Option<String> {
        let ExitStatus::Code(code) = exit else {
            return None;
        };
        self.start_failure
            .after_exit(code)
            .filter(|_| !self.was_seen.load(Ordering::Relaxed))
    }
}
