//! `dlrun scale`: continues an elastic run on another number of nodes, or an array with as many elements at a time.

use serde::Serialize;

use crate::app::error::{Error, failure};
use crate::app::resume::{Scaled, scale};
use crate::app::session::Session;
use crate::app::track::Tracker;
use crate::cli::args::Scale;
use crate::foundation::units::counted;
use crate::job::RunId;

/// What was asked for.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ScaledRun {
    run_id: RunId,
    nodes: u32,
    /// Whether the job waits and was changed; else it runs, and the run continues on that many nodes once its work is saved.
    was_waiting: bool,
    /// Whether it is an array, of which so many elements run at a time.
    is_array: bool,
}

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &Scale) -> Result<u8, Error> {
    let mut tracker = Tracker::open(session)?;
    let run_id = tracker.find_going_on(&args.run)?;
    let tracked = tracker.look_at(&run_id, false)?;
    let nodes = args.nodes;
    let shown = counted(nodes.into(), "node");
    let scaled = scale(session, &tracker, &tracked, nodes)?;
    let text = match scaled {
        Scaled::Waiting => format!("{run_id} will start on {shown}\n"),
        Scaled::Running => {
            format!("{run_id} is asked to save its work, and continues on {shown}\n")
        }
        Scaled::Array => {
            format!("{run_id} runs at most {nodes} elements at a time; those that run stay\n")
        }
        Scaled::Over => {
            let state = tracked.status.state;
            return Err(failure!(
                Missing,
                "run {run_id} is not waiting or running: it is {state}"
            ));
        }
    };
    session.answer(
        &ScaledRun {
            run_id,
            nodes,
            was_waiting: matches!(scaled, Scaled::Waiting),
            is_array: matches!(scaled, Scaled::Array),
        },
        &text,
    )
}
