//! The cgroup of a job: where it is, and what it counts.
//!
//! Each group of columns has its own file, and the first that is there is taken: v2, then v1. Nothing is concluded from
//! a version: a job may have v2 without controllers beside v1.

mod devices;
mod files;
mod locate;
mod members;
mod mounts;
mod path;
mod v1;
mod v2;

use std::path::{Path, PathBuf};

pub(super) use files::{KeptFile, new_buffer, read_pressure};
pub use locate::{CgroupDirectories, JobCgroup, LocateError, locate, locate_in};
use members::{list_processes, tree_of};
pub use path::{CgroupContainer, CgroupScheduler, ContainerKind};

use super::process::Io;
use devices::Devices;
use files::Pressure;

/// CPU times since the cgroup was made, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CpuTotals {
    pub(super) user_us: u64,
    pub(super) system_us: u64,
}

/// Memory that the cgroup holds, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct MemoryTotals {
    pub(super) anon: Option<u64>,
    pub(super) file: Option<u64>,
    pub(super) shmem: Option<u64>,
}

/// All of a cgroup at one time, as the kernel counts it: since the cgroup was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CgroupReading {
    pub(super) cpu: Option<CpuTotals>,
    pub(super) throttled_us: Option<u64>,
    pub(super) memory: MemoryTotals,
    pub(super) peak_bytes: Option<u64>,
    pub(super) oom_kills: Option<u64>,
    /// Bytes of block devices. Less than the truth where a file system has none (NFS, Lustre) and, in v1, for what the
    /// kernel writes later.
    pub(super) io: Option<Io>,
    pub(super) cpu_pressure: Pressure,
    pub(super) memory_pressure: Pressure,
    pub(super) io_pressure: Pressure,
}

/// Columns that come from one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Cpu,
    Throttled,
    Memory,
    Peak,
    OomKills,
    CpuPressure,
    MemoryPressure,
    IoPressure,
}

/// Reads one cgroup again and again.
#[derive(Debug)]
pub(super) struct CgroupReader {
    path: String,
    processes: Option<PathBuf>,
    v1: v1::Reader,
    v2: Option<v2::Reader>,
    devices: Devices,
    buffer: Vec<u8>,
}

impl CgroupReader {
    pub(super) fn new(job: &JobCgroup) -> Self {
        Self {
            path: job.path.clone(),
            processes: job.directories.processes.clone(),
            v1: v1::Reader::new(&job.directories),
            v2: job.directories.unified.as_deref().map(v2::Reader::new),
            devices: Devices::new(Path::new("/sys")),
            buffer: new_buffer(),
        }
    }

    /// The job's directory from the root of its hierarchy.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Reads all that the cgroup has.
    pub(super) fn read(&mut self) -> CgroupReading {
        let Self { v1, v2, devices, buffer, .. } = self;
        let (cpu, throttled_us) = v2.as_mut().and_then(|v2| v2.cpu(buffer)).unzip();
        let [cpu_pressure, memory_pressure, io_pressure] =
            v2.as_mut().map(|v2| v2.pressure(buffer)).unwrap_or_default().map(Option::unwrap_or_default);
        CgroupReading {
            cpu: cpu.or_else(|| v1.cpu(buffer)),
            throttled_us: throttled_us.flatten().or_else(|| v1.throttled_us(buffer)),
            memory: v2
                .as_mut()
                .and_then(|v2| v2.memory(buffer))
                .or_else(|| v1.memory(buffer))
                .unwrap_or_default(),
            peak_bytes: v2.as_mut().and_then(|v2| v2.peak(buffer)).or_else(|| v1.peak(buffer)),
            oom_kills: v2.as_mut().and_then(|v2| v2.oom_kills(buffer)).or_else(|| v1.oom_kills(buffer)),
            io: v2.as_mut().and_then(|v2| v2.io(buffer, devices)).or_else(|| v1.io(buffer, devices)),
            cpu_pressure,
            memory_pressure,
            io_pressure,
        }
    }

    /// Lists the processes of the job, and looks for steps that came or went. An error says why there is no list.
    pub(super) fn list(&mut self, pids: &mut Vec<u32>) -> Result<(), String> {
        self.v1.look_again();
        let directory = self.processes.as_ref().ok_or("no hierarchy lists the processes of the job")?;
        let listed = list_processes(directory, &mut self.buffer, pids);
        listed.map_err(|error| format!("cannot list the processes of {}: {error}", directory.display()))
    }

    /// Why a group of columns is not there.
    pub(super) fn why_missing(&self, group: Group) -> String {
        let problem = |file: Option<&KeptFile>| file.and_then(KeptFile::problem).map(str::to_owned);
        let of_v2 = self.v2.as_ref().and_then(|v2| problem(Some(v2.file(group))));
        let of_v1 = problem(self.v1.file(group));
        of_v2.or(of_v1).unwrap_or_else(|| format!("cgroup {} does not count it", self.path))
    }
}
