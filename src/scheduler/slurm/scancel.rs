//! `scancel JOBID ..` or `scancel JOBID_[3,7-9] ..`. It exits with 0 for unknown ids, so its success proves nothing; the
//! state is asked for afterwards.

use super::{Slurm, failed};
use crate::job::{ArraySpec, JobId};
use crate::scheduler::{JobRef, SchedulerError};

pub(super) fn cancel(
    slurm: &Slurm,
    job: &JobRef,
    elements: Option<&ArraySpec>,
) -> Result<(), SchedulerError> {
    let name = |(job_id, own): (JobId, Option<ArraySpec>)| match own {
        Some(own) => format!("{job_id}_[{own}]"),
        None => job_id.0,
    };
    let names: Vec<String> = job.jobs_of(elements).into_iter().map(name).collect();
    let output = slurm
        .tool("scancel")
        .args(&names)
        .run()
        .and_then(|output| output.require_success("scancel"));
    output
        .map(drop)
        .map_err(failed(format!("cancel job {}", names.join(", "))))
}
