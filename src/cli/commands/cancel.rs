//! `dlrun cancel`: tells schedulers to stop runs.

use serde_json::json;

use crate::cli::args::Cancel;
use crate::cli::error::{Error, Kind};
use crate::cli::session::Session;
use crate::cli::track::{Tracker, job_ref};
use crate::clock::now_ms;

/// Runs the verb. All runs are found before any is cancelled; a run that is over stays as it is.
pub(crate) fn run(session: &Session, args: &Cancel) -> Result<u8, Error> {
    let mut tracker = Tracker::open(session)?;
    let mut run_ids = Vec::new();
    for text in &args.runs {
        run_ids.push(tracker.find_going_on(text)?);
    }
    let mut told = Vec::new();
    let mut text = String::new();
    for tracked in tracker.refresh(&run_ids, false)? {
        let record = &tracked.record;
        let run = tracker.state.run(&record.run_id)?;
        let asked = if tracked.status.state.is_final() {
            text.push_str(&format!("{} is over already: {}\n", record.run_id, tracked.status.state));
            false
        } else {
            let Some(job) = job_ref(&run, record) else {
                let error = Error::new(Kind::Missing, format!("run {} has no job id yet", record.run_id));
                return Err(error.hinted("look for it with the scheduler's own commands, by its name"));
            };
            let asked_at_ms = now_ms();
            session.scheduler(record.scheduler)?.cancel(&job)?;
            // Remembered beside the run: schedulers forget why a job ended.
            if let Err(error) = run.write_cancel(asked_at_ms) {
                session.output.warning(&format!("that it was cancelled could not be written down: {error}"));
            }
            text.push_str(&format!(
                "asked {} to cancel {} (job {})\n",
                record.scheduler.as_str(),
                record.run_id,
                job.job_id
            ));
            true
        };
        told.push(json!({ "run_id": record.run_id, "asked": asked, "state_before": tracked.status.state }));
    }
    session.output.result("cancel", &json!({ "runs": told }), &text)?;
    Ok(0)
}
