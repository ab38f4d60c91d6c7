//! One run under watch.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::peer::Peer;
use crate::foundation::clock::{booted_at_ms, now_from};
use crate::observe::monitor::{
    self, Baseline, GpuReport, GpuState, JobCgroup, JobSigns, Sampler, TreeRoot, identity,
};
use crate::observe::protocol::{Ending, Measured, Process, RunView};
use crate::record::store::NodeId;
use crate::record::{
    Event, EventKind, Gap, GpuFacts, GpuUsage, MeasureKey, NodeRecord, NodeState, ProcessReading,
    Sample, Usage, add_gpu_readings, add_new,
};

/// Gaps and events of a run that are kept; a source of endless trouble must not fill the record.
const GAPS_KEPT: usize = 500;
const EVENTS_KEPT: usize = 500;
/// Events that the list of runs has of a run.
const EVENTS_LISTED: usize = 10;
/// How long a run whose command ended may stay without its client's last words, while its supervisor lives and after that.
const LAST_WORDS: Duration = Duration::from_secs(60);
const NOBODY_LEFT: Duration = Duration::from_secs(5);

/// What the daemon must know of a run after it was restarted; kept in the database as JSON.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Memory {
    pub(super) name: String,
    pub(super) supervisor: Option<Process>,
    pub(super) client: Option<u32>,
    /// How processes of its job are recognised, where it has no cgroup.
    pub(super) signs: Option<JobSigns>,
    pub(super) cgroup: Option<JobCgroup>,
    pub(super) baseline: Option<Baseline>,
    pub(super) allocated: Vec<String>,
    pub(super) usage: Usage,
    pub(super) gpus: Vec<GpuUsage>,
    pub(super) gaps: Vec<Gap>,
    pub(super) events: Vec<Event>,
    pub(super) samples: u64,
    pub(super) late_ticks: u64,
    pub(super) cpu_us: u64,
    pub(super) last_at_ms: u64,
    /// The date from which the times of this run count ([`now_from`]); 0: none is known.
    pub(super) booted_at_ms: u64,
    /// Its client notices steps of the wall clock itself.
    pub(super) notices_steps: bool,
    /// A job that no dlrun registered.
    pub(super) foreign: bool,
    /// The daemon was stopped, not killed.
    pub(super) stopped: bool,
}

/// The stage of a run's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The database does not have it yet; nothing is sampled.
    Pending,
    Live,
    /// Its client may still collect.
    Ended,
}

/// A run, its sampler, and what was measured.
pub(super) struct Watched {
    pub(super) key: MeasureKey,
    pub(super) uid: u32,
    pub(super) command: Process,
    pub(super) stage: Stage,
    /// Its place in the database.
    pub(super) node: Option<NodeId>,
    pub(super) connection: Option<u64>,
    pub(super) memory: Memory,
    /// Bytes of the client's record as JSON.
    pub(super) weight: usize,
    /// The client's part of the record.
    pub(super) record: NodeRecord,
    sampler: Sampler,
    pub(super) last: Option<Sample>,
    /// The processes as they were last read, and when: for who looks in between.
    processes: Option<(u64, Vec<ProcessReading>)>,
    ended_at: Option<Instant>,
}

impl Watched {
    pub(super) fn new(
        uid: u32,
        command: Process,
        record: NodeRecord,
        mut memory: Memory,
        process_interval: Duration,
    ) -> Self {
        if memory.booted_at_ms == 0 {
            memory.booted_at_ms = booted_at_ms();
        }
        // After a restart its pid may be a stranger's, whose children are nobody's business.
        let lives = |it: &Process| Process::with_pid(it.pid).is_ok_and(|now| now == *it);
        let supervisor = memory.supervisor.filter(lives).map(|it| it.pid);
        let root = TreeRoot {
            command,
            supervisor,
            exclude: memory.client.into_iter().collect(),
        };
        let sampler = Sampler::of_job(root, memory.cgroup.as_ref(), process_interval);
        let mut sampler = sampler.with_signs(memory.signs.clone());
        if let Some(baseline) = &memory.baseline {
            sampler = sampler.with_baseline(baseline.clone());
        }
        Self {
            key: record.key.clone(),
            uid,
            command,
            stage: Stage::Pending,
            node: None,
            connection: None,
            memory,
            weight: 0,
            record,
            sampler,
            last: None,
            processes: None,
            ended_at: None,
        }
    }

    /// Now by the clock of this run, in Unix milliseconds UTC.
    pub(super) fn now_ms(&self) -> u64 {
        now_from(self.memory.booted_at_ms)
    }

    /// Takes one sample; `all` reads also what is not due.
    pub(super) fn sample(&mut self, gpus: Option<&GpuReport>, all: bool) -> Sample {
        let cpu_before = monitor::own_cpu_us();
        let now_ms = self.now_ms();
        let mut sample = self.sampler.sample(now_ms, all);
        if let Some(report) = gpus {
            let allocated = &self.memory.allocated;
            sample.gpus = report.readings_of_run(allocated, |pid| self.sampler.owns(pid));
            sample.gpus.retain(|gpu| {
                gpu.run_processes != Some(0) || !is_anothers(report, &gpu.uuid, self.uid)
            });
        }
        self.account(&sample, gpus);
        self.memory.cpu_us += monitor::own_cpu_us().saturating_sub(cpu_before);
        if !sample.commands.is_empty() {
            self.processes = Some((sample.at_ms, sample.commands.clone()));
        }
        self.last = Some(sample.clone());
        sample
    }

    /// Takes a sample into the figures derived so far.
    fn account(&mut self, sample: &Sample, gpus: Option<&GpuReport>) {
        let usage = &mut self.memory.usage;
        let kills_before = usage.mem_oom_kills.unwrap_or(0);
        self.memory.samples += 1;
        self.memory.last_at_ms = sample.at_ms;
        usage.add_sample(sample, self.record.started_at_ms);
        usage.note_process_peak(self.sampler.process_peak_bytes());
        let kills = usage
            .mem_oom_kills
            .unwrap_or(0)
            .saturating_sub(kills_before);
        if kills > 0 {
            let detail = format!("the kernel killed {kills} of its processes");
            self.note(sample.at_ms, EventKind::OomKill, detail);
        }
        add_gpu_readings(&mut self.memory.gpus, sample, |uuid| facts_of(gpus?, uuid));
    }

    /// Takes samples in that are in the database already.
    pub(super) fn replay(&mut self, samples: &[Sample]) {
        for sample in samples {
            if sample.at_ms > self.memory.last_at_ms {
                self.account(sample, None);
                self.last = Some(sample.clone());
            }
        }
    }

    /// True where this run has that GPU.
    pub(super) fn has_gpu(&self, uuid: &str) -> bool {
        self.memory.gpus.iter().any(|usage| usage.gpu.uuid == uuid)
    }

    pub(super) fn note(&mut self, at_ms: u64, kind: EventKind, detail: String) {
        self.memory.events.push(Event {
            at_ms,
            kind,
            detail,
        });
        let surplus = self.memory.events.len().saturating_sub(EVENTS_KEPT);
        self.memory.events.drain(..surplus);
    }

    pub(super) fn add_gap(&mut self, gap: Gap) {
        self.memory.gaps.push(gap);
        let surplus = self.memory.gaps.len().saturating_sub(GAPS_KEPT);
        self.memory.gaps.drain(..surplus);
    }

    /// True where this is the run's own client come back, be its command alive or not.
    pub(super) fn is_resumed_by(&self, peer: Peer, claimed: Process) -> bool {
        self.stage != Stage::Ended
            && self.uid == peer.uid
            && self.command == claimed
            && identity::parent_of(peer.pid).is_ok_and(|parent| {
                self.memory
                    .supervisor
                    .is_some_and(|supervisor| supervisor.pid == parent)
            })
    }

    /// True where the command is gone and nobody will say how it ended. A client that lives, or that its supervisor is
    /// starting again, has a minute.
    pub(super) fn is_abandoned(&mut self, now: Instant) -> bool {
        if self.memory.foreign {
            return !self.is_alive();
        }
        if self.sampler.is_root_alive() {
            self.ended_at = None;
            return false;
        }
        let since = *self.ended_at.get_or_insert(now);
        let patience = match self.memory.supervisor.is_some_and(Process::is_alive) {
            true => LAST_WORDS,
            false => NOBODY_LEFT,
        };
        now.duration_since(since) >= patience
    }

    /// Takes the client's record in. What the daemon measures itself is not taken from it.
    pub(super) fn update(&mut self, mut record: NodeRecord) {
        record.key = self.key.clone();
        record.started_at_ms = self.record.started_at_ms;
        not_in_the_future(&mut record, self.now_ms());
        self.record = record;
    }

    /// The client, or this daemon, was restarted.
    pub(super) fn come_back(&mut self, record: NodeRecord, client: u32) {
        self.update(record);
        self.memory.client = Some(client);
        self.sampler.exclude_only(client);
    }

    /// Takes the end in: how the command ended, and what the kernel summed up for the whole family.
    pub(super) fn end(&mut self, ending: Ending) {
        self.update(ending.record);
        if let Some(ended_at_ms) = self.record.ended_at_ms {
            let wall_ms = ended_at_ms.saturating_sub(self.record.started_at_ms);
            let usage = &mut self.memory.usage;
            usage.add_family(wall_ms, ending.cpu_user_us, ending.cpu_system_us);
        }
        self.stage = Stage::Ended;
    }

    /// True while it continues: its command, or, of a job that nobody registered, any process in its
    /// cgroup.
    pub(super) fn is_alive(&self) -> bool {
        if self.memory.foreign {
            let processes = self.memory.cgroup.as_ref().and_then(JobCgroup::process_ids);
            return processes.is_some_and(|processes| !processes.is_empty());
        }
        self.command.is_alive()
    }

    /// Ends it without anybody's word.
    pub(super) fn interrupt(&mut self) -> NodeRecord {
        // How a job ended that nobody registered is not known, but that it ended is.
        self.record.state = match self.memory.foreign {
            true => NodeState::Ended,
            false => NodeState::Interrupted,
        };
        self.record.ended_at_ms =
            Some(self.memory.last_at_ms).filter(|at_ms| self.memory.foreign && *at_ms > 0);
        self.record.updated_at_ms = self.record.updated_at_ms.max(self.memory.last_at_ms);
        self.stage = Stage::Ended;
        self.record()
    }

    /// The record for the database: the client's part with the daemon's figures. What either noted is in it once.
    pub(super) fn record(&self) -> NodeRecord {
        let measured = self.measured();
        let mut record = self.record.clone();
        record.usage.add_view(&measured.usage);
        // One that the client reported stays as it is: the client knows when the watcher read on.
        for gap in measured.gaps {
            if record.gaps.iter().all(|known| known.from_ms != gap.from_ms) {
                record.gaps.push(gap);
            }
        }
        add_new(&mut record.events, &measured.events);
        record.events.sort_by_key(|event| event.at_ms);
        record.gpus = measured.gpus;
        record.cgroup = measured.cgroup;
        // The client's counts hold ours as of its last update.
        let watcher = &mut record.watcher;
        watcher.samples = watcher.samples.max(measured.samples);
        watcher.late_ticks = watcher.late_ticks.max(measured.late_ticks);
        watcher.cpu_us = watcher.cpu_us.max(measured.cpu_us);
        // What the client could not measure of the series does not matter while the daemon does.
        record
            .missing
            .retain(|missing| missing.what == "timing" || missing.what.starts_with("metric "));
        record.missing.extend(measured.missing);
        record
    }

    pub(super) fn measured(&self) -> Measured {
        Measured {
            usage: self.memory.usage,
            gaps: self.memory.gaps.clone(),
            missing: self.sampler.missing(),
            events: self.memory.events.clone(),
            gpus: self.memory.gpus.clone(),
            cgroup: self.sampler.cgroup().map(str::to_owned),
            samples: self.memory.samples,
            late_ticks: self.memory.late_ticks,
            cpu_us: self.memory.cpu_us,
        }
    }

    /// What is kept for a restart.
    pub(super) fn remembered(&self, stopped: bool) -> String {
        let memory = Memory {
            baseline: Some(self.sampler.baseline().clone()),
            stopped,
            ..self.memory.clone()
        };
        serde_json::to_string(&memory).expect("plain data with text keys")
    }

    pub(super) fn view(&self, processes: bool) -> RunView {
        let mut sample = self.last.clone();
        let read = self.processes.as_ref().filter(|_| processes);
        if let Some(sample) = &mut sample {
            sample.commands = read.map_or_else(Vec::new, |(_, commands)| commands.clone());
        }
        let mut events = self.record.events.clone();
        add_new(&mut events, &self.memory.events);
        events.sort_by_key(|event| event.at_ms);
        events.drain(..events.len().saturating_sub(EVENTS_LISTED));
        let mut progress = self.record.progress.clone();
        // The last one says how many are done.
        progress
            .epochs
            .drain(..progress.epochs.len().saturating_sub(1));
        RunView {
            key: self.key.clone(),
            name: self.memory.name.clone(),
            job_id: self.record.job_id.clone(),
            uid: self.uid,
            started_at_ms: self.record.started_at_ms,
            sample,
            usage: self.memory.usage,
            gpus: self.memory.gpus.clone(),
            progress,
            events,
            processes_at_ms: read.map(|(at_ms, _)| *at_ms),
        }
    }

    pub(super) fn cgroup(&self) -> Option<&str> {
        self.sampler.cgroup()
    }
}

/// Their last times decide which runs go first when room is wanted: nobody stays by naming a later one.
pub(super) fn not_in_the_future(record: &mut NodeRecord, now: u64) {
    record.updated_at_ms = record.updated_at_ms.min(now);
    record.ended_at_ms = record.ended_at_ms.map(|at_ms| at_ms.min(now));
}

/// True for a GPU on which another user's process computes. Which GPUs a run has is its client's word; one that only others
/// use is theirs. (root's processes serve several users, such as MPS.)
fn is_anothers(report: &GpuReport, uuid: &str, uid: u32) -> bool {
    let mut fresh = report.gpus.iter().filter_map(GpuState::fresh);
    let gpu = fresh.find(|read| *read.reading.uuid == *uuid);
    let processes = gpu.and_then(|read| read.processes.as_deref());
    let is_another = |user: u32| user != uid && user != 0;
    processes
        .unwrap_or_default()
        .iter()
        .any(|process| identity::uid_of(process.pid).is_some_and(is_another))
}

fn facts_of(gpus: &GpuReport, uuid: &str) -> Option<GpuFacts> {
    let gpu = gpus.gpus.iter().find(|gpu| gpu.facts.uuid == uuid)?;
    Some((*gpu.facts).clone())
}

/// A run of a process that does not live.
#[cfg(test)]
pub(super) fn watched(memory: Memory) -> Watched {
    let text = include_str!("../../../tests/fixtures/protocol/v1/request-register.json");
    let Ok(crate::observe::protocol::Request::Register(registration)) = serde_json::from_str(text)
    else {
        panic!("a registration")
    };
    let nobody = Process {
        pid: u32::MAX,
        start_time_ticks: 1,
    };
    Watched::new(70_000, nobody, registration.record, memory, Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio, id};
    use std::sync::Arc;

    use super::*;
    use crate::observe::monitor::{GpuCondition, GpuProcess, GpuRead};
    use crate::record::GpuReading;

    #[test]
    fn pid_of_a_supervisor_that_passed_on_brings_no_children() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .spawn()
            .expect("cat");
        let own = identity::start_time_ticks(id()).expect("it runs");
        let has_child = [own, own + 1].map(|start_time_ticks| {
            let supervisor = Some(Process {
                pid: id(),
                start_time_ticks,
            });
            let mut watched = watched(Memory {
                supervisor,
                ..Memory::default()
            });
            watched.sample(None, true);
            watched.sampler.owns(child.id())
        });
        drop(child.stdin.take());
        child.wait().expect("waited");
        assert_eq!(has_child, [true, false]);
    }

    #[test]
    fn a_gpu_that_only_another_user_computes_on_is_not_shown() {
        let own = match nix::unistd::getuid().as_raw() {
            0 => 65_534,
            own => own,
        };
        let mut other = Command::new("cat");
        let mut other = other
            .uid(own)
            .current_dir("/")
            .stdin(Stdio::piped())
            .spawn()
            .expect("cat");
        let process = GpuProcess {
            pid: other.id(),
            mem_bytes: None,
            sm_percent: None,
        };
        let reading = GpuReading::of("GPU-1".into());
        let state = GpuState {
            facts: Arc::default(),
            last: Some(Arc::new(GpuRead {
                reading,
                processes: Some(vec![process]),
            })),
            at_ms: Some(1),
            condition: GpuCondition::Fresh,
        };
        let report = GpuReport {
            gpus: vec![state],
            missing: None,
            ..GpuReport::default()
        };
        let seen = [("GPU-1", 70_000), ("GPU-1", own), ("GPU-2", 70_000)];
        let seen = seen.map(|(uuid, uid)| is_anothers(&report, uuid, uid));
        drop(other.stdin.take());
        other.wait().expect("waited");
        assert_eq!(seen, [true, false, false]);
    }
}
