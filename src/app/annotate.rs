//! What a job's own watcher writes into the job's comment, where its scheduler has one.

use crate::app::error::{Error, failure};
use crate::app::exec::{context, job_name};
use crate::app::session::Session;

/// Writes the comment of the job that this runs in. Exit code 77: it has one that is not dlrun's, which stays.
pub(crate) fn annotate(session: &Session, text: &str) -> Result<u8, Error> {
    let missing = |what: &str| failure!(Internal, "the job has no {what}");
    let plan = context().plan.ok_or_else(|| missing("plan"))?;
    let job = job_name(plan.scheduler).ok_or_else(|| missing("id"))?;
    let scheduler = session.scheduler(plan.scheduler)?;
    match scheduler.annotate(&job, text).transpose()? {
        None => Err(failure!(Config, "jobs of this scheduler have no comment")),
        Some(true) => Ok(0),
        Some(false) => Err(failure!(
            NotPermitted,
            "job {job} has a comment set by its user"
        )),
    }
}
