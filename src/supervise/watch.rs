//! The watcher: samples, follows the output and records, until the supervisor says how the command ended.

use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::follow::Followed;
use super::handover::{Ended, Handover};
use super::signals::ignore_all;
use super::writer::{Job, Resumed, Writer};
use crate::clock::now_ms;
use crate::job::TimingPattern;
use crate::monitor::{self, Sampler, TreeRoot};
use crate::record::{
    Gap, HostFacts, MeasureKey, Missing, NodeRecord, NodeState, Progress, Sample, Usage, WatcherCost,
    encode_segments,
};

/// The longest pause between two writings of the record, and between two segments.
const RECORD_PAUSE_MAX: Duration = Duration::from_secs(300);
const SEGMENT_PAUSE_MAX: Duration = Duration::from_secs(1800);
/// Samples of one segment at most; a segment may have 512 KiB.
const SEGMENT_SAMPLES: usize = 3600;
/// How long the last record may take to reach the disk.
const LAST_WRITE: Duration = Duration::from_secs(6);

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
    let ended = Watch::new(handover).run(&mut input);
    // The writer's thread may hang in a dead file system; leaving does not wait for it.
    ended.map(drop)
}

struct Watch {
    handover: Handover,
    sampler: Sampler,
    followed: Followed,
    writer: Writer,
    host: HostFacts,
    interval: Duration,
    usage: Usage,
    gaps: Vec<Gap>,
    pending: Vec<Sample>,
    before: Option<Progress>,
    samples: u64,
    late_ticks: u64,
    record_due: Due,
    segment_due: Due,
}

/// Something that is due again and again, after ever longer pauses up to a limit.
struct Due {
    at: Instant,
    pause: Duration,
    limit: Duration,
}

impl Due {
    fn new(pause: Duration, limit: Duration) -> Self {
        Self { at: Instant::now() + pause, pause, limit: limit.max(pause) }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        if now < self.at {
            return false;
        }
        self.pause = (self.pause * 2).min(self.limit);
        // Nodes of one job started together; they must not write together for ever.
        let jitter = self.pause.mul_f64(f64::from(std::process::id() % 97) / 970.0);
        self.at = now + self.pause - jitter;
        true
    }
}

impl Watch {
    fn new(handover: Handover) -> Self {
        let plan = handover.context.plan.as_ref();
        let pattern: Option<TimingPattern> = plan.and_then(|plan| plan.timing.clone());
        let interval = Duration::from_millis(plan.map_or(1000, |plan| plan.interval_ms));
        let record_pause = Duration::from_secs(plan.map_or(30, |plan| plan.record_seconds));
        let resumes = handover.resumes.then_some(handover.started_at_ms);
        let (writer, resumed) = Writer::start(handover.context.clone(), resumes, Duration::from_secs(5));
        let root = TreeRoot {
            pid: handover.pid,
            start_time_ticks: handover.start_time_ticks,
            process_group: handover.pid,
            supervisor: Some(handover.supervisor),
            exclude: vec![std::process::id()],
        };
        let mut watch = Self {
            sampler: Sampler::of_tree(root),
            followed: Followed::open(
                handover.output.as_ref(),
                pattern.as_ref(),
                handover.echo,
                handover.resumes,
            ),
            writer,
            host: monitor::host_facts(handover.context.omp_num_threads.clone()),
            interval,
            usage: Usage::default(),
            gaps: Vec::new(),
            pending: Vec::new(),
            before: None,
            samples: 0,
            late_ticks: 0,
            record_due: Due::new(record_pause, RECORD_PAUSE_MAX),
            segment_due: Due::new(record_pause, SEGMENT_PAUSE_MAX),
            handover,
        };
        if watch.handover.resumes {
            watch.take_over(resumed);
        }
        watch
    }

    /// Continues the record of a watcher that was killed, and notes the hole.
    fn take_over(&mut self, former: Option<Resumed>) {
        // What the former watcher had read and not yet written is lost with it.
        let from_ms = former.as_ref().and_then(|former| former.last_sample_ms);
        let from_ms = from_ms.unwrap_or(self.handover.started_at_ms);
        if let Some(Resumed { record, .. }) = former {
            self.usage = record.usage;
            self.gaps = record.gaps;
            self.samples = record.watcher.samples;
            self.late_ticks = record.watcher.late_ticks;
            self.before = Some(record.progress);
        }
        self.gaps.push(Gap {
            from_ms,
            to_ms: now_ms(),
            why: "the watcher was killed and started again".to_owned(),
        });
    }

    fn run(&mut self, input: &mut (impl BufRead + AsInput)) -> io::Result<Option<Ended>> {
        self.sample();
        self.write_record(NodeState::Running, None);
        let mut next_sample = Instant::now() + self.interval;
        loop {
            let (said, grown) = self.sleep_until(next_sample, input);
            let now = Instant::now();
            if grown || now >= next_sample {
                self.followed.read(now_ms());
            }
            if said {
                let mut line = String::new();
                input.read_line(&mut line)?;
                let ended: Option<Ended> = serde_json::from_str(&line).ok();
                self.finish(ended.as_ref());
                return Ok(ended);
            }
            if now >= next_sample {
                self.late_ticks += u64::from(now > next_sample + self.interval / 2);
                self.sample();
                next_sample = (next_sample + self.interval).max(now);
                if self.segment_due.is_due(now) || self.pending.len() >= SEGMENT_SAMPLES {
                    self.write_segment();
                }
                if self.record_due.is_due(now) {
                    self.write_record(NodeState::Running, None);
                }
            }
        }
    }

    /// Sleeps until the next sample, or earlier when the supervisor speaks or the output grows. Returns which it was.
    fn sleep_until(&self, deadline: Instant, input: &impl AsInput) -> (bool, bool) {
        let pause = |until: Instant| {
            PollTimeout::try_from(until.saturating_duration_since(Instant::now()) + Duration::from_millis(1))
                .unwrap_or(PollTimeout::MAX)
        };
        let stdin = io::stdin();
        let control = || PollFd::new(stdin.as_fd(), PollFlags::POLLIN);
        let readable = |fd: &PollFd<'_>| fd.any().unwrap_or(false);
        if input.has_more() {
            return (true, true);
        }
        // Not more often than the spacing, whatever the output does.
        let quiet = self.followed.not_before().min(deadline);
        let mut fds = [control()];
        if quiet > Instant::now() && poll(&mut fds, pause(quiet)).is_ok_and(|ready| ready > 0) {
            return (true, true);
        }
        match self.followed.changes() {
            Some(changes) => {
                let mut fds = [control(), PollFd::new(changes, PollFlags::POLLIN)];
                let _ = poll(&mut fds, pause(deadline));
                (readable(&fds[0]), readable(&fds[1]))
            }
            None => {
                let mut fds = [control()];
                let _ = poll(&mut fds, pause(deadline));
                (readable(&fds[0]), true)
            }
        }
    }

    fn sample(&mut self) {
        let sample = self.sampler.sample(now_ms());
        self.add(sample);
    }

    fn add(&mut self, sample: Sample) {
        self.samples += 1;
        self.usage.add_sample(&sample, self.handover.started_at_ms);
        self.pending.push(sample);
    }

    fn finish(&mut self, ended: Option<&Ended>) {
        let now = now_ms();
        self.followed.finish(now);
        let last = self.sampler.sample_all(now);
        self.add(last);
        if let Some(ended) = ended {
            self.usage.wall_seconds =
                Some(seconds(ended.ended_at_ms.saturating_sub(self.handover.started_at_ms) * 1000));
            // What the kernel summed up for the whole family counts what no sample saw.
            let larger =
                |sampled: Option<f64>, summed: u64| Some(sampled.unwrap_or(0.0).max(seconds(summed)));
            self.usage.cpu_user_seconds = larger(self.usage.cpu_user_seconds, ended.cpu_user_us);
            self.usage.cpu_system_seconds = larger(self.usage.cpu_system_seconds, ended.cpu_system_us);
        }
        self.write_segment();
        let state = if ended.is_some() { NodeState::Ended } else { NodeState::Interrupted };
        self.write_record(state, ended);
        if !self.writer.flush(LAST_WRITE) {
            tracing::warn!("the last record did not reach the disk in time");
        }
    }

    fn write_segment(&mut self) {
        if !self.pending.is_empty() && self.writer.send(Job::Segments(encode_segments(&self.pending))) {
            self.pending.clear();
        } else if self.pending.len() > 4 * SEGMENT_SAMPLES {
            self.pending.drain(..SEGMENT_SAMPLES);
        }
    }

    fn write_record(&mut self, state: NodeState, ended: Option<&Ended>) {
        let record = self.record(state, ended);
        self.writer.send(Job::Record(Box::new(record)));
    }

    fn record(&self, state: NodeState, ended: Option<&Ended>) -> NodeRecord {
        let Handover { context, started_at_ms, output, .. } = &self.handover;
        NodeRecord {
            format: NodeRecord::FORMAT,
            key: MeasureKey {
                run_id: context.run_id.clone().unwrap_or_else(|| crate::job::RunId::from_random([0; 10])),
                element: context.element,
                attempt: context.attempt,
                node: context.node.clone(),
                step: 0,
            },
            job_id: context.job_id.clone(),
            state,
            started_at_ms: *started_at_ms,
            ended_at_ms: ended.map(|ended| ended.ended_at_ms),
            updated_at_ms: now_ms(),
            exit: ended.map(|ended| ended.exit),
            output: output.as_ref().map(|output| output.path.to_string_lossy().into_owned()),
            host: self.host.clone(),
            usage: self.usage,
            progress: self.progress(),
            segments: 0,
            gaps: self.gaps.clone(),
            missing: self.missing(),
            watcher: WatcherCost {
                cpu_us: monitor::own_cpu_us(),
                samples: self.samples,
                late_ticks: self.late_ticks,
            },
            cgroup: None,
            gpus: Vec::new(),
            events: Vec::new(),
        }
    }

    /// What was recognised; after a takeover the epochs that the former watcher timed keep their times.
    fn progress(&self) -> Progress {
        let mut progress = self.followed.progress().clone();
        for known in self.before.iter().flat_map(|before| &before.epochs) {
            let same =
                |epoch: &&mut crate::record::Epoch| epoch.epoch == known.epoch && epoch.ended_at_ms.is_none();
            if let Some(epoch) = progress.epochs.iter_mut().find(same) {
                epoch.clock_seconds = known.clock_seconds;
                epoch.ended_at_ms = known.ended_at_ms;
            }
        }
        progress
    }

    fn missing(&self) -> Vec<Missing> {
        let mut missing = self.sampler.missing();
        let what = "mem_rss_bytes";
        if self.usage.mem_peak_bytes.is_none() && missing.iter().all(|missing| missing.what != what) {
            let why = "the command ended before its processes could be read".to_owned();
            missing.push(Missing { what: what.to_owned(), why });
        }
        missing.extend(self.followed.missing().iter().cloned());
        if self.writer.refused() > 0 {
            let why =
                format!("{} writes were dropped: the state directory was too slow", self.writer.refused());
            missing.push(Missing { what: "segments".to_owned(), why });
        }
        missing
    }
}

/// Standard input as the watcher reads it: a line may lie in the buffer already.
trait AsInput {
    fn has_more(&self) -> bool;
}

impl AsInput for BufReader<io::StdinLock<'_>> {
    fn has_more(&self) -> bool {
        !self.buffer().is_empty()
    }
}

#[expect(clippy::cast_precision_loss, reason = "times stay far below 2^53 microseconds")]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
