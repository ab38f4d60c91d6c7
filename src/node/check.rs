//! Looks whether a node is fit for a start. A disk or a driver may hang: a process beside the supervisor does it.
//!
//! What cannot be found out speaks against no node.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::sys::statvfs::statvfs;

use super::bench;
use crate::foundation::clock::now_ms;
use crate::foundation::units::Bytes;
use crate::job::{gpus_on_node, kind_and_count};
use crate::launch::Plan;
use crate::observe::monitor::{
    GpuReader, Nvml, allocated_gpus, cpus_effective, gpu_driver_present, host_facts,
    memory_available,
};
use crate::record::TargetRecord;
use crate::record::rundir::StateDir;

/// What is printed before each thing that is looked at, and before what speaks against the node.
pub const AT: &str = "at ";
/// See [`AT`].
pub const BAD: &str = "bad ";
/// A node is slow below this part of what its kind was measured to do (`dlrun bench node`).
const SLOW_PART: f64 = 0.7;
/// The system has the rest of the memory, and dlrun and the batch script something of the job's own.
const MEMORY_PART: f64 = 0.9;
const MEMORY_SLACK: u64 = 256 << 20;
/// What a directory has room for at least, and what is written there, in bytes.
const SPACE: u64 = 64 << 20;
const WRITTEN: usize = 1 << 20;
/// What a clock may differ from that of a file server.
const SKEW_MS: u64 = 60_000;

/// Looks at this node; hands over a line for each thing that it looks at ([`AT`]) and that speaks against it ([`BAD`]).
pub fn examine(plan: &Plan, print: &mut dyn FnMut(&str)) {
    let variable = |name: &str| std::env::var(name).ok();
    let temporary = variable("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    let mut look = |at: &str, found: &mut dyn FnMut() -> Option<String>| {
        print(&format!("{AT}{at}"));
        let found = found();
        found
            .iter()
            .for_each(|found| print(&format!("{BAD}{found}")));
    };
    look("its memory", &mut || {
        memory(plan, memory_available(std::process::id()))
    });
    // A directory that all nodes share may be full or read-only, which says nothing of a node.
    for (dir, is_own) in [(Path::new(&plan.workdir), false), (&*temporary, true)] {
        let at = format!("`{}`", dir.display());
        look(&at, &mut || {
            directory(dir, is_own).map(|why| format!("{at}: {why}"))
        });
    }
    look("its GPUs", &mut || gpus(plan, variable));
    look("its cores", &mut || slow(Path::new(&plan.state_dir)));
}

fn memory(plan: &Plan, available: Option<u64>) -> Option<String> {
    let (asked, available) = (plan.resources.memory?, available?);
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let is_short = (available.saturating_add(MEMORY_SLACK) as f64) < asked.0 as f64 * MEMORY_PART;
    is_short.then(|| {
        format!(
            "{} of memory are available, and the job asked for {asked}",
            Bytes(available)
        )
    })
}

/// Writes a file that has no name. A directory that is not the user's to write to, or a file system that knows no such files, is none of
/// their business.
fn directory(dir: &Path, is_own: bool) -> Option<String> {
    let found = statvfs(dir).ok().filter(|found| found.blocks() > 0);
    let free = found.map(|found| {
        found
            .blocks_available()
            .saturating_mul(found.fragment_size())
    });
    if let Some(free) = free.filter(|free| is_own && *free < SPACE) {
        return Some(format!("{} are free", Bytes(free)));
    }
    match write(dir) {
        Ok(written_ms) => {
            let skew = now_ms().abs_diff(written_ms);
            (skew > SKEW_MS)
                .then(|| format!("its clock differs by {} s from this node's", skew / 1000))
        }
        Err(error) => match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem
                if !is_own =>
            {
                None
            }
            ErrorKind::PermissionDenied | ErrorKind::Unsupported | ErrorKind::IsADirectory => None,
            _ => Some(error.to_string()),
        },
    }
}

/// When the file system says that it was written, in Unix milliseconds.
fn write(dir: &Path) -> io::Result<u64> {
    let mut options = OpenOptions::new();
    let mut file: File = options
        .write(true)
        .mode(0o600)
        .custom_flags(OFlag::O_TMPFILE.bits())
        .open(dir)?;
    file.write_all(&vec![7; WRITTEN])?;
    file.sync_all()?;
    let since = file
        .metadata()?
        .modified()?
        .duration_since(std::time::UNIX_EPOCH);
    Ok(since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }))
}

/// The job's GPUs, by NVIDIA's library. Of other makers' nothing is known.
fn gpus(plan: &Plan, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let resources = &plan.resources;
    let (node, task) = (
        resources.gpus_per_node.as_deref(),
        resources.gpus_per_task.as_deref(),
    );
    let asked = gpus_on_node(node, task, resources.tasks_per_node)?;
    let (_, asked) = kind_and_count(&asked);
    let library = plan.nvml_library.as_deref().map(Path::new);
    if library.is_none() && !gpu_driver_present(Path::new("/")) {
        return None;
    }
    let nvml = match Nvml::open(library) {
        Ok(nvml) => nvml,
        Err(error) => return Some(format!("its GPUs: {error}")),
    };
    let devices = nvml.devices();
    let given = allocated_gpus(variable, &devices)?;
    let failed = given
        .iter()
        .find_map(|uuid| Some((uuid, nvml.read(uuid).err()?)));
    if let Some((uuid, error)) = failed {
        return Some(format!("{uuid}: {error}"));
    }
    // The user may name fewer, and uneven tasks have uneven shares.
    let is_chosen = plan
        .env
        .iter()
        .any(|one| one.name.ends_with("VISIBLE_DEVICES"));
    if is_chosen || resources.tasks.is_some() {
        return None;
    }
    let answered = u32::try_from(given.len()).unwrap_or(u32::MAX);
    (answered < asked).then(|| format!("{answered} of {asked} GPUs answer"))
}

/// Compares this node's cores with those of its kind, where that was measured.
fn slow(state_dir: &Path) -> Option<String> {
    let own = host_facts(None).fingerprint()?;
    let (targets, _) = StateDir::open(state_dir).ok()?.targets().ok()?;
    let target = targets
        .into_iter()
        .find(|target| target.fingerprint == own)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of CPUs"
    )]
    let cpus = cpus_effective(std::process::id())?.max(1.0) as u32;
    below(&target, cpus, bench::short(cpus as usize).ok()?)
}

/// A part of the cores has its part of the figure, since all of them may be busy; one core alone is quicker.
fn below(target: &TargetRecord, cpus: u32, gflops: f64) -> Option<String> {
    let part = f64::from(cpus) / f64::from(target.bench.cpus_used.max(1));
    let usual = target.figures.node_gflops * part.min(1.0);
    (gflops < usual * SLOW_PART).then(|| {
        format!("it is slow: {gflops:.0} GFLOPS on {cpus} CPUs, and nodes of its kind have {usual:.0} (`dlrun bench node`)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_speaks_against_a_node_and_none_known_does_not() {
        let mut plan = Plan::default();
        plan.resources.memory = Some(Bytes(10 << 30));
        assert!(memory(&plan, Some(4 << 30)).is_some_and(|why| why.contains("10GiB")));
        assert_eq!(memory(&plan, Some(10 << 30)), None);
        assert_eq!(memory(&plan, None), None);
        assert_eq!(memory(&Plan::default(), Some(1)), None);
    }

    #[test]
    fn directory_that_cannot_be_written_to_speaks_against_a_node() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(directory(dir.path(), true), None);
        assert!(!dir.path().join("probe").exists(), "it is removed");
        assert!(directory(&dir.path().join("missing"), false).is_some());
    }
}
