//! A scheduler's refusal, with what the site has instead.

use crate::app::error::Error;
use crate::foundation::diagnostic::chain;
use crate::plan::Plan;
use crate::scheduler::{Scheduler, SchedulerError, refusal};

/// The error for people. The site is asked only now: a job that is taken needs no hint.
pub(crate) fn explained(scheduler: &dyn Scheduler, plan: &Plan, error: SchedulerError) -> Error {
    let said = words(&error);
    let error = Error::from(error);
    let Some(said) = said else { return error };
    let site = scheduler.site().ok();
    match refusal::hint(plan.scheduler, &said, &plan.resources, site.as_ref()) {
        Some(hint) => error.hinted(hint),
        None => error,
    }
}

/// The scheduler's own words, where it refused.
fn words(error: &SchedulerError) -> Option<String> {
    match error {
        SchedulerError::Refused { source, .. } => Some(chain(source).join("\n")),
        SchedulerError::Partly { source, .. } => words(source),
        _ => None,
    }
}
