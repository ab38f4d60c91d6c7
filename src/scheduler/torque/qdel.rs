//! `qdel ID`. An array is deleted whole by its id, `12[].server`, and some of its elements with `-t 3,7-9`.

use crate::job::ArraySpec;
use crate::scheduler::pbs::commands::Commands;
use crate::scheduler::{JobRef, SchedulerError};

/// Exit codes for a job that is not known any more (`PBSE_UNKJOBID`, 15001) and for one that is over (`PBSE_BADSTATE`,
/// 15018), each modulo 256: what was asked for is so.
const GONE: [i32; 2] = [153, 170];

pub(super) fn cancel(
    torque: &Commands,
    job: &JobRef,
    elements: Option<&ArraySpec>,
) -> Result<(), SchedulerError> {
    let mut tool = torque.tool("qdel");
    if let Some(elements) = elements {
        // A step is more than `-t` takes: each index by itself, or from one to another.
        let indexes: Vec<u32> = elements.indexes().collect();
        tool = tool
            .arg("-t")
            .arg(ArraySpec::of(&indexes, None).to_string());
    }
    torque.delete(&job.job_id.0, &tool.arg(&job.job_id.0), &GONE)
}
