//! One run as it is looked at again and again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::meter::Meter;
use crate::observe::protocol::RunView;
use crate::record::{
    COLUMNS, GpuFacts, GpuReading, MeasureKey, PROCESS_COLUMNS, ProcessReading, Sample,
};

/// How far back the curves go, in milliseconds.
pub(super) const CURVE_MS: u64 = 300_000;
/// Points kept for the curves: five minutes at ten a second.
const POINTS_KEPT: usize = 3000;

/// A point of the curves.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Point {
    /// When, in Unix milliseconds UTC.
    pub(super) at_ms: u64,
    /// CPUs busy.
    pub(super) cpus: Option<f64>,
    /// Memory in use, in bytes.
    pub(super) memory: Option<u64>,
    /// Mean utilisation of the GPUs, in percent.
    pub(super) gpus: Option<f64>,
}

/// A GPU of the run.
#[derive(Debug, Clone)]
pub(super) struct Gpu {
    /// What it is; no more than the UUID where the daemon did not say.
    pub(super) facts: GpuFacts,
    /// What it last said; `None`: it gives no answer.
    pub(super) reading: Option<GpuReading>,
}

/// A process of the run.
#[derive(Debug, Clone)]
pub(super) struct Process {
    /// What was last read.
    pub(super) reading: ProcessReading,
    /// By how much its counters grow in a second.
    pub(super) rates: ProcessReading,
}

/// A run.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    /// What the daemon last said.
    pub(super) view: RunView,
    /// The user's login name.
    pub(super) user: String,
    /// When the last sample was taken.
    sampled_at_ms: Option<u64>,
    sample: Meter<{ COLUMNS.len() }>,
    /// When the processes were last read.
    processes_at_ms: Option<u64>,
    processes: BTreeMap<(u32, u64), (Arc<str>, Meter<{ PROCESS_COLUMNS.len() }>)>,
    /// The curves, oldest first.
    pub(super) points: VecDeque<Point>,
}

impl Watched {
    pub(super) fn new(view: RunView, user: String) -> Self {
        let mut watched = Self {
            view,
            user,
            sampled_at_ms: None,
            sample: Meter::default(),
            processes_at_ms: None,
            processes: BTreeMap::new(),
            points: VecDeque::new(),
        };
        watched.measure();
        watched
    }

    /// Takes in what the daemon says now.
    pub(super) fn take(&mut self, view: RunView) {
        self.view = view;
        self.measure();
    }

    fn measure(&mut self) {
        let Some(sample) = self.view.sample.take() else {
            return;
        };
        if self.sampled_at_ms.replace(sample.at_ms) != Some(sample.at_ms) {
            self.sample.take(&COLUMNS, sample.at_ms, sample.values());
            let point = Point {
                at_ms: sample.at_ms,
                cpus: cpus(&self.sample_rates(sample.at_ms)),
                memory: self.sample_now(sample.at_ms).mem_used_bytes(),
                gpus: mean(sample.gpus.iter().filter_map(GpuReading::busy_percent)),
            };
            if self.points.len() == POINTS_KEPT {
                self.points.pop_front();
            }
            self.points.push_back(point);
        }
        self.take_processes(&sample);
        self.view.sample = Some(sample);
    }

    /// Processes are read less often than the rest and told again meanwhile; those that are not there any more when they
    /// are read have ended.
    fn take_processes(&mut self, sample: &Sample) {
        let at_ms = self.view.processes_at_ms.unwrap_or(sample.at_ms);
        if sample.commands.is_empty() || self.processes_at_ms.replace(at_ms) == Some(at_ms) {
            return;
        }
        let mut former = std::mem::take(&mut self.processes);
        for process in &sample.commands {
            let key = (process.pid, process.start_time_ticks);
            let mut meter = former
                .remove(&key)
                .map(|(_, meter)| meter)
                .unwrap_or_default();
            meter.take(&PROCESS_COLUMNS, at_ms, process.values());
            self.processes
                .insert(key, (Arc::clone(&process.name), meter));
        }
    }

    pub(super) fn key(&self) -> &MeasureKey {
        &self.view.key
    }

    fn sample_now(&self, at_ms: u64) -> Sample {
        Sample::from_values(at_ms, self.sample.values())
    }

    fn sample_rates(&self, at_ms: u64) -> Sample {
        Sample::from_values(at_ms, self.sample.rates())
    }

    /// The last known values of the run as a whole.
    pub(super) fn now(&self) -> Sample {
        self.sample_now(self.sampled_at_ms.unwrap_or(0))
    }

    /// By how much its counters grow in a second, each in its own unit.
    pub(super) fn rates(&self) -> Sample {
        self.sample_rates(self.sampled_at_ms.unwrap_or(0))
    }

    /// When the last sample was taken.
    pub(super) fn sampled_at_ms(&self) -> Option<u64> {
        self.sampled_at_ms
    }

    /// CPUs that it keeps busy.
    pub(super) fn cpus(&self) -> Option<f64> {
        cpus(&self.rates())
    }

    /// Its GPUs: those that were named, and those that it was seen on.
    pub(super) fn gpus(&self) -> Vec<Gpu> {
        let readings = self
            .view
            .sample
            .as_ref()
            .map(|sample| &sample.gpus[..])
            .unwrap_or_default();
        let reading = |uuid: &str| readings.iter().find(|reading| *reading.uuid == *uuid);
        let named = self.view.gpus.iter().map(|usage| Gpu {
            facts: usage.gpu.clone(),
            reading: reading(&usage.gpu.uuid).cloned(),
        });
        let is_new = |reading: &&GpuReading| {
            self.view
                .gpus
                .iter()
                .all(|gpu| gpu.gpu.uuid != *reading.uuid)
        };
        let seen = readings.iter().filter(is_new).map(|reading| Gpu {
            facts: GpuFacts {
                uuid: reading.uuid.to_string(),
                ..GpuFacts::default()
            },
            reading: Some(reading.clone()),
        });
        named.chain(seen).collect()
    }

    /// Mean utilisation of its GPUs, in percent.
    pub(super) fn gpu_percent(&self) -> Option<f64> {
        mean(
            self.gpus()
                .iter()
                .filter_map(|gpu| gpu.reading.as_ref()?.busy_percent()),
        )
    }

    /// Its processes, the busiest first.
    pub(super) fn processes(&self) -> Vec<Process> {
        let reading = |(pid, start_time_ticks), name: &Arc<str>, values| {
            let mut reading = ProcessReading {
                pid,
                start_time_ticks,
                name: Arc::clone(name),
                ..ProcessReading::default()
            };
            reading.set_values(values);
            reading
        };
        let mut processes: Vec<Process> = self
            .processes
            .iter()
            .map(|(key, (name, meter))| Process {
                reading: reading(*key, name, meter.values()),
                rates: reading(*key, name, meter.rates()),
            })
            .collect();
        processes.sort_by_key(|process| {
            std::cmp::Reverse((process.rates.cpu_us, process.reading.cpu_us))
        });
        processes
    }
}

/// True where no process of the run is on the GPU; `None` where the driver does not tell.
pub(super) fn is_idle(reading: &GpuReading) -> Option<bool> {
    reading.run_processes.map(|processes| processes == 0)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "microseconds of a second, times the CPUs of a node"
)]
fn cpus(rates: &Sample) -> Option<f64> {
    Some((rates.cpu_user_us? + rates.cpu_system_us?) as f64 / 1e6)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top::sample_board::{gpu, view};

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
    fn a_sample_that_is_seen_twice_is_one_point() {
        let mut run = Watched::new(at(1000, 0), "ann".into());
        assert_eq!((run.cpus(), run.points.len()), (None, 1));
        run.take(at(1000, 0));
        assert_eq!(run.points.len(), 1);
        run.take(at(3000, 3_000_000));
        run.take(at(3000, 3_000_000));
        assert_eq!((run.cpus(), run.points.len()), (Some(1.5), 2));
        assert_eq!(
            (run.points[1].memory, run.points[1].gpus),
            (Some(7), Some(40.0))
        );
    }

    #[test]
    fn a_gpu_that_gives_no_answer_is_still_one_of_the_run() {
        let mut lost = at(1000, 0);
        lost.gpus = vec![crate::record::GpuUsage::of(GpuFacts {
            uuid: "GPU-x".into(),
            ..GpuFacts::default()
        })];
        let run = Watched::new(lost, "ann".into());
        let seen: Vec<(String, bool)> = run
            .gpus()
            .into_iter()
            .map(|gpu| (gpu.facts.uuid, gpu.reading.is_some()))
            .collect();
        let expected = [("GPU-x", false), ("GPU-a", true), ("GPU-b", true)];
        assert_eq!(seen, expected.map(|(uuid, read)| (uuid.to_owned(), read)));
        assert_eq!(run.gpu_percent(), Some(40.0));
    }

    #[test]
    fn processes_stay_until_they_are_read_again_and_a_pid_used_again_is_another() {
        let with = |ms, processes: &[(u32, u64, u64)]| {
            let mut view = at(ms, 0);
            let process = |&(pid, start_time_ticks, cpu_us): &_| ProcessReading {
                pid,
                start_time_ticks,
                cpu_us: Some(cpu_us),
                ..ProcessReading::default()
            };
            view.sample.as_mut().expect("it has one").commands =
                processes.iter().map(process).collect();
            view
        };
        let seen = |run: &Watched| -> Vec<(u32, Option<u64>)> {
            run.processes()
                .iter()
                .map(|process| (process.reading.pid, process.rates.cpu_us))
                .collect()
        };
        let mut run = Watched::new(with(1000, &[(5, 1, 100), (6, 1, 900)]), "ann".into());
        run.take(with(2000, &[]));
        assert_eq!(seen(&run), [(6, None), (5, None)]);
        let again = RunView {
            processes_at_ms: Some(1000),
            ..with(2500, &[(5, 1, 100), (6, 1, 900)])
        };
        run.take(again);
        assert_eq!(seen(&run), [(6, None), (5, None)]);
        run.take(with(3000, &[(5, 1, 500), (6, 2, 1000)]));
        assert_eq!(seen(&run), [(5, Some(200)), (6, None)]);
    }
}
