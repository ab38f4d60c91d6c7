//! The plan: what will run, where and how, with a reason for every choice.
//!
//! [`resolve`] is a pure function of job file, settings and site facts. A [`Plan`] holds everything that the script and
//! the node need, so it can wait in a queue for weeks.

mod facts;
mod pass_through;
mod resolve;
mod shown;

pub use facts::{PythonFacts, ScriptFacts, SiteFacts, SlurmFacts};
pub use resolve::resolve;
pub use shown::describe;

use serde::{Deserialize, Serialize};

use crate::job::{EnvVar, Launcher, SchedulerKind, TimingPattern, Workload};
use crate::units::{Bytes, Walltime};

/// One choice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// What was chosen: `scheduler`, `environment`, `memory`, ...
    pub what: String,
    /// The choice.
    pub value: String,
    /// Why.
    pub why: String,
    /// What else was possible, and why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<Rejected>,
}

/// A possibility that was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// The possibility.
    pub value: String,
    /// Why not.
    pub why: String,
}

/// Resources with defaults applied; `None`: the line is left out and the site's default holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedResources {
    /// Nodes.
    pub nodes: u32,
    /// Tasks on each node.
    pub tasks_per_node: u32,
    /// CPUs of each task.
    pub cpus_per_task: Option<u32>,
    /// GPUs on each node: `2` or `v100:2`.
    pub gpus_per_node: Option<String>,
    /// Main memory on each node, in bytes.
    pub memory: Option<Bytes>,
    /// Time limit, in seconds.
    pub walltime: Option<Walltime>,
    /// Queue (Slurm's partition).
    pub queue: Option<String>,
    /// Account.
    pub account: Option<String>,
    /// Quality of service.
    pub qos: Option<String>,
    /// Reservation.
    pub reservation: Option<String>,
    /// Node features.
    pub constraint: Option<String>,
    /// Nodes wanted.
    pub nodelist: Option<String>,
    /// Nodes not wanted.
    pub exclude: Option<String>,
    /// Whole nodes.
    pub exclusive: bool,
}

/// A resolved job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Version of this form, 1.
    pub format: u32,
    /// The job's name.
    pub name: String,
    /// Who takes it; never `auto`.
    pub scheduler: SchedulerKind,
    /// Absolute working directory.
    pub workdir: String,
    /// The job file, absolute.
    pub job_file: String,
    /// The argument vector.
    pub command: Vec<String>,
    /// Variables of the run.
    pub env: Vec<EnvVar>,
    /// File of further variables, absolute; read on the node.
    pub env_file: Option<String>,
    /// Environment modules.
    pub modules: Vec<String>,
    /// Directory of the Python environment, absolute.
    pub python_env: Option<String>,
    /// `none` or `each`.
    pub launcher: Launcher,
    /// Resources.
    pub resources: PlannedResources,
    /// Directives handed through.
    pub directives: Vec<String>,
    /// Command-line arguments handed through.
    pub arguments: Vec<String>,
    /// What is known of the training.
    pub workload: Workload,
    /// The user's own timing pattern.
    pub timing: Option<TimingPattern>,
    /// Time between two samples, in milliseconds.
    pub interval_ms: u64,
    /// Time between two looks at single processes, in milliseconds.
    #[serde(default = "default_process_interval_ms")]
    pub process_interval_ms: u64,
    /// Where the nodes' daemon listens; `None`: it is not asked.
    #[serde(default)]
    pub daemon_socket: Option<String>,
    /// NVML on the nodes; `None`: the linker finds it.
    #[serde(default)]
    pub nvml_library: Option<String>,
    /// Time between two writings of the node record, in seconds.
    pub record_seconds: u64,
    /// TERM to KILL of local jobs, in seconds.
    pub kill_wait_seconds: u64,
    /// Where records go, absolute.
    pub state_dir: String,
    /// dlrun on the nodes, absolute.
    pub dlrun: String,
    /// Every choice.
    pub decisions: Vec<Decision>,
    /// What the user should know before the job waits. It depends on who looks and when, so it is no part of the plan
    /// that travels.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

/// Of plans that dlrun wrote before it looked at processes one by one.
fn default_process_interval_ms() -> u64 {
    5000
}

impl Plan {
    /// The version that this dlrun writes.
    pub const FORMAT: u32 = 1;

    /// The plan as one line of JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a plan is plain data with text keys")
    }
}
