//! JAX finds its group by the variables of a Slurm step (`jax/_src/clusters/slurm_cluster.py`, 0.10): every rank gets those of the
//! step that `srun` would have made for it, under every scheduler. There are no others for number and count.

use super::{Launch, Variables};
use crate::launch::ranks::{Meeting, Rank};

pub(super) struct Jax;

impl Launch for Jax {
    fn variables(&self, rank: &Rank, meeting: &Meeting) -> Variables {
        let mut variables = vec![
            ("SLURM_JOB_ID", job_number(&meeting.name).to_string()),
            ("SLURM_NTASKS", rank.world.to_string()),
            ("SLURM_PROCID", rank.rank.to_string()),
            ("SLURM_LOCALID", rank.local.to_string()),
            ("JAX_NUM_PROCESSES", rank.world.to_string()),
            ("JAX_PROCESS_ID", rank.rank.to_string()),
        ];
        if let Some(first) = meeting.first() {
            variables.push(("SLURM_STEP_NODELIST", first.ip().to_string()));
            variables.push(("JAX_COORDINATOR_ADDRESS", first.to_string()));
            variables.push(("JAX_COORDINATOR_PORT", first.port().to_string()));
        }
        variables
    }
}

/// Where Slurm gave no job id, any number does: JAX makes a port of it, which the address above replaces.
fn job_number(name: &str) -> u32 {
    name.bytes().fold(1, |sum: u32, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte)) % 1_000_000
    })
}
