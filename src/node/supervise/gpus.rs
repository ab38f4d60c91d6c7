//! The GPUs of the run, while the watcher reads by itself.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::handover::Handover;
use crate::observe::monitor::{GpuReport, GpuWatch, WatchPace, allocated_gpus, gpu_driver_present};
use crate::record::{Event, GpuFacts, Missing, Sample};

/// How long the driver may take to list the GPUs before the daemon is sent none. Without persistence mode it
/// is loaded again, which takes seconds.
const DRIVER_PATIENCE: Duration = Duration::from_secs(10);

/// Reads GPUs where there is a driver.
pub(super) struct Gpus {
    wanted: bool,
    library: Option<PathBuf>,
    pace: WatchPace,
    begun: Instant,
    watch: Option<GpuWatch>,
    /// UUIDs of the GPUs that the job was given.
    pub(super) allocated: Vec<String>,
    /// What the GPUs are; none until the driver has listed them.
    pub(super) facts: Vec<GpuFacts>,
    report: GpuReport,
}

impl Gpus {
    pub(super) fn new(handover: &Handover, interval: Duration) -> Self {
        let plan = handover.context.plan.as_ref();
        let library = plan.and_then(|plan| plan.nvml_library.as_ref());
        Self {
            wanted: library.is_some() || gpu_driver_present(Path::new("/")),
            library: library.map(PathBuf::from),
            pace: WatchPace {
                interval,
                ..WatchPace::default()
            },
            begun: Instant::now(),
            watch: None,
            allocated: Vec::new(),
            facts: Vec::new(),
            report: GpuReport::default(),
        }
    }

    /// Begins to read. Waits for nothing: the driver is asked in a thread.
    pub(super) fn start(&mut self) {
        if self.wanted && self.watch.is_none() {
            self.watch = Some(GpuWatch::nvidia(self.library.clone(), self.pace));
        }
    }

    /// Lets go of the driver.
    pub(super) fn stop(&mut self) {
        self.watch = None;
    }

    /// False while the driver has yet to say which GPUs there are.
    pub(super) fn are_known(&self) -> bool {
        !self.wanted || !self.facts.is_empty() || self.begun.elapsed() > DRIVER_PATIENCE
    }

    /// Puts the last readings into a sample. `is_ours` tells the run's processes.
    pub(super) fn fill(&mut self, sample: &mut Sample, is_ours: impl Fn(u32) -> bool) {
        let Some(report) = self.watch.as_ref().map(GpuWatch::latest) else {
            return;
        };
        self.learn(&report);
        sample.gpus = report.readings_of_run(&self.allocated, is_ours);
        self.report = report;
    }

    fn learn(&mut self, report: &GpuReport) {
        if !self.facts.is_empty() || report.gpus.is_empty() {
            return;
        }
        let facts: Vec<_> = report.gpus.iter().map(|gpu| gpu.facts.clone()).collect();
        let given = allocated_gpus(|name| std::env::var(name).ok(), &facts);
        self.allocated = given.unwrap_or_default();
        self.facts = facts.iter().map(|facts| (**facts).clone()).collect();
    }

    /// What happened to the run's GPUs, or to all.
    pub(super) fn take_events(&self) -> Vec<Event> {
        let Some(watch) = &self.watch else {
            return Vec::new();
        };
        let is_ours =
            |uuid: &str| self.allocated.is_empty() || self.allocated.iter().any(|own| own == uuid);
        let events = watch.take_events().into_iter();
        events
            .filter(|(uuid, _)| uuid.as_deref().is_none_or(is_ours))
            .map(|(_, event)| event)
            .collect()
    }

    /// Why there are no readings, of all GPUs or of some, where there should be some.
    pub(super) fn missing(&self) -> Option<Missing> {
        let refused = Some(self.report.refused.join("; ")).filter(|words| !words.is_empty());
        let why = self.report.missing.clone().or(refused);
        let why = why.filter(|_| self.watch.is_some())?;
        Some(Missing::new("gpus", why))
    }
}
