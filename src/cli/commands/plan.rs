//! `dlrun plan`: what will happen and why.

use serde::Serialize;

use crate::app::error::Error;
use crate::app::job::load::{Against, Job, SiteAsked};
use crate::app::job::submit::submit_command;
use crate::app::output::terminal_columns;
use crate::app::session::Session;
use crate::cli::args::JobFile;
use crate::plan::{Candidate, HIDDEN, ImageCandidate, Plan, describe, is_secret};

/// What will happen.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Planned<'a> {
    plan: Plan,
    warnings: &'a [String],
    notes: &'a [String],
    images: &'a [ImageCandidate],
    candidates: &'a [Candidate],
    site: Option<SiteAsked<'a>>,
    python_environment_ready: Option<bool>,
    submit_command: Vec<String>,
}

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
        describe(&job.plan, terminal_columns().map_or(100, usize::from)),
        shown
    );
    let answer = Planned {
        plan: without_secrets(&job.plan),
        warnings: &job.plan.warnings,
        notes: &job.plan.notes,
        images: &job.plan.candidates,
        candidates: &job.plan.ways,
        site: job.site_asked(),
        python_environment_ready: job.python.as_ref().map(|python| python.ready),
        submit_command: argv,
    };
    session.answer(&answer, &text)
}

/// The plan with what looks like a secret hidden.
fn without_secrets(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    for variable in plan.env.iter_mut().filter(|variable| is_secret(variable)) {
        HIDDEN.clone_into(&mut variable.value);
    }
    plan
}
