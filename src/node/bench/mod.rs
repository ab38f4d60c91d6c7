//! Measures what this machine can do, once for each kind of node: floating-point peak on one core and on all, memory bandwidth,
//! sequential reading. Half a minute at most.
//!
//! A performance model that is to carry what one kind of node has shown over to another needs to know how they differ, and names
//! of processors do not tell. Nothing is known here of clocks, of the state directory, and of who else is on the machine: the
//! caller says how many CPUs may be used, and looks before and after.

mod cache;
mod compute;
mod disk;
mod memory;
mod rates;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::record::NodeBench;

/// What is to be measured, and with what.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// CPUs that this process can keep busy.
    pub cpus: usize,
    /// Memory that it may take, in bytes; a quarter of it is taken at most.
    pub available_bytes: u64,
    /// The three arrays of the triad together, in bytes; `None`: by the caches.
    pub arrays_bytes: Option<u64>,
    /// Where the file lies that is read; `None`: reading is not measured.
    pub directory: Option<&'a Path>,
    /// How long that file is at most, in bytes.
    pub file_bytes: u64,
}

/// What is being measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The floating-point peak of one core.
    Core,
    /// That of all cores.
    Node,
    /// Memory bandwidth.
    Memory,
    /// Sequential reading.
    Disk,
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

/// Measures everything, and names each step before it begins.
///
/// # Errors
/// If threads cannot be started or memory is not given. A disk that cannot be measured is no error: its figure is missing, and a
/// note says why.
pub fn measure(
    wanted: &Wanted<'_>,
    on_step: &mut dyn FnMut(Step),
) -> Result<NodeBench, NodeBenchError> {
    let failed = |what| move |source| NodeBenchError { what, source };
    let began = Instant::now();
    let threads = wanted.cpus.max(1);
    on_step(Step::Core);
    let (instructions, core_gflops) =
        compute::measure(1, CORE_WINDOW).map_err(failed("one core"))?;
    on_step(Step::Node);
    let (_, node_gflops) = compute::measure(threads, NODE_WINDOW).map_err(failed("all cores"))?;
    on_step(Step::Memory);
    let caches = cache::last_level_bytes(Path::new(cache::CPUS));
    let (arrays_bytes, note) = match wanted.arrays_bytes {
        Some(bytes) => (bytes, None),
        None => memory::size(caches, wanted.available_bytes, threads),
    };
    let (memory_gb_per_second, arrays_bytes) =
        memory::measure(threads, arrays_bytes, MEMORY_WINDOW)
            .map_err(failed("memory bandwidth"))?;
    let mut notes: Vec<String> = note.into_iter().collect();
    on_step(Step::Disk);
    let disk = wanted
        .directory
        .map(|directory| disk::measure(directory, wanted.file_bytes));
    let disk = disk.and_then(|disk| disk.map_err(|why| notes.push(why)).ok());
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
        disk,
        notes,
    })
}
