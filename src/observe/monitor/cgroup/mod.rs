//! The cgroup of a job: where it is, and what it counts.

mod devices;
mod files;
mod layout;
mod locate;
mod members;
mod mounts;
mod path;
mod quota;
mod totals;

pub(super) use files::{KeptFile, new_buffer, read_pressure};
pub use layout::{CgroupLayout, layout};
pub use locate::{LocateError, locate, locate_in, locate_run};
pub use path::{CgroupDirectories, CgroupScheduler, JobCgroup};
pub(crate) use quota::memory_limit;
pub(super) use quota::{cpu_quota, memory_left};
pub(super) use totals::{CgroupReader, Group};

/// How the reason ends why a figure is missing that the kernel does not keep for a cgroup.
pub const NOT_COUNTED: &str = "does not count it";
