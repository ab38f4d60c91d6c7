//! What is shown of a run over time: each figure with its unit, how it is thinned, and the columns it is made of.

use Kind::{Mean, Most};

use crate::record::{GpuReading, Sample};
use crate::report::Unit;

/// Columns that one figure is made of at most.
pub(super) const MOST_SOURCES: usize = 3;

/// How the readings within a point become one value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::report) enum Kind {
    /// A counter: its growth over the time, in units of this many.
    Rate(f64),
    /// The mean over the time.
    Mean,
    /// The largest.
    Most,
}

/// What a figure is made of in one sample, in the order of its columns.
pub(in crate::report) type Values<'a> = &'a [Option<u64>];

/// A figure.
#[derive(Debug)]
pub(in crate::report) struct Figure {
    /// Its name for programs.
    pub(in crate::report) name: &'static str,
    pub(super) kind: Kind,
    pub(super) unit: Unit,
    /// The columns it is made of.
    pub(super) sources: &'static [&'static str],
    /// Its value.
    pub(super) read: fn(Values<'_>) -> Option<f64>,
}

#[expect(clippy::cast_precision_loss, reason = "a curve needs no 16 digits")]
fn real(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

/// Figures of one column each: its name, what it is called, how it is thinned, its unit.
macro_rules! figures {
    ($($column:ident => $name:literal, $kind:expr, $unit:ident;)*) => {
        [$(Figure {
            name: $name,
            kind: $kind,
            unit: Unit::$unit,
            sources: &[stringify!($column)],
            read: |values| real(values[0]),
        }),*]
    };
}

/// Microseconds a second, as a share of it; or CPUs.
const OF_A_SECOND: Kind = Kind::Rate(1e6);
const A_SECOND: Kind = Kind::Rate(1.0);
static DERIVED: [Figure; 2] = [
    Figure {
        name: "cpu_busy",
        kind: OF_A_SECOND,
        unit: Unit::Cpus,
        sources: &["cpu_user_us", "cpu_system_us"],
        read: |values| Some(real(values[0])? + real(values[1])?),
    },
    Figure {
        name: "mem_used_bytes",
        kind: Most,
        unit: Unit::Bytes,
        sources: &["mem_rss_bytes", "mem_anon_bytes", "mem_shmem_bytes"],
        read: |values| real(Sample::mem_used_of(values[0], values[1], values[2])),
    },
];

static OF_RUN: [Figure; 21] = figures![
    cpu_throttled_us => "cpu_throttled", OF_A_SECOND, Share;
    mem_rss_bytes => "mem_rss_bytes", Most, Bytes;
    mem_anon_bytes => "mem_anon_bytes", Most, Bytes;
    mem_shmem_bytes => "mem_shmem_bytes", Most, Bytes;
    mem_file_bytes => "mem_file_bytes", Most, Bytes;
    io_read_bytes => "io_read_bytes_per_second", A_SECOND, BytesPerSecond;
    io_write_bytes => "io_write_bytes_per_second", A_SECOND, BytesPerSecond;
    processes => "processes", Most, Number;
    threads => "threads", Most, Number;
    psi_cpu_some_us => "psi_cpu_some", OF_A_SECOND, Share;
    psi_mem_some_us => "psi_mem_some", OF_A_SECOND, Share;
    psi_mem_full_us => "psi_mem_full", OF_A_SECOND, Share;
    psi_io_some_us => "psi_io_some", OF_A_SECOND, Share;
    psi_io_full_us => "psi_io_full", OF_A_SECOND, Share;
    node_psi_cpu_some_us => "node_psi_cpu_some", OF_A_SECOND, Share;
    node_psi_mem_some_us => "node_psi_mem_some", OF_A_SECOND, Share;
    node_psi_mem_full_us => "node_psi_mem_full", OF_A_SECOND, Share;
    node_psi_io_some_us => "node_psi_io_some", OF_A_SECOND, Share;
    node_psi_io_full_us => "node_psi_io_full", OF_A_SECOND, Share;
    node_net_rx_bytes => "node_net_rx_bytes_per_second", A_SECOND, BytesPerSecond;
    node_net_tx_bytes => "node_net_tx_bytes_per_second", A_SECOND, BytesPerSecond;
];

static BUSY: Figure = Figure {
    name: "utilisation_percent",
    kind: Mean,
    unit: Unit::Percent,
    sources: &["utilisation_percent", "gpm_sm_basis_points"],
    read: |values| GpuReading::busy_of(values[0], values[1]),
};

static OF_GPU: [Figure; 15] = figures![
    mem_utilisation_percent => "mem_utilisation_percent", Mean, Percent;
    mem_used_bytes => "mem_used_bytes", Most, Bytes;
    power_milliwatts => "power_milliwatts", Mean, Milliwatts;
    temperature_celsius => "temperature_celsius", Most, Number;
    sm_clock_mhz => "sm_clock_mhz", Mean, Number;
    mem_clock_mhz => "mem_clock_mhz", Mean, Number;
    pcie_tx_bytes => "pcie_tx_bytes_per_second", A_SECOND, BytesPerSecond;
    pcie_rx_bytes => "pcie_rx_bytes_per_second", A_SECOND, BytesPerSecond;
    nvlink_tx_bytes => "nvlink_tx_bytes_per_second", A_SECOND, BytesPerSecond;
    nvlink_rx_bytes => "nvlink_rx_bytes_per_second", A_SECOND, BytesPerSecond;
    run_processes => "run_processes", Most, Number;
    run_mem_bytes => "run_mem_bytes", Most, Bytes;
    run_sm_percent => "run_sm_percent", Mean, Percent;
    gpm_tensor_basis_points => "gpm_tensor_basis_points", Mean, Number;
    gpm_dram_basis_points => "gpm_dram_basis_points", Mean, Number;
];

/// The figures of the run.
pub(super) fn of_run() -> impl Iterator<Item = &'static Figure> {
    DERIVED.iter().chain(&OF_RUN)
}

/// The figures of a GPU.
pub(super) fn of_gpu() -> impl Iterator<Item = &'static Figure> {
    std::iter::once(&BUSY).chain(&OF_GPU)
}

/// Energy has no curve: power has one. Its values are watts.
static ENERGY: Figure = Figure {
    name: "energy",
    kind: Kind::Rate(1e3),
    unit: Unit::Number,
    sources: &["energy_millijoules"],
    read: |values| real(values[0]),
};

/// The figures of the run that limits and advice rest on.
pub(in crate::report) fn binned_of_run() -> impl Iterator<Item = &'static Figure> {
    const BINNED: [&str; 8] = [
        "cpu_busy",
        "mem_used_bytes",
        "cpu_throttled",
        "io_read_bytes_per_second",
        "io_write_bytes_per_second",
        "psi_io_some",
        "psi_mem_full",
        "node_psi_io_some",
    ];
    of_run().filter(|figure| BINNED.contains(&figure.name))
}

/// The same of a GPU.
pub(in crate::report) fn binned_of_gpu() -> impl Iterator<Item = &'static Figure> {
    [&BUSY, &ENERGY].into_iter()
}

/// True for columns of a segment that curves are made of.
pub(crate) fn is_needed(name: &str) -> bool {
    is_source(name, of_run(), of_gpu())
}

/// True for a column that one of these figures is made of.
pub(in crate::report) fn is_source(
    name: &str,
    mut of_run: impl Iterator<Item = &'static Figure>,
    mut of_gpu: impl Iterator<Item = &'static Figure>,
) -> bool {
    match name.strip_prefix("gpu/").map(|rest| rest.rsplit_once('/')) {
        Some(Some((_, column))) => of_gpu.any(|figure| figure.sources.contains(&column)),
        Some(None) => false,
        None => of_run.any(|figure| figure.sources.contains(&name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{COLUMNS, GPU_COLUMNS};

    #[test]
    fn figures_are_made_of_columns_that_there_are() {
        let mut names = Vec::new();
        for figure in of_run() {
            assert!((1..=MOST_SOURCES).contains(&figure.sources.len()));
            assert!(
                figure
                    .sources
                    .iter()
                    .all(|source| COLUMNS.iter().any(|column| column.name == *source))
            );
            names.push(figure.name);
        }
        for figure in of_gpu() {
            let known = |source: &&str| GPU_COLUMNS.iter().any(|column| column.name == *source);
            assert!(figure.sources.iter().all(known), "{}", figure.name);
        }
        let (all, count) = (
            names.len(),
            names.iter().collect::<std::collections::HashSet<_>>().len(),
        );
        assert_eq!(all, count, "{names:?}");
    }

    #[test]
    fn only_columns_of_figures_are_needed() {
        for (name, needed) in [
            ("cpu_user_us", true),
            ("mem_oom_kills", false),
            ("gpu/GPU-a/b/utilisation_percent", true),
            ("gpu/GPU-a/power_milliwatts", true),
            ("gpu/utilisation_percent", false),
            ("process/1/2/cpu_us/cpu_user_us", false),
        ] {
            assert_eq!(is_needed(name), needed, "{name}");
        }
    }
}
