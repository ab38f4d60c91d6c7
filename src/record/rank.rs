//! What became of one rank of a distributed training.

use serde::{Deserialize, Serialize};

use super::ExitStatus;

/// A rank, an agent that starts several, or a helper of the launcher, on the node of the record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct RankRecord {
    /// Its number; of an agent that of its first rank, of a helper the number after all ranks.
    pub rank: u32,
    /// Its number on its node.
    pub local_rank: u32,
    /// How many ranks there are in all.
    pub world_size: u32,
    /// `agent`, `scheduler` or `server`; `None`: a rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// When it was started, in Unix milliseconds UTC.
    pub started_at_ms: u64,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<u64>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitStatus>,
    /// Whether it failed before all others of the run.
    #[serde(default)]
    pub fell_first: bool,
    /// Of one that fell first, the last line of its traceback or error message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_words: Option<String>,
    /// The file that has its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// CPU time of it and of its children that it waited for, in seconds (`proc_pid_stat(5)`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// The most memory of its first process, in bytes (`VmHWM`, looked at once a second).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_peak_bytes: Option<u64>,
    /// Its GPUs, where each rank has its own: `0`, or `GPU-...`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<String>,
}
