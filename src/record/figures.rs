//! What a kind of node can do, as it was measured.

use serde::{Deserialize, Serialize};

/// What a kind of node was measured to do, by `dlrun bench node`. Figures are positive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NodeFigures {
    /// Highest single-precision rate of one core, in 10^9 floating-point operations per second.
    pub core_gflops: f64,
    /// The same of all cores at once.
    pub node_gflops: f64,
    /// Memory bandwidth of all cores at once, STREAM's triad, in 10^9 bytes per second.
    pub memory_gb_per_second: f64,
    /// Sequential reading past the page cache, in 10^6 bytes per second; `None` where it could not be measured.
    pub disk_mb_per_second: Option<f64>,
    /// When it was measured, in Unix milliseconds UTC.
    pub measured_at_ms: u64,
}
