//! What Torque and OpenPBS share: the form of options, `qsub`, `qdel`, values, the names of output files.

pub(super) mod answer;
pub(super) mod ends;
pub(super) mod ids;
pub(super) mod options;
pub(super) mod own;
pub(super) mod qdel;
pub(super) mod qsub;
pub(super) mod values;

use crate::job::SchedulerKind;

/// The variable that holds the index of an array's element in its job.
#[must_use]
pub(super) fn index_variable(scheduler: SchedulerKind) -> &'static str {
    if scheduler == SchedulerKind::Torque {
        "PBS_ARRAYID"
    } else {
        "PBS_ARRAY_INDEX"
    }
}
