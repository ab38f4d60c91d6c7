//! What came of the samples of one node.

use serde::Serialize;

/// How values over time lie: means over bins of [`Sampled::bin_seconds`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The mean over the time.
    pub mean: f64,
    /// 95th percentile of the bins.
    pub p95: f64,
    /// The largest bin.
    pub peak: f64,
}

/// One GPU over a time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GpuWindow {
    /// Which.
    pub uuid: String,
    /// Share of the time in which any kernel ran, in percent; by GPM where NVML gives none.
    pub busy_percent: Option<Spread>,
    /// Energy that it drew in that time, in joules.
    pub energy_joules: Option<f64>,
}

/// Some time of a run on one node. Shares of time are between 0 and 1.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Window {
    /// Seconds of which something is known.
    pub seconds: f64,
    /// CPUs kept busy.
    pub cpus_busy: Option<Spread>,
    /// Time in which the CPU quota kept the run from running.
    pub cpu_throttled_ratio: Option<f64>,
    /// Read from storage.
    pub io_read_bytes_per_second: Option<Spread>,
    /// Written to storage.
    pub io_write_bytes_per_second: Option<Spread>,
    /// Time in which some task of the run waited for I/O.
    pub io_wait_ratio: Option<f64>,
    /// Time in which all tasks of the run waited for memory.
    pub mem_wait_ratio: Option<f64>,
    /// As `io_wait_ratio`, of the whole node with what others do there.
    pub node_io_wait_ratio: Option<f64>,
    /// The GPUs.
    pub gpus: Vec<GpuWindow>,
}

/// What the samples of one node say.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sampled {
    /// How many there are.
    pub samples: u64,
    /// Time between neighbouring samples, gaps left out, in seconds.
    pub covered_seconds: f64,
    /// The length of a bin, in seconds.
    pub bin_seconds: f64,
    /// From the first sample to the last.
    pub whole: Window,
    /// From the end of the first epoch to the end of the last; `None` where that is too short or not known.
    pub training: Option<Window>,
    /// Samples that tell the memory in use.
    pub mem_readings: u64,
    /// The most memory in use in any of them, in bytes.
    pub mem_most_bytes: Option<u64>,
    /// The same of the first three quarters of the bins.
    pub mem_most_early_bytes: Option<u64>,
    /// The same of the last quarter.
    pub mem_most_late_bytes: Option<u64>,
}

impl Sampled {
    /// The time that limits are drawn from: the training where it is known, else all.
    #[must_use]
    pub fn window(&self) -> &Window {
        self.training.as_ref().unwrap_or(&self.whole)
    }
}
