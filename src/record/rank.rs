//! What became of one rank of a distributed training.

use serde::{Deserialize, Serialize};

use super::{ExitStatus, TimeSource, of_commonest_source};
use crate::foundation::statistics::median;

/// A rank, an agent that starts several, or a helper of the launcher, on the node of the record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct RankRecord {
    /// Its number; of an agent that of its first rank, of a helper the number after all ranks.
    pub rank: u32,
    /// Its number on its node.
    pub local_rank: u32,
    /// How many ranks there are in all.
    pub world_size: u32,
    /// `agent`, `scheduler`, `server`, `ps`, `worker` or `evaluator`; `None`: a rank that trains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// When it was started, in Unix milliseconds UTC.
    pub started_at_ms: u64,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<u64>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitStatus>,
    /// Whether it failed before all others of the run.
    #[serde(default)]
    pub fell_first: bool,
    /// Of one that fell first, the last line of its traceback or error message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_words: Option<String>,
    /// The file that has its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// CPU time of it and of its children that it waited for, in seconds (`proc_pid_stat(5)`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// The most memory of its first process, of an agent that of the largest process below it, in bytes (`VmHWM`, looked at once a second).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_peak_bytes: Option<u64>,
    /// Its GPUs, where each rank has its own: `0`, or `GPU-...`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<String>,
    /// `OMP_NUM_THREADS` as it found it, dlrun's or the user's; of a list the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omp_num_threads: Option<u32>,
    /// Epochs that it finished, by what it printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// Median time of its epochs but the first, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_seconds: Option<f64>,
    /// Whether it printed that time, or our clock took it, to within half a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_source: Option<TimeSource>,
    /// Median time of its steps, in seconds, where it printed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_seconds: Option<f64>,
    /// Where that comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_source: Option<TimeSource>,
}

/// The slowest rank of a training beside the others. Ranks that wait for each other in every step all take as long as the slowest
/// one: then nobody stands out.
#[derive(Debug, Clone, PartialEq)]
pub struct Straggler {
    /// Its number.
    pub rank: u32,
    /// Its time over the median of the others, at least 1.
    pub ratio: f64,
    /// Whose times: `step` or `epoch`.
    pub of: &'static str,
}

impl std::fmt::Display for Straggler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            rank, ratio, of, ..
        } = self;
        write!(
            f,
            "the {of}s of rank {rank}, the slowest, take {ratio:.2} × the median of the others"
        )
    }
}

impl Straggler {
    /// Whether it is so much slower that a reader should hear of it.
    #[must_use]
    pub fn stands_out(&self) -> bool {
        self.ratio >= 1.05
    }

    /// By the median step of each rank, else by its median epoch, of one source: what a rank prints may leave out what our clock counts.
    /// `None`: fewer than two ranks have one.
    #[must_use]
    pub fn among<'a>(ranks: impl Iterator<Item = &'a RankRecord> + Clone) -> Option<Self> {
        type Time = fn(&RankRecord) -> Option<(f64, TimeSource)>;
        let by = |of, time: Time| {
            let times = ranks.clone().filter_map(|rank| {
                let (seconds, source) = time(rank).filter(|(seconds, _)| *seconds > 0.0)?;
                Some(((rank.rank, seconds), source))
            });
            let (_, times) = of_commonest_source(times)?;
            let (rank, most) = *times.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
            let others = times.iter().filter(|(other, _)| *other != rank);
            let middle = median(others.map(|(_, seconds)| *seconds).collect())?;
            let ratio = most / middle;
            Some(Self { rank, ratio, of })
        };
        by("step", |rank| rank.step_seconds.zip(rank.step_source))
            .or_else(|| by("epoch", |rank| rank.epoch_seconds.zip(rank.epoch_source)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowest_rank_is_found_by_steps_before_epochs() {
        let rank = |rank, step_seconds, epoch_seconds| RankRecord {
            rank,
            step_seconds,
            step_source: Some(TimeSource::Stated),
            epoch_seconds,
            epoch_source: Some(TimeSource::Clock),
            ..RankRecord::default()
        };
        let all = [
            rank(0, Some(0.1), Some(9.0)),
            rank(1, Some(0.3), Some(5.0)),
            rank(2, Some(0.1), None),
        ];
        let found = Straggler::among(all.iter()).expect("three have steps");
        assert_eq!((found.rank, found.of), (1, "step"));
        assert!((found.ratio - 3.0).abs() < 1e-9, "{found:?}");
        let by_epoch = [rank(0, None, Some(9.0)), rank(1, Some(0.3), Some(5.0))];
        let found = Straggler::among(by_epoch.iter()).expect("two have epochs");
        assert_eq!((found.rank, found.of), (0, "epoch"));
        assert_eq!(Straggler::among(all[..1].iter()), None);
        let mut mixed = by_epoch;
        mixed[1].epoch_source = Some(TimeSource::Stated);
        assert_eq!(Straggler::among(mixed.iter()), None, "of two sources");
    }
}
