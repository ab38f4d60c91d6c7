//! One vocabulary for what a job is doing, whatever scheduler has it.

use crate::foundation::vocabulary::vocabulary;

vocabulary! {
    /// The state of a job. Each scheduler module translates its own words into it, once.
    #[derive(Default)]
    pub enum JobState {
        /// Waiting for resources, a dependency, a begin time or a person.
        Pending = "pending",
        /// Has nodes; also while a scheduler sets it up or cleans up after it.
        Running = "running",
        /// Has nodes but is stopped.
        Suspended = "suspended",
        /// Ended with exit code 0.
        Completed = "completed",
        /// Ended with another exit code or by a signal.
        Failed = "failed",
        /// Ended at its time limit.
        Timeout = "timeout",
        /// Ended because it wanted more memory than it was given.
        OutOfMemory = "out_of_memory",
        /// Ended to make room for another job.
        Preempted = "preempted",
        /// Ended because a node or the job's shell died.
        NodeFail = "node_fail",
        /// Ended because somebody cancelled it.
        Cancelled = "cancelled",
        /// Nobody can say.
        #[default]
        Unknown = "unknown",
    }
}

impl JobState {
    /// True when the job will not run any further.
    #[must_use]
    pub fn is_final(self) -> bool {
        !matches!(
            self,
            Self::Pending | Self::Running | Self::Suspended | Self::Unknown
        )
    }
}
