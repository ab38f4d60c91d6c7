//! The watcher's own readings: all of them where there is no node daemon, else those of the time without it.

use std::time::{Duration, Instant};

use super::gpus::Gpus;
use super::handover::Handover;
use crate::foundation::clock::now_ms;
use crate::observe::monitor::{JobSigns, PROCESS_INTERVAL, Sampler, TreeRoot, cgroup};
use crate::record::{Missing, Sample};

/// The sampler and its rhythm. The sampler is kept while it rests, so that its counters continue.
pub(super) struct Sampling {
    sampler: Sampler,
    pub(super) gpus: Gpus,
    interval: Duration,
    /// When the next reading is due; `None` while it rests.
    pub(super) next: Option<Instant>,
    /// Ticks that came more than half an interval late.
    pub(super) late_ticks: u64,
}

impl Sampling {
    pub(super) fn new(handover: &Handover, interval: Duration) -> Self {
        let root = TreeRoot {
            command: handover.command,
            supervisor: Some(handover.supervisor),
            exclude: vec![std::process::id()],
        };
        let plan = handover.context.plan.as_ref();
        let process_interval = plan.map_or(PROCESS_INTERVAL, |plan| {
            Duration::from_millis(plan.process_interval_ms)
        });
        let is_local = plan.is_some_and(|plan| plan.scheduler.is_local());
        let cgroup = cgroup::locate_run(std::process::id(), is_local);
        let sampler = Sampler::of_job(root, cgroup.as_ref(), process_interval);
        Self {
            sampler: sampler.with_signs(signs(handover)),
            gpus: Gpus::new(handover, interval),
            interval,
            next: None,
            late_ticks: 0,
        }
    }

    /// Reads now, and continues from here.
    pub(super) fn start(&mut self) -> Sample {
        self.gpus.start();
        let sample = self.read(now_ms(), false);
        self.next = Some(Instant::now() + self.interval);
        sample
    }

    fn read(&mut self, now_ms: u64, all: bool) -> Sample {
        let mut sample = self.sampler.sample(now_ms, all);
        self.gpus.fill(&mut sample, |pid| self.sampler.owns(pid));
        sample
    }

    /// Rests: somebody else reads.
    pub(super) fn stop(&mut self) {
        self.next = None;
        self.gpus.stop();
    }

    pub(super) fn is_on(&self) -> bool {
        self.next.is_some()
    }

    /// Reads if it is time.
    pub(super) fn tick(&mut self, now: Instant) -> Option<Sample> {
        let due = self.next.filter(|due| now >= *due)?;
        self.late_ticks += u64::from(now > due + self.interval / 2);
        let sample = self.read(now_ms(), false);
        self.next = Some((due + self.interval).max(now));
        Some(sample)
    }

    /// The last reading, with all columns.
    pub(super) fn last(&mut self, now_ms: u64) -> Sample {
        self.read(now_ms, true)
    }

    /// The most memory that one process held; `None` with a cgroup.
    pub(super) fn process_peak_bytes(&self) -> Option<u64> {
        self.sampler.process_peak_bytes()
    }

    /// The cgroup that is read.
    pub(super) fn cgroup(&self) -> Option<&str> {
        self.sampler.cgroup()
    }

    pub(super) fn missing(&self) -> Vec<Missing> {
        let mut missing = self.sampler.missing();
        missing.extend(self.gpus.missing());
        missing
    }
}

/// How processes of the job are recognised. Not for a local job: the id in its environment is that of a job around it.
fn signs(handover: &Handover) -> Option<JobSigns> {
    let plan = handover.context.plan.as_ref();
    let is_local = plan.is_some_and(|plan| plan.scheduler.is_local());
    JobSigns::of_process(std::process::id()).filter(|_| !is_local)
}
