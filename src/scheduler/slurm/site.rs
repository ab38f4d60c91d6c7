//! `sinfo --version`: which Slurm it is.

use super::{Slurm, failed};
use crate::clock::now_ms;
use crate::job::SchedulerKind;
use crate::scheduler::SchedulerError;
use crate::site::SiteModel;

pub(super) fn site(slurm: &Slurm) -> Result<SiteModel, SchedulerError> {
    let tool = slurm.tool("sinfo").arg("--version");
    let output = tool.run().and_then(|output| output.require_success("sinfo"));
    let output = output.map_err(failed("tell its version".to_owned()))?;
    Ok(SiteModel {
        format: SiteModel::FORMAT,
        scheduler: SchedulerKind::Slurm,
        version: output.stdout.trim().strip_prefix("slurm ").map(str::to_owned),
        asked_at_ms: now_ms(),
        accounting: None,
        max_array_index: None,
        queues: Vec::new(),
        nodes: Vec::new(),
        licenses: Vec::new(),
    })
}

/// The largest index that a job array may have, where Slurm tells it.
pub(super) fn max_array_index(slurm: &Slurm) -> Option<u32> {
    let output = slurm.tool("scontrol").args(["show", "config"]).run().ok()?;
    let size = output.stdout.lines().find_map(|line| line.trim().strip_prefix("MaxArraySize"))?;
    let size: u32 = size.trim_start().strip_prefix('=')?.trim().parse().ok()?;
    size.checked_sub(1)
}
