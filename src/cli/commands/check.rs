//! `dlrun check`: what is wrong with a job file, and what the scheduler would say.

use serde_json::json;

use crate::app::error::{Error, Kind};
use crate::app::job::load::{Against, Job, JobRequest};
use crate::app::job::modules::{self, Loaded};
use crate::app::job::refusal::dry_run;
use crate::app::session::Session;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &JobRequest) -> Result<u8, Error> {
    let job = Job::load(session, args, Against::Site)?;
    let plan = &job.plan;
    plan.warnings.iter().for_each(|text| session.warning(text));
    let (mut verdict, mut modules) = (None, None);
    if !args.no_check {
        verdict = dry_run(session, &job)?;
        modules = (!plan.modules.is_empty()).then(|| modules::load(&plan.modules));
    }
    if let Some(Loaded::No { module, said }) = &modules {
        let message = format!("`run.modules`: `{module}` does not load here: {said}");
        let hint = "if it exists on the compute nodes only, check with `--no-check`";
        return Err(Error::new(Kind::Missing, message).hinted(hint));
    }
    let environment_ready = job.python.as_ref().map(|python| python.ready);
    let value = json!({
        "job_file": plan.job_file,
        "scheduler": plan.scheduler,
        "site": job.site_json(),
        "scheduler_says": verdict,
        "python_environment_ready": environment_ready,
        // null: there are none, or it is not known.
        "modules_load": (modules == Some(Loaded::Yes)).then_some(true),
        "image_to_build": job.to_build.as_ref().map(|order| &order.entry.name),
        "warnings": plan.warnings,
        "notes": plan.notes,
    });
    let (file, scheduler) = (args.file.display(), plan.scheduler.as_str());
    let mut lines = vec![format!("{file} is valid; it would go to {scheduler}")];
    if !args.no_check {
        lines.extend(against_the_site(&job));
        let verdict = verdict.filter(|verdict| !verdict.is_empty());
        lines.extend(verdict.map(|verdict| format!("slurm says: {verdict}")));
    }
    match modules {
        Some(Loaded::Yes) => lines.push("its modules load here".to_owned()),
        Some(Loaded::Unknown(why)) => lines.push(format!("its modules were not tried: {why}")),
        _ => {}
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
    session.answer(&value, &(lines.join("\n") + "\n"))
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
