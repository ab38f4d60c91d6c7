//! `dlrun check`: what is wrong with a job file, and what the scheduler would say.

use serde_json::json;

use crate::cli::args::JobFile;
use crate::cli::error::Error;
use crate::cli::load::{Against, Job};
use crate::cli::session::Session;
use crate::job::SchedulerKind;
use crate::scheduler::script;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &JobFile) -> Result<u8, Error> {
    let job = Job::load(session, args, Against::Site)?;
    let plan = &job.plan;
    for warning in &plan.warnings {
        session.output.warning(warning);
    }
    let verdict = match plan.scheduler {
        SchedulerKind::Slurm if !args.no_check => Some(session.slurm.test(plan, &script::render(plan))?),
        _ => None,
    };
    let environment_ready = job.python.as_ref().map(|python| python.ready);
    let value = json!({
        "job_file": plan.job_file,
        "scheduler": plan.scheduler,
        "scheduler_says": verdict,
        "python_environment_ready": environment_ready,
        "warnings": plan.warnings,
    });
    let mut text = format!("{} is valid; it would go to {}\n", args.file.display(), plan.scheduler.as_str());
    if let Some(verdict) = verdict {
        text.push_str(&format!("slurm says: {verdict}\n"));
    }
    if environment_ready == Some(false) {
        text.push_str("its Python environment is not made yet; `dlrun submit` makes it\n");
    }
    session.output.result("check", &value, &text)?;
    Ok(0)
}
