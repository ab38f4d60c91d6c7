//! The variables by which schedulers speak to a job and to their own commands: declared here once, for whatever reads one
//! without the scheduler's adapter, on the nodes above all.

use super::SchedulerKind;

/// The variables of one family of schedulers.
#[derive(Debug)]
pub struct SchedulerVariables {
    /// The schedulers that set them.
    pub kinds: &'static [SchedulerKind],
    /// Beginnings of their names inside a job.
    pub prefixes: &'static [&'static str],
    /// Beginning of those that stand for options of the command that submits.
    pub of_submission: Option<&'static str>,
    /// The job's id.
    pub job_id: &'static str,
    /// The node on which a process runs; several nodes may be one machine.
    pub node: Option<&'static str>,
    /// The number of a task on its node.
    pub local_rank: Option<&'static str>,
    /// The job's queue.
    pub queue: &'static str,
    /// The account that pays.
    pub account: &'static str,
    /// The quality of service.
    pub qos: Option<&'static str>,
    /// The job's GPUs by the node's numbers, the most binding first.
    pub gpus: &'static [&'static str],
    /// How many GPUs the job has.
    pub gpu_counts: &'static [&'static str],
    /// A file of the job's GPUs, a line for each; it may be there and empty.
    pub gpu_file: Option<&'static str>,
    /// Files in the scheduler's spool directory, which no container shows.
    pub files: &'static [&'static str],
    /// By which a user sends all jobs to another server.
    pub server: &'static [&'static str],
    /// What else says which cluster its commands ask.
    pub address: &'static [&'static str],
}

/// Slurm's (sbatch(1), srun(1)).
static SLURM: SchedulerVariables = SchedulerVariables {
    kinds: &[SchedulerKind::Slurm],
    prefixes: &["SLURM_", "SLURMD_", "SRUN_"],
    of_submission: Some("SBATCH_"),
    job_id: "SLURM_JOB_ID",
    node: Some("SLURMD_NODENAME"),
    local_rank: Some("SLURM_LOCALID"),
    queue: "SLURM_JOB_PARTITION",
    account: "SLURM_JOB_ACCOUNT",
    qos: Some("SLURM_JOB_QOS"),
    gpus: &["SLURM_STEP_GPUS", "SLURM_JOB_GPUS"],
    gpu_counts: &["SLURM_GPUS_ON_NODE", "SLURM_GPUS"],
    gpu_file: None,
    files: &[],
    server: &[],
    address: &["SLURM_CONF", "SLURM_CLUSTERS"],
};

/// Those of Torque and OpenPBS (qsub(1B)).
static PBS: SchedulerVariables = SchedulerVariables {
    kinds: &[SchedulerKind::Torque, SchedulerKind::OpenPbs],
    prefixes: &["PBS_"],
    of_submission: None,
    job_id: "PBS_JOBID",
    node: None,
    local_rank: None,
    queue: "PBS_QUEUE",
    account: "PBS_ACCOUNT",
    qos: None,
    gpus: &[],
    gpu_counts: &[],
    gpu_file: Some("PBS_GPUFILE"),
    files: &["PBS_NODEFILE", "PBS_GPUFILE", "PBS_MICFILE"],
    server: &["PBS_DEFAULT", "PBS_SERVER"],
    address: &["PBS_CONF_FILE"],
};

impl SchedulerVariables {
    /// Those of every scheduler.
    pub const ALL: [&'static Self; 2] = [&SLURM, &PBS];

    /// Those of one; `None`: it sets none.
    #[must_use]
    pub fn of(kind: SchedulerKind) -> Option<&'static Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|variables| variables.kinds.contains(&kind))
    }
}
