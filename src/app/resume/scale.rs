//! Another number of nodes for an elastic run, as its user asks for it.

use crate::app::error::{Error, failure};
use crate::app::session::Session;
use crate::app::track::{Tracked, Tracker, plan_of};
use crate::foundation::clock::now_ms;
use crate::job::JobState;
use crate::record::rundir::Scale;

/// What was done.
pub(crate) enum Scaled {
    /// The waiting job has the new number.
    Waiting,
    /// The running one was asked to save, and continues on that many nodes.
    Running,
    /// The run is over.
    Over,
}

/// Asks for `nodes` of a run.
pub(crate) fn scale(
    session: &Session,
    tracker: &Tracker<'_>,
    tracked: &Tracked,
    nodes: u32,
) -> Result<Scaled, Error> {
    let record = &tracked.record;
    let run = tracker.state.run(&record.run_id)?;
    let elastic = plan_of(&run).and_then(|plan| plan.elastic);
    let (min, max) = elastic.map(|elastic| elastic.nodes).ok_or_else(|| {
        failure!(Usage, "run {} has a fixed number of nodes", record.run_id)
            .hinted("write [elastic] and a range of nodes into its job file")
    })?;
    if !(min..=max).contains(&nodes) {
        return Err(failure!(
            Usage,
            "run {} may have {min} to {max} nodes, not {nodes}",
            record.run_id
        ));
    }
    match tracked.status.state {
        JobState::Pending => {
            let scheduler = session.scheduler(record.scheduler)?;
            let job = record
                .job_id
                .as_ref()
                .ok_or_else(|| failure!(Missing, "its job is not known yet"))?;
            let resized = scheduler.resize(job, nodes).ok_or_else(|| {
                failure!(
                    Config,
                    "a waiting job cannot be changed under {}",
                    record.scheduler
                )
                .hinted("ask again when it runs, or cancel it and submit it again")
            })?;
            resized?;
            Ok(Scaled::Waiting)
        }
        JobState::Running => {
            run.write_scale(&Scale {
                nodes,
                asked_at_ms: now_ms(),
            })?;
            Ok(Scaled::Running)
        }
        _ => Ok(Scaled::Over),
    }
}
