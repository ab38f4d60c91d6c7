//! How long epochs and steps took.

use serde::Serialize;

use super::{RunView, mean, median, nearest_rank, real};
use crate::foundation::statistics::Spread;
use crate::record::{Epoch, Progress, StepTimes, Throughput, TimeSource, of_commonest_source};

/// Epochs from which on a 95th percentile says more than the longest of them does.
const LEAST_FOR_P95: usize = 5;

/// Times of the epochs of one source, the warm-up apart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EpochTimes {
    /// Where the times come from. Of several sources that with most epochs.
    pub source: TimeSource,
    /// Epochs behind the figures.
    pub count: usize,
    /// Median, in seconds.
    pub median_seconds: f64,
    /// Mean, in seconds.
    pub mean_seconds: f64,
    /// Standard deviation of a sample; `None` of a single epoch.
    pub deviation_seconds: Option<f64>,
    /// 95th percentile by nearest rank; `None` of fewer than five epochs.
    pub p95_seconds: Option<f64>,
    /// The shortest.
    pub shortest_seconds: f64,
    /// The longest.
    pub longest_seconds: f64,
    /// From the end of one to that of the next by the clock, median, in seconds; `None`: the ends of no two neighbours are known. What is much
    /// longer than the epochs lies outside of what the program timed.
    pub apart_seconds: Option<f64>,
    /// True where there is none but warm-up: the figures are of that.
    pub is_warmup: bool,
    /// The first epoch of the first start, where others follow it and its time is of the same source.
    pub first_seconds: Option<f64>,
    /// Epochs that are no part of the figures: warm-up, of another source, without a time, of a training before.
    pub left_out: usize,
    /// Median of the training before in the same program, whose epochs are unlike these, in seconds.
    pub before_seconds: Option<f64>,
}

impl EpochTimes {
    /// [`Self::apart_seconds`], where it is much longer than the epochs are.
    #[must_use]
    pub fn longer_apart(&self) -> Option<f64> {
        let least = (1.25 * self.median_seconds).max(self.median_seconds + 1.0);
        self.apart_seconds.filter(|apart| *apart >= least)
    }
}

/// A rate, and how it was had.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rate {
    /// Samples a second, of the whole run.
    pub value: f64,
    /// `epoch_samples` (stated by the program, over the epoch's time), `workload_samples` (of the job file),
    /// `steps` (steps of an epoch times the job file's batch).
    pub from: &'static str,
}

/// What is known of the times of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timing {
    /// The node whose output it is.
    pub node: String,
    /// Which recogniser spoke.
    pub recogniser: Option<String>,
    /// Epochs that ended.
    pub epochs_completed: u64,
    /// Epochs planned, by the program or the job file.
    pub epochs_planned: Option<u64>,
    /// Times of the epochs.
    pub epochs: Option<EpochTimes>,
    /// Times of the steps, as the watcher summed them up.
    pub steps: Option<StepTimes>,
    /// Seconds a step, the last value printed.
    pub step_seconds_stated: Option<f64>,
    /// Steps of an epoch, as printed.
    pub steps_per_epoch: Option<u64>,
    /// Samples a second over the epochs that count.
    pub samples_per_second: Option<Rate>,
    /// The last rate that the program printed, with its unit.
    pub throughput_stated: Option<Throughput>,
    /// The whole training as the program stated it, in seconds.
    pub run_seconds_stated: Option<f64>,
    /// Evaluation within the epochs that count, on average an epoch, in seconds.
    pub evaluation_seconds: Option<f64>,
    /// Writing of checkpoints, likewise.
    pub checkpoint_seconds: Option<f64>,
    /// Evaluation outside of all epochs, in seconds.
    pub evaluation_outside_seconds: Option<f64>,
    /// Writing of checkpoints outside of all epochs, in seconds.
    pub checkpoint_outside_seconds: Option<f64>,
    /// How often the epochs began to count again.
    pub restarts: u32,
}

/// The times of the run; `None` where nothing was recognised.
#[must_use]
pub fn timing(view: &RunView<'_>) -> Option<Timing> {
    let node = view.timed()?;
    let progress = &node.progress;
    let (epochs, steady) = epoch_times(progress);
    let workload = &view.run.workload;
    Some(Timing {
        node: node.key.node.clone(),
        recogniser: progress.recogniser.clone(),
        epochs_completed: progress.epochs_completed,
        epochs_planned: progress.epochs_announced.or(workload.epochs),
        samples_per_second: rate(progress, &steady, workload.samples, workload.batch_size),
        epochs,
        steps: progress.step_times,
        step_seconds_stated: progress.step_seconds,
        steps_per_epoch: steps_per_epoch(progress),
        throughput_stated: progress.throughput.clone(),
        run_seconds_stated: progress.run_seconds,
        evaluation_seconds: mean_of(&steady, |epoch| epoch.evaluation_seconds),
        checkpoint_seconds: mean_of(&steady, |epoch| epoch.checkpoint_seconds),
        evaluation_outside_seconds: progress.evaluation_seconds,
        checkpoint_outside_seconds: progress.checkpoint_seconds,
        restarts: progress.restarts,
    })
}

/// Figures of the epochs that count, and those epochs with their times.
fn epoch_times(progress: &Progress) -> (Option<EpochTimes>, Vec<(&Epoch, f64)>) {
    // Records of before warm-up was noted: the first epoch is it.
    let is_noted = progress.epochs.iter().any(|epoch| epoch.warmup);
    let (before, epochs) = progress.trainings_unlike();
    let known: Vec<(bool, &Epoch, f64, TimeSource)> = (0..)
        .zip(epochs)
        .filter_map(|(place, epoch)| {
            let (seconds, source) = epoch.time()?;
            let is_warmup = if is_noted { epoch.warmup } else { place == 0 };
            let is_time = seconds.is_finite() && seconds >= 0.0;
            is_time.then_some((is_warmup, epoch, seconds, source))
        })
        .collect();
    let commonest = |with_warmup: bool| {
        let counts = known.iter().filter(|(warmup, ..)| with_warmup || !warmup);
        of_commonest_source(counts.map(|(_, epoch, seconds, source)| ((*epoch, *seconds), *source)))
    };
    let steady = commonest(false);
    let only_warmup = steady.is_none();
    let Some((source, group)) = steady.or_else(|| commonest(true)) else {
        return (None, Vec::new());
    };
    let first = known
        .first()
        .filter(|(warmup, .., of)| *warmup && !only_warmup && *of == source);
    let times = summary(source, &group).map(|times| EpochTimes {
        is_warmup: only_warmup,
        first_seconds: first.map(|(_, _, seconds, _)| *seconds),
        left_out: progress.epochs.len() - group.len(),
        apart_seconds: median(apart(epochs)),
        before_seconds: median(steady_of(before)),
        ..times
    });
    (times, group)
}

fn steady_of(epochs: &[Epoch]) -> Vec<f64> {
    let steady = epochs.iter().filter(|epoch| !epoch.warmup);
    steady.filter_map(Epoch::seconds).collect()
}

/// Seconds from the end of each epoch to that of the next; those of lines that were read at one go with others do not tell.
fn apart(epochs: &[Epoch]) -> Vec<f64> {
    let end = |place: Option<usize>| place.and_then(|place| epochs.get(place)?.ended_at_ms);
    let between = |place: usize| {
        let (from, to) = end(Some(place)).zip(end(Some(place + 1)))?;
        let (first, second) = (&epochs[place], &epochs[place + 1]);
        let is_next = first.epoch.checked_add(1) == Some(second.epoch) && !second.clock_set;
        let is_alone = end(place.checked_sub(1)) != Some(from) && end(Some(place + 2)) != Some(to);
        (is_next && is_alone && to > from).then(|| real(to - from) / 1e3)
    };
    (0..epochs.len().saturating_sub(1))
        .filter_map(between)
        .collect()
}

fn summary(source: TimeSource, group: &[(&Epoch, f64)]) -> Option<EpochTimes> {
    let mut sorted: Vec<f64> = group.iter().map(|(_, seconds)| *seconds).collect();
    sorted.sort_by(f64::total_cmp);
    let spread = Spread::of(&sorted)?;
    Some(EpochTimes {
        source,
        count: sorted.len(),
        median_seconds: median(sorted.clone())?,
        mean_seconds: spread.mean,
        deviation_seconds: spread.deviation,
        p95_seconds: nearest_rank(&sorted, 0.95).filter(|_| sorted.len() >= LEAST_FOR_P95),
        shortest_seconds: *sorted.first()?,
        longest_seconds: *sorted.last()?,
        apart_seconds: None,
        is_warmup: false,
        first_seconds: None,
        left_out: 0,
        before_seconds: None,
    })
}

/// Steps of an epoch, where the program counts steps.
fn steps_per_epoch(progress: &Progress) -> Option<u64> {
    progress
        .steps_per_epoch
        .filter(|_| !progress.counts_samples)
}

/// Samples a second: all samples of these epochs over all their time.
fn rate(
    progress: &Progress,
    epochs: &[(&Epoch, f64)],
    samples: Option<u64>,
    batch_size: Option<u64>,
) -> Option<Rate> {
    let seconds: f64 = epochs.iter().map(|(_, seconds)| seconds).sum();
    // As real numbers: of what a program states a few may be more than 64 bits hold.
    let stated: Option<f64> = epochs
        .iter()
        .map(|(epoch, _)| epoch.samples.map(real))
        .sum();
    let counted = steps_per_epoch(progress);
    let by_steps = || {
        counted
            .zip(batch_size)
            .map(|(steps, batch)| steps.saturating_mul(batch))
    };
    let of_each = |each: u64| real(each) * real(epochs.len() as u64);
    let found = match (stated.filter(|samples| *samples > 0.0), samples) {
        (Some(stated), _) => Some((stated, "epoch_samples")),
        (None, Some(samples)) => Some((of_each(samples), "workload_samples")),
        (None, None) => by_steps().map(|each| (of_each(each), "steps")),
    };
    let (samples, from) = found.filter(|_| seconds > 0.0)?;
    Some(Rate {
        value: samples / seconds,
        from,
    })
}

/// The mean of what is known of each of these epochs; `None` where one of them does not tell.
fn mean_of(epochs: &[(&Epoch, f64)], of: impl Fn(&Epoch) -> Option<f64>) -> Option<f64> {
    let values: Option<Vec<f64>> = epochs.iter().map(|(epoch, _)| of(epoch)).collect();
    mean(&values?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stated(seconds: f64) -> Epoch {
        Epoch {
            printed_seconds: Some(seconds),
            ..Epoch::default()
        }
    }

    fn clock(seconds: f64) -> Epoch {
        Epoch {
            clock_seconds: Some(seconds),
            ..Epoch::default()
        }
    }

    fn progress(epochs: Vec<Epoch>) -> Progress {
        let mut progress = Progress::default();
        epochs
            .into_iter()
            .for_each(|epoch| progress.push_epoch(epoch));
        progress
    }

    fn times(epochs: Vec<Epoch>) -> EpochTimes {
        epoch_times(&progress(epochs)).0.expect("times")
    }

    #[test]
    fn the_first_epoch_stands_apart() {
        let times = times([15.5, 3.25, 3.0, 3.5, 4.0, 3.0].map(stated).into());
        assert_eq!(
            (times.source, times.count, times.median_seconds),
            (TimeSource::Stated, 5, 3.25)
        );
        assert_eq!(
            (times.first_seconds, times.p95_seconds, times.left_out),
            (Some(15.5), Some(4.0), 1)
        );
        assert_eq!(
            (
                times.shortest_seconds,
                times.longest_seconds,
                times.is_warmup
            ),
            (3.0, 4.0, false)
        );
        assert!((times.deviation_seconds.expect("of five") - 0.418_33).abs() < 1e-5);
    }

    #[test]
    fn two_trainings_of_one_program_have_no_common_time() {
        let run = |second: [f64; 3]| {
            let seconds = [9.0, 0.5, 0.6, 0.4].into_iter().chain(second);
            let numbers = [1, 2, 3, 4, 1, 2, 3];
            let epochs = seconds.zip(numbers).map(|(seconds, epoch)| Epoch {
                epoch,
                warmup: epoch == 1,
                ..stated(seconds)
            });
            let progress = Progress {
                restarts: 1,
                ..progress(epochs.collect())
            };
            let times = epoch_times(&progress).0.expect("times");
            (times.count, times.median_seconds, times.before_seconds)
        };
        assert_eq!(run([9.0, 3.0, 3.5]), (2, 3.25, Some(0.5)));
        assert_eq!(
            run([9.0, 0.4, 0.65]),
            (5, 0.5, None),
            "a fold of a cross-validation"
        );
    }

    #[test]
    fn time_outside_of_what_a_program_timed_is_shown() {
        let at = |epoch: u64, seconds: f64| Epoch {
            epoch,
            ended_at_ms: Some(epoch * 16_000),
            ..stated(seconds)
        };
        let times = times(vec![at(1, 0.7), at(2, 0.6), at(3, 0.6), at(5, 0.6)]);
        assert_eq!(
            (times.apart_seconds, times.longer_apart()),
            (Some(16.0), Some(16.0))
        );
        let near = EpochTimes {
            median_seconds: 14.0,
            ..times
        };
        assert_eq!(near.longer_apart(), None);
        // A buffer held back eight at a time.
        let at_once = |epoch: u64| Epoch {
            epoch,
            ended_at_ms: Some(epoch.div_ceil(8) * 2400),
            ..stated(0.3)
        };
        assert_eq!(
            super::apart(&(1..41).map(at_once).collect::<Vec<_>>()),
            [0.0; 0]
        );
    }

    #[test]
    fn one_epoch_is_called_warmup_and_has_no_percentile() {
        let times = times(vec![stated(2.5)]);
        assert_eq!(
            (times.median_seconds, times.is_warmup, times.first_seconds),
            (2.5, true, None)
        );
        assert_eq!(
            (times.p95_seconds, times.deviation_seconds, times.count),
            (None, None, 1)
        );
    }

    #[test]
    fn each_start_has_its_warmup() {
        let first = || Epoch {
            warmup: true,
            ..stated(9.0)
        };
        let times = times(vec![first(), stated(2.5), first(), stated(3.5)]);
        assert_eq!(
            (times.median_seconds, times.count, times.left_out),
            (3.0, 2, 2)
        );
        assert_eq!(times.first_seconds, Some(9.0));
    }

    #[test]
    fn sources_are_not_mixed() {
        let mixed = times(vec![
            clock(9.5),
            clock(8.5),
            stated(2.5),
            stated(3.5),
            stated(f64::NAN),
        ]);
        assert_eq!(
            (mixed.source, mixed.median_seconds, mixed.left_out),
            (TimeSource::Stated, 3.0, 3)
        );
        let even = times(vec![clock(9.5), clock(8.5), stated(2.5)]);
        assert_eq!(even.source, TimeSource::Stated);
        assert_eq!(epoch_times(&progress(vec![Epoch::default()])).0, None);
    }

    #[test]
    fn rates_say_where_they_come_from() {
        let many = |samples| Epoch {
            samples,
            ..stated(2.0)
        };
        let of = |epoch: Epoch, samples, batch| {
            let progress = Progress {
                steps_per_epoch: Some(5),
                ..progress(vec![stated(9.0), epoch])
            };
            let steady = epoch_times(&progress).1;
            rate(&progress, &steady, samples, batch).map(|rate| (rate.value, rate.from))
        };
        assert_eq!(
            of(many(Some(100)), Some(7), Some(1)),
            Some((50.0, "epoch_samples"))
        );
        assert_eq!(
            of(many(None), Some(7), Some(1)),
            Some((3.5, "workload_samples"))
        );
        assert_eq!(of(many(None), None, Some(2)), Some((5.0, "steps")));
        let samples = Progress {
            steps_per_epoch: Some(60_000),
            counts_samples: true,
            ..progress(vec![])
        };
        assert_eq!(steps_per_epoch(&samples), None);
        assert_eq!(of(many(Some(0)), None, None), None);
        assert_eq!(
            of(stated(0.0), Some(9), None),
            Some((1.0, "workload_samples"))
        );
        let (each, epochs) = (many(Some(u64::MAX)), 3.0);
        let hostile: Vec<(&Epoch, f64)> = vec![(&each, 1.0); 3];
        let found =
            rate(&progress(vec![]), &hostile, None, None).map(|rate| rate.value * 3.0 / epochs);
        assert_eq!(found, Some(real(u64::MAX)));
    }

    #[test]
    fn evaluation_is_told_where_all_epochs_tell_it() {
        let part = |seconds| Epoch {
            evaluation_seconds: seconds,
            ..stated(4.0)
        };
        let of = |last| {
            let progress = progress(vec![part(None), part(Some(1.0)), part(last)]);
            mean_of(&epoch_times(&progress).1, |epoch| epoch.evaluation_seconds)
        };
        assert_eq!((of(Some(3.0)), of(None)), (Some(2.0), None));
    }
}
