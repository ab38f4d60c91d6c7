//! The job as its user wrote it: the job file, its parts, and the words for a job's states and names.
//!
//! Pure: text in, [`JobSpec`] or a list of [`crate::diagnostic::Problem`] out.

mod fields;
mod file;
mod id;
mod spec;
mod state;

pub use file::{MAX_JOB_FILE_BYTES, parse};
pub use id::{JobId, RunId, RunIdError, name_problem};
pub use spec::{
    Asked, Command, EnvVar, JobSpec, Launcher, Located, NodeCount, Resources, Run, SchedulerKind,
    SchedulerSection, TimingPattern, Workload,
};
pub use state::JobState;
