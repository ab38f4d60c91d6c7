//! One sample per tick, put together from the sources that a run has.
//!
//! The source of each column is named in [`Sampler`].

use std::path::Path;
use std::time::Duration;

use super::baseline::{Baseline, count};
use super::cgroup::{CgroupReader, Group, JobCgroup};
use super::columns::Columns;
use super::commands::busiest;
use super::job_signs::JobSigns;
use super::ledger::Ledger;
use super::node::Node;
use super::process::{CpuTicks, Units};
use super::tree::{Totals, Tree, TreeRoot};
use crate::record::{Missing, Sample};

/// A tick that comes early by this share of the interval is still taken for one, so that jitter does not cost a whole
/// tick.
const EARLY_SHARE: u64 = 10;
/// Between two readings of shared memory at least, in milliseconds: for `status` the kernel walks more than for all other
/// files of a process together.
const SHMEM_INTERVAL_MS: u64 = 5000;

/// Usual time between two readings of what is costly: process by process, and I/O. Zero: with every sample. Shared memory,
/// which costs most, is read so often too, but not more often than every 5 s.
pub const PROCESS_INTERVAL: Duration = Duration::from_secs(5);

/// Samples one run: its processes, its cgroup where it has one, and the node.
///
/// | columns | without a cgroup: sums over the run's processes | with a cgroup: its totals, at every sample |
/// |---|---|---|
/// | `cpu_user_us`, `cpu_system_us` | `/proc/PID/stat`, own times and those of children waited for, plus the supervisor's children; every sample | v2 `cpu.stat`; v1 `cpuacct.usage`, split as `cpuacct.stat` is |
/// | `mem_rss_bytes`, `processes`, `threads` | `/proc/PID/stat`, ended processes left out; every sample | the same for all processes in the cgroup, every 5 s |
/// | `mem_shmem_bytes` | `RssShmem` of `/proc/PID/status` (Linux 4.5); every 5 s, not more often | `memory.stat` |
/// | `io_read_bytes`, `io_write_bytes` | `/proc/PID/io`, the supervisor's from the start of the sampler; every 5 s | the larger of that and of v2 `io.stat`, v1 `blkio.throttle.io_service_bytes_recursive` |
/// | `mem_anon_bytes`, `mem_file_bytes` | none | `memory.stat`; v1 `total_rss`, `total_cache` |
/// | `mem_peak_bytes` | none | v2 `memory.peak`; v1 `memory.max_usage_in_bytes` |
/// | `mem_oom_kills` | none | v2 `memory.events`; v1 `memory.oom_control` of all directories |
/// | `cpu_throttled_us` | none | `cpu.stat`; in v1 of the job's own quota |
/// | `psi_…` | none | v2 `cpu.pressure`, `memory.pressure`, `io.pressure` |
/// | `node_psi_…`, `node_net_…` | `/proc/pressure/…`, `/proc/net/dev`; every sample | the same |
/// | `commands` | the 64 processes with the most CPU time; every 5 s | the same, of all in the cgroup |
///
/// What a cgroup lacks is summed over the processes that it lists. The source of a column stays the same for a run.
/// Neither account of I/O counts too much, and each misses something: `/proc` the processes that nobody waited for, the
/// cgroup what goes to no block device (NFS, Lustre) and, in v1, what the kernel writes on its own; since Linux 6.10 v1
/// counts nothing before a limit is set.
///
/// What is read every 5 s ([`PROCESS_INTERVAL`]) is `None` in the samples between; it is also read in the
/// first sample, in the one that finds the root ended, and where `all` is asked for. Counters never fall; those of a
/// cgroup begin with the run ([`Baseline`]). Processes of other users whose files may not be read are left out.
///
/// Without a cgroup, processes of the job that descend from none of the run's are known by [`JobSigns`].
///
/// `/proc/PID/io` is not read again of a process that used no CPU time since (a tick is 10 ms), but in the first sample, in the one
/// that finds the root ended and where `all` is asked for.
///
/// Known limits: what such a process used since the last reading is lost when it ends; so is what any other used where its parent ignores `SIGCHLD`, or where there
/// is no supervisor to inherit orphans; kernels before 4.5 have no `RssShmem`; from Linux 6.2 on the `rss` of a process
/// with many threads may be off by some pages per CPU; two runs in one cgroup share its totals.
#[derive(Debug)]
pub struct Sampler {
    tree: Tree,
    cgroup: Option<CgroupReader>,
    node: Node,
    units: Units,
    interval_ms: u64,
    baseline: Baseline,
    slow_at_ms: Option<u64>,
    shmem_at_ms: Option<u64>,
    /// The most that one process held (`VmHWM`), looked at with its shared memory.
    process_peak_bytes: Option<u64>,
    had_root: bool,
    pids: Vec<u32>,
    columns: Columns,
}

const NO_CGROUP: &str = "the run has no separate cgroup that can be read";
const NO_RANKS: &str = "`srun` ran, and no process that it started was found on this node: CPU, memory and I/O are those of \
                        srun and of what ran beside it";

const CPU_COLUMNS: [&str; 2] = ["cpu_user_us", "cpu_system_us"];
const TREE_COLUMNS: [&str; 3] = ["mem_rss_bytes", "processes", "threads"];
const IO_COLUMNS: [&str; 2] = ["io_read_bytes", "io_write_bytes"];
const SHMEM_COLUMNS: [&str; 1] = ["mem_shmem_bytes"];
/// What only a cgroup has, and what comes from it where it was there at the beginning.
const CGROUP_COLUMNS: [(&str, Group); 12] = [
    ("cpu_user_us", Group::Cpu),
    ("cpu_system_us", Group::Cpu),
    ("cpu_throttled_us", Group::Throttled),
    ("mem_anon_bytes", Group::Memory),
    ("mem_file_bytes", Group::Memory),
    ("mem_peak_bytes", Group::Peak),
    ("mem_oom_kills", Group::OomKills),
    ("psi_cpu_some_us", Group::CpuPressure),
    ("psi_mem_some_us", Group::MemoryPressure),
    ("psi_mem_full_us", Group::MemoryPressure),
    ("psi_io_some_us", Group::IoPressure),
    ("psi_io_full_us", Group::IoPressure),
];

impl Sampler {
    /// Watches the run of `root` by the totals of its cgroup; without one by its process tree.
    #[must_use]
    pub fn of_job(root: TreeRoot, cgroup: Option<&JobCgroup>, process_interval: Duration) -> Self {
        Self::of_job_in(Path::new("/proc"), root, cgroup, process_interval)
    }

    /// The same with a directory that looks like `/proc`.
    #[must_use]
    pub fn of_job_in(
        proc: &Path,
        root: TreeRoot,
        cgroup: Option<&JobCgroup>,
        process_interval: Duration,
    ) -> Self {
        let cgroup = cgroup
            .filter(|cgroup| cgroup.directories.processes.is_some())
            .map(CgroupReader::new);
        Self {
            tree: Tree::new(proc, root),
            cgroup,
            node: Node::new(proc),
            units: Units::of_system(),
            interval_ms: u64::try_from(process_interval.as_millis()).unwrap_or(u64::MAX),
            baseline: Baseline::default(),
            slow_at_ms: None,
            shmem_at_ms: None,
            process_peak_bytes: None,
            had_root: false,
            pids: Vec::new(),
            columns: Columns::new(),
        }
    }

    /// Where the run has no cgroup: also watches processes of its job that descend from none of its own.
    #[must_use]
    pub fn with_signs(mut self, signs: Option<JobSigns>) -> Self {
        self.tree.signs = signs.filter(|_| self.cgroup.is_none());
        self
    }

    /// Goes on where another sampler of the same run stopped, in the same boot.
    #[must_use]
    pub fn with_baseline(mut self, baseline: Baseline) -> Self {
        self.baseline = baseline;
        if self.cgroup.is_none() {
            self.baseline.leave_cgroup();
        }
        self
    }

    /// What [`Sampler::with_baseline`] continues from. It is complete once a sample was taken.
    #[must_use]
    pub fn baseline(&self) -> &Baseline {
        &self.baseline
    }

    /// The cgroup whose totals the samples are, from the root of its hierarchy. `None`: they are sums over processes.
    #[must_use]
    pub fn cgroup(&self) -> Option<&str> {
        self.cgroup.as_ref().map(CgroupReader::path)
    }

    /// The columns that could not be read in any sample so far, and why.
    #[must_use]
    pub fn missing(&self) -> Vec<Missing> {
        let mut missing = self.columns.missing();
        if self.cgroup.is_none() {
            let how = self.tree.signs.as_ref().map_or(String::new(), |signs| {
                format!(
                    "; its processes are those below its command and those with {} in their environment",
                    signs.job()
                )
            });
            missing.push(Missing::new("cgroup", format!("{NO_CGROUP}{how}")));
        }
        if self.tree.lacks_ranks() {
            missing.push(Missing::new("ranks", NO_RANKS));
        }
        missing
    }

    /// True for a process that was one of the run when its processes were last read.
    #[must_use]
    pub fn owns(&self, pid: u32) -> bool {
        self.tree.has(pid)
    }

    /// Leaves this process out, and no other any more: a watcher that was restarted.
    pub fn exclude_only(&mut self, pid: u32) {
        self.tree.exclude_only(pid);
    }

    /// True while the root process runs, asked now; false once it is a zombie.
    #[must_use]
    pub fn is_root_alive(&self) -> bool {
        self.tree.is_root_alive()
    }

    /// The most memory that one process held at once, also between two samples. `None`: the run has a cgroup, which says it of all.
    #[must_use]
    pub fn process_peak_bytes(&self) -> Option<u64> {
        self.process_peak_bytes.filter(|_| self.cgroup.is_none())
    }

    /// Takes a sample; `now_ms` is its time, in Unix milliseconds UTC. With `all` it has also the columns that are not due:
    /// the last one of a run.
    pub fn sample(&mut self, now_ms: u64, all: bool) -> Sample {
        let mut sample = Sample {
            at_ms: now_ms,
            ..Sample::default()
        };
        let reading = self.cgroup.as_mut().map(CgroupReader::read);
        if !self.baseline.is_taken {
            self.begin(reading.as_ref());
        }
        let is_due = all || is_due_after(self.slow_at_ms, now_ms, self.interval_ms);
        let has_root_ended =
            (is_due || !self.baseline.cpu_is_of_cgroup) && self.read_processes(&mut sample);
        let is_slow = is_due || has_root_ended;
        if is_slow {
            self.slow_at_ms = Some(now_ms);
            self.read_io(&mut sample, all || has_root_ended);
            sample.commands = busiest(self.tree.processes(), self.units);
        }
        if let Some(reading) = &reading {
            self.put_cgroup(&mut sample, reading);
        }
        let is_shmem_due =
            all || has_root_ended || is_due_after(self.shmem_at_ms, now_ms, SHMEM_INTERVAL_MS);
        if is_slow && is_shmem_due && sample.mem_shmem_bytes.is_none() {
            self.shmem_at_ms = Some(now_ms);
            match self.tree.read_held() {
                Ok(held) => {
                    sample.mem_shmem_bytes = Some(held.shmem_bytes);
                    self.process_peak_bytes = self.process_peak_bytes.max(held.peak_bytes);
                }
                Err(why) => self.columns.note_failure(&SHMEM_COLUMNS, &why),
            }
        }
        self.node.read(&mut sample);
        self.columns.note(&sample, |column| {
            let is_it = |(name, group): &&(&str, Group)| {
                *name == column && (*group != Group::Cpu || self.baseline.cpu_is_of_cgroup)
            };
            let Some((_, group)) = CGROUP_COLUMNS.iter().find(is_it) else {
                return self.node.why_missing(column);
            };
            let cgroup = self.cgroup.as_ref();
            cgroup.map(|cgroup| cgroup.why_missing(*group))
        });
        sample
    }

    /// Decides on the sources and takes the baseline: what the cgroup and its processes have counted by now, but for what
    /// the run's own process tree has.
    fn begin(&mut self, reading: Option<&Sample>) {
        self.baseline.is_taken = true;
        let Some(reading) = reading else { return };
        let used = self.tree.read().unwrap_or_default().times;
        let used_io = self.tree.read_io(true).unwrap_or_default().io;
        let baseline = &mut self.baseline;
        let of_cpu = |user_us, system_us| {
            let used = [self.units.us(used.user), self.units.us(used.system)];
            (
                Ledger::begun(user_us, used[0]),
                Ledger::begun(system_us, used[1]),
            )
        };
        if let Some((user_us, system_us)) = reading.cpu_user_us.zip(reading.cpu_system_us) {
            baseline.cpu_is_of_cgroup = true;
            (baseline.cpu_user, baseline.cpu_system) = of_cpu(user_us, system_us);
        }
        let begun = |bytes: Option<u64>, used| Some(Ledger::begun(bytes?, used));
        baseline.cgroup_io_read = begun(reading.io_read_bytes, used_io.read_bytes);
        baseline.cgroup_io_write = begun(reading.io_write_bytes, used_io.write_bytes);
        let listed = self
            .cgroup
            .as_mut()
            .map(|cgroup| cgroup.list(&mut self.pids));
        let Some(Ok(())) = listed else { return };
        baseline.is_listed = true;
        let listed = self.tree.read_listed(&self.pids).unwrap_or_default();
        let CpuTicks { user, system } = listed.times;
        if !baseline.cpu_is_of_cgroup {
            (baseline.cpu_user, baseline.cpu_system) =
                of_cpu(self.units.us(user), self.units.us(system));
        }
        let io = self.tree.read_io(true).unwrap_or_default().io;
        baseline.io_read = Ledger::begun(io.read_bytes, used_io.read_bytes);
        baseline.io_write = Ledger::begun(io.write_bytes, used_io.write_bytes);
    }

    /// Reads the processes; true where the root was found ended.
    fn read_processes(&mut self, sample: &mut Sample) -> bool {
        match self.read_tree() {
            Err(why) => {
                self.columns.note_failure(&TREE_COLUMNS, &why);
                if !self.baseline.cpu_is_of_cgroup {
                    self.columns.note_failure(&CPU_COLUMNS, &why);
                }
            }
            Ok(totals) => {
                if !self.baseline.cpu_is_of_cgroup {
                    let (times, vanished, units) = (totals.times, totals.vanished, self.units);
                    let settle = |ledger: &mut Ledger, ticks, vanished| {
                        Some(ledger.settle(units.us(ticks), units.us(vanished)))
                    };
                    let baseline = &mut self.baseline;
                    sample.cpu_user_us = settle(&mut baseline.cpu_user, times.user, vanished.user);
                    sample.cpu_system_us =
                        settle(&mut baseline.cpu_system, times.system, vanished.system);
                }
                sample.mem_rss_bytes = Some(self.units.bytes(totals.rss_pages));
                sample.processes = Some(totals.processes);
                sample.threads = Some(totals.threads);
            }
        }
        std::mem::replace(&mut self.had_root, self.tree.had_root()) && !self.had_root
    }

    fn read_tree(&mut self) -> Result<Totals, String> {
        match self.cgroup.as_mut().filter(|_| self.baseline.is_listed) {
            None => self.tree.read(),
            Some(cgroup) => {
                cgroup.list(&mut self.pids)?;
                self.tree.read_listed(&self.pids)
            }
        }
    }

    fn read_io(&mut self, sample: &mut Sample, all: bool) {
        let Baseline {
            io_read, io_write, ..
        } = &mut self.baseline;
        match self.tree.read_io(all) {
            Ok(totals) => {
                let (io, vanished) = (totals.io, totals.vanished);
                sample.io_read_bytes = Some(io_read.settle(io.read_bytes, vanished.read_bytes));
                sample.io_write_bytes = Some(io_write.settle(io.write_bytes, vanished.write_bytes));
            }
            Err(why) => {
                (sample.io_read_bytes, sample.io_write_bytes) = (io_read.last(), io_write.last());
                self.columns.note_failure(&IO_COLUMNS, &why);
            }
        }
    }

    fn put_cgroup(&mut self, sample: &mut Sample, reading: &Sample) {
        let baseline = &mut self.baseline;
        if baseline.cpu_is_of_cgroup
            && let Some((user_us, system_us)) = reading.cpu_user_us.zip(reading.cpu_system_us)
        {
            sample.cpu_user_us = Some(baseline.cpu_user.settle(user_us, 0));
            sample.cpu_system_us = Some(baseline.cpu_system.settle(system_us, 0));
        }
        let read = count(&mut baseline.cgroup_io_read, reading.io_read_bytes);
        let written = count(&mut baseline.cgroup_io_write, reading.io_write_bytes);
        sample.io_read_bytes = larger(sample.io_read_bytes, read, baseline.io_read.last());
        sample.io_write_bytes = larger(sample.io_write_bytes, written, baseline.io_write.last());
        sample.mem_anon_bytes = reading.mem_anon_bytes;
        sample.mem_file_bytes = reading.mem_file_bytes;
        sample.mem_shmem_bytes = reading.mem_shmem_bytes;
        sample.mem_peak_bytes = reading.mem_peak_bytes;
        sample.cpu_throttled_us = count(&mut baseline.throttled, reading.cpu_throttled_us);
        sample.mem_oom_kills = count(&mut baseline.oom_kills, reading.mem_oom_kills);
        sample.psi_cpu_some_us = count(&mut baseline.psi_cpu_some, reading.psi_cpu_some_us);
        sample.psi_mem_some_us = count(&mut baseline.psi_mem_some, reading.psi_mem_some_us);
        sample.psi_mem_full_us = count(&mut baseline.psi_mem_full, reading.psi_mem_full_us);
        sample.psi_io_some_us = count(&mut baseline.psi_io_some, reading.psi_io_some_us);
        sample.psi_io_full_us = count(&mut baseline.psi_io_full, reading.psi_io_full_us);
    }
}

/// True where the time since `last` is over.
fn is_due_after(last: Option<u64>, now_ms: u64, interval_ms: u64) -> bool {
    // A clock that was set back makes it due too.
    let since = last.and_then(|last| now_ms.checked_sub(last));
    since.is_none_or(|since| since >= interval_ms - interval_ms / EARLY_SHARE)
}

/// The larger of two accounts. Where the processes were not due, the cgroup's stands only if it is beyond what was said
/// of the processes before.
fn larger(of_processes: Option<u64>, of_cgroup: Option<u64>, before: Option<u64>) -> Option<u64> {
    match of_processes {
        Some(_) => of_processes.max(of_cgroup),
        None => of_cgroup.filter(|bytes| before.is_none_or(|before| *bytes > before)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::monitor::identity;
    use crate::observe::monitor::tests::fake_cgroup::FakeCgroup;
    use crate::observe::monitor::tests::fake_proc::{FakeProc, Process};

    const ROOT: Process = Process {
        pid: 100,
        group: 100,
        start: 1000,
        rss_pages: 3,
        user: 50,
        ..Process::NEW
    };

    fn sampler(proc: &FakeProc, supervisor: Option<u32>) -> Sampler {
        let root = TreeRoot {
            command: identity::Process {
                pid: 100,
                start_time_ticks: 1000,
            },
            supervisor,
            exclude: vec![],
        };
        Sampler::of_job_in(proc.path(), root, None, PROCESS_INTERVAL)
    }

    fn user_ticks(sampler: &mut Sampler) -> u64 {
        let us = sampler.sample(0, false).cpu_user_us.expect("read");
        us / sampler.units.us_per_tick
    }

    #[test]
    fn times_of_ended_processes_stay() {
        let proc = FakeProc::new();
        proc.put(Process {
            pid: 40,
            children_user: 5,
            ..Process::NEW
        });
        proc.put(Process { parent: 40, ..ROOT });
        proc.put(Process {
            pid: 101,
            parent: 100,
            user: 30,
            ..Process::NEW
        });
        let mut sampler = sampler(&proc, Some(40));
        assert_eq!(user_ticks(&mut sampler), 85);
        proc.remove(101);
        assert_eq!(user_ticks(&mut sampler), 85);
        proc.put(Process {
            parent: 40,
            user: 52,
            children_user: 31,
            ..ROOT
        });
        assert_eq!(user_ticks(&mut sampler), 88);
        proc.remove(100);
        proc.put(Process {
            pid: 40,
            children_user: 90,
            ..Process::NEW
        });
        assert_eq!(user_ticks(&mut sampler), 90);
        proc.remove(40);
        assert_eq!(user_ticks(&mut sampler), 90);
    }

    #[test]
    fn times_of_children_nobody_was_charged_for_stay() {
        let proc = FakeProc::new();
        proc.put(ROOT);
        proc.put(Process {
            pid: 101,
            parent: 100,
            user: 30,
            ..Process::NEW
        });
        let mut sampler = sampler(&proc, None);
        assert_eq!(user_ticks(&mut sampler), 80);
        proc.remove(101);
        let grown = [0, 0, 4].map(|more| {
            proc.put(Process {
                user: 50 + more,
                ..ROOT
            });
            user_ticks(&mut sampler)
        });
        assert_eq!(grown, [80, 80, 84]);
    }

    #[test]
    fn costly_columns_come_every_five_seconds_and_at_both_ends() {
        let proc = FakeProc::new();
        proc.put(ROOT);
        proc.put_node(1);
        proc.put_io(100, 7, 9);
        proc.write(100, "status", "RssShmem:\t4 kB\n");
        let mut sampler = sampler(&proc, None);
        let has = |sample: Sample| {
            (
                sample.io_read_bytes.is_some(),
                sample.mem_shmem_bytes.is_some(),
            )
        };
        let ticks =
            [1000, 2001, 5400, 5990, 7000, 10_998].map(|now| has(sampler.sample(now, false)));
        let (yes, no) = ((true, true), (false, false));
        assert_eq!(ticks, [yes, no, no, yes, no, yes]);
        assert_eq!(has(sampler.sample(11_000, true)), yes);
        assert_eq!(has(sampler.sample(500, false)), yes);
        proc.put(Process { state: 'Z', ..ROOT });
        assert_eq!(has(sampler.sample(1500, false)), (true, false));
        assert_eq!(has(sampler.sample(2500, false)), no);
        assert_eq!(sampler.missing().len(), 1);
    }

    #[test]
    fn shared_memory_is_read_every_five_seconds_at_most() {
        let proc = FakeProc::new();
        proc.put(ROOT);
        proc.put_io(100, 7, 9);
        proc.write(100, "status", "RssShmem:\t4 kB\n");
        let root = TreeRoot {
            command: identity::Process {
                pid: 100,
                start_time_ticks: 1000,
            },
            supervisor: None,
            exclude: vec![],
        };
        let options = Duration::ZERO;
        let mut sampler = Sampler::of_job_in(proc.path(), root, None, options);
        let has = |sample: Sample| {
            (
                sample.io_read_bytes.is_some(),
                sample.mem_shmem_bytes.is_some(),
            )
        };
        let ticks = [1000, 2000, 5400, 5600, 6600].map(|now| has(sampler.sample(now, false)));
        assert_eq!(
            ticks,
            [
                (true, true),
                (true, false),
                (true, false),
                (true, true),
                (true, false)
            ]
        );
        assert_eq!(has(sampler.sample(7000, true)), (true, true));
    }

    #[test]
    fn io_of_the_supervisor_itself_is_not_the_run_s() {
        let proc = FakeProc::new();
        proc.put(Process {
            pid: 40,
            ..Process::NEW
        });
        proc.put_io(40, 5000, 100);
        proc.put(Process { parent: 40, ..ROOT });
        proc.put_io(100, 70, 9);
        let mut sampler = sampler(&proc, Some(40));
        let read = |sample: Sample| (sample.io_read_bytes, sample.io_write_bytes);
        assert_eq!(read(sampler.sample(0, false)), (Some(70), Some(9)));
        proc.remove(100);
        proc.put_io(40, 5075, 109);
        assert_eq!(read(sampler.sample(1, true)), (Some(75), Some(9)));
    }

    #[test]
    fn what_was_never_read_is_missing_with_a_reason() {
        let proc = FakeProc::new();
        let mut nothing = sampler(&proc, None);
        assert_eq!(nothing.missing().len(), 1);
        assert_eq!(
            nothing.sample(3, false),
            Sample {
                at_ms: 3,
                ..Sample::default()
            }
        );
        assert_eq!(nothing.missing().len(), 8 + 7 + 1);
        assert!(
            nothing
                .missing()
                .iter()
                .any(|missing| missing.why.contains("pressure/memory"))
        );
        proc.put(ROOT);
        proc.put_node(5);
        let mut no_io = sampler(&proc, None);
        assert_eq!(
            no_io.sample(3, false).mem_rss_bytes,
            Some(3 * no_io.units.page_bytes)
        );
        let missing: Vec<_> = no_io
            .missing()
            .into_iter()
            .map(|missing| missing.what)
            .collect();
        assert_eq!(
            missing,
            [
                "mem_shmem_bytes",
                "io_read_bytes",
                "io_write_bytes",
                "cgroup"
            ]
        );
        proc.put_io(100, 0, 0);
        assert_eq!(no_io.sample(4, true).io_read_bytes, Some(0));
        assert_eq!(no_io.missing().len(), 2);
    }

    /// The run of process 100, whose shell, process 90, came before it; one tick of the clock is 10,000 us.
    struct Job {
        proc: FakeProc,
        cgroup: FakeCgroup,
    }

    impl Job {
        fn new() -> Self {
            let job = Self {
                proc: FakeProc::new(),
                cgroup: FakeCgroup::new(),
            };
            job.proc.put_node(1);
            job.proc.put(Process {
                pid: 90,
                user: 700,
                start: 500,
                rss_pages: 2,
                ..Process::NEW
            });
            job.proc.put_io(90, 4000, 5000);
            job.proc.put(Process {
                parent: 90,
                user: 5,
                ..ROOT
            });
            job.proc.put_io(100, 30, 40);
            job.cgroup.put_cpu(8_000_000, 500_000);
            job.cgroup.put_processes(&[90, 100]);
            job
        }

        fn sampler(&self) -> Sampler {
            let root = TreeRoot {
                command: identity::Process {
                    pid: 100,
                    start_time_ticks: 1000,
                },
                supervisor: None,
                exclude: vec![],
            };
            let options = PROCESS_INTERVAL;
            Sampler::of_job_in(self.proc.path(), root, Some(&self.cgroup.job()), options)
        }
    }

    fn cpu(sample: &Sample) -> (Option<u64>, Option<u64>) {
        (sample.cpu_user_us, sample.cpu_system_us)
    }

    #[test]
    fn totals_of_a_cgroup_begin_with_the_run() {
        let job = Job::new();
        job.cgroup
            .put("memory.stat", "anon 4096\nfile 100\nshmem 7\n");
        job.cgroup.put("memory.events", "oom_kill 3\n");
        let mut sampler = job.sampler();
        let first = sampler.sample(1000, false);
        assert_eq!(cpu(&first), (Some(50_000), Some(0)));
        assert_eq!(
            (first.processes, first.mem_anon_bytes, first.mem_shmem_bytes),
            (Some(2), Some(4096), Some(7))
        );
        assert_eq!(
            (first.mem_oom_kills, first.io_write_bytes),
            (Some(0), Some(40))
        );
        assert_eq!(
            first
                .commands
                .iter()
                .map(|command| command.pid)
                .collect::<Vec<_>>(),
            [90, 100]
        );
        job.cgroup.put_cpu(8_300_000, 600_000);
        job.cgroup.put("memory.events", "oom_kill 4\n");
        job.cgroup.put_processes(&[100]);
        let second = sampler.sample(2000, false);
        assert_eq!(cpu(&second), (Some(350_000), Some(100_000)));
        assert_eq!(
            (
                second.processes,
                second.mem_oom_kills,
                second.io_write_bytes
            ),
            (None, Some(1), None)
        );
        assert!(second.commands.is_empty());
        job.proc.put_io(100, 31, 45);
        assert_eq!(sampler.sample(3000, true).io_write_bytes, Some(45));
        assert_eq!(sampler.cgroup(), Some("/slurm/uid_7/job_1"));
    }

    #[test]
    fn sampler_that_starts_again_counts_nothing_twice() {
        let job = Job::new();
        let mut before = job.sampler();
        before.sample(1000, false);
        let text = serde_json::to_string(before.baseline()).expect("written");
        job.cgroup.put_cpu(9_000_000, 700_000);
        job.proc.put(Process {
            pid: 101,
            parent: 1,
            user: 1,
            ..Process::NEW
        });
        job.proc.put_io(101, 1, 2);
        job.cgroup.put_processes(&[90, 100, 101]);
        let mut after = job
            .sampler()
            .with_baseline(serde_json::from_str(&text).expect("read"));
        let sample = after.sample(9000, false);
        assert_eq!(cpu(&sample), (Some(1_050_000), Some(200_000)));
        assert_eq!(
            (sample.io_read_bytes, sample.io_write_bytes),
            (Some(31), Some(42))
        );
        assert_eq!((sample.processes, sample.commands.len()), (Some(3), 3));
        // Where the cgroup is not found again, the run's tree continues from where it was.
        let root = TreeRoot {
            command: identity::Process {
                pid: 100,
                start_time_ticks: 1000,
            },
            supervisor: None,
            exclude: vec![],
        };
        let lone = Sampler::of_job_in(job.proc.path(), root, None, PROCESS_INTERVAL);
        let mut lone = lone.with_baseline(after.baseline().clone());
        assert_eq!(
            cpu(&lone.sample(10_000, false)),
            (Some(1_050_000), Some(200_000))
        );
        job.proc.put(Process {
            parent: 90,
            user: 8,
            ..ROOT
        });
        assert_eq!(
            cpu(&lone.sample(11_000, false)),
            (Some(1_080_000), Some(200_000))
        );
        assert!(
            lone.missing()
                .iter()
                .any(|missing| missing.why.contains("no separate cgroup"))
        );
    }

    #[test]
    fn cgroup_without_totals_lists_the_processes() {
        let job = Job::new();
        std::fs::remove_file(job.cgroup.path().join("cpu.stat")).expect("removed");
        let mut sampler = job.sampler();
        assert_eq!(cpu(&sampler.sample(1000, false)), (Some(50_000), Some(0)));
        // A child that init inherited; the batch shell goes, and nobody is charged for it.
        job.proc.put(Process {
            pid: 101,
            parent: 1,
            user: 3,
            start: 1200,
            ..Process::NEW
        });
        job.cgroup.put_processes(&[100, 101]);
        let found = sampler.sample(2000, false);
        assert_eq!(
            (cpu(&found), found.processes),
            ((Some(80_000), Some(0)), Some(3))
        );
        job.proc.remove(90);
        let grown = [0, 0, 2].map(|more| {
            job.proc.put(Process {
                parent: 1,
                user: 5 + more,
                ..ROOT
            });
            cpu(&sampler.sample(3000, false)).0
        });
        assert_eq!(grown, [Some(80_000), Some(80_000), Some(100_000)]);
        let missing = sampler.missing();
        let why = |column: &str| {
            missing
                .iter()
                .find(|missing| missing.what == column)
                .map(|it| it.why.as_str())
        };
        assert!(
            why("mem_peak_bytes").is_some_and(|why| why.contains("memory.peak")),
            "{missing:?}"
        );
        assert_eq!(why("cpu_user_us"), None);
    }

    #[test]
    fn larger_account_of_io_is_taken() {
        let job = Job::new();
        job.cgroup.put("io.stat", "8:0 rbytes=1000 wbytes=2000\n");
        let mut sampler = job.sampler();
        let mut io = |now, written, sampled: Option<u64>| {
            job.cgroup
                .put("io.stat", &format!("8:0 rbytes=1000 wbytes={written}\n"));
            if let Some(bytes) = sampled {
                job.proc.put_io(100, 30, bytes);
                // The file is read again only if the process used CPU time since.
                job.proc.put(Process {
                    parent: 90,
                    user: 6,
                    ..ROOT
                });
            }
            sampler.sample(now, false).io_write_bytes
        };
        assert_eq!(io(1000, 2000, None), Some(40));
        assert_eq!(io(2000, 2010, None), Some(50));
        assert_eq!(io(6000, 2010, Some(90)), Some(90));
        assert_eq!(io(7000, 2030, None), None);
        assert_eq!(io(8000, 2100, None), Some(140));
    }

    #[test]
    fn cgroup_that_is_gone_leaves_no_numbers() {
        let job = Job::new();
        let mut sampler = job.sampler();
        sampler.sample(1000, false);
        std::fs::remove_dir_all(job.cgroup.path()).expect("removed");
        // A file that is kept open shows nothing in a cgroup that was removed; here it is another one.
        let mut late = job.sampler().with_baseline(sampler.baseline().clone());
        let sample = late.sample(2000, true);
        assert_eq!((cpu(&sample), sample.processes), ((None, None), None));
        assert!(
            late.missing()
                .iter()
                .any(|missing| missing.what == "cpu_user_us")
        );
    }

    #[test]
    fn busiest_processes_are_shown_and_no_more() {
        let proc = FakeProc::new();
        proc.put(ROOT);
        for pid in 200..300 {
            proc.put(Process {
                pid,
                parent: 100,
                user: u64::from(pid),
                ..Process::NEW
            });
        }
        let mut sampler = sampler(&proc, None);
        let commands = sampler.sample(0, false).commands;
        let pids: Vec<_> = commands.iter().map(|command| command.pid).collect();
        assert_eq!(pids, (236..300).collect::<Vec<_>>());
        assert_eq!(
            (&*commands[0].name, commands[0].cpu_us),
            ("a) R (b", Some(236 * 10_000))
        );
    }

    #[test]
    fn slurm_s_own_process_is_not_the_run_s() {
        let job = Job::new();
        job.proc.put(Process {
            pid: 80,
            ..Process::NEW
        });
        let step = std::fs::read_to_string(job.proc.path().join("80/stat")).expect("read");
        job.proc
            .write(80, "stat", &step.replace("(a) R (b)", "(slurmstepd)"));
        job.cgroup.put_processes(&[80, 90, 100]);
        let mut sampler = job.sampler();
        assert_eq!(sampler.sample(1000, false).processes, Some(2));
        // It becomes the task by `execve`.
        job.proc.write(80, "stat", &step);
        assert_eq!(sampler.sample(1000, true).processes, Some(3));
    }
}
