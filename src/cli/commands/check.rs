//! `dlrun check`: what is wrong with a job file, and what the scheduler would say.

use serde::Serialize;

use crate::app::check_run::{self, RunChecked};
use crate::app::error::Error;
use crate::app::exit_of_run::code_of_state;
use crate::app::job::load::{Against, Job, JobRequest, SiteAsked};
use crate::app::job::refusal::dry_run;
use crate::app::output::Output;
use crate::app::session::Session;
use crate::job::{JobState, SchedulerKind, schema};

/// What was found out about a job file.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Checked<'a> {
    job_file: &'a str,
    scheduler: SchedulerKind,
    site: Option<SiteAsked<'a>>,
    scheduler_says: Option<&'a str>,
    python_environment_ready: Option<bool>,
    image_to_build: Option<&'a str>,
    warnings: &'a [String],
    notes: &'a [String],
    /// What `--run` found on the nodes.
    run: Option<RunChecked>,
}

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &JobRequest, on_nodes: bool) -> Result<u8, Error> {
    let mut job = Job::load(session, args, Against::Site)?;
    let warnings = job.plan.warnings.iter();
    warnings.for_each(|text| session.warning(text));
    let mut verdict = None;
    if !args.no_check {
        verdict = dry_run(session, &job)?;
    }
    let tried = on_nodes.then(|| check_run::run(session, &mut job));
    let run = tried.transpose()?;
    let plan = &job.plan;
    let environment_ready = job.python.as_ref().map(|python| python.ready);
    let image_to_build = job.to_build.as_ref();
    let answer = Checked {
        job_file: &plan.job_file,
        scheduler: plan.scheduler,
        site: job.site_asked(),
        scheduler_says: verdict.as_deref(),
        python_environment_ready: environment_ready,
        image_to_build: image_to_build.map(|order| order.entry.name.as_str()),
        warnings: &plan.warnings,
        notes: &plan.notes,
        run,
    };
    let (file, scheduler) = (args.file.display(), plan.scheduler.as_str());
    let mut lines = vec![format!("{file} is valid; it would go to {scheduler}")];
    if !args.no_check {
        lines.extend(against_the_site(&job));
        let verdict = verdict.as_ref().filter(|verdict| !verdict.is_empty());
        lines.extend(verdict.map(|verdict| format!("slurm says: {verdict}")));
    }
    lines.extend(plan.notes.iter().map(|note| format!("note: {note}")));
    if environment_ready == Some(false) {
        lines.push("its Python environment is not made yet; `dlrun submit` makes it".to_owned());
    }
    if let Some(order) = &job.to_build {
        let name = &order.entry.name;
        let text = format!("the image {name} is not built yet; `dlrun submit` builds it first");
        lines.push(text);
    }
    let run = answer.run.as_ref();
    lines.extend(run.iter().flat_map(|run| run.lines()));
    session.answer(&answer, &(lines.join("\n") + "\n"))?;
    let has_failed = run.is_some_and(|run| !run.problems.is_empty());
    Ok(if has_failed {
        code_of_state(JobState::Failed)
    } else {
        0
    })
}

/// Prints the JSON Schema of the job file.
pub(crate) fn schema(output: Output) -> Result<u8, Error> {
    let schema = schema::schema();
    output.document(&schema, &format!("{schema:#}\n"))
}

/// What was compared, and what could not be.
fn against_the_site(job: &Job) -> Vec<String> {
    let kind = job.plan.scheduler;
    if kind.is_local() {
        return Vec::new();
    }
    let scheduler = kind.as_str();
    let site = job.site.as_ref();
    let mut lines = vec![match site.filter(|site| !site.model.queues.is_empty()) {
        Some(site) => format!("it fits the site ({})", site.shown()),
        None => {
            format!("{scheduler} did not list its queues, so the job was not compared with them")
        }
    }];
    if kind.is_pbs() {
        // `qsub` takes the job or refuses it; there is no `--test-only`.
        lines.push(format!(
            "{scheduler} has no dry run: whether it accepts the job is known when it is submitted"
        ));
    }
    lines
}
