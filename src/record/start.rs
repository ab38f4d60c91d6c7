//! A start of a run, as the model reads it from an index.

use super::{Identity, NodeFigures, NodeState};
use crate::job::{Framework, JobState, RunId, SchedulerKind, StorageClass, Workload};

/// What a run was, as far as others are compared with it.
#[derive(Debug, Clone, PartialEq)]
pub struct SubmittedRun {
    /// Its row in the index.
    pub row: i64,
    /// The run.
    pub run_id: RunId,
    /// When it was handed over, in Unix milliseconds UTC.
    pub submitted_at_ms: u64,
    /// Who had it.
    pub scheduler: SchedulerKind,
    /// The queue that it waited in.
    pub queue: Option<String>,
    /// What the job file says of the training.
    pub workload: Workload,
    /// What it is a run of.
    pub identity: Option<Identity>,
    /// With what; the version may be a range.
    pub framework: Framework,
    /// The image: digest, else where it comes from. `None`: no container.
    pub image: Option<String>,
    /// Nodes.
    pub nodes: u32,
    /// Tasks on each node.
    pub tasks_per_node: Option<u32>,
    /// What the data lie on.
    pub storage: Option<StorageClass>,
}

/// A state, and since when and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotedState {
    /// The state.
    pub state: JobState,
    /// When it began, in Unix milliseconds UTC.
    pub started_at_ms: Option<u64>,
    /// When it ended.
    pub ended_at_ms: Option<u64>,
}

/// One start of a run on one of its nodes; one without nodes has a row too.
#[derive(Debug, Clone, PartialEq)]
pub struct StartRow {
    /// The start's row in the index.
    pub row: i64,
    /// Index in the job array; 0 without one.
    pub element: u32,
    /// 0 for the first start.
    pub attempt: u32,
    /// When its script began, in Unix milliseconds UTC.
    pub started_at_ms: Option<u64>,
    /// When it ended.
    pub ended_at_ms: Option<u64>,
    /// The batch shell's exit code.
    pub shell_code: Option<i32>,
    /// The state of the run, of an array that of the element: it holds for the last start.
    pub noted: Option<NotedState>,
    /// The start that the index notes as the one that ended.
    pub noted_attempt: Option<u32>,
    /// The node's row in the index, and what it saw; but for the epochs.
    pub node: Option<(i64, NodeMeasure)>,
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
    /// By how much the first was longer, in seconds.
    pub first_extra_seconds: Option<f64>,
    /// The only one, in seconds; `None` where there are more or none.
    pub only_seconds: Option<f64>,
    /// Time of all of them, in seconds; `None` where one has no time.
    pub training_seconds: Option<f64>,
    /// The same, with those that have no time taken for steady ones; `None` where none is steady.
    pub likely_seconds: Option<f64>,
    /// Epochs that ended.
    pub ended: u32,
    /// Those without a usable time: none, zero, negative or no number.
    pub passed_over: u32,
    /// When the last ended, in Unix milliseconds UTC.
    pub last_ended_at_ms: Option<u64>,
}
