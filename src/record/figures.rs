//! What a kind of node can do, as it was measured.

use serde::{Deserialize, Serialize};

/// What a kind of node was measured to do, by `dlrun bench node`. Figures are positive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NodeFigures {
    /// Highest single-precision rate of one core, in 10^9 floating-point operations per second.
    pub core_gflops: f64,
    /// The same for all cores at once.
    pub node_gflops: f64,
    /// Memory bandwidth of all cores at once, STREAM's triad, in 10^9 bytes per second.
    pub memory_gb_per_second: f64,
    /// Sequential reading past the page cache, in 10^6 bytes per second; `None` where it could not be measured.
    pub disk_mb_per_second: Option<f64>,
    /// When it was measured, in Unix milliseconds UTC.
    pub measured_at_ms: u64,
}

impl NodeFigures {
    /// Whether all figures are positive numbers: nobody knows who wrote a file.
    #[must_use]
    pub fn are_sound(&self) -> bool {
        let Self {
            core_gflops,
            node_gflops,
            memory_gb_per_second,
            disk_mb_per_second,
            measured_at_ms: _,
        } = *self;
        let mut figures = [core_gflops, node_gflops, memory_gb_per_second]
            .into_iter()
            .chain(disk_mb_per_second);
        figures.all(|figure| figure.is_finite() && figure > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_positive_number_is_no_figure() {
        let good = NodeFigures {
            core_gflops: 90.0,
            node_gflops: 180.0,
            memory_gb_per_second: 40.0,
            disk_mb_per_second: None,
            measured_at_ms: 1,
        };
        assert!(good.are_sound());
        assert!(
            NodeFigures {
                disk_mb_per_second: Some(900.0),
                ..good
            }
            .are_sound()
        );
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(
                !NodeFigures {
                    core_gflops: bad,
                    ..good
                }
                .are_sound(),
                "{bad}"
            );
            assert!(
                !NodeFigures {
                    disk_mb_per_second: Some(bad),
                    ..good
                }
                .are_sound(),
                "{bad}"
            );
        }
    }
}
