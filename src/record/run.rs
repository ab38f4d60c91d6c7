//! What is known of a run from its submission, and the marks its batch script leaves.

use serde::{Deserialize, Serialize};

use super::{ExitStatus, Forecast, Identity, RunImage};
use crate::job::{ArraySpec, Framework, JobId, RunId, SchedulerKind, StorageClass, Workload};

/// The file `run.json` of a run directory: who submitted what, where to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Version of this form, 1.
    pub format: u32,
    /// The run.
    pub run_id: RunId,
    /// The job's name.
    pub name: String,
    /// When it was handed over, in Unix milliseconds UTC. Order of runs comes from here.
    pub submitted_at_ms: u64,
    /// Login name of the submitter.
    pub user: String,
    /// Host it was submitted from; a local job runs there.
    pub submit_host: String,
    /// Which scheduler has it.
    pub scheduler: SchedulerKind,
    /// The scheduler's id; `None` while it is being handed over, and for ever where that was interrupted.
    pub job_id: Option<JobId>,
    /// The job's output file, absolute. `None` where only the scheduler knows.
    pub output: Option<String>,
    /// Directory the command runs in, absolute.
    pub workdir: String,
    /// The job file, absolute; `None` for a script that came through `dlrun render`.
    pub job_file: Option<String>,
    /// Requested nodes.
    pub nodes: u32,
    /// Tasks on each node; `None`: an older dlrun did not write it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks_per_node: Option<u32>,
    /// Indexes of the job array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArraySpec>,
    /// Further jobs of an array that goes beyond the scheduler's largest index; the first is `job_id`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ArrayPart>,
    /// What the training is written with.
    #[serde(default, skip_serializing_if = "Framework::is_unknown")]
    pub framework: Framework,
    /// The storage that was chosen: its name at the site, and its class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<(String, StorageClass)>,
    /// The image that the command runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<RunImage>,
    /// The queue that it waits in, where one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// What the job file says of the training.
    pub workload: Workload,
    /// What it is a run of; `None`: an older dlrun did not write it down, or it came without a job file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// What the performance model said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<Forecast>,
    /// The dlrun that submitted it.
    pub dlrun_version: String,
}

impl RunRecord {
    /// The version that this dlrun writes.
    pub const FORMAT: u32 = 1;

    /// The advice on the run before that it follows.
    #[must_use]
    pub fn followed(&self) -> Option<&super::Followed> {
        self.identity.as_ref()?.followed.as_ref()
    }
}

/// A job of several that are one array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayPart {
    /// The scheduler's id.
    pub job_id: JobId,
    /// What is added to its indexes.
    pub offset: u32,
}

/// A mark of the batch script at its start (`exit` is `None`) or end, in an attempt's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sentinel {
    /// Version of this form, 1.
    pub format: u32,
    /// When, in Unix milliseconds UTC by the node's clock.
    pub at_ms: u64,
    /// Time since the node's boot then, in milliseconds; no step of the wall clock changes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uptime_ms: Option<u64>,
    /// Node of the batch shell.
    pub node: String,
    /// The scheduler's id, as the job's environment had it.
    #[serde(default)]
    pub job_id: Option<JobId>,
    /// The shell's exit code of the run.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// Why the batch script did not start the command: a module, a directory or a program is missing on the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl Sentinel {
    /// When an end mark was left, in Unix milliseconds UTC: counted from its start mark where both tell the time since boot, so that
    /// their distance is the time that passed.
    #[must_use]
    pub fn ended_at_ms(&self, start: Option<&Self>) -> u64 {
        let passed = |start: &Self| self.uptime_ms?.checked_sub(start.uptime_ms?);
        let start = start.filter(|start| start.node == self.node);
        start
            .and_then(|start| Some(start.at_ms.saturating_add(passed(start)?)))
            .unwrap_or(self.at_ms)
    }

    /// How the run ended, where this is an end mark.
    #[must_use]
    pub fn exit(&self) -> Option<ExitStatus> {
        self.exit_code.map(ExitStatus::from_shell_code)
    }
}
