//! Asks a run's scheduler to stop it.

use crate::app::error::{Error, Kind};
use crate::app::session::Session;
use crate::app::track::{Tracker, job_ref};
use crate::foundation::clock::now_ms;
use crate::job::{ArraySpec, JobId};
use crate::record::RunRecord;

/// Cancels a run or elements of it; returns its job.
///
/// # Errors
/// Where it has no job yet, or its scheduler refuses.
pub(crate) fn cancel(
    session: &Session,
    tracker: &Tracker<'_>,
    record: &RunRecord,
    elements: Option<&ArraySpec>,
) -> Result<JobId, Error> {
    let run = tracker.state.run(&record.run_id)?;
    let Some(job) = job_ref(&run, record) else {
        let message = format!("run {} has no job id yet", record.run_id);
        return Err(Error::new(Kind::Missing, message)
            .hinted("look for it with the scheduler's own commands, by its name"));
    };
    let asked_at_ms = now_ms();
    let scheduler = session.scheduler(record.scheduler)?;
    scheduler.cancel(&job, elements)?;
    // Remembered beside the run: schedulers forget why a job ended.
    if let Err(error) = run.write_cancel(asked_at_ms, elements) {
        session.warning(&format!("the cancel could not be recorded: {error}"));
    }
    Ok(job.job_id)
}
