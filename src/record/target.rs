//! A kind of node and how it was measured: what `dlrun bench node` leaves behind.

use serde::{Deserialize, Serialize};

use super::{GpuFacts, HostFacts, NodeFigures};

/// What was found out about a kind of node. The file of it is the truth, the index's table of targets follows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetRecord {
    /// Version of this form, 1.
    pub format: u32,
    /// The kind: [`HostFacts::fingerprint`].
    pub fingerprint: String,
    /// The machine that it was measured on.
    pub host: HostFacts,
    /// What runs on such nodes carry.
    pub figures: NodeFigures,
    /// How the figures were measured.
    pub bench: NodeBench,
    /// Its GPUs, by the driver.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuFacts>,
    /// The dlrun that measured.
    pub dlrun_version: String,
}

impl TargetRecord {
    /// The version that this dlrun writes.
    pub const FORMAT: u32 = 1;
}

/// How a machine was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeBench {
    /// Threads that measured at once, one a CPU.
    pub cpus_used: u32,
    /// How long it took.
    pub seconds: f64,
    /// CPUs that everything else kept busy meanwhile, on average; `None`: the kernel does not say.
    pub others_cpus_busy: Option<f64>,
    /// CPUs that a hypervisor took away meanwhile, on average.
    pub cpus_stolen: Option<f64>,
    /// The widest instructions that were quickest: `avx512f`, `avx2+fma`, `neon`, ...
    pub instructions: String,
    /// One core, in 10^9 single-precision operations per second.
    pub core_gflops: Spread,
    /// All cores at once.
    pub node_gflops: Spread,
    /// STREAM's triad with all cores, in 10^9 bytes per second.
    pub memory_gb_per_second: Spread,
    /// The three arrays of the triad together.
    pub arrays_bytes: u64,
    /// All last-level caches together; `None`: the kernel does not say.
    pub last_level_cache_bytes: Option<u64>,
    /// What lessens the figures' worth, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A figure that was measured several times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The highest.
    pub best: f64,
    /// The one in the middle.
    pub median: f64,
    /// From the lowest to the highest, as a part of the median.
    pub spread_ratio: f64,
    /// How often it was measured.
    pub repeats: u32,
}

impl Spread {
    /// Of what was measured; what is no positive number is left out. `None`: nothing is left.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut values: Vec<f64> = values
            .iter()
            .copied()
            .filter(|value| value.is_finite() && *value > 0.0)
            .collect();
        values.sort_by(f64::total_cmp);
        let (lowest, best) = (*values.first()?, *values.last()?);
        let median = super::median(values.clone())?;
        let repeats = u32::try_from(values.len()).unwrap_or(u32::MAX);
        Some(Self {
            best,
            median,
            spread_ratio: (best - lowest) / median,
            repeats,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_that_of_the_numbers_among_the_values() {
        let spread =
            Spread::of(&[3.0, f64::NAN, 1.0, 0.0, 2.0, f64::INFINITY]).expect("three numbers");
        assert_eq!(
            spread,
            Spread {
                best: 3.0,
                median: 2.0,
                spread_ratio: 1.0,
                repeats: 3
            }
        );
        assert_eq!(
            Spread::of(&[1.0, 2.0]).map(|spread| spread.median),
            Some(1.5)
        );
        assert_eq!(Spread::of(&[-1.0, f64::NAN]), None);
    }
}
