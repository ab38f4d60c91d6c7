//! The owner of all that is known of this node: the runs under watch, the GPUs, the cost of watching.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::admit::{Admitted, admit, check_sizes};
use super::connection::Question;
use super::discover::{Discovery, Found};
use super::peer::Peer;
use super::recorder::{End, Handle, Job, Notice, Recorder, Register, Reply};
use super::watched::{Memory, Stage, Watched};
use crate::clock::now_ms;
use crate::monitor::{self, GpuReport, GpuWatch, identity};
use crate::protocol::{
    DaemonCost, DaemonStatus, Ending, MAX_MESSAGE_BYTES, Process, RefusalKind, Registered, Registration,
    Request, Response, Runs, RunsQuery,
};
use crate::record::{EventKind, Gap, MeasureKey, NodeRecord, RunRecord, Sample, decode_segment};
use crate::store::{Live, LiveRun, NodeId};

/// A wall clock that moved so much against the steady one was set.
const CLOCK_JUMP_MS: u64 = 500;
/// What a client may hand in for one run, so that nobody fills the node's disk: days of samples without a daemon.
const BACKFILL_MAX: usize = 16 << 20;
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
    boot_id: String,
    host: String,
    started_at_ms: u64,
    pub(super) cost: DaemonCost,
    /// Wall clock less steady clock, at the last tick.
    clocks: Option<(u64, Instant)>,
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
            let is_alive =
                run.live.boot_id == self.boot_id && identity::is_alive(command.pid, command.start_time_ticks);
            let stopped = memory.stopped;
            let mut watched =
                Watched::new(run.uid, command, run.record, memory, self.options.process_interval);
            watched.node = Some(run.node);
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

    fn close(&self, mut watched: Watched) {
        let record = Box::new(watched.interrupt());
        if let Some(node) = watched.node {
            let _ = self.recorder.send(Job::End(End { node, record, answer: None }));
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
        let Some((then, steady_then)) = self.clocks.replace((now, steady)) else { return };
        if let Some(expected) = jumped(then, steady.duration_since(steady_then), now) {
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
        self.enrol(handle, &watched, run, false, None);
        self.runs.insert(handle, watched);
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
        if let Err(refusal) = check_sizes(&registration) {
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
        let Registration { run, record, gpus, gap, .. } = registration;
        let Admitted { command, supervisor, cgroup } = admitted;
        let handle = self.next;
        self.next += 1;
        let memory = Memory {
            name: run.name.clone(),
            supervisor: Some(supervisor),
            client: Some(peer.pid),
            cgroup,
            allocated: gpus,
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
        self.by_connection.insert(connection, handle);
        self.enrol(handle, &watched, run, false, Some(reply));
        self.runs.insert(handle, watched);
    }

    /// Gives the database a run to keep.
    fn enrol(&self, handle: Handle, watched: &Watched, run: RunRecord, resumed: bool, reply: Option<Reply>) {
        let live = Live {
            pid: watched.command.pid,
            start_time_ticks: watched.command.start_time_ticks,
            boot_id: self.boot_id.clone(),
            state: watched.remembered(false),
        };
        let answer = self.registered(watched, resumed);
        let (uid, record) = (watched.uid, watched.record());
        self.hand_on(Job::Register(Box::new(Register { handle, run, uid, record, live, answer, reply })));
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
        watched.update(record);
        answer(reply, Response::Measured(Box::new(watched.measured())));
        if let Some(node) = watched.node {
            let (record, memory) = (Box::new(watched.record()), watched.remembered(false));
            self.recorder.update(node, record, memory);
        }
    }

    fn backfill(&mut self, connection: u64, bytes: &[u8], reply: Reply) {
        let Some(watched) = self.of_connection(connection) else { return answer(reply, unregistered()) };
        watched.memory.backfilled_bytes = watched.memory.backfilled_bytes.saturating_add(bytes.len());
        if watched.memory.backfilled_bytes > BACKFILL_MAX {
            let message = format!("more than {BACKFILL_MAX} bytes of samples were handed in for this run");
            return answer(reply, Response::refused(RefusalKind::BadRequest, message));
        }
        let (measured, node) = (Response::Measured(Box::new(watched.measured())), watched.node);
        match (decode_segment(bytes), node) {
            // Answered once it is on disk: the client forgets it then, and sends no more than the disk takes.
            (Ok(samples), Some(node)) => {
                self.hand_on(Job::Backfill { node, samples, answer: Box::new(measured), reply });
            }
            (Ok(_), None) => answer(reply, unregistered()),
            (Err(error), _) => answer(reply, Response::refused(RefusalKind::BadRequest, error.to_string())),
        }
    }

    fn end(&mut self, connection: u64, ending: Ending, reply: Reply) {
        let report = self.gpu_report();
        let Some(watched) = self.of_connection(connection) else { return answer(reply, unregistered()) };
        let (Stage::Live, Some(node)) = (watched.stage, watched.node) else { return answer(reply, over()) };
        let sample = watched.sample(now_ms(), report.as_ref(), true);
        watched.end(ending);
        let record = Box::new(watched.record());
        let measured = Box::new(Response::Measured(Box::new(watched.measured())));
        self.recorder.tick(vec![(node, sample)]);
        self.hand_on(Job::End(End { node, record, answer: Some((measured, reply)) }));
    }

    /// Gives the database a job that somebody waits for.
    fn hand_on(&self, job: Job) {
        let Err(job) = self.recorder.send(job) else { return };
        let reply = match job {
            Job::Register(register) => register.reply,
            Job::Collect { reply, .. } | Job::Backfill { reply, .. } => Some(reply),
            Job::End(end) => end.answer.map(|(_, reply)| reply),
            _ => None,
        };
        if let Some(reply) = reply {
            answer(reply, Response::refused(RefusalKind::Busy, "the disk of the node is too slow"));
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
    pub(super) fn stop(self, patience: Duration) -> bool {
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

fn answer(reply: oneshot::Sender<Response>, response: Response) {
    // The client may have left.
    let _ = reply.send(response);
}

fn unregistered() -> Response {
    Response::refused(RefusalKind::BadRequest, "this connection has not registered a run")
}

fn over() -> Response {
    Response::refused(RefusalKind::BadRequest, "the run has ended")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_is_told_from_one_that_is_late() {
        let second = Duration::from_secs(1);
        assert_eq!(jumped(5_000, second, 6_000), None);
        assert_eq!(jumped(5_000, 30 * second, 35_400), None);
        assert_eq!(jumped(5_000, second, 3_606_000), Some(6_000));
        assert_eq!(jumped(3_600_000, second, 5_000), Some(3_601_000));
    }
}
