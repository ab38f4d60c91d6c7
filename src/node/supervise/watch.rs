//! The watcher: samples, follows the output and records, until the supervisor says how the command ended.

use std::io::{self, BufRead, BufReader, StdinLock};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::account::Account;
use super::activity;
use super::annotate::Annotator;
use super::conditions::Seen;
use super::events;
use super::follow::{Followed, SPACING};
use super::handover::{DROP_SIGNALS, Ended, Handover};
use super::held::Holding;
use super::limit::Limit;
use super::link::Link;
use super::memory::Memory;
use super::quiet::Quiet;
use super::ranks::reported;
use super::sampling::Sampling;
use super::scale::{SCALE_PAUSE, wait_for_scale};
use super::signals::{drop_pending, ignore_all};
use super::step::Step;
use super::writer::{Job, Resumed, Writer};
use crate::foundation::clock::{self, now_ms};
use crate::job::{Launcher, is_share};
use crate::observe::client::ClientError;
use crate::observe::monitor;
use crate::plan::{hidden_values, masked_line};
use crate::record::rundir::keep_late;
use crate::record::{
    Conditions, EpochNumbering, EventKind, HostFacts, Missing, NodeRecord, NodeState, Progress,
    Sample, WatcherCost, add_first_rank, add_root_cause, encode_segments, hangs,
};

/// The longest pause between two writings of the record, and between two segments.
const RECORD_PAUSE_MAX: Duration = Duration::from_secs(300);
/// The same at least, for who takes a short silence for a hang.
const HANG_PAUSE: Duration = Duration::from_secs(5);
const SEGMENT_PAUSE_MAX: Duration = Duration::from_secs(1800);
/// The first record after that of the beginning.
const FIRST_RECORD: Duration = Duration::from_secs(5);
/// Samples of one segment at most; a segment may have 512 KiB.
const SEGMENT_SAMPLES: usize = 3600;
/// How long the last record may take to reach the disk.
const LAST_WRITE: Duration = Duration::from_secs(6);
/// How long is looked for epochs in what the command wrote last; the talk with the daemon and the writing come after it.
const LAST_READ: Duration = Duration::from_secs(2);

/// Between SIGTERM and SIGKILL to a training that outlived its job: Slurm's own time, unless a site sets `KillWait`.
const KILL_WAIT: Duration = Duration::from_secs(30);
/// Between two looks whether the job still runs whose supervisor is dead.
const STEP_PAUSE: Duration = Duration::from_millis(500);

/// How long the output is looked at in short intervals, before the kernel is asked to say when it grows.
const LISTENS_AFTER: Duration = Duration::from_secs(1);
/// Until the place of the records is known it is asked for so often, for so long; then in the rhythm of the samples.
const PLACE_PAUSE: Duration = Duration::from_millis(20);
const PLACE_SOON: Duration = Duration::from_secs(5);

/// Runs the watcher; the supervisor's words come through standard input.
///
/// # Errors
/// When the supervisor's first line cannot be read.
pub fn watch() -> io::Result<()> {
    ignore_all();
    let mut input = BufReader::new(io::stdin().lock());
    let mut line = String::new();
    input.read_line(&mut line)?;
    let handover: Handover = serde_json::from_str(&line)?;
    clock::count_from(handover.booted_at_ms);
    let ended = Watch::new(handover).run(&mut input);
    // The writer's thread may hang in a dead file system; leaving does not wait for it.
    ended.map(drop)
}

pub(super) struct Watch {
    pub(super) handover: Handover,
    pub(super) sampling: Sampling,
    pub(super) account: Account,
    pub(super) link: Link,
    /// Why the daemon did not take the run, as noted.
    pub(super) reasons: Vec<String>,
    pub(super) step: Step,
    pub(super) quiet: Quiet,
    pub(super) holding: Holding,
    pub(super) memory: Memory,
    pub(super) annotator: Annotator,
    pub(super) limit: Limit,
    /// Says that another number of nodes was asked for.
    pub(super) scaled: Option<Receiver<()>>,
    followed: Followed,
    conditions: Seen,
    pub(super) activity: activity::Seen,
    pub(super) writer: Writer,
    pub(super) host: HostFacts,
    started: Instant,
    steps: clock::Steps,
    pub(super) interval: Duration,
    /// Samples of the watcher's own that the writer does not have yet.
    pub(super) pending: Vec<Sample>,
    before: Option<Progress>,
    record_due: Due,
    segment_due: Due,
}

/// Without the supervisor's word nobody knows how the command ended.
pub(super) fn last_state(ended: Option<&Ended>) -> NodeState {
    match ended {
        Some(_) => NodeState::Ended,
        None => NodeState::Interrupted,
    }
}

/// What ended a sleep.
#[derive(Default)]
struct Woken {
    /// The supervisor has sent a line.
    has_line: bool,
    /// The output may have grown.
    grown: bool,
    /// The daemon is gone.
    lost: bool,
}

/// Something that is due again and again, after ever longer pauses up to a limit.
struct Due {
    at: Instant,
    pause: Duration,
    limit: Duration,
}

impl Due {
    fn new(pause: Duration, limit: Duration) -> Self {
        Self {
            at: Instant::now() + pause,
            pause,
            limit: limit.max(pause),
        }
    }

    /// As [`Due::new`], but once before: who has just begun a run looks at it soon.
    fn soon(pause: Duration, limit: Duration) -> Self {
        Self {
            at: Instant::now() + pause.min(FIRST_RECORD),
            pause: pause / 2,
            limit: limit.max(pause),
        }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        if now < self.at {
            return false;
        }
        self.pause = (self.pause * 2).min(self.limit);
        // Nodes of one job started together; they must not write together for ever.
        let jitter = self
            .pause
            .mul_f64(f64::from(std::process::id() % 97) / 970.0);
        self.at = now + self.pause - jitter;
        true
    }
}

impl Watch {
    fn new(handover: Handover) -> Self {
        let plan = handover.context.plan.as_ref();
        let interval = Duration::from_millis(plan.map_or(1000, |plan| plan.interval_ms));
        let record_pause = Duration::from_secs(plan.map_or(30, |plan| plan.record_seconds));
        let resume = plan.and_then(|plan| plan.resume.as_ref());
        let hang_after = resume
            .and_then(|resume| resume.hang_after)
            .map(|after| Duration::from_secs(after.0));
        let longest_pause =
            hang_after.map_or(RECORD_PAUSE_MAX, |after| RECORD_PAUSE_MAX.min(after / 2));
        // Each record is also a look whether the program hangs.
        let record_pause = record_pause.min(longest_pause.max(HANG_PAUSE));
        let resumes = handover.resumes.then_some(handover.started_at_ms);
        let (writer, resumed) =
            Writer::start(handover.context.clone(), resumes, Duration::from_secs(5));
        let socket = plan
            .and_then(|plan| plan.daemon_socket.as_ref())
            .map(PathBuf::from);
        let known = resumed
            .as_ref()
            .map(|former| former.times.clone())
            .unwrap_or_default();
        let former = resumed.as_ref().map(|former| &former.record);
        let mut watch = Self {
            sampling: Sampling::new(&handover, interval),
            account: Account::starting(handover.started_at_ms),
            link: Link::to(socket, known, handover.started_at_ms),
            reasons: Vec::new(),
            quiet: Quiet::new(hang_after, longest_pause.max(record_pause)),
            holding: Holding::new(
                plan.map(|plan| plan.idle).unwrap_or_default(),
                longest_pause.max(record_pause),
            ),
            memory: Memory::default(),
            annotator: Annotator::new(
                plan.filter(|_| handover.context.is_batch_node())
                    .map_or(0, |plan| plan.comment_seconds),
            ),
            limit: Limit::new(&handover.context, handover.events.clone()),
            scaled: wait_for_scale(&handover),
            step: Step::new(handover.step, handover.command, KILL_WAIT),
            followed: Followed::open(&handover),
            conditions: Seen::new(&handover, now_ms(), former),
            activity: activity::Seen::new(handover.resumes),
            writer,
            host: monitor::host_facts(handover.context.omp_num_threads.clone()),
            started: Instant::now(),
            steps: clock::Steps::since(handover.booted_at_ms),
            interval,
            pending: Vec::new(),
            before: None,
            record_due: Due::soon(record_pause, longest_pause),
            segment_due: Due::new(record_pause, SEGMENT_PAUSE_MAX),
            handover,
        };
        match watch.handover.resumes {
            true => watch.take_over(resumed),
            false => watch.note_what_was_found(),
        }
        watch
    }

    /// What was found before the command started.
    fn note_what_was_found(&mut self) {
        let container = self.handover.container.as_ref();
        if let Some(why) = container.and_then(|it| it.gpu_missing.clone()) {
            self.account.note(EventKind::GpuMissing, why);
        }
        let kind = match self.handover.is_refused {
            true => EventKind::NodeRefused,
            false => EventKind::NodeUnfit,
        };
        for why in std::mem::take(&mut self.handover.unfit) {
            self.account.note(kind, why);
        }
    }

    /// What two readings of one series may be apart, in milliseconds.
    pub(super) fn slack_ms(&self) -> u64 {
        u64::try_from(2 * self.interval.as_millis()).unwrap_or(u64::MAX)
    }

    /// Continues the record of a watcher that was killed, and notes the hole.
    fn take_over(&mut self, former: Option<Resumed>) {
        self.account.take_over(former.as_ref());
        if self.account.clock_steps().next().is_some() {
            // It is on record already.
            self.steps = clock::Steps::since(clock::booted_at_ms());
        }
        let times = former
            .iter()
            .flat_map(|former| former.times.iter().copied());
        self.account.has_samples(times, self.slack_ms());
        let events = former.as_ref().map(|former| &former.record.events);
        self.quiet
            .take_over(events.is_some_and(|events| hangs(events).is_some()));
        let progress = former.as_ref().map(|former| &former.record.progress);
        self.holding
            .take_over(progress.and_then(|progress| progress.held.as_ref()));
        self.memory
            .take_over(former.as_ref().map(|former| &former.record));
        self.limit
            .take_over(former.as_ref().map(|former| &former.record));
        self.before = former.map(|former| former.record.progress);
    }

    fn run(&mut self, input: &mut BufReader<StdinLock<'_>>) -> io::Result<Option<Ended>> {
        let first = self.sampling.start();
        self.add(first);
        events::sweep();
        // A command that has ended already needs no record of its beginning.
        if !self.sleep_until(Instant::now(), input).has_line {
            self.write_record(NodeState::Running, None);
        }
        loop {
            let until = self.due();
            let woken = self.sleep_until(until, input);
            let now = Instant::now();
            // Before what was written after the step is read.
            self.look_at_clock();
            if woken.grown || now >= until {
                self.followed.read(now_ms(), woken.grown);
                if self.quiet.hear(self.followed.heard(), now) {
                    let text = "the program that seemed to hang writes again".to_owned();
                    self.account.note(EventKind::HangOver, text);
                }
            }
            if woken.has_line {
                let mut line = String::new();
                input.read_line(&mut line)?;
                if line.trim_end() == DROP_SIGNALS {
                    drop_pending();
                    continue;
                }
                let ended: Option<Ended> = serde_json::from_str(&line).ok();
                self.finish(ended.as_ref());
                if ended.is_none() {
                    self.wait_for_step();
                }
                return Ok(ended);
            }
            if woken.lost {
                // The daemon closed the connection, or spoke without being asked.
                let error = ClientError::Closed(self.link.socket());
                self.lose_daemon(&error);
            }
            if now >= until {
                self.tick(now);
            }
        }
    }

    fn look_at_clock(&mut self) {
        if let Some(step_ms) = self.steps.look() {
            self.account
                .note(EventKind::ClockJump, clock::step_text(step_ms));
        }
    }

    /// When there is something to do next. While the daemon reads, that is seldom.
    fn due(&self) -> Instant {
        let now = Instant::now();
        let place = self.link.socket.is_some()
            && self.link.placed.is_none()
            && now < self.started + PLACE_SOON;
        let also = [
            self.sampling.next,
            self.link.due(now),
            self.step.due(now),
            place.then(|| now + PLACE_PAUSE),
            self.scaled.as_ref().map(|_| now + SCALE_PAUSE),
            self.annotator.due(),
            self.limit.due(),
            // Without word from the kernel the output is looked at in the rhythm of the samples.
            self.followed.is_unannounced().then(|| {
                now + if self.is_young(now) {
                    SPACING
                } else {
                    self.interval
                }
            }),
            self.followed
                .is_behind()
                .then(|| self.followed.not_before()),
        ];
        let own = self.record_due.at.min(self.segment_due.at);
        also.into_iter().flatten().fold(own, Instant::min)
    }

    fn is_young(&self, now: Instant) -> bool {
        now < self.started + LISTENS_AFTER
    }

    fn tick(&mut self, now: Instant) {
        if !self.is_young(now) {
            let output = self.handover.output.as_ref();
            self.followed.listen(output.map(|output| &*output.path));
        }
        self.tend_step(now);
        self.tend_scale();
        self.tend_comment(now);
        self.tend_limit(now);
        if let Some(sample) = self.sampling.tick(now) {
            self.add(sample);
        }
        self.tend_daemon(now);
        if self.segment_due.is_due(now) || self.pending.len() >= SEGMENT_SAMPLES {
            self.write_own_segment();
            self.collect();
        }
        if self.activity.is_due(now) {
            self.look_at_activity(NodeState::Running, None);
            // What the daemon reads is known when the record is written.
            if self.sampling.is_on() {
                let record = self.record(NodeState::Running, None);
                self.look_at_memory(&record);
            }
        }
        if self.record_due.is_due(now) {
            self.update();
            let record = self.record(NodeState::Running, None);
            self.look_for_hang(&record, now);
            self.look_at_what_it_holds(&record, now);
            self.look_at_memory(&record);
            self.write_record(NodeState::Running, None);
        }
    }

    fn tend_step(&mut self, now: Instant) -> bool {
        let note = self.step.tend(now);
        let is_noted = note.is_some();
        note.into_iter()
            .for_each(|note| self.account.note(EventKind::Note, note));
        is_noted
    }

    /// The supervisor is dead, and all is written down: its batch script ends the job, and the training with that.
    fn wait_for_step(&mut self) {
        while self.step.has_training() {
            if self.tend_step(Instant::now()) {
                self.write_record(NodeState::Interrupted, None);
            }
            std::thread::sleep(STEP_PAUSE);
        }
        let _ = self.writer.flush(LAST_WRITE);
    }

    /// Sleeps until `deadline`, or earlier when the supervisor speaks, the output grows or the daemon goes.
    fn sleep_until(&self, deadline: Instant, input: &BufReader<StdinLock<'_>>) -> Woken {
        let pause = |until: Instant| {
            PollTimeout::try_from(
                until.saturating_duration_since(Instant::now()) + Duration::from_millis(1),
            )
            .unwrap_or(PollTimeout::MAX)
        };
        let stdin = io::stdin();
        let readable = |fd: BorrowedFd<'_>, until: Instant| {
            let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
            poll(&mut fds, pause(until)).is_ok_and(|ready| ready > 0)
        };
        // Not more often than the spacing, whatever the output does.
        let quiet = self.followed.not_before().min(deadline);
        // A line may lie in the buffer already.
        if !input.buffer().is_empty() || quiet > Instant::now() && readable(stdin.as_fd(), quiet) {
            return Woken {
                has_line: true,
                grown: true,
                lost: false,
            };
        }
        let changes: Vec<_> = self.followed.changes().collect();
        let daemon = self.link.fd();
        let watched = [stdin.as_fd()]
            .into_iter()
            .chain(changes.iter().copied())
            .chain(daemon);
        let mut fds: Vec<_> = watched
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        let _ = poll(&mut fds, pause(deadline));
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        let (has_line, ready) = ready
            .split_first()
            .map_or((false, &[][..]), |(first, others)| (*first, others));
        let (grown, lost) = ready.split_at(changes.len().min(ready.len()));
        let any = |of: &[bool]| of.contains(&true);
        Woken {
            has_line,
            grown: changes.is_empty() || any(grown),
            lost: any(lost),
        }
    }

    /// Takes in a sample of the watcher's own.
    pub(super) fn add(&mut self, sample: Sample) {
        self.account.add(&sample, &self.sampling.gpus.facts);
        self.account
            .note_process_peak(self.sampling.process_peak_bytes());
        for event in self.sampling.gpus.take_events() {
            self.account.note_at(event);
        }
        self.link.note_own(sample.at_ms);
        self.activity.take(&sample);
        self.pending.push(sample);
    }

    fn look_at_activity(&mut self, state: NodeState, ended: Option<&Ended>) {
        let record = self.record(state, ended);
        self.activity.analyse(&record);
    }

    fn finish(&mut self, ended: Option<&Ended>) {
        let deadline = Instant::now() + LAST_WRITE;
        self.followed.finish(now_ms(), Instant::now() + LAST_READ);
        if ended.is_some_and(|ended| ended.exit.is_success()) {
            self.followed.ended_well();
        }
        if self.sampling.is_on() {
            self.add_last();
        }
        let read_by_daemon = !self.sampling.is_on();
        let is_sent = self.end_with_daemon(ended);
        if read_by_daemon && !is_sent {
            self.add_last();
        } else if read_by_daemon && self.account.lacks_io() {
            let last = self.sampling.last(now_ms());
            self.account.complete_io(&last);
        }
        if let Some(ended) = ended {
            self.account.close(ended);
            let failure = self.followed.container_failure(ended.exit);
            if let Some(container) = self
                .handover
                .container
                .as_mut()
                .filter(|_| failure.is_some())
            {
                container.failure = failure;
            }
        }
        self.write_own_segment();
        let state = last_state(ended);
        self.look_at_activity(state, ended);
        self.write_record(state, ended);
        if let Err(why) = self
            .writer
            .flush(deadline.saturating_duration_since(Instant::now()))
        {
            self.keep_for_later(state, ended, &why);
        }
        // Where the supervisor was killed, the command may continue.
        if let Some(file) = self.handover.events.as_ref().filter(|_| ended.is_some()) {
            events::remove(file);
        }
    }

    /// Keeps the last record on the node: the next dlrun here that can writes it into the state directory.
    fn keep_for_later(&mut self, state: NodeState, ended: Option<&Ended>, why: &str) {
        let mut record = self.record_of_now(state, ended);
        record
            .missing
            .push(Missing::new("segments", format!("the last samples: {why}")));
        let record = self.link.fitted_record(&record);
        let context = &self.handover.context;
        // A command without a run has no place.
        let state_dir = context
            .run_id
            .as_ref()
            .and(context.state_dir.as_ref())
            .map(|dir| dir.to_string_lossy());
        let is_kept =
            state_dir.is_some_and(|dir| keep_late(&dir, self.link.placed.is_some(), &record));
        tracing::warn!(
            why,
            is_kept,
            "the last record did not reach the disk in time"
        );
    }

    fn add_last(&mut self) {
        let last = self.sampling.last(now_ms());
        self.add(last);
    }

    pub(super) fn write_own_segment(&mut self) {
        if !self.pending.is_empty()
            && self
                .writer
                .send(Job::Segments(encode_segments(&self.pending), None))
        {
            self.pending.clear();
        } else if self.pending.len() > 4 * SEGMENT_SAMPLES {
            self.pending.drain(..SEGMENT_SAMPLES);
        }
    }

    fn write_record(&mut self, state: NodeState, ended: Option<&Ended>) {
        let record = self.record_of_now(state, ended);
        self.writer.send(Job::Record(Box::new(record)));
    }

    /// The record with the conditions as of now.
    pub(super) fn record_of_now(&mut self, state: NodeState, ended: Option<&Ended>) -> NodeRecord {
        let mut record = self.record(state, ended);
        record.conditions = self.conditions.now(&record);
        record
    }

    pub(super) fn record(&self, state: NodeState, ended: Option<&Ended>) -> NodeRecord {
        let handover = &self.handover;
        let context = &handover.context;
        let run_id = context.run_id.clone();
        let key = context.key_of(run_id.unwrap_or_else(|| crate::job::RunId::from_random([0; 10])));
        let (job_id, host) = (context.job_id.clone(), self.host.clone());
        let output = handover.output.as_ref();
        let reported = reported(handover.events.as_deref());
        let mut record = NodeRecord {
            state,
            ended_at_ms: ended.map(|ended| ended.ended_at_ms),
            updated_at_ms: now_ms(),
            exit: ended.map(|ended| ended.exit),
            output: output.map(|output| output.path.to_string_lossy().into_owned()),
            conditions: Conditions {
                network: reported.network,
                ..self.conditions.conditions.clone()
            },
            progress: self.progress(state),
            last_words: ended
                .map(|ended| self.last_words(ended))
                .unwrap_or_default(),
            missing: self.missing(),
            watcher: WatcherCost {
                cpu_us: monitor::own_cpu_us(),
                samples: 0,
                late_ticks: self.sampling.late_ticks,
            },
            cgroup: self.sampling.cgroup().map(str::to_owned),
            container: handover.container.clone(),
            ranks: reported.ranks,
            time_stop: ended.and_then(|ended| ended.time_stop),
            trial: handover.context.trial.clone(),
            ..NodeRecord::begun(key, job_id, handover.started_at_ms, host)
        };
        self.account.fill(&mut record);
        record.progress.memory_forecast = self.memory.known(&record);
        record.events.extend(reported.lost);
        record
    }

    /// What the command wrote last, without the secrets that it was given.
    fn last_words(&self, ended: &Ended) -> Vec<String> {
        let plan = self.handover.context.plan.as_ref();
        let hidden = plan
            .map(|plan| hidden_values(&plan.command, &plan.env))
            .unwrap_or_default();
        let mut words = self.followed.last_words(ended.exit);
        if plan.is_some_and(|plan| plan.launcher == Launcher::Mpi) && !ended.exit.is_success() {
            add_first_rank(&mut words, &self.followed.tail());
        } else if !ended.exit.is_success() {
            add_root_cause(&mut words, &self.followed.tail());
        }
        words
            .iter()
            .map(|line| masked_line(line, &hidden))
            .collect()
    }

    /// What was recognised; after a takeover the epochs that the former watcher timed keep their times.
    pub(super) fn progress(&self, state: NodeState) -> Progress {
        let mut progress = self.followed.progress();
        for known in self.before.iter().flat_map(|before| &before.epochs) {
            let same = |epoch: &&mut crate::record::Epoch| {
                epoch.epoch == known.epoch && epoch.ended_at_ms.is_none()
            };
            if let Some(epoch) = progress.epochs.iter_mut().find(same) {
                epoch.clock_seconds = known.clock_seconds;
                epoch.ended_at_ms = known.ended_at_ms;
            }
        }
        let steps: Vec<u64> = self.account.clock_steps().collect();
        for epoch in progress.epochs.iter_mut().filter(|_| !steps.is_empty()) {
            epoch.clock_set = epoch.touches(&steps);
        }
        // Where epochs have no numbers, nobody knows how many earlier starts had.
        let is_counted = self.handover.context.attempt == 0
            || progress.epoch_numbering != Some(EpochNumbering::Unnumbered);
        let plan = self.handover.context.plan.as_ref();
        let planned = plan.and_then(|plan| plan.workload.epochs);
        progress.activity = self.activity.known();
        progress.held = self.holding.known(state == NodeState::Running);
        progress.time_limit_ms = self.limit.ends_at_ms();
        progress.expected_end = progress
            .expect_end(planned, now_ms())
            .filter(|_| state == NodeState::Running && is_counted);
        progress
    }

    /// A launcher that starts the command once has it watched on its own node alone.
    fn other_nodes(&self) -> Option<Missing> {
        let plan = self.handover.context.plan.as_ref()?;
        let nodes = plan.resources.nodes;
        let is_alone = nodes > 1 && !plan.launcher.runs_on_each_node();
        let why = format!(
            "the job has {nodes} nodes and only this one is watched; all figures are of it"
        );
        is_alone.then(|| Missing::new("ranks on other nodes", why))
    }

    fn missing(&self) -> Vec<Missing> {
        let mut missing = if self.sampling.is_on() {
            self.sampling.missing()
        } else {
            Vec::new()
        };
        missing.extend(self.other_nodes());
        let plan = self.handover.context.plan.as_ref();
        let gpus = plan.and_then(|plan| plan.resources.gpus_per_node.as_deref());
        missing.extend(gpus.filter(|gpus| is_share(gpus)).map(|share| {
            let why = format!(
                "the job has {share}: figures of the GPU are those of all jobs that share it"
            );
            Missing::new("gpu_share", why)
        }));
        missing.extend(self.followed.missing());
        if self.writer.refused > 0 {
            let why = format!(
                "{} writes were dropped: the state directory was too slow",
                self.writer.refused
            );
            missing.push(Missing::new("segments", why));
        }
        for other in self.account.missing() {
            if missing.iter().all(|missing| missing.what != other.what) {
                missing.push(other);
            }
        }
        missing
    }
}
