//! How one start of a run ended and what follows, as the run's own job noted it: `attempt.json` beside the marks.

use serde::{Deserialize, Serialize};

use crate::foundation::vocabulary::vocabulary;
use crate::job::{JobId, JobState};

/// A checkpoint of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Its file or directory, absolute.
    pub path: String,
    /// When it was written last, in Unix milliseconds UTC of its file system.
    pub modified_ms: u64,
    /// Its size; of a directory that of all its files.
    pub bytes: u64,
}

vocabulary! {
    /// How one start ended.
    pub enum Verdict {
        /// The training is done.
        Finished = "finished",
        /// The program failed.
        Failed = "failed",
        /// Its time was up.
        Timeout = "timeout",
        /// It made room for another job.
        Preemption = "preemption",
        /// A node was lost, or the job's shell was killed.
        Node = "node",
        /// The program seemed to hang, and was ended.
        Hang = "hang",
        /// `dlrun scale` asked for another number of nodes.
        Scaled = "scaled",
        /// It wanted more memory than it was given.
        Memory = "memory",
        /// Somebody cancelled it.
        Cancelled = "cancelled",
        /// Nobody knows.
        Unknown = "unknown",
    }
}

impl Verdict {
    /// The state of a run whose last start ended so, where an exit code does not say it.
    #[must_use]
    pub fn state(self) -> Option<JobState> {
        match self {
            Self::Timeout => Some(JobState::Timeout),
            Self::Preemption => Some(JobState::Preempted),
            Self::Node => Some(JobState::NodeFail),
            Self::Memory => Some(JobState::OutOfMemory),
            // Whatever its exit code: the training is not done.
            Self::Hang | Self::Scaled => Some(JobState::Failed),
            Self::Finished | Self::Failed | Self::Cancelled | Self::Unknown => None,
        }
    }
}

vocabulary! {
    /// What follows a start.
    pub enum Next {
        /// Nothing: the run is over.
        Nothing = "nothing",
        /// The job was put back into the queue, with the same id.
        Requeue = "requeue",
        /// Another job continues.
        Resubmit = "resubmit",
        /// The script begins again in the same job: on this machine, with a spare node in the place of a lost one, or on fewer nodes.
        Restart = "restart",
    }
}

/// What dlrun did on a node when the time of a start was nearly up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimeStop {
    /// When, in Unix milliseconds UTC.
    pub at_ms: u64,
    /// Processes that got the signal to save; 0: none handles it, or none was to be sent.
    pub signalled: u32,
    /// From then to the new complete checkpoint, in seconds; `None`: none was seen.
    pub saved_seconds: Option<f64>,
    /// Whether dlrun ended the program; `false`: it ended by itself.
    pub stopped: bool,
}

/// The end of one start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptEnd {
    /// How it ended.
    pub verdict: Verdict,
    /// What shows that.
    pub evidence: String,
    /// Nodes that it lost, by their scheduler's names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_nodes: Vec<String>,
    /// Nodes that its job kept for the next start, where it gave others back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_nodes: Vec<String>,
    /// What follows.
    pub next: Next,
    /// Why that follows, or why not.
    pub why: String,
    /// When this was decided, in Unix milliseconds UTC.
    pub at_ms: u64,
    /// The job that continues, where it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// The newest complete checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// Whether that is newer than what this start began with.
    pub advanced: bool,
    /// From the signal to save to the complete checkpoint, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub save_seconds: Option<f64>,
    /// Hours of nodes that the run has taken up to here, all starts together.
    pub node_hours: f64,
}

impl AttemptEnd {
    /// Whether dlrun ended the program, so that its exit code says nothing.
    #[must_use]
    pub fn is_by_dlrun(&self) -> bool {
        matches!(self.verdict, Verdict::Scaled | Verdict::Hang)
    }
}

/// What is noted of one start of a run that may continue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// Version of this form, 1.
    pub format: u32,
    /// The newest complete checkpoint when it started; `None`: there was none.
    pub found: Option<Checkpoint>,
    /// The checkpoint that the program was given; `None`: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Its nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// The list of them, as its scheduler writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<String>,
    /// When the request of `dlrun scale` was made that was there when it started, in Unix milliseconds UTC: a later one is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_asked_at_ms: Option<u64>,
    /// How it ended; `None`: it still runs, or was killed before it could say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<AttemptEnd>,
}

impl AttemptRecord {
    /// The version that this dlrun writes.
    pub const FORMAT: u32 = 1;

    /// Of a start that noted nothing.
    #[must_use]
    pub fn unknown() -> Self {
        Self {
            format: Self::FORMAT,
            found: None,
            from: None,
            nodes: None,
            hosts: None,
            scale_asked_at_ms: None,
            end: None,
        }
    }
}
