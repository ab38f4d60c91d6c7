//! `scancel JOBID`. It exits with 0 for unknown ids, so its success proves nothing; the state is asked for afterwards.

use super::{Slurm, failed};
use crate::scheduler::{JobRef, SchedulerError};

pub(super) fn cancel(slurm: &Slurm, job: &JobRef) -> Result<(), SchedulerError> {
    let tool = slurm.tool("scancel").arg(&job.job_id.0);
    let output = tool.run().and_then(|output| output.require_success("scancel"));
    output.map(drop).map_err(failed(format!("cancel job {}", job.job_id)))
}
