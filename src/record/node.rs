//! What one `dlrun exec` on one node found out: the node record.

use serde::{Deserialize, Serialize};

use super::{
    AttemptRecord, Conditions, ContainerRecord, Event, ExitStatus, GpuUsage, NodeFigures, Progress,
    RankRecord, TimeStop, TrialRecord, Usage,
};
use crate::job::{JobId, RunId};

/// The key of a measurement: no two readings of different origin share it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MeasureKey {
    /// The run.
    pub run_id: RunId,
    /// The array index, 0 where there is no array.
    pub element: u32,
    /// 0 for the first start, 1 after the first requeue.
    pub attempt: u32,
    /// The scheduler's name of the node; the host name only for local jobs.
    pub node: String,
    /// Which `dlrun exec` of this attempt on this node, counted from 0.
    pub step: u32,
}

impl std::fmt::Display for MeasureKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { run_id, node, .. } = self;
        let (element, attempt, step) = (self.element, self.attempt, self.step);
        write!(f, "{run_id}/{element}.{attempt}/{node}.{step}")
    }
}

/// The state of the watched command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// It was running when the record was written.
    Running,
    /// It ended; [`NodeRecord::exit`] says how.
    Ended,
    /// The supervisor vanished without saying how the command ended.
    Interrupted,
}

/// A hole in the series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Last reading before the hole, in Unix milliseconds UTC.
    pub from_ms: u64,
    /// First reading after it.
    pub to_ms: u64,
    /// Why nothing was read.
    pub why: String,
}

impl Gap {
    /// A hole between two readings.
    pub fn new(from_ms: u64, to_ms: u64, why: impl Into<String>) -> Self {
        let why = why.into();
        Self {
            from_ms,
            to_ms,
            why,
        }
    }
}

/// Something that could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// What is missing: a column of the samples, `timing`, `segments`.
    pub what: String,
    /// Why.
    pub why: String,
}

/// Adds what is not in the list yet: watcher and daemon may have noted the same.
pub fn add_new<T: PartialEq + Clone>(list: &mut Vec<T>, more: &[T]) {
    for item in more {
        if !list.contains(item) {
            list.push(item.clone());
        }
    }
}

impl Missing {
    /// A lack and its reason.
    pub fn new(what: &str, why: impl Into<String>) -> Self {
        let (what, why) = (what.to_owned(), why.into());
        Self { what, why }
    }
}

/// Facts of the machine a run had, read once at its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct HostFacts {
    /// What `uname -n` says.
    pub hostname: String,
    /// Model name of the first CPU.
    pub cpu_model: Option<String>,
    /// Logical CPUs of the machine.
    pub cpus: Option<u64>,
    /// CPUs that this process may use (its affinity): what the job really got.
    pub cpus_allowed: Option<u64>,
    /// Main memory, in bytes.
    pub mem_total_bytes: Option<u64>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// `OMP_NUM_THREADS` of the run, which decides the speed of most CPU trainings.
    pub omp_num_threads: Option<String>,
}

impl HostFacts {
    /// What makes two machines comparable: the CPU, how many, and memory to the next GiB (equal machines differ by a few
    /// MiB). `None` where the CPU is not known.
    #[must_use]
    pub fn fingerprint(&self) -> Option<String> {
        let model = self.cpu_model.as_deref()?;
        let cpus = self.cpus?;
        let memory = self.mem_total_bytes.map_or_else(
            || "?".to_owned(),
            |bytes| bytes.div_ceil(1 << 30).to_string(),
        );
        Some(format!("{model}; {cpus} CPUs; {memory} GiB"))
    }
}

/// What watching cost, measured by the watcher on itself; with the node daemon, by the watcher and the daemon's share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct WatcherCost {
    /// CPU time of the watcher, in microseconds.
    pub cpu_us: u64,
    /// Samples taken.
    pub samples: u64,
    /// Ticks that came more than half an interval late.
    pub late_ticks: u64,
}

/// The record of one `dlrun exec`: small (at most 256 KiB), written whole and renamed, every 30 s and at the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Version of this form, 1.
    pub format: u32,
    /// Whose measurement it is.
    #[serde(flatten)]
    pub key: MeasureKey,
    /// The scheduler's job, where there is one.
    pub job_id: Option<JobId>,
    /// The state of the command.
    pub state: NodeState,
    /// When the command was started, in Unix milliseconds UTC.
    pub started_at_ms: u64,
    /// When it ended.
    pub ended_at_ms: Option<u64>,
    /// When this record was written.
    pub updated_at_ms: u64,
    /// How it ended.
    pub exit: Option<ExitStatus>,
    /// The file that took the command's output, where it is known.
    pub output: Option<String>,
    /// The machine.
    pub host: HostFacts,
    /// Under what conditions it ran there.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub conditions: Conditions,
    /// What was used, derived from the samples.
    pub usage: Usage,
    /// Epochs and steps.
    pub progress: Progress,
    /// Segments of samples beside this record.
    pub segments: u32,
    /// Of a command that failed, the end of its traceback or its error message, the line that says why as the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_words: Vec<String>,
    /// Holes in the series.
    #[serde(default)]
    pub gaps: Vec<Gap>,
    /// What could not be measured.
    #[serde(default)]
    pub missing: Vec<Missing>,
    /// What watching cost.
    pub watcher: WatcherCost,
    /// The cgroup whose totals the samples are, relative to the root of its hierarchy; `None`: sums over the processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// The GPUs of the run on this node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuUsage>,
    /// The ranks of a distributed training on this node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankRecord>,
    /// How the command got into its container; `None`: it runs in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerRecord>,
    /// What was done when the time of this start was nearly up; `None`: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_stop: Option<TimeStop>,
    /// What the trial before the command measured; `None`: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<TrialRecord>,
    /// What happened, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
}

/// A measurement as an index knows it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Measurement {
    /// The record, without epochs, GPUs and events: those have rows of their own.
    pub record: NodeRecord,
    /// What this kind of node was measured to do.
    pub figures: Option<NodeFigures>,
    /// What is known of its attempt.
    pub attempt: AttemptMarks,
}

/// An attempt by the marks of its batch script, and what its job noted of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct AttemptMarks {
    /// The job.
    pub job_id: Option<JobId>,
    /// The node of its batch shell.
    pub first_node: Option<String>,
    /// When the batch script began, in Unix milliseconds UTC.
    pub started_at_ms: Option<u64>,
    /// When it ended.
    pub ended_at_ms: Option<u64>,
    /// The batch shell's exit code, 128 + n for signal n.
    pub exit_code: Option<i32>,
    /// What the job noted, where the run may continue.
    #[serde(default)]
    pub record: Option<AttemptRecord>,
}

impl NodeRecord {
    /// The version that this dlrun writes.
    pub const FORMAT: u32 = 1;

    /// The most memory in any sample, in bytes; `None` also where it was read thrice or less: when the command had just
    /// begun, when it was over, and once between at most. A record that was imported does not say how often.
    #[must_use]
    pub fn sure_memory_peak(&self) -> Option<u64> {
        self.usage
            .mem_peak_bytes
            .filter(|_| !(1..=3).contains(&self.watcher.samples))
    }

    /// What is to be said of it while it runs, and whether it is a warning: memory that will not suffice, and what it holds without
    /// work.
    #[must_use]
    pub fn remarks(&self, now_ms: u64) -> Vec<(bool, String)> {
        match self.state {
            NodeState::Running => self
                .progress
                .remarks(&self.gpus, self.updated_at_ms, now_ms),
            NodeState::Ended | NodeState::Interrupted => Vec::new(),
        }
    }

    /// The record of a command that has just begun and of which nothing was measured yet.
    #[must_use]
    pub fn begun(key: MeasureKey, job_id: Option<JobId>, at_ms: u64, host: HostFacts) -> Self {
        Self {
            format: Self::FORMAT,
            last_words: Vec::new(),
            key,
            job_id,
            state: NodeState::Running,
            started_at_ms: at_ms,
            ended_at_ms: None,
            updated_at_ms: at_ms,
            exit: None,
            output: None,
            host,
            conditions: Conditions::default(),
            usage: Usage::default(),
            progress: Progress::default(),
            segments: 0,
            gaps: Vec::new(),
            missing: Vec::new(),
            watcher: WatcherCost::default(),
            cgroup: None,
            container: None,
            gpus: Vec::new(),
            ranks: Vec::new(),
            time_stop: None,
            trial: None,
            events: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_of_one_kind_share_a_fingerprint() {
        let host = |mem_total_bytes| HostFacts {
            hostname: "n".into(),
            cpu_model: Some("EPYC 7742".into()),
            cpus: Some(128),
            mem_total_bytes,
            ..HostFacts::default()
        };
        let one = host(Some(540_000_000_000)).fingerprint();
        assert_eq!(one, host(Some(540_001_000_000)).fingerprint());
        assert_eq!(one.as_deref(), Some("EPYC 7742; 128 CPUs; 503 GiB"));
        assert_eq!(
            host(None).fingerprint().as_deref(),
            Some("EPYC 7742; 128 CPUs; ? GiB")
        );
        assert_eq!(HostFacts::default().fingerprint(), None);
    }
}
