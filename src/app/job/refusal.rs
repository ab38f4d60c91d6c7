//! A scheduler's refusal, with what the site has instead.

use crate::app::error::Error;
use crate::app::job::load::Job;
use crate::app::session::Session;
use crate::foundation::diagnostic::chain;
use crate::plan::Plan;
use crate::scheduler::{Scheduler, SchedulerError, refusal};

/// The error for people. The site is asked only now: a job that is taken needs no hint.
pub(crate) fn explained(scheduler: &dyn Scheduler, plan: &Plan, error: SchedulerError) -> Error {
    let reason = words(&error);
    let error = Error::from(error);
    let Some(reason) = reason else { return error };
    let site = scheduler.site().ok();
    match refusal::hint(&reason, &plan.resources, site.as_ref()) {
        Some(hint) => error.hinted(hint),
        None => error,
    }
}

/// The scheduler's own words, where it refused.
fn words(error: &SchedulerError) -> Option<String> {
    match error {
        SchedulerError::Refused { source, .. } => Some(chain(source).join("\n")),
        _ => None,
    }
}

/// What the scheduler says of a job without taking it; `None` where it has no dry run.
pub(crate) fn dry_run(session: &Session, job: &Job) -> Result<Option<String>, Error> {
    let plan = &job.plan;
    if plan.scheduler.is_pbs() {
        session.pbs(plan.scheduler)?;
    }
    let scheduler = session.scheduler(plan.scheduler)?;
    let tested = scheduler.test(plan, &job.script()).transpose();
    tested.map_err(|error| explained(&*scheduler, plan, error))
}
