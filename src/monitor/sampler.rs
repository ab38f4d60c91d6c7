//! One sample per tick, put together from the sources that a run has.
//!
//! The source of each column is named in [`Sampler`]. A node daemon has better ones for some (the job's cgroup for CPU
//! time, memory and I/O) and further ones (GPUs): they become further fields of the sampler, read in
//! [`Sampler::sample`] after the tree and written over its columns.

use std::path::Path;

use nix::unistd::{SysconfVar, sysconf};

use super::ledger::Ledger;
use super::tree::{Tree, TreeRoot, keep_files_limit};
use crate::record::{COLUMNS, Missing, Sample};

/// Between two readings of what costs more than `stat`: I/O and shared memory.
const SLOW_EVERY_MS: u64 = 5000;
/// A tick that comes so much early is still taken for one, so that jitter does not cost a whole tick.
const SLOW_EARLY_MS: u64 = 500;

/// Samples the processes of one run.
///
/// Every column is the sum over the run's processes on this node:
///
/// | columns | source | when |
/// |---|---|---|
/// | `cpu_user_us`, `cpu_system_us` | `/proc/PID/stat`, own times and those of children waited for; plus the supervisor's children | every sample |
/// | `mem_rss_bytes`, `processes`, `threads` | `/proc/PID/stat`, ended processes left out | every sample |
/// | `mem_shmem_bytes` | `RssShmem` of `/proc/PID/status` (Linux 4.5) | every 5 s |
/// | `io_read_bytes`, `io_write_bytes` | `/proc/PID/io`, the supervisor's from the start of the sampler | every 5 s |
///
/// What is read every 5 s is `None` in the samples between; it is also read in the first sample, in the one that finds
/// the root ended, and by [`Sampler::sample_all`]. Counters never fall. Processes of other users whose files may not be
/// read are left out.
///
/// Known limits: what a process used since the last reading is lost where its parent ignores `SIGCHLD`, or where there
/// is no supervisor to inherit orphans; kernels before 4.5 have no `RssShmem`; from Linux 6.2 on the `rss` of a process
/// with many threads may be off by some pages per CPU.
#[derive(Debug)]
pub struct Sampler {
    tree: Tree,
    us_per_tick: u64,
    page_bytes: u64,
    cpu_user: Ledger,
    cpu_system: Ledger,
    io_read: Ledger,
    io_write: Ledger,
    slow_at_ms: Option<u64>,
    had_root: bool,
    columns: [Reading; COLUMNS.len()],
}

/// Whether a column was ever read.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reading {
    NotTried,
    Failed(String),
    Done,
}

const TREE_COLUMNS: [&str; 5] = ["cpu_user_us", "cpu_system_us", "mem_rss_bytes", "processes", "threads"];
const IO_COLUMNS: [&str; 2] = ["io_read_bytes", "io_write_bytes"];
const SHMEM_COLUMNS: [&str; 1] = ["mem_shmem_bytes"];

impl Sampler {
    /// Watches the process tree of `root` in `/proc`.
    #[must_use]
    pub fn of_tree(root: TreeRoot) -> Self {
        Self::new(Tree::new(Path::new("/proc"), root, keep_files_limit()))
    }

    /// Watches the process tree of `root` in a directory that looks like `/proc`.
    #[must_use]
    pub fn of_tree_in(proc: &Path, root: TreeRoot) -> Self {
        Self::new(Tree::new(proc, root, 0))
    }

    fn new(tree: Tree) -> Self {
        Self {
            tree,
            us_per_tick: 1_000_000 / system_value(SysconfVar::CLK_TCK, 100),
            page_bytes: system_value(SysconfVar::PAGE_SIZE, 4096),
            cpu_user: Ledger::default(),
            cpu_system: Ledger::default(),
            io_read: Ledger::default(),
            io_write: Ledger::default(),
            slow_at_ms: None,
            had_root: false,
            columns: std::array::from_fn(|_| Reading::NotTried),
        }
    }

    /// Takes a sample; `now_ms` is its time, in Unix milliseconds UTC.
    pub fn sample(&mut self, now_ms: u64) -> Sample {
        self.take(now_ms, false)
    }

    /// Takes a sample with all columns, also those that are not due: the last one of a run.
    pub fn sample_all(&mut self, now_ms: u64) -> Sample {
        self.take(now_ms, true)
    }

    /// The columns that could not be read in any sample so far, and why.
    #[must_use]
    pub fn missing(&self) -> Vec<Missing> {
        let columns = COLUMNS.iter().zip(&self.columns);
        let missing = columns.filter_map(|(column, reading)| match reading {
            Reading::Failed(why) => Some(Missing { what: column.name.to_owned(), why: why.clone() }),
            Reading::NotTried | Reading::Done => None,
        });
        missing.collect()
    }

    /// True while the root process runs, asked now; false once it is a zombie.
    #[must_use]
    pub fn is_root_alive(&self) -> bool {
        self.tree.is_root_alive()
    }

    fn take(&mut self, now_ms: u64, all: bool) -> Sample {
        let mut sample = Sample { at_ms: now_ms, ..Sample::default() };
        match self.tree.read() {
            Err(why) => self.note_failure(&TREE_COLUMNS, &why),
            Ok(totals) => {
                let us = |ticks: u64| ticks.saturating_mul(self.us_per_tick);
                sample.cpu_user_us =
                    Some(self.cpu_user.settle(us(totals.times.user), us(totals.vanished.user)));
                sample.cpu_system_us =
                    Some(self.cpu_system.settle(us(totals.times.system), us(totals.vanished.system)));
                sample.mem_rss_bytes = Some(totals.rss_pages.saturating_mul(self.page_bytes));
                sample.processes = Some(totals.processes);
                sample.threads = Some(totals.threads);
            }
        }
        let root_ended = std::mem::replace(&mut self.had_root, self.tree.had_root()) && !self.had_root;
        if all || root_ended || self.is_slow_due(now_ms) {
            self.slow_at_ms = Some(now_ms);
            self.read_slow(&mut sample);
        }
        for (reading, _) in self.columns.iter_mut().zip(sample.values()).filter(|(_, value)| value.is_some())
        {
            *reading = Reading::Done;
        }
        sample
    }

    fn is_slow_due(&self, now_ms: u64) -> bool {
        // A clock that was set back makes it due too.
        let since = self.slow_at_ms.and_then(|last| now_ms.checked_sub(last));
        since.is_none_or(|since| since + SLOW_EARLY_MS >= SLOW_EVERY_MS)
    }

    fn read_slow(&mut self, sample: &mut Sample) {
        match self.tree.read_io() {
            Ok(totals) => {
                let (io, vanished) = (totals.io, totals.vanished);
                sample.io_read_bytes = Some(self.io_read.settle(io.read_bytes, vanished.read_bytes));
                sample.io_write_bytes = Some(self.io_write.settle(io.write_bytes, vanished.write_bytes));
            }
            Err(why) => {
                (sample.io_read_bytes, sample.io_write_bytes) = (self.io_read.last(), self.io_write.last());
                self.note_failure(&IO_COLUMNS, &why);
            }
        }
        match self.tree.read_shmem_bytes() {
            Ok(bytes) => sample.mem_shmem_bytes = Some(bytes),
            Err(why) => self.note_failure(&SHMEM_COLUMNS, &why),
        }
    }

    fn note_failure(&mut self, columns: &[&str], why: &str) {
        for (column, reading) in COLUMNS.iter().zip(&mut self.columns) {
            if columns.contains(&column.name) && *reading != Reading::Done {
                *reading = Reading::Failed(why.to_owned());
            }
        }
    }
}

/// A constant of the system, `usual` where it does not say.
fn system_value(name: SysconfVar, usual: u64) -> u64 {
    let value = sysconf(name).ok().flatten().and_then(|value| u64::try_from(value).ok());
    value.filter(|value| *value > 0).unwrap_or(usual)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::fake_proc::{FakeProc, Process};

    const ROOT: Process =
        Process { pid: 100, group: 100, start: 1000, rss_pages: 3, user: 50, ..Process::NEW };

    fn sampler(proc: &FakeProc, supervisor: Option<u32>) -> Sampler {
        let root =
            TreeRoot { pid: 100, start_time_ticks: 1000, process_group: 100, supervisor, exclude: vec![] };
        Sampler::of_tree_in(proc.path(), root)
    }

    fn user_ticks(sampler: &mut Sampler) -> u64 {
        let us = sampler.sample(0).cpu_user_us.expect("read");
        us / sampler.us_per_tick
    }

    #[test]
    fn times_of_ended_processes_stay() {
        let proc = FakeProc::new();
        proc.put(Process { pid: 40, children_user: 5, ..Process::NEW });
        proc.put(Process { parent: 40, ..ROOT });
        proc.put(Process { pid: 101, parent: 100, user: 30, ..Process::NEW });
        let mut sampler = sampler(&proc, Some(40));
        assert_eq!(user_ticks(&mut sampler), 85);
        proc.remove(101);
        assert_eq!(user_ticks(&mut sampler), 85);
        proc.put(Process { parent: 40, user: 52, children_user: 31, ..ROOT });
        assert_eq!(user_ticks(&mut sampler), 88);
        proc.remove(100);
        proc.put(Process { pid: 40, children_user: 90, ..Process::NEW });
        assert_eq!(user_ticks(&mut sampler), 90);
        proc.remove(40);
        assert_eq!(user_ticks(&mut sampler), 90);
    }

    #[test]
    fn times_of_children_nobody_was_charged_for_stay() {
        let proc = FakeProc::new();
        proc.put(ROOT);
        proc.put(Process { pid: 101, parent: 100, user: 30, ..Process::NEW });
        let mut sampler = sampler(&proc, None);
        assert_eq!(user_ticks(&mut sampler), 80);
        proc.remove(101);
        let grown = [0, 0, 4].map(|more| {
            proc.put(Process { user: 50 + more, ..ROOT });
            user_ticks(&mut sampler)
        });
        assert_eq!(grown, [80, 80, 84]);
    }

    #[test]
    fn costly_columns_come_every_five_seconds_and_at_both_ends() {
        let proc = FakeProc::new();
        proc.put(ROOT);
        proc.put_io(100, 7, 9);
        proc.write(100, "status", "RssShmem:\t4 kB\n");
        let mut sampler = sampler(&proc, None);
        let has = |sample: Sample| (sample.io_read_bytes.is_some(), sample.mem_shmem_bytes.is_some());
        let ticks = [1000, 2001, 5400, 5990, 7000, 10_998].map(|now| has(sampler.sample(now)));
        let (yes, no) = ((true, true), (false, false));
        assert_eq!(ticks, [yes, no, no, yes, no, yes]);
        assert_eq!(has(sampler.sample_all(11_000)), yes);
        assert_eq!(has(sampler.sample(500)), yes);
        proc.put(Process { state: 'Z', ..ROOT });
        assert_eq!(has(sampler.sample(1500)), (true, false));
        assert_eq!(has(sampler.sample(2500)), no);
        assert_eq!(sampler.missing(), []);
    }

    #[test]
    fn io_of_the_supervisor_itself_is_not_the_run_s() {
        let proc = FakeProc::new();
        proc.put(Process { pid: 40, ..Process::NEW });
        proc.put_io(40, 5000, 100);
        proc.put(Process { parent: 40, ..ROOT });
        proc.put_io(100, 70, 9);
        let mut sampler = sampler(&proc, Some(40));
        let read = |sample: Sample| (sample.io_read_bytes, sample.io_write_bytes);
        assert_eq!(read(sampler.sample(0)), (Some(70), Some(9)));
        proc.remove(100);
        proc.put_io(40, 5075, 109);
        assert_eq!(read(sampler.sample_all(1)), (Some(75), Some(9)));
    }

    #[test]
    fn what_was_never_read_is_missing_with_a_reason() {
        let proc = FakeProc::new();
        let mut nothing = sampler(&proc, None);
        assert_eq!(nothing.missing(), []);
        assert_eq!(nothing.sample(3), Sample { at_ms: 3, ..Sample::default() });
        assert_eq!(nothing.missing().len(), 8);
        proc.put(ROOT);
        let mut no_io = sampler(&proc, None);
        assert_eq!(no_io.sample(3).mem_rss_bytes, Some(3 * no_io.page_bytes));
        let missing: Vec<_> = no_io.missing().into_iter().map(|missing| missing.what).collect();
        assert_eq!(missing, ["mem_shmem_bytes", "io_read_bytes", "io_write_bytes"]);
        proc.put_io(100, 0, 0);
        assert_eq!(no_io.sample_all(4).io_read_bytes, Some(0));
        assert_eq!(no_io.missing().len(), 1);
    }
}
