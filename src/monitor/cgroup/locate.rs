//! Where the cgroup of a process's job is, by the kernel's word.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::mounts::{Mount, read_mounts};
use super::path::{CgroupContainer, CgroupScheduler, Place, read_path};

/// More than the kernel ever writes: one line a hierarchy.
const CGROUP_BYTES_MAX: u64 = 256 * 1024;
/// Thousands of mounts.
const MOUNTS_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Hierarchies of v1 in which the processes of a job are looked for, best first: Slurm keeps those of a step in
/// `freezer`, and every build of the others has one of these.
const PROCESSES_IN: [&str; 7] = ["freezer", "memory", "cpuacct", "cpu", "devices", "cpuset", "pids"];

/// Directories of a job, one a hierarchy. `None`: the hierarchy is not mounted, or holds the job elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CgroupDirectories {
    /// v2.
    pub unified: Option<PathBuf>,
    /// v1 `cpu`.
    pub cpu: Option<PathBuf>,
    /// v1 `cpuacct`.
    pub cpuacct: Option<PathBuf>,
    /// v1 `memory`.
    pub memory: Option<PathBuf>,
    /// v1 `blkio`.
    pub blkio: Option<PathBuf>,
    /// Where the job's processes are listed.
    pub processes: Option<PathBuf>,
}

/// The cgroup of a job or of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobCgroup {
    /// Who made it; `None`: a container without a scheduler.
    pub scheduler: Option<CgroupScheduler>,
    /// The job's id as it stands in the path. Slurm 26.05 and later write the SLUID in its place.
    pub job_id: Option<String>,
    /// Slurm's own id of the job.
    pub sluid: Option<String>,
    /// The user in the path, where there is one (Slurm, v1).
    pub uid: Option<u32>,
    /// The step of the process asked about: a number, `batch`, `extern`, `interactive`.
    pub step: Option<String>,
    /// Its task: a number or `special`.
    pub task: Option<String>,
    /// The container in which it runs, inside the job.
    pub container: Option<CgroupContainer>,
    /// The job's directory from the root of its hierarchy, for the record.
    pub path: String,
    /// The same on this machine, hierarchy by hierarchy.
    pub directories: CgroupDirectories,
}

/// Why it is not known where a process stands.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    /// A file of `/proc` cannot be read: the process is gone, hidden, or the kernel has no cgroups.
    #[error("cannot read `{path}`", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// Finds the cgroup of the job or container in which a process runs. `None`: it runs in none, but in the root, a login
/// session or a service.
///
/// # Errors
/// [`LocateError::Read`] where `/proc` does not tell.
pub fn locate(pid: u32) -> Result<Option<JobCgroup>, LocateError> {
    locate_in(Path::new("/proc"), pid)
}

/// The same in a directory that looks like `/proc`; `self/mountinfo` in it says where the hierarchies are.
///
/// # Errors
/// As [`locate`].
pub fn locate_in(proc: &Path, pid: u32) -> Result<Option<JobCgroup>, LocateError> {
    let cgroups = read_text(proc.join(pid.to_string()).join("cgroup"), CGROUP_BYTES_MAX)?;
    let mounts = read_text(proc.join("self/mountinfo"), MOUNTS_BYTES_MAX)?;
    Ok(find(&cgroups, &mounts, Path::is_dir))
}

fn read_text(path: PathBuf, limit: u64) -> Result<String, LocateError> {
    let mut bytes = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    read.map_err(|source| LocateError::Read { path, source })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// One line of `/proc/PID/cgroup`: controllers (none for v2), the path of the process, and what it says.
struct Line<'a> {
    controllers: &'a str,
    path: &'a str,
    place: Place,
}

/// Reads `4:memory:/path`. What lies in no job is left out, and so is a directory that was removed.
fn read_line(line: &str) -> Option<Line<'_>> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    if path.ends_with(" (deleted)") {
        return None;
    }
    Some(Line { controllers, path, place: read_path(path)? })
}

/// Puts both texts together; `exists` tells whether a directory is there.
fn find(cgroups: &str, mounts: &str, exists: impl Fn(&Path) -> bool) -> Option<JobCgroup> {
    let mut lines: Vec<_> = cgroups.lines().filter_map(read_line).collect();
    // Not all hierarchies go down to the task.
    let known = |line: &Line<'_>| {
        let place = &line.place;
        (place.scheduler.is_some(), place.step.is_some(), place.task.is_some(), place.container.is_some())
    };
    let place = lines.iter().max_by_key(|line| known(line)).map(|line| line.place.clone())?;
    lines.retain(|line| line.place.is_same_job(&place));
    let mounts = read_mounts(mounts);
    let directory = |controller: Option<&str>| {
        let is_it = |line: &&Line<'_>| match controller {
            Some(name) => line.controllers.split(',').any(|controller| controller == name),
            None => line.controllers.is_empty(),
        };
        let line = lines.iter().find(is_it)?;
        let seen = mounts.iter().filter(|mount: &&Mount| mount.has(controller));
        seen.filter_map(|mount| mount.directory(&line.place.path, line.path)).find(|path| exists(path))
    };
    let unified = directory(None);
    let processes =
        unified.clone().or_else(|| PROCESSES_IN.iter().find_map(|controller| directory(Some(controller))));
    let directories = CgroupDirectories {
        unified,
        cpu: directory(Some("cpu")),
        cpuacct: directory(Some("cpuacct")),
        memory: directory(Some("memory")),
        blkio: directory(Some("blkio")),
        processes,
    };
    let Place { scheduler, job_id, sluid, uid, step, task, container, path } = place;
    Some(JobCgroup { scheduler, job_id, sluid, uid, step, task, container, path, directories })
}
