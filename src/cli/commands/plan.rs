//! `dlrun plan`: what will happen and why.

use serde_json::json;

use crate::app::error::Error;
use crate::app::job::load::{Against, Job};
use crate::app::job::submit::submit_command;
use crate::app::session::Session;
use crate::cli::args::JobFile;
use crate::plan::{HIDDEN, Plan, describe, is_secret};

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &JobFile) -> Result<u8, Error> {
    let job = Job::load(session, &args.request(), Against::Site)?;
    let (argv, shown) = submit_command(session, &job)?;
    let site = job
        .site
        .as_ref()
        .map(|site| format!("  site: {}\n", site.shown()))
        .unwrap_or_default();
    let text = format!(
        "{}{site}  submit by: {}\n",
        describe(&job.plan, session.output.columns()),
        shown
    );
    let value = json!({
        "plan": without_secrets(&job.plan),
        "warnings": job.plan.warnings,
        "notes": job.plan.notes,
        "images": job.plan.candidates,
        "candidates": job.plan.ways,
        "site": job.site_json(),
        "python_environment_ready": job.python.as_ref().map(|python| python.ready),
        "submit_command": argv,
    });
    session.answer(&value, &text)
}

/// The plan with what looks like a secret hidden.
fn without_secrets(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    for variable in plan.env.iter_mut().filter(|variable| is_secret(variable)) {
        HIDDEN.clone_into(&mut variable.value);
    }
    plan
}
