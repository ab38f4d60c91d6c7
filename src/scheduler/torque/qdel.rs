//! `qdel ID`. An array is deleted whole by its id, `12[].server`, and some of its elements with `-t 3,7-9`.

use super::{NAME, Torque, failed, unreachable};
use crate::job::ArraySpec;
use crate::scheduler::{JobRef, SchedulerError};

/// Exit codes for a job that is not known any more (`PBSE_UNKJOBID`, 15001) and for one that is over (`PBSE_BADSTATE`,
/// 15018), each modulo 256: what was asked for is so.
const GONE: [i32; 2] = [153, 170];

pub(super) fn cancel(
    torque: &Torque,
    job: &JobRef,
    elements: Option<&ArraySpec>,
) -> Result<(), SchedulerError> {
    let what = || format!("cancel job {}", job.job_id);
    let mut tool = torque.tool("qdel");
    if let Some(elements) = elements {
        // A step is more than `-t` takes: each index by itself, or from one to another.
        let indexes: Vec<u32> = elements.indexes().collect();
        tool = tool.arg("-t").arg(ArraySpec::of(&indexes, None).to_string());
    }
    let output = tool.arg(&job.job_id.0).run().map_err(failed(what()))?;
    let no_contact = unreachable(&output);
    if !no_contact && output.status.code().is_some_and(|code| GONE.contains(&code)) {
        return Ok(());
    }
    match output.require_success("qdel") {
        Ok(_) => Ok(()),
        Err(source) if no_contact => Err(SchedulerError::Unreachable { scheduler: NAME, source }),
        Err(source) => Err(failed(what())(source)),
    }
}
