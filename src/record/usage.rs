//! Figures derived from samples and epochs.

use serde::{Deserialize, Serialize};

use super::{Progress, Sample};

/// What a run used on one node, derived from its samples. Merged over nodes by [`Usage::add_node`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, Default)]
pub struct Usage {
    /// Wall time from start to end (or to the last sample), in seconds.
    pub wall_seconds: Option<f64>,
    /// CPU time in user mode, in seconds.
    pub cpu_user_seconds: Option<f64>,
    /// CPU time in the kernel, in seconds.
    pub cpu_system_seconds: Option<f64>,
    /// Largest resident memory in any sample, in bytes.
    pub mem_peak_bytes: Option<u64>,
    /// Bytes read from storage.
    pub io_read_bytes: Option<u64>,
    /// Bytes written to storage.
    pub io_write_bytes: Option<u64>,
    /// Most processes at once.
    pub processes_peak: Option<u64>,
    /// Time that a CPU quota kept the run from running, in seconds.
    #[serde(default)]
    pub cpu_throttled_seconds: Option<f64>,
    /// Processes that the kernel killed because of memory.
    #[serde(default)]
    pub mem_oom_kills: Option<u64>,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "CPU times stay far below 2^53 microseconds"
)]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

fn joined<T>(a: Option<T>, b: Option<T>, join: impl Fn(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(join(a, b)),
        (a, b) => a.or(b),
    }
}

fn larger(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    joined(a, b, f64::max)
}

impl Usage {
    /// Takes a further sample in. Counters and gauges keep their largest value. A sample without any process is no
    /// measurement of memory or I/O: a command that ended before it was first read has none, not 0.
    pub fn add_sample(&mut self, sample: &Sample, started_at_ms: u64) {
        let had_processes = self.processes_peak.is_some() || sample.processes != Some(0);
        let newer = |old: Option<u64>, new: Option<u64>| old.max(new.filter(|_| had_processes));
        self.wall_seconds = Some(seconds(
            sample
                .at_ms
                .saturating_sub(started_at_ms)
                .saturating_mul(1000),
        ));
        // Another source (the daemon's cgroup, the watcher's processes) may have counted a little less.
        let time = |old: Option<f64>, new: Option<u64>| larger(old, new.map(seconds));
        self.cpu_user_seconds = time(self.cpu_user_seconds, sample.cpu_user_us);
        self.cpu_system_seconds = time(self.cpu_system_seconds, sample.cpu_system_us);
        self.cpu_throttled_seconds = time(self.cpu_throttled_seconds, sample.cpu_throttled_us);
        self.mem_oom_kills = self.mem_oom_kills.max(sample.mem_oom_kills);
        self.mem_peak_bytes = newer(self.mem_peak_bytes, sample.mem_used_bytes());
        self.io_read_bytes = newer(self.io_read_bytes, sample.io_read_bytes);
        self.io_write_bytes = newer(self.io_write_bytes, sample.io_write_bytes);
        self.processes_peak = newer(self.processes_peak, sample.processes);
    }

    /// Takes in the most memory that one process held, also between two samples.
    pub fn note_process_peak(&mut self, bytes: Option<u64>) {
        self.mem_peak_bytes = self.mem_peak_bytes.max(bytes);
    }

    /// Takes in what somebody else measured of the same run on the same node: each figure is the larger one.
    pub fn add_view(&mut self, other: &Self) {
        self.join(other, f64::max, u64::max);
    }

    fn join(&mut self, other: &Self, seconds: fn(f64, f64) -> f64, count: fn(u64, u64) -> u64) {
        let time = |own, other| joined(own, other, seconds);
        let number = |own, other| joined(own, other, count);
        self.wall_seconds = larger(self.wall_seconds, other.wall_seconds);
        self.cpu_user_seconds = time(self.cpu_user_seconds, other.cpu_user_seconds);
        self.cpu_system_seconds = time(self.cpu_system_seconds, other.cpu_system_seconds);
        self.cpu_throttled_seconds = time(self.cpu_throttled_seconds, other.cpu_throttled_seconds);
        self.mem_peak_bytes = self.mem_peak_bytes.max(other.mem_peak_bytes);
        self.mem_oom_kills = number(self.mem_oom_kills, other.mem_oom_kills);
        self.io_read_bytes = number(self.io_read_bytes, other.io_read_bytes);
        self.io_write_bytes = number(self.io_write_bytes, other.io_write_bytes);
        self.processes_peak = number(self.processes_peak, other.processes_peak);
    }

    /// Takes the end of the command in: its wall time, and the CPU time that the kernel summed up for it and all its children,
    /// which counts what no sample saw.
    pub fn add_family(&mut self, wall_ms: u64, cpu_user_us: u64, cpu_system_us: u64) {
        self.wall_seconds = Some(seconds(wall_ms.saturating_mul(1000)));
        self.cpu_user_seconds = larger(self.cpu_user_seconds, Some(seconds(cpu_user_us)));
        self.cpu_system_seconds = larger(self.cpu_system_seconds, Some(seconds(cpu_system_us)));
    }

    /// Adds the usage of another node of the same run: times and bytes add up, wall time and memory per node are the
    /// largest of any node.
    pub fn add_node(&mut self, other: &Self) {
        self.join(other, |own, other| own + other, u64::saturating_add);
    }

    /// CPU time in user mode and the kernel, in seconds.
    #[must_use]
    pub fn cpu_seconds(&self) -> Option<f64> {
        Some(self.cpu_user_seconds? + self.cpu_system_seconds?)
    }

    /// CPUs kept busy on average: CPU time over wall time.
    #[must_use]
    pub fn cpus_busy(&self) -> Option<f64> {
        let wall = self.wall_seconds.filter(|wall| *wall > 0.0)?;
        Some(self.cpu_seconds()? / wall)
    }
}

/// Epoch times in few figures. The first epoch is separate: tracing, compilation and cold caches lie in it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EpochSummary {
    /// Epochs with a known duration.
    pub epochs: usize,
    /// The first epoch, in seconds.
    pub first_seconds: f64,
    /// Median of the later ones (of the first where there is no other), in seconds.
    pub steady_seconds: f64,
    /// First less median of the later ones, in seconds; `None` with one epoch.
    pub first_overhead_seconds: Option<f64>,
    /// Samples per second of the steady epoch, where the samples of an epoch are known.
    pub samples_per_second: Option<f64>,
}

/// Summarises the epochs of `progress`; `samples` is the number of training samples of an epoch. `None` without any
/// epoch of known duration.
#[must_use]
pub fn summarise_epochs(progress: &Progress, samples: Option<u64>) -> Option<EpochSummary> {
    let known: Vec<f64> = progress
        .trainings_unlike()
        .1
        .iter()
        .filter_map(super::Epoch::seconds)
        .collect();
    let (first, later) = known.split_first()?;
    let steady = super::median(later.to_vec()).unwrap_or(*first);
    #[expect(
        clippy::cast_precision_loss,
        reason = "sample counts stay far below 2^53"
    )]
    let samples_per_second = samples
        .filter(|_| steady > 0.0)
        .map(|samples| samples as f64 / steady);
    Some(EpochSummary {
        epochs: known.len(),
        first_seconds: *first,
        steady_seconds: steady,
        first_overhead_seconds: (!later.is_empty()).then_some(first - steady),
        samples_per_second,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Epoch;

    fn progress(seconds: &[f64]) -> Progress {
        let mut progress = Progress::default();
        for (number, seconds) in seconds.iter().enumerate() {
            let printed_seconds = Some(*seconds);
            progress.push_epoch(Epoch {
                epoch: number as u64,
                printed_seconds,
                ..Epoch::default()
            });
        }
        progress
    }

    #[test]
    fn samples_of_no_process_measure_neither_memory_nor_io() {
        let zero = Some(0);
        let empty = Sample {
            mem_rss_bytes: zero,
            io_read_bytes: zero,
            io_write_bytes: zero,
            processes: zero,
            cpu_user_us: Some(2_000),
            ..Sample::default()
        };
        let mut usage = Usage::default();
        usage.add_sample(&empty, 0);
        let expected = Usage {
            wall_seconds: Some(0.0),
            cpu_user_seconds: Some(0.002),
            ..Usage::default()
        };
        assert_eq!(usage, expected);
        usage.add_sample(
            &Sample {
                mem_rss_bytes: Some(7),
                processes: Some(1),
                ..empty.clone()
            },
            0,
        );
        usage.add_sample(
            &Sample {
                io_read_bytes: Some(5),
                ..empty
            },
            0,
        );
        assert_eq!(
            (
                usage.mem_peak_bytes,
                usage.processes_peak,
                usage.io_read_bytes
            ),
            (Some(7), Some(1), Some(5))
        );
    }

    #[test]
    fn first_epoch_stands_apart() {
        let summary =
            summarise_epochs(&progress(&[15.5, 3.25, 3.0, 3.5]), Some(6500)).expect("epochs");
        assert_eq!(summary.steady_seconds, 3.25);
        assert_eq!(summary.first_overhead_seconds, Some(12.25));
        assert_eq!(summary.samples_per_second, Some(2000.0));
    }

    #[test]
    fn one_epoch_has_no_overhead_and_none_no_summary() {
        let summary = summarise_epochs(&progress(&[2.5]), None).expect("an epoch");
        assert_eq!(
            (summary.steady_seconds, summary.first_overhead_seconds),
            (2.5, None)
        );
        assert_eq!(summarise_epochs(&progress(&[]), Some(1)), None);
    }

    #[test]
    fn absent_values_stay_absent() {
        let mut usage = Usage::default();
        usage.add_sample(
            &Sample {
                at_ms: 3000,
                mem_rss_bytes: Some(5),
                ..Sample::default()
            },
            1000,
        );
        usage.add_sample(
            &Sample {
                at_ms: 4000,
                mem_rss_bytes: Some(3),
                ..Sample::default()
            },
            1000,
        );
        assert_eq!(
            (usage.wall_seconds, usage.mem_peak_bytes),
            (Some(3.0), Some(5))
        );
        assert_eq!(
            (usage.cpu_seconds(), usage.io_read_bytes, usage.cpus_busy()),
            (None, None, None)
        );
    }

    #[test]
    fn nodes_add_up() {
        let node = Usage {
            wall_seconds: Some(2.0),
            cpu_user_seconds: Some(3.0),
            cpu_system_seconds: Some(1.0),
            mem_peak_bytes: Some(10),
            ..Usage::default()
        };
        let mut both = node;
        both.add_node(&Usage {
            mem_peak_bytes: Some(20),
            ..node
        });
        assert_eq!(
            (both.wall_seconds, both.cpu_seconds(), both.mem_peak_bytes),
            (Some(2.0), Some(8.0), Some(20))
        );
        assert_eq!(both.cpus_busy(), Some(4.0));
    }
}
