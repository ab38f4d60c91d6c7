//! One vocabulary for what a job is doing, whatever scheduler has it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of a job. Each scheduler module translates its own words into it, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Waiting for resources, a dependency, a begin time or a person.
    Pending,
    /// Has nodes; also while a scheduler sets it up or cleans up after it.
    Running,
    /// Has nodes but is stopped.
    Suspended,
    /// Ended with exit code 0.
    Completed,
    /// Ended with another exit code or by a signal.
    Failed,
    /// Ended at its time limit.
    Timeout,
    /// Ended because it wanted more memory than it was given.
    OutOfMemory,
    /// Ended to make room for another job.
    Preempted,
    /// Ended because a node or the job's shell died.
    NodeFail,
    /// Ended because somebody cancelled it.
    Cancelled,
    /// Nobody can say.
    Unknown,
}

impl JobState {
    /// The word of `--json`, of the index and of the tables.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Suspended => "suspended",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::OutOfMemory => "out_of_memory",
            Self::Preempted => "preempted",
            Self::NodeFail => "node_fail",
            Self::Cancelled => "cancelled",
            Self::Unknown => "unknown",
        }
    }

    /// Reads [`JobState::as_str`] back; anything else is [`JobState::Unknown`].
    #[must_use]
    pub fn from_word(word: &str) -> Self {
        serde_json::from_value(serde_json::Value::from(word)).unwrap_or(Self::Unknown)
    }

    /// True when the job will not run any further.
    #[must_use]
    pub fn is_final(self) -> bool {
        !matches!(
            self,
            Self::Pending | Self::Running | Self::Suspended | Self::Unknown
        )
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for state in [
            JobState::Pending,
            JobState::OutOfMemory,
            JobState::NodeFail,
            JobState::Unknown,
        ] {
            assert_eq!(JobState::from_word(state.as_str()), state);
        }
        assert_eq!(JobState::from_word("nonsense"), JobState::Unknown);
    }
}
