//! The commands of a scheduler as this process reaches them, what their failures mean, and what came of a submission.

use std::path::PathBuf;
use std::time::Duration;

use super::SchedulerError;
use super::retry::patiently;
use crate::foundation::command::{CommandError, Output, Tool};
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

/// The commands of one scheduler.
#[derive(Debug, Clone)]
pub(super) struct Commands {
    /// What they say where they do nothing.
    pub(super) words: Words,
    /// Where they are looked for, before `PATH`.
    pub(super) bin_dirs: Vec<PathBuf>,
    /// How long each may take.
    pub(super) timeout: Duration,
    /// Pins what the form of their answers depends on.
    pub(super) pinned: fn(Tool) -> Tool,
}

impl Commands {
    /// A command that asks, in an environment in which its answer has the form that is read here.
    pub(super) fn tool(&self, program: &str) -> Tool {
        (self.pinned)(self.found(program))
    }

    /// A command that submits. It may hand its environment to the job, so nothing of ours is put into it. Submitting from
    /// inside a job, its shape must not leak into the new one: of a job's variables those `kept` stay, which name the
    /// cluster and the user.
    pub(super) fn submitting(&self, program: &str, kept: &[&str]) -> Tool {
        let tool = self
            .found(program)
            .keep_locale()
            .env_remove_prefixes(&["PBS_", "SLURM_", "DLRUN_"]);
        let kept = kept
            .iter()
            .filter_map(|name| Some((name, std::env::var_os(name)?)));
        kept.fold(tool, |tool, (name, value)| tool.env(name, value))
    }

    fn found(&self, program: &str) -> Tool {
        Tool::new(program)
            .in_dirs(&self.bin_dirs)
            .timeout(self.timeout)
    }

    /// The error of a question or a cancellation that a command did not do.
    pub(super) fn failed(&self, what: &str, source: CommandError) -> SchedulerError {
        SchedulerError::from_question(self.words.scheduler, what.to_owned(), source)
    }

    /// What a command printed; it is asked again where the server gives no answer.
    pub(super) fn ask(&self, tool: &Tool, what: &str) -> Result<Output, SchedulerError> {
        let busy = |ran: &Result<Output, _>| {
            ran.as_ref()
                .is_ok_and(|output| self.words.is_unanswered(output))
        };
        patiently(|| tool.run(), busy).map_err(|source| self.failed(what, source))
    }

    /// What a command that asks prints, where that is an answer: see [`Commands::answer`].
    pub(super) fn printed(
        &self,
        program: &str,
        arguments: &[&str],
        codes: &[i32],
        what: &str,
    ) -> Result<String, SchedulerError> {
        let output = self.ask(&self.tool(program).args(arguments), what)?;
        let answer = self.answer(program, output, codes, what);
        answer.map(|output| output.stdout)
    }

    /// The output, where it is an answer: a success, or one of these exit codes.
    pub(super) fn answer(
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
}
