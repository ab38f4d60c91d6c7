//! `qsub` of either PBS: what it is run with, and words of its answer.

use crate::foundation::command::Tool;

/// What names the server and the installation to PBS's commands, and is no part of a job.
const KEPT_VARIABLES: [&str; 4] = ["PBS_CONF_FILE", "PBS_SERVER", "PBS_DEFAULT", "PBS_EXEC"];

/// Takes away what a job around us has set: submitting from inside a job, its shape must not leak into the new one.
pub(super) fn outside_of_jobs(tool: Tool) -> Tool {
    let tool = tool
        .keep_locale()
        .env_remove_prefixes(&["PBS_", "SLURM_", "DLRUN_"]);
    let kept = KEPT_VARIABLES
        .iter()
        .filter_map(|name| Some((name, std::env::var_os(name)?)));
    kept.fold(tool, |tool, (name, value)| tool.env(name, value))
}

/// Words of a server that takes no jobs at the moment (`pbs_error_db.h` of Torque 6.1.3, `pbs_messages.c` of OpenPBS 23.06).
pub(super) const BUSY: [&str; 4] = [
    "Too many open connections",
    "Resource temporarily unavailable",
    "currently too busy to service this request",
    "Possible transient failure",
];
