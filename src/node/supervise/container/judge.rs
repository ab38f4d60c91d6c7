//! Whose failure it was: the runtime's, which started nothing, or the command's.
//!
//! A runtime that fails and a command that fails may end with the same code (255), and a command may print what looks like
//! the runtime's words. Proof that the command ran is its process: one behind the runtime that executes another file in
//! another mount namespace. That it never ran is inferred: it was not seen, the exit code is the runtime's, and the output
//! ends in a line of the runtime's form. A command that prints such a line, ends with 255 and lives shorter than the
//! pauses between two looks (5 ms) would be taken for a container that did not start.

use super::started::Started;
use crate::image::runtime::StartFailure;
use crate::record::ExitStatus;

/// Gathers the evidence.
#[derive(Debug)]
pub(crate) struct Judge {
    started: Started,
    start_failure: StartFailure,
}

impl Judge {
    /// `runtime` is the process that was started.
    pub(crate) fn of(runtime: u32) -> Self {
        Self {
            started: Started::watch(runtime),
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
            .filter(|_| !self.started.was_seen())
    }
}
