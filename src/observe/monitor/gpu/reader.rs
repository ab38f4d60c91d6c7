//! The seam between watching and one vendor's driver.

use std::fmt::Debug;
use std::sync::Arc;

use crate::record::{GpuFacts, GpuReading};

/// Why a GPU or its driver gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// The driver's library does not exist, or is no such library.
    #[error("the library `{0}` cannot be loaded: {1}")]
    NoLibrary(String, String),
    /// The driver is not loaded, or was unloaded since.
    #[error("the GPU driver is not loaded")]
    NoDriver,
    /// This GPU, its mode or its driver does not have the value.
    #[error("the value is not supported")]
    NotSupported,
    /// The value or the GPU is not for this user.
    #[error("no permission")]
    NoPermission,
    /// The GPU fell off the bus, or waits for a reset.
    #[error("the GPU is lost")]
    Lost,
    /// There is no such GPU, or nothing of what was asked for.
    #[error("not found")]
    NotFound,
    /// Something else.
    #[error("the GPU driver failed: {0}")]
    Driver(String),
}

/// A process that computes on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuProcess {
    /// Its pid as the host sees it, also where the asking process is in a pid namespace.
    pub pid: u32,
    /// Memory of the GPU that it holds.
    pub mem_bytes: Option<u64>,
    /// Use of the streaming multiprocessors by it, in percent.
    pub sm_percent: Option<u64>,
}

/// One reading of one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GpuRead {
    /// Its values; the `run_…` columns are empty.
    pub reading: GpuReading,
    /// All processes that compute on it; `None` where the driver does not tell.
    pub processes: Option<Vec<GpuProcess>>,
}

/// An XID error: what NVIDIA's driver calls an error of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuXid {
    /// When it was seen, in Unix milliseconds UTC.
    pub at_ms: u64,
    /// On which GPU.
    pub uuid: Arc<str>,
    /// Its number; 79 is a GPU that fell off the bus.
    pub xid: u64,
}

/// Asks the driver of one vendor. Every call may block for as long as the driver likes.
pub trait GpuReader: Debug {
    /// The GPUs that may be read, as they were found when the reader was opened. A divided GPU is among them, and so are
    /// its slices, each with its parent.
    fn devices(&self) -> Vec<Arc<GpuFacts>>;

    /// GPUs that the driver counts and does not let be read: their number, and why.
    fn refused(&self) -> Vec<(u32, GpuError)> {
        Vec::new()
    }

    /// Reads one GPU.
    ///
    /// # Errors
    /// Where the GPU as a whole gives no answer. A single value that it does not give is `None`.
    fn read(&self, uuid: &str) -> Result<GpuRead, GpuError>;

    /// Errors that GPUs reported since the last call; does not block.
    fn take_xids(&self) -> Vec<GpuXid>;
}
