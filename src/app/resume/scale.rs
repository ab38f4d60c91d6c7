//! Another number of nodes for an elastic run, or of elements of an array at a time, as its user asks for it.

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
    /// So many elements of its array run at a time.
    Array,
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
    if record.array.is_some() {
        return throttle(session, tracked, nodes);
    }
    let elastic = plan_of(&run).and_then(|plan| plan.elastic);
    let (min, max) = elastic.map(|elastic| elastic.nodes).ok_or_else(|| {
        failure!(Usage, "run {} has a fixed number of nodes", record.run_id)
            .hinted("write [elastic] and a range of nodes, or an array, into its job file")
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
            let job = record.job_id.as_ref().ok_or_else(not_known)?;
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

fn throttle(session: &Session, tracked: &Tracked, elements: u32) -> Result<Scaled, Error> {
    let record = &tracked.record;
    if tracked.status.state.is_final() {
        return Ok(Scaled::Over);
    }
    let job = record.job_id.as_ref().ok_or_else(not_known)?;
    let throttled = session.scheduler(record.scheduler)?.throttle(job, elements);
    let kept = || {
        let scheduler = record.scheduler;
        failure!(
            Config,
            "an array keeps its limit of running elements under {scheduler}"
        )
        .hinted(
            "cancel it, and submit it again with another number after the % of `resources.array`",
        )
    };
    throttled.ok_or_else(kept)??;
    Ok(Scaled::Array)
}

fn not_known() -> Error {
    failure!(Missing, "its job is not known yet")
}
