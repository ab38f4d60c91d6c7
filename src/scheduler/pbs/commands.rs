//! The commands of a PBS as this process reaches them, and what their failures mean.

use std::path::PathBuf;
use std::time::Duration;

use super::qsub;
use crate::foundation::command::{CommandError, Output, Tool};
use crate::scheduler::SchedulerError;
use crate::scheduler::complaint::Words;
use crate::scheduler::retry::patiently;

/// The commands of one PBS.
#[derive(Debug, Clone)]
pub(in crate::scheduler) struct Commands {
    /// What they say where they do nothing.
    pub(in crate::scheduler) words: Words,
    /// Where they are looked for, before `PATH`.
    pub(in crate::scheduler) bin_dirs: Vec<PathBuf>,
    /// How long each may take.
    pub(in crate::scheduler) timeout: Duration,
}

impl Commands {
    /// A command that asks. `qstat` writes times in the zone of its environment, so that is pinned.
    pub(in crate::scheduler) fn tool(&self, program: &str) -> Tool {
        self.found(program).env("TZ", "UTC0")
    }

    /// `qsub`. It may hand its environment to the job, so nothing of ours is put into it, and nothing of a job around us.
    pub(in crate::scheduler) fn qsub(&self) -> Tool {
        qsub::outside_of_jobs(self.found("qsub"))
    }

    fn found(&self, program: &str) -> Tool {
        Tool::new(program)
            .in_dirs(&self.bin_dirs)
            .timeout(self.timeout)
    }

    fn failed(&self, what: &str, source: CommandError) -> SchedulerError {
        SchedulerError::from_question(self.words.scheduler, what.to_owned(), source)
    }

    /// What a command printed; it is asked again where the server gives no answer.
    pub(in crate::scheduler) fn ask(
        &self,
        tool: &Tool,
        what: &str,
    ) -> Result<Output, SchedulerError> {
        let busy = |ran: &Result<Output, _>| {
            ran.as_ref()
                .is_ok_and(|output| self.words.is_unanswered(output))
        };
        patiently(|| tool.run(), busy).map_err(|source| self.failed(what, source))
    }

    /// The output, where it is an answer: a success, or one of these exit codes.
    pub(in crate::scheduler) fn answer(
        &self,
        program: &str,
        output: Output,
        codes: &[i32],
        what: &str,
    ) -> Result<Output, SchedulerError> {
        let no_contact = self.words.is_silent(&output);
        let code = output.status.code();
        if !no_contact && code.is_some_and(|code| codes.contains(&code)) {
            return Ok(output);
        }
        let scheduler = self.words.scheduler;
        output
            .require_success(program)
            .map_err(|source| match no_contact {
                true => SchedulerError::Unreachable { scheduler, source },
                false => self.failed(what, source),
            })
    }

    /// Runs a `qdel`. A job that is `gone`, by the exit codes for it, is what was asked for.
    pub(in crate::scheduler) fn delete(
        &self,
        id: &str,
        tool: &Tool,
        gone: &[i32],
    ) -> Result<(), SchedulerError> {
        let what = format!("cancel job {id}");
        let output = tool.run().map_err(|source| self.failed(&what, source))?;
        self.answer("qdel", output, gone, &what).map(drop)
    }
}
