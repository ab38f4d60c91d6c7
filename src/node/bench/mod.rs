//! Measures what this machine can do, once for each kind of node: floating-point peak on one core and on all, and memory
//! bandwidth. Some ten seconds.
//!
//! A performance model that is to carry what one kind of node has shown over to another needs to know how they differ, and names
//! of processors do not tell. Nothing is known here of clocks, of the state directory, and of who else is on the machine: the
//! caller says how many CPUs may be used, and looks before and after.

mod cache;
mod compute;
mod memory;
mod rates;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::record::NodeBench;

/// With what is measured.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// CPUs that this process can keep busy.
    pub cpus: usize,
    /// Memory that it may take, in bytes; a quarter of it is taken at most.
    pub available_bytes: u64,
    /// The three arrays of the triad together, in bytes; `None`: by the caches.
    pub arrays_bytes: Option<u64>,
}

/// Something that ended the measurement.
#[derive(Debug, thiserror::Error)]
#[error("cannot measure {what}")]
pub struct NodeBenchError {
    /// What was to be measured.
    what: &'static str,
    /// Why not.
    source: io::Error,
}

const CORE_WINDOW: Duration = Duration::from_millis(250);
/// All cores take longer to reach the clock that they can hold.
const NODE_WINDOW: Duration = Duration::from_millis(450);
const MEMORY_WINDOW: Duration = Duration::from_millis(150);

/// How long one window of the short measurement takes; with the choice of instructions all of it takes 2 s.
const SHORT_WINDOW: Duration = Duration::from_millis(250);

/// Measures the floating-point peak of so many cores alone, in 10^9 operations per second, within some 2 s.
///
/// # Errors
/// If threads cannot be started.
pub fn short(cpus: usize) -> Result<f64, NodeBenchError> {
    let found = compute::measure(cpus.max(1), SHORT_WINDOW);
    let what = "the cores";
    let (_, spread) = found.map_err(|source| NodeBenchError { what, source })?;
    Ok(spread.best)
}

/// Measures everything.
///
/// # Errors
/// If threads cannot be started or memory is not given.
pub fn measure(wanted: &Wanted) -> Result<NodeBench, NodeBenchError> {
    let failed = |what| move |source| NodeBenchError { what, source };
    let began = Instant::now();
    let threads = wanted.cpus.max(1);
    let (instructions, core_gflops) =
        compute::measure(1, CORE_WINDOW).map_err(failed("one core"))?;
    let (_, node_gflops) = compute::measure(threads, NODE_WINDOW).map_err(failed("all cores"))?;
    let caches = cache::last_level_bytes(Path::new(cache::CPUS));
    let (arrays_bytes, note) = match wanted.arrays_bytes {
        Some(bytes) => (bytes.min(wanted.available_bytes / 2), None),
        None => memory::size(caches, wanted.available_bytes, threads),
    };
    let (memory_gb_per_second, arrays_bytes) =
        memory::measure(threads, arrays_bytes, MEMORY_WINDOW)
            .map_err(failed("memory bandwidth"))?;
    Ok(NodeBench {
        cpus_used: u32::try_from(threads).unwrap_or(u32::MAX),
        seconds: began.elapsed().as_secs_f64(),
        others_cpus_busy: None,
        cpus_stolen: None,
        instructions: instructions.to_owned(),
        core_gflops,
        node_gflops,
        memory_gb_per_second,
        arrays_bytes,
        last_level_cache_bytes: caches,
        notes: note.into_iter().collect(),
    })
}
