//! What a scheduler's commands say where they do nothing, and what came of a submission.

use super::SchedulerError;
use crate::foundation::command::{CommandError, Output};
use crate::job::JobId;

/// Words on standard error by which a scheduler's commands say why they did nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Words {
    /// Its name in settings.
    pub(super) scheduler: &'static str,
    /// They never reached the controller or server.
    pub(super) unreachable: &'static [&'static str],
    /// It was reached, and its answer was not.
    pub(super) unanswered: &'static [&'static str],
    /// It takes no jobs at the moment.
    pub(super) busy: &'static [&'static str],
}

fn says(output: &Output, any: &[&str]) -> bool {
    !output.status.success() && any.iter().any(|words| output.stderr.contains(words))
}

impl Words {
    /// Whether it was reached, and may have done what it was asked without saying so.
    pub(super) fn is_unanswered(&self, output: &Output) -> bool {
        says(output, self.unanswered)
    }

    /// Whether an answer is missing although the server was reached: `cannot connect .. timed out` says that it was not.
    fn may_have_arrived(&self, output: &Output) -> bool {
        let holds = |line: &str, any: &[&str]| any.iter().any(|words| line.contains(words));
        let mut lines = output.stderr.lines();
        !output.status.success()
            && lines.any(|line| holds(line, self.unanswered) && !holds(line, self.unreachable))
    }

    /// Whether there is no answer, for whatever reason.
    pub(super) fn is_silent(&self, output: &Output) -> bool {
        self.is_unanswered(output) || says(output, self.unreachable)
    }

    fn unclear(
        &self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> SchedulerError {
        SchedulerError::Unclear {
            scheduler: self.scheduler,
            source: source.into(),
        }
    }

    /// The output of a command that `submits` a job, or only tests whether it would be taken. Where it submits, one that was
    /// reached and did not answer may have taken the job, and so may one whose command was killed while it waited.
    pub(super) fn taken(
        &self,
        program: &str,
        ran: Result<Output, CommandError>,
        submits: bool,
    ) -> Result<Output, SchedulerError> {
        let scheduler = self.scheduler;
        let output = ran.map_err(|source| match source {
            CommandError::TimedOut { .. }
            | CommandError::TooMuchOutput { .. }
            | CommandError::Follow { .. }
                if submits =>
            {
                self.unclear(source)
            }
            source => SchedulerError::Unreachable { scheduler, source },
        })?;
        let no_answer = self.may_have_arrived(&output) || output.status.code().is_none();
        let (is_silent, is_busy) = (self.is_silent(&output), says(&output, self.busy));
        output.require_success(program).map_err(|source| {
            if no_answer && submits {
                self.unclear(source)
            } else if no_answer || is_silent {
                SchedulerError::Unreachable { scheduler, source }
            } else if is_busy {
                SchedulerError::Busy { scheduler, source }
            } else {
                SchedulerError::Refused { scheduler, source }
            }
        })
    }

    /// The id of the job that a command submitted. Sites' filters print greetings: it is the last line of which `id_in` finds one.
    pub(super) fn job_id(
        &self,
        program: &str,
        ran: Result<Output, CommandError>,
        id_in: impl Fn(&str) -> Option<&str>,
    ) -> Result<JobId, SchedulerError> {
        let output = self.taken(program, ran, true)?;
        let mut lines = output.stdout.lines().rev().map(str::trim);
        let id = lines.find_map(|line| id_in(line).map(str::to_owned));
        id.map(JobId).ok_or_else(|| {
            let printed: String = output.stdout.chars().take(200).collect();
            self.unclear(format!(
                "`{program}` exited with status 0, but printed no job id: {printed:?}"
            ))
        })
    }
}
