//! Which processes belong to a run, and what they add up to.
//!
//! A member is a descendant of the root, a process of the root's group or session, or an orphan that fell to the
//! supervisor; once a member, always a member. Without a cgroup, processes of the same job that started after the root are
//! members too ([`JobSigns`]). Identity is pid and start time, so a pid that is used again is another
//! process.
//!
//! Parents are read before their children (members lie in order of their start, the supervisor comes first). A child that
//! is waited for in between is then missing for one reading, never counted twice; [`super::ledger`] bridges that.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use super::identity::Process;
use super::job_signs::JobSigns;
use super::process::{CpuTicks, Held, Io, KeptOf, ProcDir, Stat, is_gone, read_stat};

/// Ticks after which a process that was no member is looked at again: it may have changed its group, or its pid may
/// have passed on unseen. The looks are spread over the ticks.
const LOOK_AGAIN_TICKS: u64 = 40;
/// Ticks after which the processes are listed even if the kernel's last pid says what is new: some containers show an old one.
const LIST_AGAIN_TICKS: u64 = 5;
/// To ask for a number costs as much as to list so many processes.
const LISTED_FOR_ONE: usize = 4;
/// The name of the process that Slurm runs beside each step.
const SLURM_STEP_PROCESS: &[u8] = b"slurmstepd";
/// The program that has Slurm start ranks, which are no children of it.
const SLURM_STEP_LAUNCHER: &[u8] = b"srun";

/// Where a run's processes hang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeRoot {
    /// The command's first process; its pid is also that of its process group, where it leads one.
    pub command: Process,
    /// The process that started it and, as the subreaper (`PR_SET_CHILD_SUBREAPER`), inherits its orphans. It is never
    /// counted itself, but all it waited for is: it must start nothing else.
    pub supervisor: Option<u32>,
    /// Processes that are never counted: who watches. Their children are not counted either, while they live.
    pub exclude: Vec<u32>,
}

/// What a known pid is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Member,
    /// No member; looked at again now and then.
    Stranger,
    /// Seen once, no member: its parent may have been missing in the listing, or it was about to change its group.
    Unsure,
}

/// A process that is read at every tick.
#[derive(Debug, Default)]
struct Member {
    stat: Stat,
    io: Option<Io>,
    /// The CPU times that it had then.
    io_as_of: CpuTicks,
    /// Its memory, and the resident pages that it had then.
    held: Option<(Held, u64)>,
    file: KeptOf,
    io_file: KeptOf,
}

impl Member {
    fn new(stat: Stat) -> Self {
        Self {
            stat,
            ..Self::default()
        }
    }

    /// Reads it again; false where it is gone. What may not be read any more keeps its last values.
    fn read(&mut self, proc: &mut ProcDir) -> bool {
        match proc.stat(self.stat.pid, Some(&mut self.file)) {
            Ok(stat) if stat.start_time_ticks == self.stat.start_time_ticks => self.stat = stat,
            Ok(_) => return false,
            Err(error) => return !is_gone(&error),
        }
        true
    }

    /// Reads its I/O. One that used no CPU time since then has read and written next to nothing: it is asked again where `all`.
    fn read_io(&mut self, proc: &mut ProcDir, all: bool) -> io::Result<()> {
        if !all && self.io.is_some() && self.io_as_of == self.stat.times_with_children() {
            return Ok(());
        }
        self.io = Some(proc.io(self.stat.pid, Some(&mut self.io_file))?);
        self.io_as_of = self.stat.times_with_children();
        Ok(())
    }
}

#[derive(Debug)]
struct Supervisor {
    process: Member,
    /// What it had read and written itself before the run.
    io_before: Io,
    is_alive: bool,
}

/// CPU times, memory and numbers of a run at one tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Totals {
    pub(super) times: CpuTicks,
    /// Of processes that vanished since the last tick; their reapers may have been read before.
    pub(super) vanished: CpuTicks,
    pub(super) rss_pages: u64,
    pub(super) processes: u64,
    pub(super) threads: u64,
}

/// Storage I/O of a run at one tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct IoTotals {
    pub(super) io: Io,
    /// Of processes that vanished while this was read.
    pub(super) vanished: Io,
}

/// The processes of one run.
#[derive(Debug)]
pub(super) struct Tree {
    proc: ProcDir,
    root: TreeRoot,
    supervisor: Option<Supervisor>,
    members: Vec<Member>,
    known: HashMap<u32, Kind>,
    listing: Vec<u32>,
    /// The kernel's last pid when the listing was made: new ones have the numbers after it.
    last_pid: Option<u32>,
    tick: u64,
    /// Anything was ever read.
    seen: bool,
    /// The root's group still holds its processes. (Its number is free for others after them.)
    group_lives: bool,
    session_lives: bool,
    /// The list comes from the run's cgroup: all in it are members.
    is_listed: bool,
    /// How processes of the job are recognised that do not descend from the root.
    pub(super) signs: Option<JobSigns>,
    found_by_signs: bool,
    had_step_launcher: bool,
}

impl Tree {
    /// The processes of `root` in `path`, which looks like `/proc`.
    pub(super) fn new(path: &Path, root: TreeRoot) -> Self {
        let mut proc = ProcDir::new(path);
        let supervisor = root.supervisor.and_then(|pid| {
            let process = Member::new(proc.stat(pid, None).ok()?);
            let io_before = proc.io(pid, None).unwrap_or_default();
            Some(Supervisor {
                process,
                io_before,
                is_alive: true,
            })
        });
        Self {
            proc,
            root,
            supervisor,
            members: Vec::new(),
            known: HashMap::new(),
            listing: Vec::new(),
            last_pid: None,
            tick: 0,
            seen: false,
            group_lives: true,
            session_lives: true,
            is_listed: false,
            signs: None,
            found_by_signs: false,
            had_step_launcher: false,
        }
    }

    /// True where `srun` ran and none of its ranks were found.
    pub(super) fn lacks_ranks(&self) -> bool {
        self.had_step_launcher && !self.found_by_signs && !self.is_listed
    }

    /// Reads all members and finds new ones in `/proc`. An error says why nothing is known.
    pub(super) fn read(&mut self) -> Result<Totals, String> {
        let last_pid = self.proc.last_pid();
        let given = self.last_pid.zip(last_pid).and_then(|(before, last)| {
            // Not where they began again with low numbers.
            let count = last.checked_sub(before)? as usize;
            (count * LISTED_FOR_ONE <= self.listing.len()).then_some(before + 1..=last)
        });
        let path = self.proc.path().display();
        match given.filter(|_| !self.tick.is_multiple_of(LIST_AGAIN_TICKS)) {
            Some(numbers) => self.proc.list_new(numbers, &mut self.listing),
            None => (self.proc.list(&mut self.listing))
                .map_err(|error| format!("cannot list {path}: {error}"))?,
        }
        // It was asked before: one that began meanwhile is found the next time.
        self.last_pid = last_pid;
        self.read_listing()
    }

    /// Reads all members; new ones are those that `pids`, a list of the run's cgroup, has. Each of them is a member, but
    /// for the supervisor, the excluded, and Slurm's process beside each step.
    pub(super) fn read_listed(&mut self, pids: &[u32]) -> Result<Totals, String> {
        if !std::mem::replace(&mut self.is_listed, true) {
            self.known.retain(|_, kind| *kind == Kind::Member);
        }
        self.last_pid = None;
        self.listing.clear();
        self.listing.extend_from_slice(pids);
        self.listing.sort_unstable();
        self.read_listing()
    }

    fn read_listing(&mut self) -> Result<Totals, String> {
        self.tick += 1;
        if let Some(supervisor) = &mut self.supervisor {
            supervisor.is_alive &= supervisor.process.read(&mut self.proc);
        }
        let vanished = self.read_members();
        let mut newcomers = self.read_newcomers();
        self.admit(&mut newcomers);
        self.remember_strangers(&newcomers);
        self.note_group_and_session();
        self.had_step_launcher |= self
            .members
            .iter()
            .any(|member| member.stat.name.as_bytes() == SLURM_STEP_LAUNCHER);
        self.seen |= self.supervisor.is_some() || !self.members.is_empty();
        if !self.seen {
            let path = self.proc.path().display();
            return Err(format!(
                "no process of the run was seen under {path}: it ended before, or is hidden"
            ));
        }
        Ok(self.totals(vanished))
    }

    /// Reads the members again, drops those that are gone and returns what they had used when last seen.
    fn read_members(&mut self) -> CpuTicks {
        let mut vanished = CpuTicks::default();
        self.members.retain_mut(|member| {
            let is_there = member.read(&mut self.proc);
            if !is_there {
                vanished.add(member.stat.times_with_children());
                self.known.remove(&member.stat.pid);
            }
            is_there
        });
        vanished
    }

    /// Reads the listed processes that are not known yet, or are to be looked at again.
    fn read_newcomers(&mut self) -> Vec<Stat> {
        let mut newcomers = Vec::new();
        for &pid in &self.listing {
            if self.root.exclude.contains(&pid) || self.root.supervisor == Some(pid) {
                continue;
            }
            if let Some(kind) = self.known.get(&pid) {
                let turn = self.tick + u64::from(pid);
                let is_due = match kind {
                    Kind::Member => false,
                    // A process of Slurm's becomes one of the run by `execve`.
                    _ if self.is_listed => true,
                    Kind::Unsure => true,
                    Kind::Stranger => turn.is_multiple_of(LOOK_AGAIN_TICKS),
                };
                if !is_due {
                    continue;
                }
            }
            match self.proc.stat(pid, None) {
                Ok(stat) => newcomers.push(stat),
                Err(error) if is_gone(&error) => {}
                // Hidden (`hidepid=1`): not asked again at every tick.
                Err(_) => {
                    self.known.insert(pid, Kind::Stranger);
                }
            }
        }
        newcomers
    }

    /// Makes members of the newcomers that belong to the run, and leaves the others. A child may lie before its parent,
    /// so it is tried until nobody joins.
    fn admit(&mut self, newcomers: &mut Vec<Stat>) {
        let before = self.members.len();
        loop {
            let left = newcomers.len();
            newcomers.retain(|stat| {
                let descends = self.belongs(stat);
                let has_signs = !descends && self.has_signs(stat);
                self.found_by_signs |= has_signs;
                let joins = descends || has_signs;
                if joins {
                    self.known.insert(stat.pid, Kind::Member);
                    self.members.push(Member::new(*stat));
                }
                !joins
            });
            if newcomers.len() == left {
                break;
            }
        }
        if self.members.len() > before {
            self.members
                .sort_unstable_by_key(|member| (member.stat.start_time_ticks, member.stat.pid));
        }
    }

    fn belongs(&self, stat: &Stat) -> bool {
        if self.is_listed {
            return !stat.is_kernel_thread && stat.name.as_bytes() != SLURM_STEP_PROCESS;
        }
        let supervisor = self
            .supervisor
            .as_ref()
            .filter(|supervisor| supervisor.is_alive);
        self.is_root(stat)
            || self.has(stat.parent)
            || supervisor.is_some_and(|supervisor| supervisor.process.stat.pid == stat.parent)
            || (self.group_lives && stat.process_group == self.root.command.pid)
            || (self.session_lives && stat.session == self.root.command.pid)
    }

    /// Processes older than the root are not the run's: batch shell, supervisor, Slurm's own.
    fn has_signs(&self, stat: &Stat) -> bool {
        let is_possible = !self.is_listed
            && !stat.is_kernel_thread
            && stat.start_time_ticks >= self.root.command.start_time_ticks
            && stat.name.as_bytes() != SLURM_STEP_PROCESS
            && !self.root.exclude.contains(&stat.parent);
        let signs = self.signs.as_ref().filter(|_| is_possible);
        signs.is_some_and(|signs| signs.are_of(self.proc.path(), stat.pid))
    }

    fn is_root(&self, stat: &Stat) -> bool {
        let command = self.root.command;
        stat.pid == command.pid && stat.start_time_ticks == command.start_time_ticks
    }

    fn remember_strangers(&mut self, strangers: &[Stat]) {
        for stat in strangers {
            let before = self.known.get(&stat.pid);
            let kind = match before {
                _ if stat.is_kernel_thread => Kind::Stranger,
                None => Kind::Unsure,
                // It becomes a rank by `execve`, after a task prologue of any length.
                Some(Kind::Unsure) if stat.name.as_bytes() == SLURM_STEP_PROCESS => Kind::Unsure,
                Some(_) => Kind::Stranger,
            };
            self.known.insert(stat.pid, kind);
        }
        let listing = &self.listing;
        self.known
            .retain(|pid, kind| *kind == Kind::Member || listing.binary_search(pid).is_ok());
    }

    fn note_group_and_session(&mut self) {
        let command = self.root.command.pid;
        let any = |of: fn(&Stat) -> u32| {
            let mut stats = self.members.iter().map(|member| &member.stat);
            stats.any(|stat| self.is_root(stat) || of(stat) == command)
        };
        (self.group_lives, self.session_lives) =
            (any(|stat| stat.process_group), any(|stat| stat.session));
    }

    fn totals(&self, vanished: CpuTicks) -> Totals {
        let mut totals = Totals {
            vanished,
            ..Totals::default()
        };
        if let Some(supervisor) = &self.supervisor {
            totals.times.add(supervisor.process.stat.children);
        }
        for stat in self.members.iter().map(|member| &member.stat) {
            totals.times.add(stat.times_with_children());
            if !stat.is_ended() {
                totals.rss_pages = totals.rss_pages.saturating_add(stat.rss_pages);
                totals.processes += 1;
                totals.threads = totals.threads.saturating_add(stat.threads);
            }
        }
        totals
    }

    /// True for a process that was a member when the members were last read.
    pub(super) fn has(&self, pid: u32) -> bool {
        self.known
            .get(&pid)
            .is_some_and(|kind| *kind == Kind::Member)
    }

    /// Leaves this process out from now on, a member no more if it was one, and no other: the pids of those before may have
    /// passed on, and who comes back again and again must not make a long list.
    pub(super) fn exclude_only(&mut self, pid: u32) {
        self.root.exclude = vec![pid];
        self.known.remove(&pid);
        self.members.retain(|member| member.stat.pid != pid);
    }

    /// Reads the I/O of the members that may have done some since, or of `all`. An error says why none of it is known.
    pub(super) fn read_io(&mut self, all: bool) -> Result<IoTotals, String> {
        let mut totals = IoTotals::default();
        let mut why = "no process of the run was left to read".to_owned();
        let (mut is_known, mut is_refused) = (false, false);
        if let Some(supervisor) = &mut self.supervisor {
            if supervisor.is_alive {
                let process = &mut supervisor.process;
                let _ = process.read_io(&mut self.proc, true);
            }
            let io = supervisor.process.io;
            is_known = io.is_some();
            totals.io = io.unwrap_or_default().since(supervisor.io_before);
        }
        for member in &mut self.members {
            if let Err(error) = member.read_io(&mut self.proc, all) {
                let is_gone = is_gone(&error);
                // That one may not be read says more than that another has ended.
                if !(is_gone && is_refused) {
                    why = format!("cannot read io of process {}: {error}", member.stat.pid);
                }
                if is_gone {
                    totals.vanished.add(member.io.take().unwrap_or_default());
                } else {
                    is_refused = true;
                }
            }
            totals.io.add(member.io.unwrap_or_default());
        }
        let members_known = self.members.iter().any(|member| member.io.is_some());
        if members_known || (is_known && !is_refused) {
            Ok(totals)
        } else {
            Err(why)
        }
    }

    /// Reads the shared memory of the members, and the most that one of them held. An error says why none of it is known. One whose
    /// resident memory is as it was is not asked again: for that file the kernel walks more than for all others of a process together.
    pub(super) fn read_held(&mut self) -> Result<Held, String> {
        let mut why = "no process of the run was left to read".to_owned();
        let mut total: Option<Held> = None;
        let members = self.members.iter_mut();
        for member in members.filter(|member| !member.stat.is_ended()) {
            let (pid, pages) = (member.stat.pid, member.stat.rss_pages);
            let known = member.held.filter(|(_, then)| *then == pages);
            match known.map_or_else(|| self.proc.held(pid), |(held, _)| Ok(held)) {
                Ok(held) => {
                    member.held = Some((held, pages));
                    let before = total.map_or(0, |total| total.shmem_bytes);
                    total = Some(Held {
                        shmem_bytes: held.shmem_bytes.saturating_add(before),
                        peak_bytes: held
                            .peak_bytes
                            .max(total.and_then(|total| total.peak_bytes)),
                    });
                }
                Err(error) => why = format!("cannot read RssShmem of process {pid}: {error}"),
            }
        }
        total.ok_or(why)
    }

    /// The living members, each with its I/O when that was last read.
    pub(super) fn processes(&self) -> impl Iterator<Item = (&Stat, Option<Io>)> {
        let living = self.members.iter().filter(|member| !member.stat.is_ended());
        living.map(|member| (&member.stat, member.io))
    }

    /// True while the root runs, asked now. False for a zombie.
    pub(super) fn is_root_alive(&self) -> bool {
        let mut kept = self
            .members
            .iter()
            .filter(|member| self.is_root(&member.stat));
        let stat = match kept.find_map(|member| member.file.as_ref()) {
            Some(file) => read_stat(file),
            None => ProcDir::new(self.proc.path()).stat(self.root.command.pid, None),
        };
        stat.is_ok_and(|stat| self.is_root(&stat) && !stat.is_ended())
    }

    /// True where the last reading had the root running.
    pub(super) fn had_root(&self) -> bool {
        self.members
            .iter()
            .any(|member| self.is_root(&member.stat) && !member.stat.is_ended())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::monitor::identity;
    use crate::observe::monitor::tests::fake_proc::{FakeProc, Process};

    fn tree(proc: &FakeProc, supervisor: Option<u32>) -> Tree {
        let root = TreeRoot {
            command: identity::Process {
                pid: 100,
                start_time_ticks: 1000,
            },
            supervisor,
            exclude: vec![50],
        };
        Tree::new(proc.path(), root)
    }

    fn members(tree: &mut Tree) -> Vec<u32> {
        tree.read().expect("a reading");
        let mut pids: Vec<_> = tree.members.iter().map(|member| member.stat.pid).collect();
        pids.sort_unstable();
        pids
    }

    const ROOT: Process = Process {
        pid: 100,
        parent: 40,
        group: 100,
        session: 9,
        start: 1000,
        ..Process::NEW
    };

    #[test]
    fn descendants_group_and_orphans_are_members_and_nobody_else() {
        let proc = FakeProc::new();
        proc.put(Process {
            pid: 40,
            parent: 9,
            ..Process::NEW
        });
        proc.put(Process {
            pid: 50,
            parent: 40,
            ..Process::NEW
        });
        proc.put(Process {
            pid: 51,
            parent: 50,
            ..Process::NEW
        });
        proc.put(ROOT);
        proc.put(Process {
            pid: 90,
            parent: 101,
            ..Process::NEW
        });
        proc.put(Process {
            pid: 101,
            parent: 100,
            group: 101,
            ..Process::NEW
        });
        proc.put(Process {
            pid: 102,
            parent: 1,
            group: 100,
            ..Process::NEW
        });
        proc.put(Process {
            pid: 103,
            parent: 40,
            group: 103,
            session: 103,
            ..Process::NEW
        });
        proc.put(Process {
            pid: 104,
            parent: 1,
            group: 104,
            session: 100,
            ..Process::NEW
        });
        let mut tree = tree(&proc, Some(40));
        assert_eq!(members(&mut tree), [90, 100, 101, 102, 103, 104]);
    }

    #[test]
    fn a_member_stays_one_whatever_becomes_of_its_parents() {
        let proc = FakeProc::new();
        proc.put(ROOT);
        proc.put(Process {
            pid: 101,
            parent: 100,
            group: 101,
            ..Process::NEW
        });
        let mut tree = tree(&proc, None);
        assert_eq!(members(&mut tree), [100, 101]);
        proc.remove(100);
        proc.put(Process {
            pid: 101,
            parent: 1,
            group: 101,
            ..Process::NEW
        });
        proc.put(Process {
            pid: 102,
            parent: 101,
            group: 102,
            ..Process::NEW
        });
        assert_eq!(members(&mut tree), [101, 102]);
    }

    #[test]
    fn a_pid_used_again_is_another_process() {
        let proc = FakeProc::new();
        proc.put(ROOT);
        proc.put(Process {
            pid: 101,
            parent: 100,
            start: 1001,
            user: 500,
            ..Process::NEW
        });
        let mut tree = tree(&proc, None);
        assert_eq!(members(&mut tree), [100, 101]);
        proc.put(Process {
            pid: 101,
            parent: 1,
            start: 2000,
            user: 9999,
            ..Process::NEW
        });
        proc.put(Process {
            pid: 102,
            parent: 101,
            start: 2001,
            ..Process::NEW
        });
        assert_eq!(members(&mut tree), [100]);
        proc.put(Process {
            start: 3000,
            group: 77,
            ..ROOT
        });
        assert!(members(&mut tree).is_empty());
        assert!(!tree.is_root_alive());
    }

    #[test]
    fn the_group_s_number_is_free_once_the_group_is_empty() {
        let proc = FakeProc::new();
        proc.put(ROOT);
        let mut tree = tree(&proc, None);
        assert_eq!(members(&mut tree), [100]);
        proc.remove(100);
        assert!(members(&mut tree).is_empty());
        proc.put(Process {
            start: 5000,
            ..ROOT
        });
        assert!(members(&mut tree).is_empty());
    }

    #[test]
    fn a_stranger_that_joins_the_group_is_found_later() {
        let proc = FakeProc::new();
        proc.put(ROOT);
        proc.put(Process {
            pid: 7,
            parent: 1,
            ..Process::NEW
        });
        let mut tree = tree(&proc, None);
        assert_eq!([members(&mut tree), members(&mut tree)], [[100], [100]]);
        proc.put(Process {
            pid: 7,
            parent: 1,
            group: 100,
            ..Process::NEW
        });
        let found = (0..LOOK_AGAIN_TICKS).any(|_| members(&mut tree) == [7, 100]);
        assert!(found);
    }

    #[test]
    fn new_numbers_are_looked_at_without_a_list_of_all_processes() {
        let proc = FakeProc::new();
        let last = |pid: u32| {
            std::fs::write(proc.path().join("loadavg"), format!("1 1 1 1/9 {pid}\n"))
                .expect("written");
        };
        proc.put(ROOT);
        for pid in 1..12 {
            proc.put(Process {
                pid,
                parent: 1,
                ..Process::NEW
            });
        }
        last(100);
        let mut tree = tree(&proc, None);
        assert_eq!(members(&mut tree), [100]);
        let child = |pid: u32| {
            proc.put(Process {
                pid,
                parent: 100,
                ..Process::NEW
            });
            let path = proc.path().join(format!("{pid}/stat"));
            std::fs::read_to_string(path).expect("read")
        };
        // Not among the new numbers, as where the kernel shows an old one: it is found with the next list.
        child(99);
        let thread = child(101);
        // The line of a test ends with field 27.
        let signal = |signal: i32| format!("{} {}{signal} 0\n", thread.trim_end(), "0 ".repeat(10));
        proc.write(101, "stat", &signal(-1));
        child(102);
        last(102);
        assert_eq!(members(&mut tree), [100, 102]);
        proc.write(101, "stat", &signal(17));
        let found = (0..LIST_AGAIN_TICKS).map(|_| members(&mut tree).len());
        assert_eq!(found.max(), Some(4));
    }

    #[test]
    fn ranks_are_known_by_the_signs_of_the_job_and_counted_once() {
        let proc = FakeProc::new();
        let sign = |pid: u32, job: u32| proc.write(pid, "environ", &format!("PBS_JOBID={job}\0"));
        let elsewhere = |pid: u32, parent: u32, start: u64| {
            proc.put(Process {
                pid,
                parent,
                group: pid,
                session: pid,
                start,
                user: 5,
                ..Process::NEW
            });
        };
        proc.put(Process { user: 1, ..ROOT });
        sign(100, 8);
        elsewhere(30, 1, 900);
        elsewhere(200, 60, 1010);
        elsewhere(201, 200, 1020);
        elsewhere(202, 60, 1010);
        elsewhere(203, 50, 1010);
        for pid in [30, 200, 201, 203] {
            sign(pid, 8);
        }
        sign(202, 80);
        let mut tree = tree(&proc, None);
        assert_eq!(members(&mut tree), [100]);
        let mut tree = Tree::new(proc.path(), tree.root);
        tree.signs = Some(JobSigns::of_process_in(proc.path(), 100).expect("a job"));
        // 30 came before the root, 202 is of another job, 203 is a child of who watches.
        assert_eq!(members(&mut tree), [100, 200, 201]);
        assert_eq!(tree.read().expect("a reading").times.user, 11);
        assert!(tree.has(201) && !tree.lacks_ranks());
    }

    #[test]
    fn rank_that_slurm_is_about_to_start_is_found_once_it_runs() {
        let proc = FakeProc::new();
        proc.put(ROOT);
        proc.write(100, "environ", "SLURM_JOB_ID=8\0");
        let named = |pid: u32, name: &str| {
            proc.put(Process {
                pid,
                parent: 60,
                group: pid,
                session: pid,
                start: 1010,
                ..Process::NEW
            });
            let stat =
                std::fs::read_to_string(proc.path().join(format!("{pid}/stat"))).expect("read");
            proc.write(
                pid,
                "stat",
                &stat.replace("(a) R (b)", &format!("({name})")),
            );
        };
        let mut tree = tree(&proc, None);
        tree.signs = Some(JobSigns::of_process_in(proc.path(), 100).expect("a job"));
        proc.put(Process {
            pid: 101,
            parent: 100,
            ..Process::NEW
        });
        let srun = std::fs::read_to_string(proc.path().join("101/stat")).expect("read");
        proc.write(101, "stat", &srun.replace("(a) R (b)", "(srun)"));
        named(200, "slurmstepd");
        for _ in 0..5 {
            assert_eq!(members(&mut tree), [100, 101]);
        }
        assert!(tree.lacks_ranks());
        named(200, "python3");
        proc.write(200, "environ", "SLURM_JOB_ID=8\0");
        assert_eq!(members(&mut tree), [100, 101, 200]);
        assert!(!tree.lacks_ranks());
    }

    #[test]
    fn zombies_count_with_their_times_only() {
        let proc = FakeProc::new();
        proc.put(Process {
            user: 10,
            rss_pages: 8,
            threads: 3,
            ..ROOT
        });
        proc.put(Process {
            pid: 101,
            parent: 100,
            state: 'Z',
            user: 7,
            ..Process::NEW
        });
        let totals = tree(&proc, None).read().expect("a reading");
        assert_eq!((totals.times.user, totals.rss_pages), (17, 8));
        assert_eq!((totals.processes, totals.threads), (1, 3));
    }

    #[test]
    fn nothing_seen_has_a_reason() {
        let proc = FakeProc::new();
        assert!(
            tree(&proc, None)
                .read()
                .expect_err("empty")
                .contains("no process of the run")
        );
        let path = proc.path().join("none");
        let error = Tree::new(&path, tree(&proc, None).root)
            .read()
            .expect_err("no directory");
        assert!(error.contains("cannot list"));
    }

    #[test]
    fn broken_and_hidden_files_are_skipped() {
        let proc = FakeProc::new();
        proc.put(ROOT);
        std::fs::create_dir(proc.path().join("55")).expect("made");
        std::fs::create_dir(proc.path().join("56")).expect("made");
        std::fs::write(proc.path().join("56/stat"), "56 (x) S what").expect("written");
        let mut tree = tree(&proc, None);
        assert_eq!(members(&mut tree), [100]);
        assert!(
            tree.read_held()
                .expect_err("no status")
                .contains("RssShmem")
        );
        assert!(
            tree.read_io(true)
                .expect_err("no io")
                .contains("io of process 100")
        );
    }
}
