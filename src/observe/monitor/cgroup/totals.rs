//! Totals of a job's cgroup (the kernel's `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/`).
//!
//! Each group of columns comes from the first of its files that exists: v2, then v1. Nothing is concluded from a version: a job
//! may have v2 without controllers beside v1. There `cpu.stat` and the pressure files exist without any controller, `memory.*` and
//! `io.stat` only where the controller was handed down. `memory.peak` came with Linux 5.19.
//!
//! Seen on Linux 6.18: `oom_kill` of v1's `memory.oom_control` counts the directory alone, not those below it; and
//! `blkio.throttle.*` stays empty until somebody sets a limit, also for direct I/O.

use std::fs;
use std::path::{Path, PathBuf};

use super::devices::Devices;
use super::files::{KeptFile, new_buffer, number, read_pressure, value_of};
use super::members::{list_processes, tree_of};
use super::{CgroupDirectories, JobCgroup, NOT_COUNTED};
use crate::observe::monitor::process::Io;
use crate::record::Sample;

/// Directories whose `oom_kill` is read in v1: tasks of steps.
const OOM_DIRECTORIES_MAX: usize = 64;

/// What v1 has of CPU time until both files are read: the total in microseconds, and the clock ticks in user mode and in the
/// kernel that it is split by.
#[derive(Debug, Default)]
struct CpuOfV1 {
    total_us: Option<u64>,
    ticks: Option<[u64; 2]>,
}

/// Columns that come from one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::observe::monitor) enum Group {
    Cpu,
    /// What v1's total is split by.
    CpuTicks,
    Throttled,
    Memory,
    Peak,
    OomKills,
    Io,
    CpuPressure,
    MemoryPressure,
    IoPressure,
}

/// Where the columns of a group are, those of v2 first. The lines of a file show which version it has.
const FILES: [(Group, Hierarchy, &str); 14] = [
    (Group::Cpu, |on| &on.unified, "cpu.stat"),
    (Group::Memory, |on| &on.unified, "memory.stat"),
    (Group::Peak, |on| &on.unified, "memory.peak"),
    (Group::OomKills, |on| &on.unified, "memory.events"),
    (Group::Io, |on| &on.unified, "io.stat"),
    (Group::CpuPressure, |on| &on.unified, "cpu.pressure"),
    (Group::MemoryPressure, |on| &on.unified, "memory.pressure"),
    (Group::IoPressure, |on| &on.unified, "io.pressure"),
    (Group::Cpu, |on| &on.cpuacct, "cpuacct.usage"),
    (Group::CpuTicks, |on| &on.cpuacct, "cpuacct.stat"),
    (Group::Throttled, |on| &on.cpu, "cpu.stat"),
    (Group::Memory, |on| &on.memory, "memory.stat"),
    (Group::Peak, |on| &on.memory, "memory.max_usage_in_bytes"),
    (
        Group::Io,
        |on| &on.blkio,
        "blkio.throttle.io_service_bytes_recursive",
    ),
];

type Hierarchy = fn(&CgroupDirectories) -> &Option<PathBuf>;

/// Whether the columns of a group have been read, or cannot be used.
fn is_read(group: Group, reading: &Sample, v1: &CpuOfV1) -> bool {
    let first = match group {
        Group::Cpu => reading.cpu_user_us,
        Group::CpuTicks => return v1.total_us.is_none(),
        Group::Throttled => reading.cpu_throttled_us,
        Group::Memory => reading.mem_anon_bytes,
        Group::Peak => reading.mem_peak_bytes,
        Group::OomKills => reading.mem_oom_kills,
        Group::Io => reading.io_read_bytes,
        Group::CpuPressure | Group::MemoryPressure | Group::IoPressure => None,
    };
    first.is_some()
}

/// Takes the columns of a group out of a file's text. `None`: it lacks them.
fn take(
    group: Group,
    text: &str,
    to: &mut Sample,
    v1: &mut CpuOfV1,
    devices: &mut Devices,
) -> Option<()> {
    match group {
        Group::Cpu => match value_of(text, "user_usec") {
            Some(user_us) => {
                to.cpu_system_us = Some(value_of(text, "system_usec")?);
                to.cpu_user_us = Some(user_us);
                // Only the controller knows it.
                to.cpu_throttled_us = value_of(text, "throttled_usec");
            }
            None => v1.total_us = Some(number(text)? / 1000),
        },
        Group::CpuTicks => {
            v1.ticks = Some([value_of(text, "user")?, value_of(text, "system")?]);
        }
        // Of the directory's own quota: v1 adds nothing up.
        Group::Throttled => to.cpu_throttled_us = Some(value_of(text, "throttled_time")? / 1000),
        Group::Memory => {
            let either = |v1: &str, v2: &str| value_of(text, v1).or_else(|| value_of(text, v2));
            to.mem_anon_bytes = Some(either("total_rss", "anon")?);
            to.mem_file_bytes = either("total_cache", "file");
            to.mem_shmem_bytes = either("total_shmem", "shmem");
        }
        Group::Peak => to.mem_peak_bytes = Some(number(text)?),
        Group::OomKills => to.mem_oom_kills = Some(value_of(text, "oom_kill")?),
        Group::Io => {
            let io = read_io(text, devices);
            (to.io_read_bytes, to.io_write_bytes) = (Some(io.read_bytes), Some(io.write_bytes));
        }
        Group::CpuPressure => to.psi_cpu_some_us = read_pressure(text)?.some_us,
        Group::MemoryPressure => {
            let pressure = read_pressure(text)?;
            (to.psi_mem_some_us, to.psi_mem_full_us) = (pressure.some_us, pressure.full_us);
        }
        Group::IoPressure => {
            let pressure = read_pressure(text)?;
            (to.psi_io_some_us, to.psi_io_full_us) = (pressure.some_us, pressure.full_us);
        }
    }
    Some(())
}

/// Reads one cgroup again and again.
#[derive(Debug)]
pub(in crate::observe::monitor) struct CgroupReader {
    path: String,
    processes: Option<PathBuf>,
    files: Vec<(Group, KeptFile)>,
    split: Split,
    v1_memory: Option<PathBuf>,
    /// v1's `memory.oom_control` of the job's directory, then of those below it.
    oom_controls: Vec<KeptFile>,
    devices: Devices,
    buffer: Vec<u8>,
}

impl CgroupReader {
    pub(in crate::observe::monitor) fn new(job: &JobCgroup) -> Self {
        let files = FILES.iter().filter_map(|(group, hierarchy, name)| {
            let directory = hierarchy(&job.directories).as_ref()?;
            Some((*group, KeptFile::new(directory.join(name))))
        });
        let mut reader = Self {
            path: job.path.clone(),
            processes: job.directories.processes.clone(),
            files: files.collect(),
            split: Split::default(),
            v1_memory: job.directories.memory.clone(),
            oom_controls: Vec::new(),
            devices: Devices::new(Path::new("/sys")),
            buffer: new_buffer(),
        };
        reader.find_oom_controls();
        reader
    }

    /// The job's directory from the root of its hierarchy.
    pub(in crate::observe::monitor) fn path(&self) -> &str {
        &self.path
    }

    /// Reads all that the cgroup has, as the kernel counts it: since the cgroup was made. Bytes of I/O are those of block
    /// devices: less than the truth where a file system has none (NFS, Lustre) and, in v1, for what the kernel writes later.
    pub(in crate::observe::monitor) fn read(&mut self) -> Sample {
        let (mut reading, mut v1) = (Sample::default(), CpuOfV1::default());
        let (buffer, devices) = (&mut self.buffer, &mut self.devices);
        for (group, file) in &mut self.files {
            if !is_read(*group, &reading, &v1) {
                let take = |text: &str| take(*group, text, &mut reading, &mut v1, devices);
                file.read(buffer, take);
            }
        }
        if let (Some(total_us), Some([user, system])) = (v1.total_us, v1.ticks) {
            let (user_us, system_us) = self.split.settle(total_us, user, system);
            (reading.cpu_user_us, reading.cpu_system_us) = (Some(user_us), Some(system_us));
        }
        if reading.mem_oom_kills.is_none() {
            // None before Linux 4.13.
            let kills = (self.oom_controls.iter_mut())
                .filter_map(|file| file.read(buffer, |text| value_of(text, "oom_kill")));
            reading.mem_oom_kills = kills.reduce(u64::saturating_add);
        }
        reading
    }

    /// Looks for steps and tasks of v1 that came or went.
    fn find_oom_controls(&mut self) {
        let Some(memory) = &self.v1_memory else {
            return;
        };
        let paths: Vec<_> = tree_of(memory, OOM_DIRECTORIES_MAX)
            .into_iter()
            .map(|directory| directory.join("memory.oom_control"))
            .filter(|path| fs::exists(path).unwrap_or(false))
            .collect();
        self.oom_controls
            .retain(|file| paths.iter().any(|path| path == file.path()));
        for path in paths {
            if !self.oom_controls.iter().any(|file| file.path() == path) {
                self.oom_controls.push(KeptFile::new(path));
            }
        }
    }

    /// Lists the processes of the job, and looks for steps that came or went. An error says why there is no list.
    pub(in crate::observe::monitor) fn list(&mut self, pids: &mut Vec<u32>) -> Result<(), String> {
        self.find_oom_controls();
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

    /// Why the columns of a group are missing.
    pub(in crate::observe::monitor) fn why_missing(&self, group: Group) -> String {
        let files = self.files.iter().filter(|(known, _)| *known == group);
        let oom_control = self
            .oom_controls
            .first()
            .filter(|_| group == Group::OomKills);
        let problem = files
            .map(|(_, file)| file)
            .chain(oom_control)
            .find_map(KeptFile::problem);
        problem.map_or_else(
            || format!("cgroup {} {NOT_COUNTED}", self.path),
            str::to_owned,
        )
    }
}

/// v2: `259:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0`, one line a device; no line: no I/O so far. v1:
/// `8:0 Read 4096`, `8:0 Write 0` and further lines for each device; at the end `Total 4096`.
fn read_io(text: &str, devices: &mut Devices) -> Io {
    let mut io = Io::default();
    for line in text.lines() {
        let Some((device, counts)) = line.split_once(' ') else {
            continue;
        };
        if devices.is_stacked(device) {
            continue;
        }
        let counts = counts
            .replace("Read ", "rbytes=")
            .replace("Write ", "wbytes=");
        for count in counts.split(' ') {
            let bytes = |key: &str| count.strip_prefix(key).and_then(number).unwrap_or(0);
            io.add(Io {
                read_bytes: bytes("rbytes="),
                write_bytes: bytes("wbytes="),
            });
        }
    }
    io
}

/// Splits an exact total by inexact shares so that neither part falls and both add up to the total, as the kernel does
/// for a process (`cputime_adjust`).
#[derive(Debug, Clone, Copy, Default)]
struct Split {
    /// User time and that of the kernel, in microseconds.
    last: (u64, u64),
}

impl Split {
    fn settle(&mut self, total_us: u64, user: u64, system: u64) -> (u64, u64) {
        if total_us < self.last.0.saturating_add(self.last.1) {
            // The cgroup was made again.
            self.last = (0, 0);
        }
        let all = u128::from(user) + u128::from(system);
        // Before the first tick of the clock all of it counts as user time.
        let of_system = (u128::from(total_us) * u128::from(system))
            .checked_div(all)
            .unwrap_or(0);
        let of_system = u64::try_from(of_system).unwrap_or(total_us);
        let user_us = total_us.saturating_sub(of_system.max(self.last.1));
        let user_us = user_us.max(self.last.0);
        self.last = (user_us, total_us.saturating_sub(user_us));
        self.last
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
        CgroupReader::new(&job_with(v1_directories(root, path)))
    }

    fn v1_directories(root: &Path, path: &str) -> CgroupDirectories {
        let of = |controller: &str| Some(root.join(controller).join(path));
        CgroupDirectories {
            unified: None,
            cpu: of("cpu"),
            cpuacct: of("cpuacct"),
            memory: of("memory"),
            blkio: of("blkio"),
            processes: of("memory"),
        }
    }

    #[test]
    fn slurm_s_trees_are_read() {
        let root = tempfile::tempdir().expect("a directory");
        unpack("slurm-v2-tree.txt", root.path());
        let mut v2 = of_v2(&root.path().join("system.slice/slurmstepd.scope/job_4"));
        let reading = v2.read();
        assert_eq!(
            (reading.mem_peak_bytes, reading.mem_oom_kills),
            (Some(7_229_440), Some(0))
        );
        let mut pids = Vec::new();
        v2.list(&mut pids).expect("listed");
        assert_eq!(pids, [49_276, 49_334]);
        unpack("slurm-v1-tree.txt", root.path());
        let mut v1 = of_v1(root.path(), "slurm/uid_20821/job_10");
        let reading = v1.read();
        // `cpuacct.stat` is not in the fixture, and without it there is no split.
        assert_eq!(
            (reading.cpu_user_us, reading.mem_peak_bytes),
            (None, Some(552_960))
        );
        // A kernel before 4.13.
        assert_eq!(reading.mem_oom_kills, None);
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
        assert_eq!(cgroup.read(), Sample::default());
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
        let expected = Sample {
            cpu_user_us: Some(20),
            cpu_system_us: Some(10),
            cpu_throttled_us: Some(7),
            mem_anon_bytes: Some(100),
            mem_file_bytes: Some(50),
            mem_shmem_bytes: Some(8),
            mem_peak_bytes: Some(999),
            mem_oom_kills: Some(2),
            io_read_bytes: Some(5),
            io_write_bytes: Some(6),
            psi_cpu_some_us: Some(1),
            psi_mem_some_us: Some(3),
            psi_mem_full_us: Some(4),
            psi_io_some_us: Some(5),
            psi_io_full_us: Some(6),
            ..Sample::default()
        };
        assert_eq!(cgroup.read(), expected);
        fs::remove_dir_all(root.path()).expect("removed");
        assert_eq!(of_v2(root.path()).read(), Sample::default());
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
        let expected = Sample {
            cpu_user_us: Some(30_000),
            cpu_system_us: Some(10_000),
            cpu_throttled_us: Some(5),
            mem_anon_bytes: Some(100),
            mem_file_bytes: Some(50),
            mem_shmem_bytes: Some(8),
            mem_peak_bytes: Some(999),
            mem_oom_kills: Some(3),
            io_read_bytes: Some(5),
            io_write_bytes: Some(6),
            ..Sample::default()
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
        assert_eq!(cgroup.read().mem_oom_kills, Some(7));
        // v2 without controllers has CPU times and pressure.
        put(
            "unified/j/cpu.stat",
            "usage_usec 9\nuser_usec 5\nsystem_usec 4\n",
        );
        put("unified/j/io.pressure", "some total=6\n");
        let mut job = job_with(v1_directories(root.path(), "j"));
        job.directories.unified = Some(root.path().join("unified/j"));
        let hybrid = CgroupReader::new(&job).read();
        let columns = |reading: &Sample| {
            let cpu = [reading.cpu_user_us, reading.cpu_system_us];
            let memory = [reading.mem_anon_bytes, reading.mem_shmem_bytes];
            let io = [reading.io_read_bytes, reading.io_write_bytes];
            (cpu, reading.cpu_throttled_us, memory, io)
        };
        let (_, throttled, memory, io) = columns(&expected);
        assert_eq!(
            columns(&hybrid),
            ([Some(5), Some(4)], throttled, memory, io)
        );
        assert_eq!(
            (hybrid.psi_io_some_us, hybrid.psi_io_full_us),
            (Some(6), None)
        );
        assert_eq!(hybrid.mem_oom_kills, Some(7));
    }

    #[test]
    fn split_adds_up_and_does_not_fall() {
        let mut split = Split::default();
        assert_eq!(split.settle(900, 0, 0), (900, 0));
        assert_eq!(split.settle(1000, 1, 1), (900, 100));
        assert_eq!(split.settle(2000, 3, 1), (1500, 500));
        assert_eq!(split.settle(2100, 4, 1), (1600, 500));
        assert_eq!(split.settle(10, 1, 0), (10, 0));
        assert_eq!(
            split.settle(u64::MAX, u64::MAX, u64::MAX),
            (u64::MAX / 2 + 1, u64::MAX / 2)
        );
    }

    #[test]
    fn io_is_summed_over_devices() {
        let mut devices = Devices::new(Path::new("/nonexistent"));
        let v1 =
            "8:16 Read 100\n8:16 Write 7\n8:16 Sync 107\n8:16 Total 107\n8:0 Read 90\nTotal 197\n";
        let v2 = "8:16 rbytes=100 wbytes=7 rios=1 wios=1 dbytes=50331648 dios=3021\n\
                  8:0 rbytes=90 wbytes=0 rios=1 wios=1\n9:9\n";
        for text in [v1, v2] {
            let expected = Io {
                read_bytes: 190,
                write_bytes: 7,
            };
            assert_eq!(read_io(text, &mut devices), expected);
        }
        assert_eq!(read_io("Total 0\n", &mut devices), Io::default());
        assert_eq!(read_io("", &mut devices), Io::default());
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
