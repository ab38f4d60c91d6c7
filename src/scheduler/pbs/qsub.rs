//! `qsub` of either PBS: what it is run with, and what its answer means.

use super::ids;
use crate::foundation::command::{CommandError, Output, Tool};
use crate::job::JobId;
use crate::scheduler::SchedulerError;

/// What names the server and the installation to PBS's commands, and is no part of a job.
const KEPT_VARIABLES: [&str; 4] = ["PBS_CONF_FILE", "PBS_SERVER", "PBS_DEFAULT", "PBS_EXEC"];

/// Takes away what a job around us has set: submitting from inside a job, its shape must not leak into the new one.
pub(in crate::scheduler) fn outside_of_jobs(tool: Tool) -> Tool {
    let tool = tool
        .keep_locale()
        .env_remove_prefixes(&["PBS_", "SLURM_", "DLRUN_"]);
    let kept = KEPT_VARIABLES
        .iter()
        .filter_map(|name| Some((name, std::env::var_os(name)?)));
    kept.fold(tool, |tool, (name, value)| tool.env(name, value))
}

/// Words of a server that takes no jobs at the moment (`pbs_error_db.h` of Torque 6.1.3, `pbs_messages.c` of OpenPBS 23.06).
const BUSY: [&str; 4] = [
    "Too many open connections",
    "Resource temporarily unavailable",
    "currently too busy to service this request",
    "Possible transient failure",
];

/// Reads what came of a `qsub`. `no_contact` tells a server that was not reached, `no_answer` one that was reached and
/// may have taken the job without saying so.
pub(in crate::scheduler) fn read_answer(
    scheduler: &'static str,
    ran: Result<Output, CommandError>,
    no_contact: impl Fn(&Output) -> bool,
    no_answer: impl Fn(&Output) -> bool,
) -> Result<JobId, SchedulerError> {
    let output = match ran {
        Ok(output) => output,
        Err(
            source @ (CommandError::TimedOut { .. }
            | CommandError::TooMuchOutput { .. }
            | CommandError::Follow { .. }),
        ) => {
            return Err(SchedulerError::Unclear {
                scheduler,
                source: Box::new(source),
            });
        }
        Err(source) => return Err(SchedulerError::Unreachable { scheduler, source }),
    };
    let (no_contact, no_answer) = (
        no_contact(&output),
        no_answer(&output) || output.status.code().is_none(),
    );
    let is_busy = BUSY.iter().any(|words| output.stderr.contains(words));
    // Sites' filters print greetings: the id is the last line that looks like one.
    let id = output
        .stdout
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| ids::is_id(line))
        .map(str::to_owned);
    let said: String = output.stdout.chars().take(200).collect();
    match output.require_success("qsub") {
        Err(source) if no_contact => Err(SchedulerError::Unreachable { scheduler, source }),
        Err(source) if no_answer => Err(SchedulerError::Unclear {
            scheduler,
            source: Box::new(source),
        }),
        Err(source) if is_busy => Err(SchedulerError::Busy { scheduler, source }),
        Err(source) => Err(SchedulerError::Refused { scheduler, source }),
        Ok(_) => id.map(JobId).ok_or_else(|| {
            let text = format!("`qsub` exited with status 0, but printed no job id: {said:?}");
            SchedulerError::Unclear {
                scheduler,
                source: text.into(),
            }
        }),
    }
}
