//! `scancel JOBID..`. It exits with 0 for unknown ids, so its success proves nothing; the state is asked for afterwards.

use super::own::jobs_of;
use super::{Slurm, failed};
use crate::scheduler::{JobRef, SchedulerError};

pub(super) fn cancel(slurm: &Slurm, job: &JobRef) -> Result<(), SchedulerError> {
    let ids: Vec<&str> = jobs_of(job).into_iter().map(|(id, _)| id).collect();
    cancel_all(slurm, &ids)
}

pub(super) fn cancel_all(slurm: &Slurm, ids: &[&str]) -> Result<(), SchedulerError> {
    let output = slurm.tool("scancel").args(ids).run().and_then(|output| output.require_success("scancel"));
    output.map(drop).map_err(failed(format!("cancel job {}", ids.join(", "))))
}
