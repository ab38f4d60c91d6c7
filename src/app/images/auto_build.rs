//! `image.build = "auto"`: the image that a job wants and nobody has is built before the run.

use std::fs;

use super::build_job::{self, Resources};
use super::making::{Made, Order, Origins, make, standing};
use crate::app::error::{Error, failure};
use crate::app::job::load::Job;
use crate::app::session::Session;
use crate::app::track::Tracker;
use crate::foundation::units::Walltime;
use crate::job::{DependencyKind, JobId, RunId, SchedulerKind};
use crate::plan::{Decision, PlannedDependency};
use crate::scheduler::adapter_for;

/// Builds the image of a job that is handed over: here for a job on this machine, else as a job that this one waits for.
pub(crate) fn before(session: &Session, job: &mut Job) -> Result<(), Error> {
    let Some(order) = job.to_build.take() else {
        return Ok(());
    };
    if let Some(made) = standing(session, &order)? {
        is_there(job, &made);
        return Ok(());
    }
    if job.plan.scheduler.is_local() {
        let name = &order.entry.name;
        session.note(&format!(
            "image: {name} is built here; the run starts when it is done"
        ));
        is_there(job, &make(session, &order)?);
        return Ok(());
    }
    let (run_id, job_id) = match running(session, &order, Some(job.plan.scheduler))? {
        Some(known) => known,
        None => hand_over(session, &order, job)?,
    };
    let short = &run_id.as_str()[..6];
    let scheduler = job.plan.scheduler.as_str();
    session.note(&format!(
        "image: {} is built by run {short} ({scheduler} job {job_id}); this run waits for it, and does not start if it fails",
        order.entry.name
    ));
    decide(
        job,
        format!("run {run_id} ({scheduler} job {job_id})"),
        "the run waits for it, and does not start if it fails",
    );
    let ends = adapter_for(job.plan.scheduler).ends_hopeless(&job.plan);
    job.plan.arguments.extend(ends.map(str::to_owned));
    let depends = PlannedDependency {
        kind: DependencyKind::AfterOk,
        job_ids: vec![job_id],
    };
    job.plan.resources.depends.push(depends);
    Ok(())
}

/// What is known of an image that could not be known when the job was planned.
fn is_there(job: &mut Job, made: &Made) {
    if let Some(image) = &mut job.plan.image {
        image.digest.clone_from(&made.entry.digest);
    }
    let how = if made.is_new {
        "built before the run was handed over"
    } else {
        "was there already"
    };
    decide(job, made.entry.name.clone(), how);
}

/// Puts it into the plan that is kept with the run.
fn decide(job: &mut Job, value: String, why: &str) {
    let what = "image build".to_owned();
    job.plan.decisions.push(Decision {
        what,
        value,
        why: why.to_owned(),
        rejected: Vec::new(),
    });
}

fn hand_over(session: &Session, order: &Order, job: &Job) -> Result<(RunId, JobId), Error> {
    let wanted = &job.plan.resources;
    let resources = Resources {
        // A queue of GPUs may not take jobs without one; the site's default takes any.
        queue: wanted
            .queue
            .clone()
            .filter(|_| wanted.gpus_on_node().is_none()),
        account: wanted.account.clone(),
        walltime: None::<Walltime>,
        cpus: None,
        memory: None,
    };
    let (record, _) = build_job::submit(session, order, &resources, Some(job.plan.scheduler))?;
    let job_id = record
        .job_id
        .ok_or_else(|| failure!(Internal, "the build has no job id"))?;
    Ok((record.run_id, job_id))
}

/// The build of the same image that was handed over before, to `scheduler` or to any, and is not over.
pub(crate) fn running(
    session: &Session,
    order: &Order,
    scheduler: Option<SchedulerKind>,
) -> Result<Option<(RunId, JobId)>, Error> {
    let dir = session.state()?.path().join("image-builds");
    let read = |ending| fs::read_to_string(dir.join(format!("{}.{ending}", order.entry.name)));
    let (Ok(text), Ok(definition)) = (read("run"), read("def")) else {
        return Ok(None);
    };
    if !matches!(&order.origins, Origins::Definition { text, .. } if *text == definition) {
        return Ok(None);
    }
    let Ok(run_id) = text.trim().parse::<RunId>() else {
        return Ok(None);
    };
    let mut tracker = Tracker::open(session)?;
    if tracker.state.run(&run_id).is_err() {
        return Ok(None);
    }
    let seen = tracker
        .refresh(std::slice::from_ref(&run_id), false)?
        .into_iter()
        .next();
    Ok(seen.and_then(|seen| {
        let goes_on =
            !seen.status.state.is_final() && seen.status.state != crate::job::JobState::Unknown;
        let is_there = scheduler.is_none_or(|scheduler| scheduler == seen.record.scheduler);
        let job_id = seen.record.job_id.filter(|_| goes_on && is_there)?;
        Some((run_id, job_id))
    }))
}
