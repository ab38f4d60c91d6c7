//! A start of a run as the model sees it, and what decides how long it takes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{NodeFigures, NodeState};
use crate::job::{Framework, JobState, RunId, SchedulerKind, StorageClass, Workload};

/// A training on some hardware with some software. What is not known is `None` or 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Situation {
    /// What is trained.
    pub workload: Workload,
    /// With what; `version` is one version, not a range.
    pub framework: Framework,
    /// The image: digest, else where it comes from. `None`: no container.
    pub image: Option<String>,
    /// On what, on each node.
    pub hardware: Hardware,
    /// Nodes.
    pub nodes: u32,
    /// Tasks on each node.
    pub tasks_per_node: u32,
    /// What the data lie on.
    pub storage: Option<StorageClass>,
    /// Numbers among the arguments, by name, beside those that `workload` has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, f64>,
}

impl Situation {
    /// GPUs over all nodes.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.hardware.gpus.saturating_mul(self.nodes.max(1))
    }
}

/// One node as a run gets it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Hardware {
    /// Model name of the CPU.
    pub cpu_model: Option<String>,
    /// CPUs that the program can keep busy: by affinity, quota and `OMP_NUM_THREADS`.
    pub threads: Option<f64>,
    /// CPUs of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// CPUs of the machine that a run might use, by affinity and quota; it shows whether a scheduler confines its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<f64>,
    /// Model name of the GPUs that the run has.
    pub gpu_model: Option<String>,
    /// GPUs that the run has on the node.
    pub gpus: u32,
    /// What the node was measured to do.
    pub figures: Option<NodeFigures>,
}

/// What the starts of a run share.
#[derive(Debug, Clone, PartialEq)]
pub struct Submitted {
    /// The run.
    pub run_id: RunId,
    /// When it was submitted, in Unix milliseconds UTC.
    pub at_ms: u64,
    /// Its scheduler.
    pub scheduler: SchedulerKind,
    /// The queue that it waited in.
    pub queue: Option<String>,
    /// What it was; the hardware comes from the nodes.
    pub situation: Situation,
}

/// One start of a run, with what its nodes saw.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// Index in the job array; 0 without one.
    pub element: u32,
    /// 0 for the first start.
    pub attempt: u32,
    /// Whether no other start followed.
    pub is_last: bool,
    /// The state of the run or of the array's element, where this is its last start; `None`: nobody noted one.
    pub state: Option<JobState>,
    /// The batch shell's exit code.
    pub shell_code: Option<i32>,
    /// When it began, in Unix milliseconds UTC, by the marks of its script or by its scheduler.
    pub started_at_ms: Option<u64>,
    /// When it ended, likewise.
    pub ended_at_ms: Option<u64>,
    /// Its nodes, by name.
    pub nodes: Vec<NodeMeasure>,
}

/// What one node saw of a start.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeMeasure {
    /// The state of its command.
    pub state: NodeState,
    /// Whether it ended with exit code 0.
    pub went_well: bool,
    /// When it began, in Unix milliseconds UTC.
    pub started_at_ms: u64,
    /// When it ended; of one that was killed, when its record was written last.
    pub last_at_ms: u64,
    /// Whether anything was recognised in its output.
    pub is_recognised: bool,
    /// Epochs that ended, by its record.
    pub epochs_completed: u64,
    /// How often their count restarted.
    pub restarts: u32,
    /// What the epochs come to.
    pub epochs: EpochFigures,
    /// Model name of the CPU.
    pub cpu_model: Option<String>,
    /// CPUs of the machine.
    pub cpus: Option<u64>,
    /// CPUs that it may use.
    pub cpus_allowed: Option<u64>,
    /// CPUs that it can keep busy.
    pub cpus_effective: Option<f64>,
    /// CPUs that others kept busy.
    pub others_cpus_busy: Option<f64>,
    /// `OMP_NUM_THREADS`.
    pub omp_num_threads: Option<String>,
    /// Model name of its GPUs.
    pub gpu_model: Option<String>,
    /// Its GPUs.
    pub gpus: u32,
    /// Time in which a GPU was held down, the longest of them, in seconds.
    pub gpu_throttled_seconds: f64,
    /// Time in which a CPU quota held it down, in seconds.
    pub cpu_throttled_seconds: Option<f64>,
    /// Wall time of the command, in seconds.
    pub wall_seconds: Option<f64>,
    /// Largest memory, in bytes.
    pub mem_peak_bytes: Option<u64>,
    /// Whether its series has holes.
    pub has_gaps: bool,
    /// What its kind of node was measured to do.
    pub figures: Option<NodeFigures>,
}

/// What the epochs of one node come to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct EpochFigures {
    /// Median of the steady ones of the source that has most, in seconds.
    pub steady_seconds: Option<f64>,
    /// How many that are.
    pub steady: u32,
    /// Mean time from the end of one to the end of the next, in seconds by the wall clock; `None`: no two ends were seen, or the clock
    /// was set.
    pub cycle_seconds: Option<f64>,
    /// The only one, in seconds; `None` where there are more or none.
    pub only_seconds: Option<f64>,
    /// Epochs that ended.
    pub ended: u32,
    /// Those without a usable time: none, zero, negative or no number.
    pub passed_over: u32,
    /// When the last ended, in Unix milliseconds UTC.
    pub last_ended_at_ms: Option<u64>,
}
