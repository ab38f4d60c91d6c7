//! This program and what it calls: the scheduler's commands, Python; and where this process stands.

use std::path::Path;
use std::time::Duration;

use super::{Finding, Level};
use crate::cli::error::Error;
use crate::cli::session::Session;
use crate::command::Tool;
use crate::diagnostic::chain;
use crate::job::SchedulerKind;
use crate::monitor::cgroup;
use crate::pyenv;

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn version() -> Finding {
    let place = std::env::current_exe().map(|path| format!(", {}", path.display())).unwrap_or_default();
    Finding::ok("dlrun", format!("{}{place}", env!("CARGO_PKG_VERSION")))
}

/// Slurm's commands; without them, and where Slurm was not asked for, jobs run on this machine.
pub(super) fn scheduler(session: &Session) -> Finding {
    const CHECK: &str = "scheduler";
    let Some(sbatch) = session.slurm.sbatch() else {
        return match session.settings.scheduler() {
            SchedulerKind::Slurm => Finding::problem(
                CHECK,
                "the setting `scheduler.kind` is slurm, and there is no `sbatch`",
                "load Slurm's module, or name its directory with the setting `slurm.bin_dir`",
            ),
            _ => Finding::ok(CHECK, "no `sbatch`, so jobs run on this machine"),
        };
    };
    let said = Tool::new(&sbatch).arg("--version").timeout(PATIENCE).run();
    match said.and_then(|output| output.require_success("sbatch")) {
        Ok(output) => Finding::ok(CHECK, format!("{}, {}", output.stdout.trim(), sbatch.display())),
        Err(error) => Finding::warning(
            CHECK,
            format!("{} does not work: {}", sbatch.display(), chain(&error).join(": ")),
            "`--scheduler local` runs a job on this machine",
        ),
    }
}

/// The interpreter that environments are made with.
pub(super) fn python(asked: Option<&Path>) -> Finding {
    const CHECK: &str = "python";
    match pyenv::interpreter(asked) {
        Ok((path, version)) => Finding::ok(CHECK, format!("{version}, {}", path.display())),
        // A job without `[python]` needs none, so it is a problem only where the site or the user named one.
        Err(error) => {
            let level = if asked.is_some() { Level::Problem } else { Level::Warning };
            Finding::failure(level, CHECK, &Error::from(error))
        }
    }
}

/// The job in whose cgroup this process runs: inside a job this is what is measured.
pub(super) fn cgroup() -> Finding {
    const CHECK: &str = "cgroup";
    match cgroup::locate(std::process::id()) {
        Ok(None) => Finding::ok(CHECK, "this process is in the cgroup of no job"),
        Ok(Some(job)) => {
            let id = job.job_id.map(|id| format!(" of job {id}")).unwrap_or_default();
            Finding::ok(CHECK, format!("that{id}, {}", job.path))
        }
        Err(error) => Finding::warning(
            CHECK,
            chain(&error).join(": "),
            "runs are measured process by process, which misses those that end quickly",
        ),
    }
}
