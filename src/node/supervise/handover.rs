//! What the supervisor sends the watcher through a pipe: a line of JSON at the start and one at the end, and between them
//! [`DROP_SIGNALS`] now and then. An end of the pipe without the last line means that the supervisor was killed.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::context::Context;
use crate::observe::protocol::Process;
use crate::record::{ContainerRecord, ExitStatus, TimeStop};

/// A line between the first and the last: the watcher drops the signals that wait in it.
pub(super) const DROP_SIGNALS: &str = "drop signals";

/// The first line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Handover {
    pub(super) context: Context,
    /// How the command got into its container.
    pub(super) container: Option<ContainerRecord>,
    /// True where the command's first process is the container's runtime, so that its words can be distinguished from the command's.
    pub(super) is_runtime: bool,
    /// What speaks against this node, and whether the start ends for it.
    #[serde(default)]
    pub(super) unfit: Vec<String>,
    #[serde(default)]
    pub(super) is_refused: bool,
    /// The command's first process.
    pub(super) command: Process,
    pub(super) supervisor: u32,
    /// Slurm's process of the step.
    #[serde(default)]
    pub(super) step: Option<Process>,
    pub(super) started_at_ms: u64,
    /// The date from which all times of the run count ([`crate::foundation::clock::count_from`]).
    pub(super) booted_at_ms: u64,
    /// The file that the command writes to, and its length when the command was started.
    pub(super) output: Option<OutputFile>,
    /// The file in which the command reports events, where it could be made.
    #[serde(default)]
    pub(super) events: Option<PathBuf>,
    /// True when the output must also go to the watcher's standard output, since it is no file.
    pub(super) echo: bool,
    /// True for a watcher that takes over from a killed one.
    pub(super) resumes: bool,
}

/// Where the command writes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct OutputFile {
    pub(super) path: PathBuf,
    pub(super) offset: u64,
}

/// The last line.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Ended {
    pub(super) exit: ExitStatus,
    pub(super) ended_at_ms: u64,
    /// CPU time of the command and all its children that were waited for, in microseconds (`getrusage(2)`).
    pub(super) cpu_user_us: u64,
    pub(super) cpu_system_us: u64,
    /// The most memory that was resident in one of them, in bytes, where it is known.
    #[serde(default)]
    pub(super) mem_peak_bytes: Option<u64>,
    /// What was done when the time was nearly up.
    #[serde(default)]
    pub(super) time_stop: Option<TimeStop>,
}
