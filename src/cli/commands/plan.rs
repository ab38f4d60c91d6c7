//! `dlrun plan`: what will happen and why.

use serde::Serialize;

use crate::app::error::Error;
use crate::app::job::load::{Against, Job, SiteAsked};
use crate::app::job::submit::submit_command;
use crate::app::output::terminal_columns;
use crate::app::session::Session;
use crate::cli::args::JobFile;
use crate::foundation::units::counted;
use crate::launch::{PlannedProcess, planned_processes};
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
    /// The processes that dlrun starts for a distributed training, with their variables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ranks: Vec<PlannedProcess>,
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
    let ranks = planned_processes(&job.plan);
    let text = format!(
        "{}{site}{}  submit by: {}\n",
        describe(&job.plan, terminal_columns().map_or(100, usize::from)),
        ranks_text(&ranks, &job.plan),
        shown
    );
    let answer = Planned {
        plan: without_secrets(&job.plan),
        warnings: &job.plan.warnings,
        notes: &job.plan.notes,
        images: &job.plan.candidates,
        candidates: &job.plan.ways,
        site: job.site_asked(),
        ranks,
        python_environment_ready: job.python.as_ref().map(|python| python.ready),
        submit_command: argv,
    };
    session.answer(&answer, &text)
}

/// Ranks that are shown one by one.
const SHOWN: usize = 16;

/// The table of ranks, and the variables of the first process.
fn ranks_text(processes: &[PlannedProcess], plan: &Plan) -> String {
    let mut lines = Vec::new();
    if plan.elastic.is_some() && !processes.is_empty() {
        let nodes = counted(plan.resources.nodes.into(), "node");
        lines.push(format!("  of a start on {nodes}:"));
    }
    for process in processes.iter().take(SHOWN) {
        let number = process.rank.map_or("-".to_owned(), |rank| rank.to_string());
        let local = process
            .local_rank
            .map_or("-".to_owned(), |rank| rank.to_string());
        let role = process.role.unwrap_or("rank");
        lines.push(format!(
            "  {role} {number}: node {}, local rank {local}",
            process.node
        ));
    }
    if processes.len() > SHOWN {
        lines.push(format!(
            "  and {} more (`--json` has all)",
            processes.len() - SHOWN
        ));
    }
    if let Some(first) = processes.iter().find(|process| process.rank == Some(0)) {
        let role = first.role.unwrap_or("rank");
        lines.push(format!(
            "  {role} 0 finds, with addresses and ports of the nodes that the job gets:"
        ));
        lines.extend(
            first
                .variables
                .iter()
                .map(|(name, value)| format!("    {name}={value}")),
        );
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The plan with what looks like a secret hidden.
fn without_secrets(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    for variable in plan.env.iter_mut().filter(|variable| is_secret(variable)) {
        HIDDEN.clone_into(&mut variable.value);
    }
    plan
}
