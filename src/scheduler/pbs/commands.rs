//! The commands of a PBS as this process reaches them, and what their failures mean.

use std::path::PathBuf;
use std::time::Duration;

use super::{ids, qsub};
use crate::foundation::command::{CommandError, Output, Tool};
use crate::job::JobId;
use crate::scheduler::SchedulerError;
use crate::scheduler::retry::patiently;

/// The commands of one PBS.
#[derive(Debug, Clone)]
pub(in crate::scheduler) struct Commands {
    /// Its name in settings.
    pub(in crate::scheduler) scheduler: &'static str,
    /// Words by which they say that they never reached the server.
    pub(in crate::scheduler) unreachable: &'static [&'static str],
    /// Words by which they say that it was reached and its answer was not.
    pub(in crate::scheduler) unanswered: &'static [&'static str],
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

    fn is_unreachable(&self, output: &Output) -> bool {
        says(output, self.unreachable)
    }

    fn is_unanswered(&self, output: &Output) -> bool {
        says(output, self.unanswered)
    }

    fn failed(&self, what: &str, source: CommandError) -> SchedulerError {
        SchedulerError::of_question(self.scheduler, what.to_owned(), source)
    }

    /// What a command printed; it is asked again where the server gives no answer.
    pub(in crate::scheduler) fn ask(
        &self,
        tool: &Tool,
        what: &str,
    ) -> Result<Output, SchedulerError> {
        let busy =
            |ran: &Result<Output, _>| ran.as_ref().is_ok_and(|output| self.is_unanswered(output));
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
        let no_contact = self.is_unreachable(&output) || self.is_unanswered(&output);
        let code = output.status.code();
        if !no_contact && code.is_some_and(|code| codes.contains(&code)) {
            return Ok(output);
        }
        let scheduler = self.scheduler;
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

    /// Reads what came of a `qsub`. A server that was reached and did not answer may have taken the job.
    pub(in crate::scheduler) fn submitted(
        &self,
        ran: Result<Output, CommandError>,
    ) -> Result<JobId, SchedulerError> {
        let scheduler = self.scheduler;
        let unclear = |source: Box<dyn std::error::Error + Send + Sync>| SchedulerError::Unclear {
            scheduler,
            source,
        };
        let output = ran.map_err(|source| match source {
            CommandError::TimedOut { .. }
            | CommandError::TooMuchOutput { .. }
            | CommandError::Follow { .. } => unclear(Box::new(source)),
            source => SchedulerError::Unreachable { scheduler, source },
        })?;
        let no_contact = self.is_unreachable(&output);
        let no_answer = self.is_unanswered(&output) || output.status.code().is_none();
        let is_busy = qsub::BUSY.iter().any(|words| output.stderr.contains(words));
        // Sites' filters print greetings: the id is the last line that looks like one.
        let mut lines = output.stdout.lines().rev().map(str::trim);
        let id = lines.find(|line| ids::is_id(line)).map(str::to_owned);
        let said: String = output.stdout.chars().take(200).collect();
        match output.require_success("qsub") {
            Err(source) if no_contact => Err(SchedulerError::Unreachable { scheduler, source }),
            Err(source) if no_answer => Err(unclear(Box::new(source))),
            Err(source) if is_busy => Err(SchedulerError::Busy { scheduler, source }),
            Err(source) => Err(SchedulerError::Refused { scheduler, source }),
            Ok(_) => id.map(JobId).ok_or_else(|| {
                unclear(
                    format!("`qsub` exited with status 0, but printed no job id: {said:?}").into(),
                )
            }),
        }
    }
}

fn says(output: &Output, any: &[&str]) -> bool {
    !output.status.success() && any.iter().any(|words| output.stderr.contains(words))
}
