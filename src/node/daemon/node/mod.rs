//! The owner of all that is known of this node: the runs under watch, the GPUs, the cost of watching.

mod foreign;
mod requests;

use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};
use std::time::{Duration, Instant};

use crate::config::DaemonSettings;
use crate::foundation::clock::{Steps, booted_at_ms, now_ms, step_text};
use crate::node::daemon::recorder::{End, Handle, Job, Notice, Recorder, Register, Reply};
use crate::node::daemon::watched::{Memory, Stage, Watched};
use crate::observe::monitor::{self, GpuReport, GpuWatch, identity};
use crate::observe::protocol::{
    DaemonCost, DaemonStatus, Process, RefusalKind, Registered, Response,
};
use crate::record::store::{Live, LiveRun, NodeId};
use crate::record::{EventKind, Gap, RunRecord, Sample};

/// A pause between two ticks that is longer than the interval by this is a hole in the series.
const HELD_UP: Duration = Duration::from_secs(5);

/// The owner.
pub(crate) struct Node {
    pub(crate) settings: DaemonSettings,
    pub(crate) runs: BTreeMap<Handle, Watched>,
    by_connection: HashMap<u64, Handle>,
    next: Handle,
    gpus: Option<GpuWatch>,
    pub(crate) recorder: Recorder,
    boot_id: String,
    pub(crate) host: String,
    started_at_ms: u64,
    pub(crate) cost: DaemonCost,
    /// The steady clock and the time since boot at the last tick. The former stops while the machine is suspended.
    clocks: Option<(Instant, Duration)>,
    steps: Steps,
    ticks_since_fold: usize,
    /// How often each process was looked at for a job of others, where the site wants them.
    looks: HashMap<u32, u8>,
    pub(crate) problems: Vec<String>,
    /// Starts of runs before which this node did not pass its check, since the daemon was started.
    pub(crate) checks_failed: u64,
}

impl Node {
    pub(crate) fn new(
        settings: DaemonSettings,
        gpus: Option<GpuWatch>,
        recorder: Recorder,
        problems: Vec<String>,
    ) -> Self {
        Self {
            settings,
            runs: BTreeMap::new(),
            by_connection: HashMap::new(),
            next: 1,
            gpus,
            recorder,
            boot_id: identity::boot_id().unwrap_or_default(),
            host: monitor::host_facts(None).hostname,
            started_at_ms: now_ms(),
            cost: DaemonCost::default(),
            clocks: None,
            steps: Steps::since(booted_at_ms()),
            checks_failed: 0,
            ticks_since_fold: 0,
            looks: HashMap::new(),
            problems,
        }
    }

    fn new_handle(&mut self) -> Handle {
        let handle = self.next;
        self.next += 1;
        handle
    }

    /// The runs that are sampled.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Watched> {
        let runs = self.runs.values();
        runs.filter(|watched| watched.stage == Stage::Live)
    }

    // ------------------------------------------------------------------------------------------------- after a restart

    /// Takes up what a former daemon left: lives that continue are watched again, the others are closed.
    pub(crate) fn recover(&mut self, found: Vec<(LiveRun, Vec<Sample>)>) {
        for (run, spooled) in found {
            let handle = self.new_handle();
            let command = Process {
                pid: run.live.pid,
                start_time_ticks: run.live.start_time_ticks,
            };
            let mut memory: Memory = serde_json::from_str(&run.live.state).unwrap_or_default();
            if run.live.boot_id != self.boot_id {
                memory.booted_at_ms = 0;
            }
            let stopped = memory.stopped;
            let weight = serde_json::to_vec(&run.record).map_or(0, |text| text.len());
            let mut watched = Watched::new(
                run.uid,
                command,
                run.record,
                memory,
                self.settings.process_interval(),
            );
            (watched.node, watched.weight) = (Some(run.node), weight);
            let is_alive = run.live.boot_id == self.boot_id && watched.is_alive();
            watched.replay(&spooled);
            let (from_ms, to_ms) = (watched.memory.last_at_ms, watched.now_ms());
            if is_alive {
                let why = if stopped {
                    "dlrund was stopped and started again"
                } else {
                    "dlrund was killed and started again"
                };
                if from_ms > 0 {
                    watched.add_gap(Gap::new(from_ms, to_ms, why));
                }
                watched.memory.stopped = false;
                watched.stage = Stage::Live;
                tracing::info!(run = %watched.key.run_id, "the run is watched again");
                self.runs.insert(handle, watched);
            } else {
                self.close(watched, "the run ended while dlrund was not running");
            }
        }
        // What comes from now on is another block than what was before the gap.
        self.fold(false);
    }

    /// Ends a run of whose end nobody says anything.
    fn abandon(&mut self, handle: Handle, why: &str) {
        if let Some(watched) = self.runs.remove(&handle) {
            self.close(watched, why);
        }
    }

    fn close(&mut self, mut watched: Watched, why: &str) {
        watched.note(watched.now_ms(), EventKind::Note, why.to_owned());
        tracing::info!(run = %watched.key.run_id, why);
        let record = Box::new(watched.interrupt());
        let Watched { uid, weight, .. } = watched;
        if let Some(node) = watched.node {
            self.recorder.end(End {
                node,
                uid,
                weight,
                record,
                answer: None,
            });
        }
    }

    // ------------------------------------------------------------------------------------------------- every interval

    /// Takes one sample of each run.
    pub(crate) fn tick(&mut self, is_late: bool) {
        let begun = Instant::now();
        self.note_clocks(begun);
        let report = self.gpu_report();
        self.pass_events_on();
        let mut samples: Vec<(NodeId, Sample)> = Vec::with_capacity(self.runs.len());
        let mut abandoned = Vec::new();
        for (handle, watched) in &mut self.runs {
            let (Stage::Live, Some(node)) = (watched.stage, watched.node) else {
                continue;
            };
            watched.memory.late_ticks += u64::from(is_late);
            samples.push((node, watched.sample(report.as_ref(), false)));
            if watched.is_abandoned(begun) {
                abandoned.push(*handle);
            }
        }
        self.recorder.tick(samples);
        self.fold_when_due();
        for handle in abandoned {
            self.abandon(handle, "the command ended and nobody said how");
        }
        self.account(begun.elapsed());
    }

    /// Notes what the clocks say since the last tick: a machine that slept, a daemon that was held up, a clock that was set.
    fn note_clocks(&mut self, steady: Instant) {
        let since_boot = identity::age(0).unwrap_or_default();
        if let Some((steady_then, boot_then)) = self.clocks.replace((steady, since_boot)) {
            let awake = steady.duration_since(steady_then);
            let passed = since_boot.saturating_sub(boot_then).max(awake);
            let why = if passed > awake + HELD_UP {
                Some("the machine was suspended")
            } else {
                (awake > self.settings.interval() + HELD_UP).then_some("dlrund was held up")
            };
            let passed_ms = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
            let live = |watched: &&mut Watched| watched.stage == Stage::Live && why.is_some();
            for watched in self.runs.values_mut().filter(live) {
                let to_ms = watched.now_ms();
                let from_ms = to_ms.saturating_sub(passed_ms);
                watched.add_gap(Gap::new(from_ms, to_ms, why.unwrap_or_default()));
            }
        }
        if let Some(step_ms) = self.steps.look() {
            let asks = |watched: &&mut Watched| !watched.memory.notices_steps;
            for watched in self.runs.values_mut().filter(asks) {
                watched.note(watched.now_ms(), EventKind::ClockJump, step_text(step_ms));
            }
        }
    }

    /// All runs are folded at once: they share the wait for the disk.
    fn fold_when_due(&mut self) {
        self.ticks_since_fold += 1;
        if self.ticks_since_fold >= self.settings.fold_ticks() {
            self.ticks_since_fold = 0;
            self.fold(false);
            // Not only now and then: many short runs fill it in between.
            if self.recorder.status().bytes > self.settings.max_size().0 {
                self.retain();
            }
        }
    }

    fn fold(&self, stopping: bool) {
        let states: Vec<(NodeId, String)> = self
            .live()
            .filter_map(|watched| Some((watched.node?, watched.remembered(stopping))))
            .collect();
        if !states.is_empty() {
            let _ = self.recorder.send(Job::Fold(states));
        }
    }

    /// What happened to a GPU is an event of the runs that have it.
    fn pass_events_on(&mut self) {
        let Some(gpus) = &self.gpus else { return };
        for (uuid, event) in gpus.take_events() {
            tracing::info!(
                gpu = uuid.as_deref().unwrap_or("all"),
                kind = event.kind.as_str(),
                event.detail
            );
            for watched in self.runs.values_mut() {
                if uuid.as_deref().is_none_or(|uuid| watched.has_gpu(uuid)) {
                    watched.note(event.at_ms, event.kind, event.detail.clone());
                }
            }
        }
    }

    fn account(&mut self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let cost = &mut self.cost;
        cost.ticks += 1;
        cost.last_tick_us = micros;
        cost.longest_tick_us = cost.longest_tick_us.max(micros);
        if took > self.settings.interval() {
            cost.overruns += 1;
            tracing::warn!(
                milliseconds = took.as_millis(),
                "a tick took longer than the time between two"
            );
        }
    }

    /// Removes what is old.
    pub(crate) fn retain(&self) {
        let max_age_ms = u64::try_from(self.settings.keep().as_millis()).unwrap_or(u64::MAX);
        let job = Job::Retain(now_ms(), max_age_ms, self.settings.max_size().0);
        let _ = self.recorder.send(job);
    }

    // ------------------------------------------------------------------------------------------------- the database

    /// Gives the database a run to keep; false where it has no room for that.
    fn enrol(
        &self,
        handle: Handle,
        watched: &Watched,
        run: RunRecord,
        resumed: bool,
        reply: Option<Reply>,
    ) -> bool {
        let live = Live {
            pid: watched.command.pid,
            start_time_ticks: watched.command.start_time_ticks,
            boot_id: self.boot_id.clone(),
            state: watched.remembered(false),
        };
        let answer = Registered {
            interval_ms: self.interval_ms(),
            resumed,
            acknowledged: None,
            cgroup: watched.cgroup().map(str::to_owned),
        };
        let register = Register {
            handle,
            run,
            uid: watched.uid,
            record: watched.record(),
            live,
            answer,
            reply,
        };
        let sent = self.recorder.send(Job::Register(Box::new(register)));
        let is_kept = sent.is_ok();
        if let Err(Job::Register(register)) = sent {
            refuse(register.reply);
        }
        is_kept
    }

    fn interval_ms(&self) -> u64 {
        u64::try_from(self.settings.interval().as_millis()).unwrap_or(u64::MAX)
    }

    fn with_node(&mut self, node: NodeId) -> Option<&mut Watched> {
        let mut runs = self.runs.values_mut();
        runs.find(|watched| watched.node == Some(node))
    }

    pub(crate) fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::Registered(handle, node) => {
                let report = self.gpu_report();
                let Some(watched) = self.runs.get_mut(&handle) else {
                    return;
                };
                watched.node = Some(node);
                if watched.stage == Stage::Pending {
                    watched.stage = Stage::Live;
                    let sample = watched.sample(report.as_ref(), true);
                    self.recorder.tick(vec![(node, sample)]);
                }
            }
            // One that is watched already stays so, whatever became of its client's return.
            Notice::Rejected(handle) => {
                if let Entry::Occupied(run) = self.runs.entry(handle)
                    && run.get().stage == Stage::Pending
                    && let Some(connection) = run.remove().connection
                {
                    self.by_connection.remove(&connection);
                }
            }
            Notice::Shortened(gone) => {
                let samples = gone.samples;
                tracing::warn!(
                    samples,
                    "live runs fill the database (`store.max_size`): old samples went"
                );
                if let Some(watched) = self.with_node(gone.node) {
                    let why = "the database of the node was full (`store.max_size`)";
                    let seconds = gone.to_ms.saturating_sub(gone.from_ms) / 1000;
                    let detail = format!(
                        "{why}: the oldest {samples} samples, of {seconds} s, are no longer in it"
                    );
                    watched.note(watched.now_ms(), EventKind::Note, detail);
                    if !gone.collected {
                        watched.add_gap(Gap::new(gone.from_ms, gone.to_ms, why));
                    }
                }
            }
            Notice::Dropped(node, gap, samples) => {
                tracing::warn!(samples, why = gap.why, "samples were dropped");
                if let Some(watched) = self.with_node(node) {
                    watched.add_gap(gap);
                }
            }
        }
    }

    pub(crate) fn status(&self) -> DaemonStatus {
        let report = self.gpu_report();
        let mut problems = self.problems.clone();
        problems.extend(report.as_ref().and_then(|report| report.missing.clone()));
        problems.extend(report.iter().flat_map(|report| &report.refused).cloned());
        DaemonStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_at_ms: self.started_at_ms,
            interval_ms: self.interval_ms(),
            runs: self.live().count(),
            gpus: report
                .iter()
                .flat_map(|report| &report.gpus)
                .map(|gpu| (*gpu.facts).clone())
                .collect(),
            cost: self.cost(),
            store: self.recorder.status(),
            problems,
        }
    }

    /// What the daemon costs, memory and CPU time read now.
    pub(crate) fn cost(&self) -> DaemonCost {
        DaemonCost {
            cpu_us: monitor::own_cpu_us(),
            mem_rss_bytes: monitor::own_rss_bytes(),
            ..self.cost
        }
    }

    pub(crate) fn gpu_report(&self) -> Option<GpuReport> {
        self.gpus.as_ref().map(GpuWatch::latest)
    }

    /// Folds everything and remembers that this was no crash.
    pub(crate) fn stop(&self, patience: Duration) -> bool {
        self.fold(true);
        self.recorder.stop(patience)
    }
}

/// The database has no room for a job: its client is refused.
fn refuse(reply: Option<Reply>) {
    let why = "the disk of the node is too slow";
    let refused = |reply: Reply| reply.send(Response::refused(RefusalKind::Busy, why));
    // The client may have left.
    let _ = reply.map(refused);
}
