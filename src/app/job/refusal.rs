//! A scheduler's refusal, with what the site has instead.

use crate::app::error::Error;
use crate::app::job::load::Job;
use crate::app::session::Session;
use crate::foundation::diagnostic::chain;
use crate::plan::Plan;
use crate::scheduler::{Scheduler, SchedulerError, refusal};

/// The error for people. The site is asked only now: a job that is taken needs no hint.
pub(crate) fn explained(scheduler: &dyn Scheduler, plan: &Plan, error: SchedulerError) -> Error {
    let SchedulerError::Refused { source, .. } = &error else {
        return error.into();
    };
    let site = scheduler.site().ok();
    let reason = chain(source).join("\n");
    let hint = refusal::hint(&reason, &plan.resources, site.as_ref());
    hint.into_iter().fold(error.into(), Error::hinted)
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
