//! What Torque and OpenPBS share: the form of options, `qsub`, `qdel`, values, the names of output files.

pub(super) mod ends;
pub(super) mod ids;
pub(super) mod options;
pub(super) mod own;
pub(super) mod qdel;
pub(super) mod qsub;
pub(super) mod values;

use crate::job::{JobId, SchedulerKind};
use crate::plan::Plan;

/// The variable that holds the index of an array's element in its job.
#[must_use]
pub(super) fn index_variable(scheduler: SchedulerKind) -> &'static str {
    if scheduler == SchedulerKind::Torque { "PBS_ARRAYID" } else { "PBS_ARRAY_INDEX" }
}

/// The output file that a job's script writes, without its directory: `train-14.out`, of an array `train-12_%a.out`. The
/// script makes the same name (`scheduler/script/pbs.rs`).
#[must_use]
pub(super) fn output_name(plan: &Plan, job_id: &JobId) -> String {
    crate::scheduler::output_name(plan.scheduler, &plan.name, plan.resources.array.is_some(), job_id)
}
