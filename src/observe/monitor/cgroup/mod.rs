//! The cgroup of a job: where it is, and what it counts.
//!
//! Each group of columns has its own file, and the first that is there is taken: v2, then v1. Nothing is concluded from
//! a version: a job may have v2 without controllers beside v1.

mod devices;
mod files;
mod layout;
mod locate;
mod members;
mod mounts;
mod path;
mod quota;
mod v1;
mod v2;

use std::path::{Path, PathBuf};

pub(super) use files::{KeptFile, new_buffer, read_pressure};
pub use layout::{CgroupLayout, CgroupVersion, layout};
pub use locate::{LocateError, locate, locate_in};
use members::{list_processes, tree_of};
pub use path::{CgroupContainer, CgroupDirectories, CgroupScheduler, ContainerKind, JobCgroup};
pub(super) use quota::{cpu_quota, memory_left};

use super::process::Io;
use devices::Devices;
use files::Pressure;

/// How the reason ends why a figure is missing that the kernel does not keep for a cgroup.
pub const NOT_COUNTED: &str = "does not count it";

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
        let Self {
            v1,
            v2,
            devices,
            buffer,
            ..
        } = self;
        let (cpu, throttled_us) = v2.as_mut().and_then(|v2| v2.cpu(buffer)).unzip();
        let [cpu_pressure, memory_pressure, io_pressure] = v2
            .as_mut()
            .map(|v2| v2.pressure(buffer))
            .unwrap_or_default()
            .map(Option::unwrap_or_default);
        CgroupReading {
            cpu: cpu.or_else(|| v1.cpu(buffer)),
            throttled_us: throttled_us.flatten().or_else(|| v1.throttled_us(buffer)),
            memory: v2
                .as_mut()
                .and_then(|v2| v2.memory(buffer))
                .or_else(|| v1.memory(buffer))
                .unwrap_or_default(),
            peak_bytes: v2
                .as_mut()
                .and_then(|v2| v2.peak(buffer))
                .or_else(|| v1.peak(buffer)),
            oom_kills: v2
                .as_mut()
                .and_then(|v2| v2.oom_kills(buffer))
                .or_else(|| v1.oom_kills(buffer)),
            io: v2
                .as_mut()
                .and_then(|v2| v2.io(buffer, devices))
                .or_else(|| v1.io(buffer, devices)),
            cpu_pressure,
            memory_pressure,
            io_pressure,
        }
    }

    /// Lists the processes of the job, and looks for steps that came or went. An error says why there is no list.
    pub(super) fn list(&mut self, pids: &mut Vec<u32>) -> Result<(), String> {
        self.v1.look_again();
        let directory = self
            .processes
            .as_ref()
            .ok_or("no hierarchy lists the processes of the job")?;
        let listed = list_processes(directory, &mut self.buffer, pids);
        listed.map_err(|error| {
            format!(
                "cannot list the processes of {}: {error}",
                directory.display()
            )
        })
    }

    /// Why a group of columns is not there.
    pub(super) fn why_missing(&self, group: Group) -> String {
        let problem = |file: Option<&KeptFile>| file.and_then(KeptFile::problem).map(str::to_owned);
        let of_v2 = self
            .v2
            .as_ref()
            .and_then(|v2| problem(Some(v2.file(group))));
        let of_v1 = problem(self.v1.file(group));
        of_v2
            .or(of_v1)
            .unwrap_or_else(|| format!("cgroup {} {NOT_COUNTED}", self.path))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::observe::monitor::tests::fake_cgroup::job_with;

    fn put(directory: &Path, name: &str, text: &str) {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, text).expect("written");
    }

    /// Makes files out of a fixture's lines `path: content`.
    fn unpack(name: &str, under: &Path) {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures/cgroup")
            .join(name);
        for line in fs::read_to_string(fixture).expect("a fixture").lines() {
            let (path, text) = line.split_once(": ").expect("path and content");
            put(under, path, &format!("{}\n", text.replace("\\n", "\n")));
        }
    }

    fn of_v2(directory: &Path) -> CgroupReader {
        let unified = Some(directory.to_path_buf());
        let processes = unified.clone();
        CgroupReader::new(&job_with(CgroupDirectories {
            processes,
            unified,
            ..Default::default()
        }))
    }

    fn of_v1(root: &Path, path: &str) -> CgroupReader {
        let of = |controller: &str| Some(root.join(controller).join(path));
        let directories = CgroupDirectories {
            unified: None,
            cpu: of("cpu"),
            cpuacct: of("cpuacct"),
            memory: of("memory"),
            blkio: of("blkio"),
            devices: of("devices"),
            processes: of("memory"),
        };
        CgroupReader::new(&job_with(directories))
    }

    #[test]
    fn slurm_s_trees_are_read() {
        let root = tempfile::tempdir().expect("a directory");
        unpack("slurm-v2-tree.txt", root.path());
        let mut v2 = of_v2(&root.path().join("system.slice/slurmstepd.scope/job_4"));
        let reading = v2.read();
        assert_eq!(
            (reading.peak_bytes, reading.oom_kills),
            (Some(7_229_440), Some(0))
        );
        let mut pids = Vec::new();
        v2.list(&mut pids).expect("listed");
        assert_eq!(pids, [49_276, 49_334]);
        unpack("slurm-v1-tree.txt", root.path());
        let mut v1 = of_v1(root.path(), "slurm/uid_20821/job_10");
        let reading = v1.read();
        // `cpuacct.stat` is not in the fixture, and without it there is no split.
        assert_eq!((reading.cpu, reading.peak_bytes), (None, Some(552_960)));
        // A kernel before 4.13.
        assert_eq!(reading.oom_kills, None);
        assert!(
            v1.why_missing(Group::OomKills)
                .contains("memory.oom_control lacks")
        );
        v1.list(&mut pids).expect("listed");
        assert_eq!(pids, [95_521, 95_525]);
    }

    #[test]
    fn all_of_v2_is_read() {
        let root = tempfile::tempdir().expect("a directory");
        let mut cgroup = of_v2(root.path());
        assert_eq!(cgroup.read(), CgroupReading::default());
        assert!(cgroup.why_missing(Group::Peak).contains("memory.peak"));
        let mut cgroup = of_v2(root.path());
        let put = |name: &str, text: &str| put(root.path(), name, text);
        put(
            "cpu.stat",
            "usage_usec 30\nuser_usec 20\nsystem_usec 10\nnr_throttled 4\nthrottled_usec 7\n",
        );
        put(
            "memory.stat",
            "anon 100\nfile 50\nkernel 3\nshmem 8\nfile_mapped 1\n",
        );
        put("memory.peak", "999\n");
        put("memory.events", "oom 3\noom_kill 2\n");
        put(
            "io.stat",
            "8:0 rbytes=5 wbytes=6 rios=1 wios=1 dbytes=0 dios=0\n",
        );
        for (name, at) in [("cpu", 1), ("memory", 3), ("io", 5)] {
            let full = at + 1;
            let text = format!("some avg10=0.00 total={at}\nfull avg10=0.00 total={full}\n");
            put(&format!("{name}.pressure"), &text);
        }
        let pressure = |some_us| Pressure {
            some_us: Some(some_us),
            full_us: Some(some_us + 1),
        };
        let expected = CgroupReading {
            cpu: Some(CpuTotals {
                user_us: 20,
                system_us: 10,
            }),
            throttled_us: Some(7),
            memory: MemoryTotals {
                anon: Some(100),
                file: Some(50),
                shmem: Some(8),
            },
            peak_bytes: Some(999),
            oom_kills: Some(2),
            io: Some(Io {
                read_bytes: 5,
                write_bytes: 6,
            }),
            cpu_pressure: pressure(1),
            memory_pressure: pressure(3),
            io_pressure: pressure(5),
        };
        assert_eq!(cgroup.read(), expected);
        fs::remove_dir_all(root.path()).expect("removed");
        assert_eq!(of_v2(root.path()).read(), CgroupReading::default());
    }

    #[test]
    fn all_of_v1_is_read_and_v2_beside_it_helps() {
        let root = tempfile::tempdir().expect("a directory");
        let put = |name: &str, text: &str| put(root.path(), name, text);
        put("cpuacct/j/cpuacct.usage", "40000000\n");
        put("cpuacct/j/cpuacct.stat", "user 3\nsystem 1\n");
        put(
            "cpu/j/cpu.stat",
            "nr_periods 1\nnr_throttled 1\nthrottled_time 5000\n",
        );
        put(
            "memory/j/memory.stat",
            "rss 1\nshmem 2\ntotal_cache 50\ntotal_rss 100\ntotal_shmem 8\n",
        );
        put("memory/j/memory.max_usage_in_bytes", "999\n");
        put(
            "memory/j/memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
        );
        put(
            "memory/j/step_0/task_0/memory.oom_control",
            "under_oom 0\noom_kill 2\n",
        );
        put(
            "blkio/j/blkio.throttle.io_service_bytes_recursive",
            "8:0 Read 5\n8:0 Write 6\nTotal 11\n",
        );
        let mut cgroup = of_v1(root.path(), "j");
        let expected = CgroupReading {
            cpu: Some(CpuTotals {
                user_us: 30_000,
                system_us: 10_000,
            }),
            throttled_us: Some(5),
            memory: MemoryTotals {
                anon: Some(100),
                file: Some(50),
                shmem: Some(8),
            },
            peak_bytes: Some(999),
            oom_kills: Some(3),
            io: Some(Io {
                read_bytes: 5,
                write_bytes: 6,
            }),
            ..CgroupReading::default()
        };
        assert_eq!(cgroup.read(), expected);
        assert!(
            cgroup
                .why_missing(Group::IoPressure)
                .contains("cgroup /slurm/uid_7/job_1 does not")
        );
        // A step that comes later.
        put("memory/j/step_1/memory.oom_control", "oom_kill 4\n");
        put("memory/j/cgroup.procs", "");
        cgroup.list(&mut Vec::new()).expect("listed");
        assert_eq!(cgroup.read().oom_kills, Some(7));
        // v2 without controllers has CPU times and pressure.
        put(
            "unified/j/cpu.stat",
            "usage_usec 9\nuser_usec 5\nsystem_usec 4\n",
        );
        put("unified/j/io.pressure", "some total=6\n");
        cgroup.v2 = Some(v2::Reader::new(&root.path().join("unified/j")));
        let hybrid = cgroup.read();
        assert_eq!(
            hybrid.cpu,
            Some(CpuTotals {
                user_us: 5,
                system_us: 4
            })
        );
        assert_eq!(
            (hybrid.throttled_us, hybrid.memory),
            (Some(5), expected.memory)
        );
        assert_eq!(
            (hybrid.io_pressure.some_us, hybrid.io_pressure.full_us),
            (Some(6), None)
        );
        assert_eq!((hybrid.oom_kills, hybrid.io), (Some(7), expected.io));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn no_content_panics(
            text in "((some|full|total=|user|system|user_usec|anon|oom_kill|8:0|Read|rbytes=|18446744073709551615|[0-9]|\\PC)[ \n]?){0,20}",
        ) {
            let root = tempfile::tempdir().expect("a directory");
            let files = ["cpu.stat", "memory.stat", "memory.peak", "io.stat", "io.pressure", "cgroup.procs"];
            let files_of_v1 = ["cpuacct.usage", "cpuacct.stat", "memory.oom_control"];
            for name in files.iter().chain(&files_of_v1) {
                put(root.path(), name, &text);
            }
            let mut pids = Vec::new();
            let mut cgroup = of_v2(root.path());
            cgroup.read();
            prop_assert!(cgroup.list(&mut pids).is_ok() && !pids.contains(&0));
            of_v1(root.path(), "").read();
        }
    }
}
