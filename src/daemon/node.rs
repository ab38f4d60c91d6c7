//! The owner of all that is known of this node: the runs under watch, the GPUs, the cost of watching.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::admit::{Admitted, admit, check, check_record};
use super::connection::Question;
use super::discover::{Discovery, Found};
use super::peer::Peer;
use super::recorder::{End, Handle, Job, Notice, Recorder, Register, Reply};
use super::watched::{Memory, Stage, Watched, not_in_the_future};
use crate::clock::now_ms;
use crate::monitor::{self, GpuReport, GpuWatch, JobCgroup, identity};
use crate::protocol::{
    DaemonCost, DaemonStatus, Ending, MAX_MESSAGE_BYTES, Process, RefusalKind, Registered, Registration,
    Request, Response, Runs, RunsQuery,
};
use crate::record::{
    EventKind, Gap, GpuFacts, MAX_SEGMENT_SAMPLES, MeasureKey, NodeRecord, RunRecord, Sample, decode_segment,
};
use crate::store::{Live, LiveRun, NodeId};

/// A wall clock that moved so much against the steady one was set.
const CLOCK_JUMP_MS: u64 = 500;
/// A pause between two ticks that is longer than the interval by this is a hole in the series.
const HELD_UP: Duration = Duration::from_secs(5);
/// What a client may hand in for one run, so that nobody fills the node's disk: days of samples without a daemon.
const BACKFILL_MAX: usize = 16 << 20;
/// Likewise in samples, which may be packed so well that their bytes bound nothing: eleven days at one a second.
const BACKFILL_SAMPLES_MAX: usize = 1_000_000;
/// Room that is left in an answer for what surrounds the runs.
const ANSWER_ROOM: usize = MAX_MESSAGE_BYTES - 4096;

/// What the owner must know of the configuration.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) interval: Duration,
    pub(super) process_interval: Duration,
    /// Ticks between two folds.
    pub(super) fold_ticks: usize,
    pub(super) runs_per_user: usize,
    pub(super) keep: Duration,
    pub(super) max_bytes: u64,
}

/// The owner.
pub(super) struct Node {
    options: Options,
    pub(super) runs: BTreeMap<Handle, Watched>,
    by_connection: HashMap<u64, Handle>,
    next: Handle,
    gpus: Option<GpuWatch>,
    recorder: Recorder,
    /// Ends for which the recorder had no room: nobody else would tell it that those runs are over.
    late: VecDeque<Job>,
    boot_id: String,
    host: String,
    started_at_ms: u64,
    pub(super) cost: DaemonCost,
    /// The wall clock, the steady clock and the time since boot, at the last tick. The steady clock stands while the machine
    /// is suspended, the last does not.
    clocks: Option<(u64, Instant, Duration)>,
    ticks_since_fold: usize,
    /// Looks for jobs of others, where the site wants them.
    discovery: Option<Discovery>,
    pub(super) problems: Vec<String>,
}

impl Node {
    pub(super) fn new(
        options: Options,
        gpus: Option<GpuWatch>,
        recorder: Recorder,
        problems: Vec<String>,
    ) -> Self {
        Self {
            options,
            runs: BTreeMap::new(),
            by_connection: HashMap::new(),
            next: 1,
            gpus,
            recorder,
            late: VecDeque::new(),
            boot_id: identity::boot_id().unwrap_or_default(),
            host: monitor::host_facts(None).hostname,
            started_at_ms: now_ms(),
            cost: DaemonCost::default(),
            clocks: None,
            ticks_since_fold: 0,
            discovery: None,
            problems,
        }
    }

    /// Records all jobs of the node from now on.
    pub(super) fn record_all_jobs(&mut self) {
        self.discovery = Some(Discovery::new(self.boot_id.clone()));
    }

    // ------------------------------------------------------------------------------------------------- after a restart

    /// Takes up what a former daemon left: lives that go on are watched again, the others are closed.
    pub(super) fn recover(&mut self, found: Vec<(LiveRun, Vec<Sample>)>) {
        for (run, spooled) in found {
            let handle = self.next;
            self.next += 1;
            let command = Process { pid: run.live.pid, start_time_ticks: run.live.start_time_ticks };
            let memory: Memory = serde_json::from_str(&run.live.state).unwrap_or_default();
            let stopped = memory.stopped;
            let mut watched =
                Watched::new(run.uid, command, run.record, memory, self.options.process_interval);
            watched.node = Some(run.node);
            let is_alive = run.live.boot_id == self.boot_id && watched.is_alive();
            watched.replay(&spooled);
            let (from_ms, to_ms) = (watched.memory.last_at_ms, now_ms());
            if is_alive {
                let why = if stopped {
                    "dlrund was stopped and started again"
                } else {
                    "dlrund was killed and started again"
                };
                if from_ms > 0 {
                    watched.add_gap(Gap { from_ms, to_ms, why: why.to_owned() });
                }
                watched.memory.stopped = false;
                watched.stage = Stage::Live;
                tracing::info!(run = %watched.key.run_id, "the run is watched again");
                self.runs.insert(handle, watched);
            } else {
                let why = "the run ended while dlrund was not running";
                watched.note(to_ms, EventKind::Note, why.to_owned());
                tracing::info!(run = %watched.key.run_id, why);
                self.close(watched);
            }
        }
        // What comes from now on is another block than what was before the gap.
        self.fold(false);
    }

    fn close(&mut self, mut watched: Watched) {
        let record = Box::new(watched.interrupt());
        if let Some(node) = watched.node {
            self.hand_on(Job::End(End { node, record, answer: None }));
        }
    }

    /// Tells the recorder of ends for which it had no room before.
    fn end_late(&mut self) {
        while let Some(job) = self.late.pop_front() {
            if let Err(job) = self.recorder.send(job) {
                self.late.push_front(job);
                break;
            }
        }
    }

    // ------------------------------------------------------------------------------------------------- every interval

    /// Takes one sample of each run.
    pub(super) fn tick(&mut self, is_late: bool) {
        let begun = Instant::now();
        let now = now_ms();
        self.watch_clocks(now, begun);
        let report = self.gpus.as_ref().map(GpuWatch::latest);
        self.pass_events_on();
        let mut samples: Vec<(NodeId, Sample)> = Vec::with_capacity(self.runs.len());
        let mut abandoned = Vec::new();
        for (handle, watched) in &mut self.runs {
            let (Stage::Live, Some(node)) = (watched.stage, watched.node) else { continue };
            watched.memory.late_ticks += u64::from(is_late);
            samples.push((node, watched.sample(now, report.as_ref(), false)));
            if watched.is_abandoned(begun) {
                abandoned.push(*handle);
            }
        }
        self.recorder.tick(samples);
        self.end_late();
        self.fold_when_due();
        for handle in abandoned {
            if let Some(mut watched) = self.runs.remove(&handle) {
                watched.note(now, EventKind::Note, "the command ended and nobody said how".to_owned());
                tracing::info!(run = %watched.key.run_id, "the run was abandoned");
                self.close(watched);
            }
        }
        self.account(begun.elapsed());
    }

    /// All runs are folded at once: they share the wait for the disk.
    fn fold_when_due(&mut self) {
        self.ticks_since_fold += 1;
        if self.ticks_since_fold >= self.options.fold_ticks {
            self.ticks_since_fold = 0;
            self.fold(false);
            // Not only now and then: many short runs fill it in between.
            if self.recorder.bytes() > self.options.max_bytes {
                self.retain();
            }
        }
    }

    fn fold(&self, stopping: bool) {
        let live = self.runs.values().filter(|watched| watched.stage == Stage::Live);
        let states: Vec<(NodeId, String)> =
            live.filter_map(|watched| Some((watched.node?, watched.remembered(stopping)))).collect();
        if !states.is_empty() {
            let _ = self.recorder.send(Job::Fold { states });
        }
    }

    fn watch_clocks(&mut self, now: u64, steady: Instant) {
        let since_boot = identity::age(0).unwrap_or_default();
        let Some((then, steady_then, boot_then)) = self.clocks.replace((now, steady, since_boot)) else {
            return;
        };
        let awake = steady.duration_since(steady_then);
        let asleep = since_boot.saturating_sub(boot_then).saturating_sub(awake);
        let why = match (asleep > HELD_UP, awake > self.options.interval + HELD_UP) {
            (true, _) => Some("the machine was suspended"),
            (false, true) => Some("dlrund was held up"),
            (false, false) => None,
        };
        if let Some(why) = why {
            for watched in self.runs.values_mut().filter(|watched| watched.stage == Stage::Live) {
                watched.add_gap(Gap { from_ms: then, to_ms: now, why: why.to_owned() });
            }
        }
        if let Some(expected) = jumped(then, awake + asleep, now) {
            let detail = format!("the wall clock jumped from {expected} to {now} ms");
            for watched in self.runs.values_mut() {
                watched.note(now, EventKind::ClockJump, detail.clone());
            }
        }
    }

    /// Takes jobs up that no dlrun registered, and lets go of those that one did register meanwhile.
    pub(super) fn discover(&mut self) {
        let Some(mut discovery) = self.discovery.take() else { return };
        let is_live = |watched: &&Watched| watched.stage != Stage::Ended;
        let cgroups = |foreign: bool| -> HashSet<String> {
            let live = self.runs.values().filter(is_live).filter(|watched| watched.memory.foreign == foreign);
            live.filter_map(|watched| watched.cgroup().map(str::to_owned)).collect()
        };
        let (registered, foreign) = (cgroups(false), cgroups(true));
        let doubled = |watched: &Watched| {
            watched.memory.foreign && watched.cgroup().is_some_and(|cgroup| registered.contains(cgroup))
        };
        let gone: Vec<Handle> =
            self.runs.iter().filter(|(_, watched)| doubled(watched)).map(|(handle, _)| *handle).collect();
        for handle in gone {
            if let Some(mut watched) = self.runs.remove(&handle) {
                watched.note(now_ms(), EventKind::Note, "a dlrun in the job registered its run".to_owned());
                self.close(watched);
            }
        }
        for found in discovery.look(&registered.union(&foreign).cloned().collect()) {
            self.take_up_foreign(found);
        }
        self.discovery = Some(discovery);
    }

    fn take_up_foreign(&mut self, found: Found) {
        let Found { cgroup, first, uid, run, record } = found;
        let handle = self.next;
        self.next += 1;
        let memory =
            Memory { name: run.name.clone(), foreign: true, cgroup: Some(cgroup), ..Memory::default() };
        let watched = Watched::new(uid, first, record, memory, self.options.process_interval);
        tracing::info!(job = run.name, uid, "a job that no dlrun registered is recorded");
        if self.enrol(handle, &watched, run, false, None) {
            self.runs.insert(handle, watched);
        }
    }

    /// What happened to a GPU is an event of the runs that have it.
    fn pass_events_on(&mut self) {
        let Some(gpus) = &self.gpus else { return };
        for (uuid, event) in gpus.take_events() {
            tracing::info!(gpu = uuid.as_deref().unwrap_or("all"), kind = event.kind.as_str(), event.detail);
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
        if took > self.options.interval {
            cost.overruns += 1;
            tracing::warn!(milliseconds = took.as_millis(), "a tick took longer than the time between two");
        }
    }

    /// Removes what is old.
    pub(super) fn retain(&self) {
        let max_age_ms = u64::try_from(self.options.keep.as_millis()).unwrap_or(u64::MAX);
        let job = Job::Retain { now_ms: now_ms(), max_age_ms, max_bytes: self.options.max_bytes };
        let _ = self.recorder.send(job);
    }

    // ------------------------------------------------------------------------------------------------- requests

    pub(super) fn hear(&mut self, asked: Question) {
        let Question { connection, peer, request, reply } = asked;
        match *request {
            Request::Hello(_) => {
                answer(reply, Response::refused(RefusalKind::BadRequest, "there was a hello already"));
            }
            Request::Register(registration) => self.register(connection, peer, *registration, reply),
            Request::Runs(query) => answer(reply, Response::Runs(self.list(peer, &query))),
            Request::Status => answer(reply, Response::Status(Box::new(self.status()))),
            Request::Update(update) => self.update(connection, update.record, reply),
            Request::Backfill(backfill) => self.backfill(connection, &backfill.bytes, reply),
            Request::Collect(collect) => match self.of_connection(connection).and_then(|run| run.node) {
                Some(node) => {
                    self.hand_on(Job::Collect { node, acknowledged: collect.acknowledged, reply });
                }
                None => answer(reply, unregistered()),
            },
            Request::End(ending) => self.end(connection, *ending, reply),
        }
    }

    /// The run that this connection registered.
    fn of_connection(&mut self, connection: u64) -> Option<&mut Watched> {
        self.runs.get_mut(self.by_connection.get(&connection)?)
    }

    /// A connection is over.
    pub(super) fn part(&mut self, connection: u64) {
        let Some(handle) = self.by_connection.remove(&connection) else { return };
        let Some(watched) = self.runs.get_mut(&handle) else { return };
        if watched.connection == Some(connection) {
            watched.connection = None;
            if watched.stage == Stage::Ended {
                self.runs.remove(&handle);
            }
        }
    }

    fn register(&mut self, connection: u64, peer: Peer, registration: Registration, reply: Reply) {
        if self.by_connection.contains_key(&connection) {
            let message = "this connection has registered a run already";
            return answer(reply, Response::refused(RefusalKind::BadRequest, message));
        }
        if let Err(refusal) = check(&registration) {
            return answer(reply, Response::Refused(refusal));
        }
        let known = self.runs.iter().find(|(_, watched)| watched.key == registration.record.key);
        let known = known.map(|(handle, watched)| (*handle, watched));
        // One whose command has just ended is let in too: its client has the last words.
        if let Some((handle, watched)) = known
            && watched.is_of(peer, registration.command)
        {
            return self.resume(connection, handle, peer, registration, reply);
        }
        let admitted = match admit(peer, &registration) {
            Ok(admitted) => admitted,
            Err(refusal) => return answer(reply, Response::Refused(refusal)),
        };
        if let Some((handle, watched)) = known {
            let is_same = watched.uid == peer.uid && watched.command == admitted.command;
            // One that is not in the database yet asks again where its client did not wait for the first answer.
            if !is_same || watched.stage == Stage::Ended {
                let (kind, message) =
                    (RefusalKind::NotPermitted, "this measurement belongs to another command");
                return answer(reply, Response::refused(kind, message));
            }
            return self.resume(connection, handle, peer, registration, reply);
        }
        let of_user = self.runs.values().filter(|watched| watched.uid == peer.uid).count();
        if of_user >= self.options.runs_per_user {
            let message = format!("user id {} has {of_user} runs on this node already", peer.uid);
            return answer(reply, Response::refused(RefusalKind::Busy, message));
        }
        self.take_up(connection, peer, registration, admitted, reply);
    }

    fn take_up(
        &mut self,
        connection: u64,
        peer: Peer,
        registration: Registration,
        admitted: Admitted,
        reply: Reply,
    ) {
        let Registration { run, mut record, gpus, gap, .. } = registration;
        let Admitted { command, supervisor, cgroup } = admitted;
        let handle = self.next;
        self.next += 1;
        not_in_the_future(&mut record);
        not_before(&mut record, command);
        let memory = Memory {
            name: run.name.clone(),
            supervisor: Some(supervisor),
            client: Some(peer.pid),
            allocated: allowed(gpus, cgroup.as_ref(), self.gpu_report().as_ref()),
            cgroup,
            // What the client measured before.
            usage: record.usage,
            gpus: record.gpus.clone(),
            ..Memory::default()
        };
        let mut watched = Watched::new(peer.uid, command, record, memory, self.options.process_interval);
        if let Some(hint) = gap {
            let why = "dlrund was not there".to_owned();
            watched.add_gap(Gap { from_ms: hint.lost_at_ms, to_ms: now_ms(), why });
        }
        if let Some(cgroup) = watched.cgroup().map(str::to_owned) {
            self.note_sharing(&mut watched, &cgroup);
        }
        watched.connection = Some(connection);
        if self.enrol(handle, &watched, run, false, Some(reply)) {
            self.by_connection.insert(connection, handle);
            self.runs.insert(handle, watched);
        }
    }

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
        let answer = self.registered(watched, resumed);
        let (uid, record) = (watched.uid, watched.record());
        let register = Register { handle, run, uid, record, live, answer, reply };
        let Err(job) = self.recorder.send(Job::Register(Box::new(register))) else { return true };
        if let Job::Register(register) = job {
            too_slow(register.reply);
        }
        false
    }

    fn registered(&self, watched: &Watched, resumed: bool) -> Registered {
        Registered {
            interval_ms: u64::try_from(self.options.interval.as_millis()).unwrap_or(u64::MAX),
            resumed,
            acknowledged: None,
            cgroup: watched.cgroup().map(str::to_owned),
        }
    }

    /// The client, or this daemon, was started anew; the run is the same.
    fn resume(
        &mut self,
        connection: u64,
        handle: Handle,
        peer: Peer,
        registration: Registration,
        reply: Reply,
    ) {
        let Some(watched) = self.runs.get_mut(&handle) else { return };
        if let Some(former) = watched.connection.replace(connection) {
            self.by_connection.remove(&former);
        }
        self.by_connection.insert(connection, handle);
        watched.come_back(registration.record, peer.pid);
        self.enrol(handle, &self.runs[&handle], registration.run, true, Some(reply));
    }

    /// Two runs of one job share its cgroup: each has the totals of both.
    fn note_sharing(&mut self, watched: &mut Watched, cgroup: &str) {
        let now = now_ms();
        for other in self.runs.values_mut().filter(|other| other.stage != Stage::Ended) {
            if other.cgroup() == Some(cgroup) {
                let detail = |key: &MeasureKey| {
                    format!("CPU, memory and I/O are those of the job; run {} is in it too", key.run_id)
                };
                watched.note(now, EventKind::SharedCgroup, detail(&other.key));
                let key = watched.key.clone();
                other.note(now, EventKind::SharedCgroup, detail(&key));
            }
        }
    }

    fn update(&mut self, connection: u64, record: NodeRecord, reply: Reply) {
        let Some(watched) = self.of_connection(connection) else { return answer(reply, unregistered()) };
        if watched.stage == Stage::Ended {
            return answer(reply, over());
        }
        if let Err(refusal) = check_record(&record) {
            return answer(reply, Response::Refused(refusal));
        }
        watched.update(record);
        answer(reply, Response::Measured(Box::new(watched.measured())));
        if let Some(node) = watched.node {
            let (record, memory) = (Box::new(watched.record()), watched.remembered(false));
            self.recorder.update(node, record, memory);
        }
    }

    fn backfill(&mut self, connection: u64, bytes: &[u8], reply: Reply) {
        let report = self.gpu_report();
        let bad = |message: String| Response::refused(RefusalKind::BadRequest, message);
        let Some(watched) = self.of_connection(connection) else { return answer(reply, unregistered()) };
        let Some(node) = watched.node else { return answer(reply, unregistered()) };
        let memory = &mut watched.memory;
        memory.backfilled_bytes = memory.backfilled_bytes.saturating_add(bytes.len());
        if memory.backfilled_bytes > BACKFILL_MAX || memory.backfilled_samples > BACKFILL_SAMPLES_MAX {
            return answer(reply, bad("too many samples were handed in for this run".to_owned()));
        }
        let samples = match decode_segment(bytes) {
            Ok(samples) if samples.len() <= MAX_SEGMENT_SAMPLES => samples,
            not_so => {
                // No dlrun makes such a segment, and looking into one costs: there is no further one.
                memory.backfilled_samples = usize::MAX;
                let why =
                    not_so.err().map_or("too many samples at once".to_owned(), |error| error.to_string());
                return answer(reply, bad(why));
            }
        };
        memory.backfilled_samples = memory.backfilled_samples.saturating_add(samples.len());
        let samples = watched.plausible(samples, report.as_ref());
        let measured = Box::new(Response::Measured(Box::new(watched.measured())));
        self.hand_on(Job::Backfill { node, samples, answer: measured, reply });
    }

    fn end(&mut self, connection: u64, ending: Ending, reply: Reply) {
        let report = self.gpu_report();
        let Some(watched) = self.of_connection(connection) else { return answer(reply, unregistered()) };
        let (Stage::Live, Some(node)) = (watched.stage, watched.node) else { return answer(reply, over()) };
        if let Err(refusal) = check_record(&ending.record) {
            return answer(reply, Response::Refused(refusal));
        }
        let sample = watched.sample(now_ms(), report.as_ref(), true);
        watched.end(ending);
        let record = Box::new(watched.record());
        let measured = Box::new(Response::Measured(Box::new(watched.measured())));
        self.recorder.tick(vec![(node, sample)]);
        self.hand_on(Job::End(End { node, record, answer: Some((measured, reply)) }));
    }

    /// Gives the database a job. Where it has no room for more, who waits is told so; an end is kept for later.
    fn hand_on(&mut self, job: Job) {
        let Err(job) = self.recorder.send(job) else { return };
        match job {
            Job::Collect { reply, .. } | Job::Backfill { reply, .. } => too_slow(Some(reply)),
            Job::End(End { node, record, answer }) => {
                too_slow(answer.map(|(_, reply)| reply));
                self.late.push_back(Job::End(End { node, record, answer: None }));
            }
            _ => {}
        }
    }

    pub(super) fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::Registered { handle, node } => {
                let report = self.gpu_report();
                let Some(watched) = self.runs.get_mut(&handle) else { return };
                watched.node = Some(node);
                if watched.stage == Stage::Pending {
                    watched.stage = Stage::Live;
                    let sample = watched.sample(now_ms(), report.as_ref(), true);
                    self.recorder.tick(vec![(node, sample)]);
                }
            }
            // One that is watched already stays so, whatever became of its client's return.
            Notice::Rejected { handle } => {
                if self.runs.get(&handle).is_some_and(|watched| watched.stage == Stage::Pending)
                    && let Some(connection) = self.runs.remove(&handle).and_then(|watched| watched.connection)
                {
                    self.by_connection.remove(&connection);
                }
            }
            Notice::Dropped { node, gap, samples } => {
                tracing::warn!(samples, why = gap.why, "samples were dropped");
                if let Some(watched) = self.runs.values_mut().find(|watched| watched.node == Some(node)) {
                    watched.add_gap(gap);
                }
            }
        }
    }

    fn list(&self, peer: Peer, query: &RunsQuery) -> Runs {
        let may_see = |watched: &&Watched| watched.stage == Stage::Live && peer.may_read(watched.uid);
        let mut runs = Vec::new();
        let (mut bytes, mut more) = (0, false);
        for watched in self.runs.values().filter(may_see).skip(query.skip) {
            let view = watched.view(query.processes);
            bytes += serde_json::to_vec(&view).map_or(0, |text| text.len() + 1);
            if bytes > ANSWER_ROOM && !runs.is_empty() {
                more = true;
                break;
            }
            runs.push(view);
        }
        Runs { host: self.host.clone(), at_ms: now_ms(), runs, more }
    }

    pub(super) fn status(&self) -> DaemonStatus {
        let report = self.gpus.as_ref().map(GpuWatch::latest);
        let mut problems = self.problems.clone();
        problems.extend(report.as_ref().and_then(|report| report.missing.clone()));
        DaemonStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_at_ms: self.started_at_ms,
            interval_ms: u64::try_from(self.options.interval.as_millis()).unwrap_or(u64::MAX),
            runs: self.runs.values().filter(|watched| watched.stage == Stage::Live).count(),
            gpus: report.iter().flat_map(|report| &report.gpus).map(|gpu| (*gpu.facts).clone()).collect(),
            cost: self.cost(),
            store: self.recorder.status(),
            problems,
        }
    }

    /// What the daemon costs, memory and CPU time read now.
    pub(super) fn cost(&self) -> DaemonCost {
        DaemonCost { cpu_us: monitor::own_cpu_us(), mem_rss_bytes: monitor::own_rss_bytes(), ..self.cost }
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn gpu_report(&self) -> Option<GpuReport> {
        self.gpus.as_ref().map(GpuWatch::latest)
    }

    pub(super) fn is_sound(&self) -> bool {
        !self.recorder.is_dead()
    }

    /// Folds everything and remembers that this was no crash.
    pub(super) fn stop(mut self, patience: Duration) -> bool {
        self.end_late();
        self.fold(true);
        self.recorder.stop(patience)
    }
}

/// Where the wall clock would stand had nobody set it; `None` where it stands there.
fn jumped(then_ms: u64, elapsed: Duration, now_ms: u64) -> Option<u64> {
    let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    let expected = then_ms.saturating_add(elapsed_ms);
    (now_ms.abs_diff(expected) > CLOCK_JUMP_MS).then_some(expected)
}

/// The GPUs that the client claims, as far as the kernel lets its job use them. Those of a job that claims none are those that
/// it may use, where it may not use all.
fn allowed(claimed: Vec<String>, cgroup: Option<&JobCgroup>, report: Option<&GpuReport>) -> Vec<String> {
    let (Some(minors), Some(report)) = (cgroup.and_then(JobCgroup::gpu_minors), report) else {
        return claimed;
    };
    let whole = |facts: &GpuFacts| facts.parent.clone().unwrap_or_else(|| facts.uuid.clone());
    let facts = || report.gpus.iter().map(|gpu| &gpu.facts);
    let is_let_in = |uuid: &str| {
        facts().any(|facts| facts.uuid == uuid && facts.minor.is_some_and(|minor| minors.contains(&minor)))
    };
    let may_use = facts().filter(|facts| is_let_in(&whole(facts)));
    may_use
        .map(|facts| facts.uuid.clone())
        .filter(|uuid| claimed.is_empty() || claimed.contains(uuid))
        .collect()
}

fn answer(reply: oneshot::Sender<Response>, response: Response) {
    // The client may have left.
    let _ = reply.send(response);
}

fn too_slow(reply: Option<Reply>) {
    if let Some(reply) = reply {
        answer(reply, Response::refused(RefusalKind::Busy, "the disk of the node is too slow"));
    }
}

/// A run began no earlier than its command.
fn not_before(record: &mut NodeRecord, command: Process) {
    if let Ok(age) = identity::age(command.start_time_ticks) {
        let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let begun_ms = now_ms().saturating_sub(age_ms).saturating_sub(CLOCK_JUMP_MS);
        record.started_at_ms = record.started_at_ms.clamp(begun_ms, now_ms().max(begun_ms));
    }
}

fn unregistered() -> Response {
    Response::refused(RefusalKind::BadRequest, "this connection has not registered a run")
}

fn over() -> Response {
    Response::refused(RefusalKind::BadRequest, "the run has ended")
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};
    use std::sync::mpsc::Receiver;

    use super::*;
    use crate::protocol::{Backfill, Update};
    use crate::record::{GpuReading, encode_segments};

    const OPTIONS: Options = Options {
        interval: Duration::from_secs(1),
        process_interval: Duration::from_secs(5),
        fold_ticks: 60,
        runs_per_user: 4,
        keep: Duration::from_secs(1),
        max_bytes: 1,
    };

    fn node(room: usize) -> (Node, Receiver<Job>) {
        let (recorder, queue) = Recorder::queue_only(room);
        (Node::new(OPTIONS, None, recorder, Vec::new()), queue)
    }

    fn registration() -> Registration {
        let text = include_str!("../../tests/fixtures/protocol/v1/request-register.json");
        let Ok(Request::Register(registration)) = serde_json::from_str(text) else {
            panic!("a registration")
        };
        *registration
    }

    /// A supervisor with a client and a command.
    struct Family {
        shell: Child,
        peer: Peer,
        registration: Registration,
    }

    impl Family {
        fn new() -> Self {
            let script = "sleep 60 & a=$!; echo $a; sleep 60 & b=$!; echo $b; read end; kill $a $b";
            let mut shell = Command::new("sh");
            shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut shell = shell.spawn().expect("a shell");
            let mut lines = BufReader::new(shell.stdout.take().expect("a pipe")).lines();
            let mut pid = || lines.next().expect("a line").expect("text").parse::<u32>().expect("a pid");
            let (client, command) = (pid(), pid());
            let peer = Peer { uid: nix::unistd::getuid().as_raw(), pid: client, reads_all: false };
            let mut registration = registration();
            let start_time_ticks = identity::start_time_ticks(command).expect("it runs");
            registration.command = Process { pid: command, start_time_ticks };
            Self { shell, peer, registration }
        }

        fn ask(&self, node: &mut Node, request: Request) -> oneshot::Receiver<Response> {
            let (reply, answer) = oneshot::channel();
            node.hear(Question { connection: 7, peer: self.peer, request: Box::new(request), reply });
            answer
        }

        fn register(&self, node: &mut Node) -> oneshot::Receiver<Response> {
            self.ask(node, Request::Register(Box::new(self.registration.clone())))
        }

        /// Registers, and lets the database have it.
        fn live(&self, node: &mut Node, queue: &Receiver<Job>) -> u64 {
            drop(self.register(node));
            let Ok(Job::Register(register)) = queue.try_recv() else { panic!("nothing was registered") };
            node.notice(Notice::Registered { handle: register.handle, node: NodeId(1) });
            let _ = queue.try_recv();
            register.record.started_at_ms
        }

        fn end(&self, node: &mut Node) -> oneshot::Receiver<Response> {
            let record = self.registration.record.clone();
            self.ask(node, Request::End(Box::new(Ending { record, cpu_user_us: 0, cpu_system_us: 0 })))
        }
    }

    impl Drop for Family {
        fn drop(&mut self) {
            drop(self.shell.stdin.take());
            let _ = self.shell.wait();
        }
    }

    fn refusal(mut answer: oneshot::Receiver<Response>) -> Option<RefusalKind> {
        match answer.try_recv() {
            Ok(Response::Refused(refusal)) => Some(refusal.kind),
            _ => None,
        }
    }

    #[test]
    fn a_run_for_which_there_was_no_room_can_come_again() {
        let (mut node, queue) = node(0);
        let family = Family::new();
        assert_eq!(refusal(family.register(&mut node)), Some(RefusalKind::Busy));
        assert!(node.runs.is_empty() && node.by_connection.is_empty());
        drop(queue);
    }

    #[test]
    fn an_end_waits_for_room() {
        let (mut node, queue) = node(1);
        let family = Family::new();
        family.live(&mut node, &queue);
        // The sample before the end takes the only place.
        assert_eq!(refusal(family.end(&mut node)), Some(RefusalKind::Busy));
        assert!(matches!(queue.try_recv(), Ok(Job::Ticks)));
        node.tick(false);
        assert!(matches!(queue.try_recv(), Ok(Job::End { .. })));
        node.tick(false);
        assert!(queue.try_recv().is_err());
    }

    #[test]
    fn a_clock_that_was_set_is_told_from_one_that_is_late() {
        let second = Duration::from_secs(1);
        assert_eq!(jumped(5_000, second, 6_000), None);
        assert_eq!(jumped(5_000, 30 * second, 35_400), None);
        assert_eq!(jumped(5_000, second, 3_606_000), Some(6_000));
        assert_eq!(jumped(3_600_000, second, 5_000), Some(3_601_000));
    }

    #[test]
    fn times_of_a_run_are_those_of_its_command() {
        let (mut node, queue) = node(9);
        let family = Family::new();
        let begun_ms = now_ms();
        let started_at_ms = family.live(&mut node, &queue);
        assert!(started_at_ms.abs_diff(begun_ms) < 60_000, "{started_at_ms}");
        let mut record = family.registration.record.clone();
        (record.updated_at_ms, record.ended_at_ms) = (u64::MAX, Some(u64::MAX));
        drop(family.ask(&mut node, Request::Update(Box::new(Update { record }))));
        let Ok(Job::Update { node: id }) = queue.try_recv() else { panic!("no update") };
        let record = node.recorder.updated(id).expect("a record");
        assert!(record.updated_at_ms <= now_ms() && record.ended_at_ms <= Some(now_ms()));
    }

    #[test]
    fn long_records_are_refused_whenever_they_come() {
        let (mut node, queue) = node(9);
        let mut family = Family::new();
        family.live(&mut node, &queue);
        family.registration.record.output = Some("x".repeat(300 << 10));
        let record = family.registration.record.clone();
        let update = family.ask(&mut node, Request::Update(Box::new(Update { record })));
        assert_eq!(refusal(update), Some(RefusalKind::BadRequest));
        assert_eq!(refusal(family.end(&mut node)), Some(RefusalKind::BadRequest));
        node.part(7);
        assert_eq!(refusal(family.register(&mut node)), Some(RefusalKind::BadRequest));
        assert!(queue.try_recv().is_err());
    }

    #[test]
    fn only_samples_that_can_be_are_taken_in() {
        let (mut node, queue) = node(9);
        let mut family = Family::new();
        family.registration.record.gpus.clear();
        family.live(&mut node, &queue);
        let now = now_ms();
        let at = |at_ms| Sample { at_ms, ..Sample::default() };
        let gpus = vec![GpuReading { power_milliwatts: Some(1), ..GpuReading::of("GPU-of-nobody".into()) }];
        let samples = [at(5), Sample { gpus, ..at(now) }, at(now * 2)];
        let hand_in = |node: &mut Node, samples: &[Sample]| {
            let bytes = encode_segments(samples).remove(0);
            family.ask(node, Request::Backfill(Box::new(Backfill { bytes })))
        };
        drop(hand_in(&mut node, &samples));
        let Ok(Job::Backfill { samples, .. }) = queue.try_recv() else { panic!("no samples") };
        assert_eq!(samples, [at(now)]);
        let many: Vec<Sample> = (0..4096).map(|ms| at(now + ms)).collect();
        for _ in 0..BACKFILL_SAMPLES_MAX / many.len() + 1 {
            assert_eq!(refusal(hand_in(&mut node, &many)), None);
            assert!(queue.try_recv().is_ok());
        }
        assert_eq!(refusal(hand_in(&mut node, &many)), Some(RefusalKind::BadRequest));
    }

    #[test]
    fn jobs_of_others_live_as_long_as_their_cgroup() {
        let cgroup = tempfile::tempdir().expect("a directory");
        std::fs::write(cgroup.path().join("cgroup.procs"), "1\n").expect("written");
        let (mut node, _queue) = node(9);
        let state = serde_json::json!({"foreign": true, "cgroup": {
            "scheduler": "slurm", "path": "/slurm/uid_7/job_1", "directories": {"processes": cgroup.path()},
        }});
        let live =
            Live { pid: 0, start_time_ticks: 1, boot_id: node.boot_id.clone(), state: state.to_string() };
        let run = LiveRun {
            node: NodeId(1),
            uid: 7,
            live,
            record: registration().record,
            acknowledged_seq: None,
            last_at_ms: None,
            spooled: false,
        };
        node.recover(vec![(run, Vec::new())]);
        assert_eq!(node.runs.len(), 1);
    }
}
