//! Epochs and steps of a training, as recognised in its output.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::point::null_as_nan;
use super::{Activity, ExpectedEnd, GpuUsage, Held, MemoryForecast, MetricPoint};

use crate::foundation::vocabulary::vocabulary;

/// Epochs that a [`Progress`] keeps one by one. Beyond it the oldest but the first are dropped and only counted, so that
/// a node record stays small.
pub const MAX_EPOCHS_KEPT: usize = 1000;

vocabulary! {
    /// Where a duration comes from. Runs whose times have different sources are never mixed in a comparison.
    pub enum TimeSource {
        /// The program printed it.
        Stated = "stated",
        /// The watcher's clock, between two lines.
        Clock = "clock",
        /// The program said it through `DLRUN_EVENTS`.
        Event = "event",
    }
}

/// Of values with the source of each those of the commonest source: times of two sources are not mixed. Of two sources as common
/// the program's events come first, then what it printed. `None` of no values.
#[must_use]
pub fn of_commonest_source<T>(
    values: impl IntoIterator<Item = (T, TimeSource)>,
) -> Option<(TimeSource, Vec<T>)> {
    let sources = [TimeSource::Clock, TimeSource::Stated, TimeSource::Event];
    let mut groups = sources.map(|source| (source, Vec::new()));
    for (value, source) in values {
        if let Some((_, group)) = groups.iter_mut().find(|(its, _)| *its == source) {
            group.push(value);
        }
    }
    let most = groups.into_iter().max_by_key(|(_, group)| group.len());
    most.filter(|(_, group)| !group.is_empty())
}

/// How a program counts its epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EpochNumbering {
    /// The first is 0.
    #[serde(rename = "0-based")]
    ZeroBased,
    /// The first is 1.
    #[serde(rename = "1-based")]
    OneBased,
    /// It prints no numbers of epochs; those in the record are ours, from 1.
    #[serde(rename = "none")]
    Unnumbered,
}

vocabulary! {
    /// Of how much of the run a rate speaks.
    #[derive(Default)]
    pub enum Scope {
        /// The whole run.
        Global = "global",
        /// One GPU, process or rank.
        PerDevice = "per_device",
        /// The output does not say.
        #[default]
        Unknown = "unknown",
    }
}

/// One epoch that ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Epoch {
    /// Its number as printed; counted from 1 where none is.
    pub epoch: u64,
    /// How long it took, in seconds, as the program stated it, in its output or as an event. `None` where it did not.
    pub printed_seconds: Option<f64>,
    /// How long it took by the watcher's clock: from the end of the epoch before (or the epoch's first line) to this
    /// one's. `None` where lines carried no time.
    pub clock_seconds: Option<f64>,
    /// When the line that ended it was seen, in Unix milliseconds UTC.
    pub ended_at_ms: Option<u64>,
    /// Losses and metrics of its last line, under the names in the output. NaN, where a training diverged, is `null` in
    /// JSON.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_as_nan"
    )]
    pub metrics: BTreeMap<String, f64>,
    /// True where the program reported it through `DLRUN_EVENTS`.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub event: bool,
    /// True for the first of a start of the program: tracing, compilation and cold caches lie in it.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub warmup: bool,
    /// True where the wall clock of the node was set while it ran: its times are not used.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub clock_set: bool,
    /// Its training samples, if reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Seconds of it that went into evaluation, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation_seconds: Option<f64>,
    /// Seconds of it that went into writing checkpoints, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_seconds: Option<f64>,
}

impl Epoch {
    /// The best figure for how long it took: as printed where that is finer than whole seconds, else by the clock, else
    /// as printed.
    #[must_use]
    pub fn seconds(&self) -> Option<f64> {
        self.time().map(|(seconds, _)| seconds)
    }

    /// As [`Epoch::time`], without evaluation and checkpoints; `None` where no training is left.
    #[must_use]
    pub fn training_time(&self) -> Option<(f64, TimeSource)> {
        let aside = |seconds: Option<f64>| seconds.filter(|seconds| *seconds > 0.0).unwrap_or(0.0);
        let (seconds, source) = self.time()?;
        let left = seconds - aside(self.evaluation_seconds) - aside(self.checkpoint_seconds);
        (left.is_finite() && left > 0.0).then_some((left, source))
    }

    /// True where it ran at one of these times, in Unix milliseconds UTC, or within a second of it; false where nobody saw when it
    /// ended.
    #[must_use]
    pub fn touches(&self, times_ms: &[u64]) -> bool {
        let Some(ended_at_ms) = self.ended_at_ms else {
            return false;
        };
        let seconds = self
            .clock_seconds
            .or(self.printed_seconds)
            .unwrap_or(0.0)
            .max(0.0);
        let took =
            Duration::try_from_secs_f64(seconds).unwrap_or_default() + Duration::from_secs(1);
        let began_at_ms =
            ended_at_ms.saturating_sub(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        times_ms
            .iter()
            .any(|time| (began_at_ms..=ended_at_ms.saturating_add(1000)).contains(time))
    }

    /// As [`Epoch::seconds`], with where the figure comes from; `None` where the clock was set meanwhile. A printed 0 is a clock
    /// too coarse for the epoch.
    #[must_use]
    pub fn time(&self) -> Option<(f64, TimeSource)> {
        if self.clock_set {
            return None;
        }
        let stated = if self.event {
            TimeSource::Event
        } else {
            TimeSource::Stated
        };
        match (
            self.printed_seconds.filter(|seconds| *seconds > 0.0),
            self.clock_seconds,
        ) {
            (Some(printed), Some(clock))
                if !self.event && printed.fract() == 0.0 && printed < 100.0 =>
            {
                Some((clock, TimeSource::Clock))
            }
            (Some(printed), _) => Some((printed, stated)),
            (None, clock) => clock.map(|clock| (clock, TimeSource::Clock)),
        }
    }
}

/// The last step that was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StepMark {
    /// The epoch it belongs to, as printed.
    pub epoch: Option<u64>,
    /// Its number as printed; `None` where only their number is stated.
    pub step: Option<u64>,
    /// Steps (or samples, where the program counts those) of a whole epoch, or of the run where it has no epochs.
    pub of: Option<u64>,
}

/// A rate of training as the program printed it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// The number.
    pub value: f64,
    /// Its unit: `samples/s`, `tokens/s`, `words/s`, `frames/s`, `steps/s`, `it/s`.
    pub unit: String,
    /// Of how much of the run it speaks.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub scope: Scope,
}

/// How long steps took, in few figures. The steps of the first epoch (without epochs: the first step) are not in it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StepTimes {
    /// Where they come from.
    pub source: TimeSource,
    /// Steps behind the figures.
    #[serde(default)]
    pub steps: u64,
    /// Median, in seconds, exact to 2 %.
    pub median_seconds: f64,
    /// 95th percentile, in seconds, exact to 2 %.
    pub p95_seconds: f64,
    /// Share of the time of steps in which they waited for data, 0 to 1, over those of which the program stated both. `None` where it
    /// did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_wait_ratio: Option<f64>,
}

/// All that was recognised so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Progress {
    /// Which recogniser spoke: `keras`, `pytorch`, `epoch-line`, `pattern`, `events`. `None` until one did.
    pub recogniser: Option<String>,
    /// Planned number of epochs, as printed.
    pub epochs_announced: Option<u64>,
    /// How epochs are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_numbering: Option<EpochNumbering>,
    /// Epochs that ended.
    pub epochs_completed: u64,
    /// The ended epochs, oldest first; at most [`MAX_EPOCHS_KEPT`].
    pub epochs: Vec<Epoch>,
    /// Steps of an epoch, as printed.
    pub steps_per_epoch: Option<u64>,
    /// True where the program counts samples: then `steps_per_epoch` and `last_step` are numbers of samples.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub counts_samples: bool,
    /// The last step seen.
    pub last_step: Option<StepMark>,
    /// Seconds per step, the last value printed.
    pub step_seconds: Option<f64>,
    /// Seconds per step over the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_times: Option<StepTimes>,
    /// The last rate printed.
    pub throughput: Option<Throughput>,
    /// Seconds of the whole training, as printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_seconds: Option<f64>,
    /// Seconds of evaluation outside of all epochs, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation_seconds: Option<f64>,
    /// Seconds of writing checkpoints outside of all epochs, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_seconds: Option<f64>,
    /// How often the epochs began to count again: a training that was resumed, or a second one.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub restarts: u32,
    /// When the training will end, while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_end: Option<ExpectedEnd>,
    /// When the job's time is up, in Unix milliseconds UTC, as its scheduler said of a run whose limit may be raised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_ms: Option<u64>,
    /// Its rhythm and its phases, as the watcher saw them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
    /// What it holds on this node without using it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// When its memory will exceed its limit, where it grows steadily, and what came of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_forecast: Option<MemoryForecast>,
    /// The last value of each loss and metric; NaN as in [`Epoch::metrics`].
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_as_nan"
    )]
    pub last_metrics: BTreeMap<String, f64>,
    /// Losses and metrics of steps and evaluations; those of epochs are in [`Progress::epochs`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<MetricPoint>,
}

/// Epochs of a training that tell it apart from another.
const LEAST_OF_TRAINING: usize = 2;
/// Each of its epochs takes at least so many times what each of the other's takes.
const APART: f64 = 1.25;

impl Progress {
    /// As [`super::NodeRecord::remarks`], of a command that runs with these GPUs and was seen at `seen_ms`.
    #[must_use]
    pub fn remarks(&self, gpus: &[GpuUsage], seen_ms: u64, now_ms: u64) -> Vec<(bool, String)> {
        let memory = self.memory_forecast.as_ref();
        let memory = memory.and_then(|memory| Some((true, memory.text(now_ms)?)));
        let held = self.held.as_ref();
        let held = held.and_then(|held| Some((held.warns, held.text(gpus, seen_ms)?)));
        memory.into_iter().chain(held).collect()
    }

    /// The last step as people read it: `step 120/235`, `2560/4000 samples`.
    #[must_use]
    pub fn last_step_text(&self) -> Option<String> {
        let mark = self.last_step?;
        let (step, of) = (
            mark.step?,
            mark.of.map(|of| format!("/{of}")).unwrap_or_default(),
        );
        Some(if self.counts_samples {
            format!("{step}{of} samples")
        } else {
            format!("step {step}{of}")
        })
    }

    /// The ended epochs as people read them: `12 of 50`. Where the count began again, since the program was resumed or trained something
    /// else, those before belong to another count, which need not mean that anything failed: `9 of 50 (59 in all; the count began again once)`.
    #[must_use]
    pub fn epochs_text(&self, planned: Option<u64>) -> String {
        let of = planned
            .map(|planned| format!(" of {planned}"))
            .unwrap_or_default();
        let (all, last) = (self.epochs_completed, self.epochs_done());
        if self.restarts == 0 {
            // Numbers that begin beyond the first: a training that continued, of which nobody knows how long it is to be.
            return match planned {
                None if last > all => format!("{all}, the last is number {last}"),
                _ => format!("{last}{of}"),
            };
        }
        let times = if self.restarts == 1 {
            "once".to_owned()
        } else {
            format!("{} times", self.restarts)
        };
        format!("{last}{of} ({all} in all; the count began again {times})")
    }

    /// Epochs that are done by the number of the last one: in a start that continued the earlier ones too, where the count began again
    /// only those of the newest count.
    #[must_use]
    pub fn epochs_done(&self) -> u64 {
        let is_from_0 = self.epoch_numbering == Some(EpochNumbering::ZeroBased);
        let last = self.epochs.last();
        let last = last.map_or(0, |last| last.epoch.saturating_add(u64::from(is_from_0)));
        // A start that continues begins with a later one than the first.
        match self.restarts {
            0 => last.max(self.epochs_completed),
            _ => last,
        }
    }

    /// The epochs before the count last began again, and those since, where each of the ones takes longer than each of the others: two trainings, of
    /// which no common time says anything. Otherwise none, and all.
    #[must_use]
    pub fn trainings_unlike(&self) -> (&[Epoch], &[Epoch]) {
        let mut pairs = self.epochs.windows(2);
        let began = pairs.rposition(|pair| pair[1].epoch <= pair[0].epoch);
        let began = began.filter(|_| self.restarts > 0);
        let parts = self.epochs.split_at(began.map_or(0, |place| place + 1));
        let range = |epochs: &[Epoch]| {
            let seconds = epochs.iter().filter(|epoch| !epoch.warmup);
            let seconds: Vec<f64> = seconds.filter_map(Epoch::seconds).collect();
            let least = seconds.iter().copied().reduce(f64::min)?;
            let most = seconds.iter().copied().reduce(f64::max)?;
            (seconds.len() >= LEAST_OF_TRAINING).then_some((least, most))
        };
        let both = range(parts.0).zip(range(parts.1));
        let is_apart = |(one, other): ((f64, f64), (f64, f64))| {
            one.1 * APART < other.0 || other.1 * APART < one.0
        };
        match both.is_some_and(is_apart) {
            true => parts,
            false => self.epochs.split_at(0),
        }
    }

    /// Puts the epochs of the start before in front, without those that were trained again. Nothing where the numbers of either say
    /// nothing of the whole run.
    pub fn put_before(&mut self, before: &Self) {
        let is_counted = |progress: &Self| {
            progress.restarts == 0 && progress.epoch_numbering != Some(EpochNumbering::Unnumbered)
        };
        if !is_counted(self) || !is_counted(before) {
            return;
        }
        let first = self.epochs.first().map_or(u64::MAX, |epoch| epoch.epoch);
        let earlier: Vec<Epoch> = before
            .epochs
            .iter()
            .filter(|epoch| epoch.epoch < first)
            .cloned()
            .collect();
        self.epochs_completed += earlier.len() as u64;
        self.epochs.splice(0..0, earlier);
    }

    /// Adds an epoch that ended; the first and the newest are kept.
    pub fn push_epoch(&mut self, epoch: Epoch) {
        self.epochs_completed += 1;
        if self.epochs.len() == MAX_EPOCHS_KEPT {
            self.epochs.remove(1);
        }
        self.epochs.push(epoch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_of_several_counts_are_told_apart() {
        let mut progress = Progress {
            epoch_numbering: Some(EpochNumbering::ZeroBased),
            ..Progress::default()
        };
        (0..12).for_each(|epoch| {
            progress.push_epoch(Epoch {
                epoch,
                ..Epoch::default()
            })
        });
        assert_eq!(progress.epochs_text(Some(50)), "12 of 50");
        (0..9).for_each(|epoch| {
            progress.push_epoch(Epoch {
                epoch,
                ..Epoch::default()
            })
        });
        progress.restarts = 1;
        assert_eq!(
            progress.epochs_text(Some(50)),
            "9 of 50 (21 in all; the count began again once)"
        );
    }

    #[test]
    fn epochs_of_the_start_before_are_put_in_front_but_for_those_trained_again() {
        let start = |numbers: std::ops::Range<u64>| {
            let mut progress = Progress {
                epoch_numbering: Some(EpochNumbering::OneBased),
                ..Progress::default()
            };
            numbers.for_each(|epoch| {
                progress.push_epoch(Epoch {
                    epoch,
                    ..Epoch::default()
                })
            });
            progress
        };
        let mut last = start(6..10);
        last.put_before(&start(1..8));
        let numbers: Vec<u64> = last.epochs.iter().map(|epoch| epoch.epoch).collect();
        assert_eq!((numbers, last.epochs_completed), ((1..10).collect(), 9));
        let unnumbered = Progress {
            epoch_numbering: Some(EpochNumbering::Unnumbered),
            ..start(1..3)
        };
        let mut last = start(3..4);
        last.put_before(&unnumbered);
        assert_eq!(last.epochs_completed, 1);
    }

    #[test]
    fn many_epochs_keep_the_first_and_the_newest() {
        let mut progress = Progress::default();
        for epoch in 0..5000 {
            progress.push_epoch(Epoch {
                epoch,
                ..Epoch::default()
            });
        }
        assert_eq!(progress.epochs_completed, 5000);
        assert_eq!(progress.epochs.len(), MAX_EPOCHS_KEPT);
        assert_eq!(
            (progress.epochs[0].epoch, progress.epochs[999].epoch),
            (0, 4999)
        );
    }

    #[test]
    fn epoch_in_which_the_clock_was_set_has_no_time() {
        let epoch = Epoch {
            clock_seconds: Some(10.0),
            ended_at_ms: Some(20_000),
            ..Epoch::default()
        };
        assert!(epoch.touches(&[1, 15_000]) && epoch.touches(&[20_500]));
        assert!(!epoch.touches(&[]) && !epoch.touches(&[8_000, 22_000]));
        assert_eq!(
            Epoch {
                clock_set: true,
                printed_seconds: Some(3610.2),
                ..epoch
            }
            .time(),
            None
        );
    }

    #[test]
    fn whole_printed_seconds_give_way_to_the_clock() {
        let epoch = |printed, clock| Epoch {
            printed_seconds: printed,
            clock_seconds: clock,
            ..Epoch::default()
        };
        assert_eq!(epoch(Some(2.0), Some(1.84)).seconds(), Some(1.84));
        assert_eq!(epoch(Some(1.79), Some(1.84)).seconds(), Some(1.79));
        assert_eq!(epoch(Some(147.0), Some(147.3)).seconds(), Some(147.0));
        assert_eq!(epoch(None, None).seconds(), None);
        assert_eq!(
            (
                epoch(Some(0.0), None).seconds(),
                epoch(Some(0.0), Some(0.3)).seconds()
            ),
            (None, Some(0.3))
        );
    }
}
