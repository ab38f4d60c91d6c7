//! One run as it is looked at again and again.

use super::rates::Rates;
use crate::observe::activity::{Facts, Signals, analyse};
use crate::observe::protocol::RunView;
use crate::record::{Activity, GpuFacts, GpuReading, HostFacts, NodeRecord, Phase, Sample};

/// Between two looks at the phase, in milliseconds.
const ANALYSIS_PAUSE_MS: u64 = 10_000;

/// A GPU of the run.
#[derive(Debug, Clone)]
pub(super) struct Gpu {
    /// What it is; no more than the UUID where the daemon did not say.
    pub(super) facts: GpuFacts,
    /// Its last reading; `None`: it gives no answer.
    pub(super) reading: Option<GpuReading>,
}

impl Gpu {
    /// True where no process of the run is on it; `None` where the driver does not say.
    pub(super) fn is_idle(&self) -> Option<bool> {
        Some(self.reading.as_ref()?.run_processes? == 0)
    }
}

/// A run.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    /// The daemon's last answer.
    pub(super) view: RunView,
    /// The user's login name.
    pub(super) user: String,
    /// When the last sample was taken.
    pub(super) sampled_at_ms: Option<u64>,
    known: Rates,
    /// The last known values of the run as a whole.
    pub(super) now: Sample,
    /// By how much its counters grow in a second, each in its own unit.
    pub(super) rates: Sample,
    /// CPUs that it keeps busy.
    pub(super) cpus: Option<f64>,
    /// Its GPUs: those that were named, and those that it was seen on.
    pub(super) gpus: Vec<Gpu>,
    /// What was seen of it since it is looked at, and what that came to.
    signals: Signals,
    live: Option<Activity>,
    analysed_at_ms: u64,
}

impl Watched {
    /// The run with what the daemon answers now; `former`: as it was before.
    pub(super) fn newer(former: Option<Self>, view: RunView, user: String) -> Self {
        let (sample, gpus) = (view.sample.clone(), gpus_of(&view));
        let mut run = match former {
            Some(former) => Self {
                view,
                gpus,
                ..former
            },
            None => Self {
                view,
                user,
                gpus,
                sampled_at_ms: None,
                known: Rates::default(),
                now: Sample::default(),
                rates: Sample::default(),
                cpus: None,
                signals: Signals::default(),
                live: None,
                analysed_at_ms: 0,
            },
        };
        if let Some(sample) = sample
            && run.sampled_at_ms.replace(sample.at_ms) != Some(sample.at_ms)
        {
            run.signals.take(&sample);
            if sample.at_ms >= run.analysed_at_ms.saturating_add(ANALYSIS_PAUSE_MS) {
                run.analyse(sample.at_ms);
            }
            run.known.take(sample.at_ms, sample.values());
            run.now = run.known.values(sample.at_ms);
            run.rates = run.known.rates(sample.at_ms);
            let busy_us = run.rates.cpu_user_us.zip(run.rates.cpu_system_us);
            #[expect(clippy::cast_precision_loss, reason = "for people to look at")]
            let busy = busy_us.map(|(user, system)| (user + system) as f64 / 1e6);
            run.cpus = busy;
        }
        run
    }

    /// Looks at what was seen here, and puts the phase of now into what the watcher reports, which may be some minutes old. The
    /// watcher knows all of the log.
    fn analyse(&mut self, at_ms: u64) {
        let host = HostFacts::default();
        let record = NodeRecord {
            progress: self.view.progress.clone(),
            gpus: self.view.gpus.clone(),
            updated_at_ms: at_ms,
            ..NodeRecord::begun(self.view.key.clone(), None, self.view.started_at_ms, host)
        };
        let found = analyse(&self.signals, &Facts::of(&record));
        self.live = found.map(|found| found.activity);
        self.analysed_at_ms = at_ms;
    }

    /// Rhythm and phases, as the watcher reports them and as they were seen since.
    pub(super) fn activity(&self) -> Option<Activity> {
        let live = self.live.as_ref();
        let reported = self.view.progress.activity.as_ref();
        let Some(mut activity) = reported.cloned() else {
            return live.cloned();
        };
        if let Some(live) = live.filter(|live| live.phase != Some(Phase::Unknown)) {
            (activity.phase, activity.phase_since_ms) = (live.phase, live.phase_since_ms);
        }
        Some(activity)
    }

    /// The phase of now; `None` where it is unknown.
    pub(super) fn phase(&self) -> Option<Phase> {
        let phase = self.activity()?.phase;
        phase.filter(|phase| *phase != Phase::Unknown)
    }

    /// Mean utilisation of its GPUs, in percent.
    pub(super) fn gpu_percent(&self) -> Option<f64> {
        let readings = self.gpus.iter().filter_map(|gpu| gpu.reading.as_ref());
        let busy: Vec<f64> = readings.filter_map(GpuReading::busy_percent).collect();
        (!busy.is_empty()).then(|| busy.iter().sum::<f64>() / busy.len() as f64)
    }

    /// What is to be said of it, as its watcher last saw it.
    pub(super) fn remarks(&self, at_ms: u64) -> impl Iterator<Item = String> {
        let remarks = self.view.progress.remarks(&self.view.gpus, at_ms, at_ms);
        remarks.into_iter().map(|(_, text)| text)
    }

    /// GPUs on which no process of the run is.
    pub(super) fn idle_gpus(&self) -> usize {
        let idle = self.gpus.iter().filter(|gpu| gpu.is_idle() == Some(true));
        idle.count()
    }
}

fn gpus_of(view: &RunView) -> Vec<Gpu> {
    let readings = view.sample.iter().flat_map(|sample| &sample.gpus);
    let mut gpus: Vec<Gpu> = view
        .gpus
        .iter()
        .map(|usage| Gpu {
            facts: usage.gpu.clone(),
            reading: None,
        })
        .collect();
    for reading in readings {
        let known = gpus.iter_mut().find(|gpu| gpu.facts.uuid == *reading.uuid);
        match known {
            Some(gpu) => gpu.reading = Some(reading.clone()),
            None => gpus.push(Gpu {
                facts: GpuFacts {
                    uuid: reading.uuid.to_string(),
                    ..GpuFacts::default()
                },
                reading: Some(reading.clone()),
            }),
        }
    }
    gpus
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top::tests_board::{gpu, view};
    use crate::record::COLUMNS;

    fn at(ms: u64, cpu_us: u64) -> RunView {
        let sample = Sample {
            cpu_user_us: Some(cpu_us),
            cpu_system_us: Some(0),
            mem_rss_bytes: Some(7),
            gpus: vec![gpu("GPU-a", 80, 1), gpu("GPU-b", 0, 0)],
            ..Sample::from_values(ms, [None; COLUMNS.len()])
        };
        view("a", sample)
    }

    #[test]
    fn sample_seen_twice_changes_no_rate() {
        let mut run = Watched::newer(None, at(1000, 0), "ann".into());
        assert_eq!(run.cpus, None);
        run = Watched::newer(Some(run), at(1000, 0), String::new());
        assert_eq!(run.cpus, None);
        run = Watched::newer(Some(run), at(3000, 3_000_000), String::new());
        run = Watched::newer(Some(run), at(3000, 3_000_000), String::new());
        assert_eq!((run.cpus, run.gpu_percent()), (Some(1.5), Some(40.0)));
    }

    #[test]
    fn a_gpu_that_gives_no_answer_is_still_one_of_the_run() {
        let mut lost = at(1000, 0);
        lost.gpus = vec![crate::record::GpuUsage::of(GpuFacts {
            uuid: "GPU-x".into(),
            ..GpuFacts::default()
        })];
        let run = Watched::newer(None, lost, "ann".into());
        let seen: Vec<(String, bool)> = run
            .gpus
            .iter()
            .map(|gpu| (gpu.facts.uuid.clone(), gpu.reading.is_some()))
            .collect();
        let expected = [("GPU-x", false), ("GPU-a", true), ("GPU-b", true)];
        assert_eq!(seen, expected.map(|(uuid, read)| (uuid.to_owned(), read)));
        assert_eq!(run.gpu_percent(), Some(40.0));
    }
}
