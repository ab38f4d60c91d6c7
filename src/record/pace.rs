//! When a training will end by its own pace: the time from epoch to epoch, or of its steps.

use super::{Epoch, ExpectedEnd, Interval, Progress};
use crate::foundation::statistics::{Spread, quick_t95};

/// From the end of one epoch to the end of the next, so many are looked at: the newest.
const PITCHES: usize = 20;
/// With fewer nothing is known of how much they differ.
const LEAST: usize = 2;
/// A pause so many times as long as the mean of all is not the program's: its job was suspended, or the node was.
const PAUSE: f64 = 10.0;
/// Epochs are taken to differ by so much of their mean at least: two or three that took the same by chance say little of the others.
const LEAST_DEVIATION: f64 = 0.05;
/// Steps from which on their median says something.
const LEAST_STEPS: u64 = 20;

impl Progress {
    /// When the last of its epochs ends, whatever happens between them, else of its steps where the program counts only those.
    /// `planned`: epochs that the job file names. `None` where the end or the pace is unknown.
    #[must_use]
    pub fn expect_end(&self, planned: Option<u64>, now_ms: u64) -> Option<ExpectedEnd> {
        // A count that began again is of a second training, or of one of several: nobody knows how many follow.
        if self.restarts > 0 {
            return None;
        }
        match self.epochs_announced.or(planned) {
            Some(planned) => by_epochs(self, planned, now_ms),
            None if self.epochs_completed == 0 => by_steps(self, now_ms),
            None => None,
        }
    }
}

/// A training that is over, as far as its forecasts of the time left can be computed again.
#[derive(Debug, Clone, PartialEq)]
pub struct Training {
    /// When its command was started, in Unix milliseconds UTC.
    pub started_at_ms: u64,
    /// Epochs that were planned.
    pub planned: u64,
    /// Its epochs.
    pub progress: Progress,
}

impl Training {
    /// The time left in seconds that was forecast after this share of the run, and the time that was left. `None`: nothing was forecast
    /// by then, or not all of its epochs are known.
    #[must_use]
    pub fn left_after(&self, share: f64) -> Option<(Interval, f64)> {
        let Self {
            started_at_ms,
            planned,
            progress,
        } = self;
        let is_whole = progress.epochs.len() as u64 == progress.epochs_completed;
        let end_ms = progress.epochs.last()?.ended_at_ms?;
        if !is_whole || progress.epochs_done() != *planned {
            return None;
        }
        let ran_ms = real(end_ms.checked_sub(*started_at_ms)?);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of the run"
        )]
        let now_ms = started_at_ms + (ran_ms * share) as u64;
        let ended = progress.epochs.iter();
        let ended =
            ended.take_while(|epoch| epoch.ended_at_ms.is_some_and(|ended| ended <= now_ms));
        let epochs: Vec<Epoch> = ended.cloned().collect();
        let then = Progress {
            epochs_completed: epochs.len() as u64,
            epochs_announced: Some(*planned),
            epoch_numbering: progress.epoch_numbering,
            restarts: progress.restarts,
            epochs,
            ..Progress::default()
        };
        let end = then.expect_end(None, now_ms)?;
        // The forecast may be that it ends now.
        let left = |at_ms: u64| (real(at_ms.saturating_sub(now_ms)) / 1e3).max(1e-3);
        let [low, median, high] = [end.earliest_ms, end.at_ms, end.latest_ms].map(left);
        Some((
            Interval {
                mean: median,
                median,
                low,
                high,
            },
            left(end_ms),
        ))
    }
}

fn by_epochs(progress: &Progress, planned: u64, now_ms: u64) -> Option<ExpectedEnd> {
    let left = planned.checked_sub(progress.epochs_done())?;
    let left = real(Some(left).filter(|left| *left > 0)?);
    let last_ms = progress.epochs.last()?.ended_at_ms?;
    let pitches = pitches(progress);
    let spread = Spread::of(&pitches).filter(|_| pitches.len() >= LEAST)?;
    let (first, second) = pitches.split_at(pitches.len() / 2);
    // Epochs that grow longer, as those of a node that grows warm, will grow further.
    let drift = (Spread::of(second)?.mean - Spread::of(first)?.mean).abs();
    let count = real(pitches.len() as u64);
    let deviation = spread.deviation?.hypot(LEAST_DEVIATION * spread.mean);
    // `quick_t95` holds from two degrees of freedom on.
    let t95 = if pitches.len() == 2 {
        6.314
    } else {
        quick_t95(count - 1.0)
    };
    let by_chance = t95 * deviation * (left + left * left / count).sqrt();
    let range = by_chance + drift * left;
    // The epoch that runs has had some of its time; one that takes far longer than all before says that the pace is another now.
    let begun = real(now_ms.saturating_sub(last_ms)) / 1e3;
    if begun > PAUSE * spread.mean.max(1.0) {
        return None;
    }
    let likely = (left * spread.mean - begun).max((left - 1.0) * spread.mean);
    ExpectedEnd::new(now_ms, (likely - range, likely, likely + range), now_ms)
}

/// Seconds between the ends of the newest epochs, without pauses that are not the program's.
fn pitches(progress: &Progress) -> Vec<f64> {
    let pairs = progress.epochs.windows(2).rev();
    let pitches = pairs.filter_map(|pair| {
        let is_next = pair[0].epoch.checked_add(1) == Some(pair[1].epoch) && !pair[1].clock_set;
        let ms = pair[1].ended_at_ms?.checked_sub(pair[0].ended_at_ms?)?;
        is_next.then(|| real(ms) / 1e3)
    });
    let mut newest: Vec<f64> = pitches.take(PITCHES).collect();
    newest.reverse();
    let median = super::median(newest.clone()).unwrap_or_default();
    // Lines that were written at one go have one time: their median is 0.
    newest.retain(|pitch| median == 0.0 || *pitch <= PAUSE * median);
    newest
}

fn by_steps(progress: &Progress, now_ms: u64) -> Option<ExpectedEnd> {
    let mark = progress.last_step?;
    let left = real(mark.of?.checked_sub(mark.step?)?);
    let times = progress
        .step_times
        .filter(|times| times.steps >= LEAST_STEPS && !progress.counts_samples)?;
    let (median, slow) = (times.median_seconds, times.p95_seconds);
    let seconds = (left * median * 0.95, left * median, left * slow);
    ExpectedEnd::new(now_ms, seconds, now_ms)
}

/// Counts and milliseconds stay far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "said above")]
fn real(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Epoch, EpochNumbering, StepMark, StepTimes, TimeSource};

    /// Epochs that end at these seconds, the first of them numbered `from`.
    fn progress(from: u64, ends: &[u64]) -> Progress {
        let mut progress = Progress {
            epochs_announced: Some(50),
            epoch_numbering: Some(EpochNumbering::OneBased),
            ..Progress::default()
        };
        for (epoch, end) in (from..).zip(ends) {
            progress.push_epoch(Epoch {
                epoch,
                ended_at_ms: Some(end * 1000),
                ..Epoch::default()
            });
        }
        progress
    }

    /// Seconds of the earliest, the likely and the latest end, at the end of the last epoch.
    fn ends(progress: &Progress) -> Option<(u64, u64, u64)> {
        let now_ms = progress.epochs.last().and_then(|last| last.ended_at_ms);
        let end = progress.expect_end(None, now_ms.unwrap_or(1000))?;
        Some((
            end.earliest_ms / 1000,
            end.at_ms / 1000,
            end.latest_ms / 1000,
        ))
    }

    #[test]
    fn even_epochs_end_when_the_rest_has_run() {
        // Two that took 10 s, give or take 5 %, of which 47 are left: 6.3 times 0.5 s times the root of 47 + 47 x 47 / 2.
        assert_eq!(ends(&progress(1, &[30, 40, 50])), Some((412, 520, 627)));
        // The second start of a run.
        assert_eq!(ends(&progress(41, &[30, 40, 50])), Some((102, 120, 137)));
        // The more are known, the narrower.
        let many: Vec<u64> = (3..=20).map(|end| end * 10).collect();
        assert_eq!(ends(&progress(1, &many)), Some((511, 520, 528)));
        let uneven = ends(&progress(1, &[30, 40, 52, 61, 73, 82])).expect("known");
        let even = ends(&progress(1, &[30, 40, 51, 61, 72, 82])).expect("known");
        assert!(
            uneven.0 < even.0 && even.2 < uneven.2,
            "{uneven:?} {even:?}"
        );
        assert_eq!(ends(&progress(1, &[30, 40])), None, "one pitch");
        assert_eq!(ends(&progress(51, &[30, 40, 50])), None, "beyond its plan");
    }

    #[test]
    fn time_left_is_judged_by_what_was_known_then() {
        let of = |ends: &[u64], planned: u64| Training {
            started_at_ms: 0,
            planned,
            progress: progress(1, ends),
        };
        // Even epochs of 10 s after a start of 20 s; a quarter of 140 s is within the second of them.
        let ends: Vec<u64> = (3..=14).map(|end| end * 10).collect();
        let even = of(&ends, 12);
        let after = |training: &Training, share| {
            let (said, came) = training.left_after(share)?;
            Some((said.median.round(), came.round()))
        };
        assert_eq!(
            [0.25, 0.5, 0.75].map(|share| after(&even, share)),
            [None, Some((70.0, 70.0)), Some((35.0, 35.0))]
        );
        // Later epochs are slower: nobody knew at half time.
        let slower = [10, 20, 30, 40, 60, 80, 100];
        assert_eq!(after(&of(&slower, 7), 0.5), Some((20.0, 50.0)));
        assert_eq!(
            after(&of(&ends, 13), 0.5),
            None,
            "it did not get to its last epoch"
        );
        let mut dropped = of(&ends, 12);
        dropped.progress.epochs.remove(1);
        assert_eq!(after(&dropped, 0.5), None, "an epoch is missing");
    }

    #[test]
    fn a_suspended_hour_and_a_count_that_began_again_are_no_epochs() {
        let suspended = [10, 20, 30, 3630, 3640];
        assert_eq!(
            ends(&progress(1, &suspended)).map(|ends| ends.1),
            Some(4090)
        );
        let mut again = progress(1, &[10, 20, 30, 40]);
        again.restarts = 1;
        again.epochs[3].epoch = 1;
        assert_eq!(ends(&again), None);
    }

    #[test]
    fn an_epoch_that_takes_far_longer_than_all_before_leaves_the_end_unknown() {
        let even = progress(1, &[30, 40, 50]);
        let at = |seconds: u64| {
            let end = even.expect_end(None, seconds * 1000)?;
            Some(end.at_ms / 1000)
        };
        assert_eq!([at(55), at(65), at(151)], [Some(520), Some(65 + 460), None]);
        assert_eq!(
            progress(48, &[30, 40, 50]).expect_end(None, 50_000),
            None,
            "its epochs are over"
        );
    }

    #[test]
    fn a_program_that_counts_steps_ends_with_the_last_of_them() {
        let mut progress = Progress {
            last_step: Some(StepMark {
                epoch: None,
                step: Some(100),
                of: Some(1100),
            }),
            step_times: Some(StepTimes {
                source: TimeSource::Clock,
                steps: 90,
                median_seconds: 0.5,
                p95_seconds: 0.75,
                data_wait_ratio: None,
            }),
            ..Progress::default()
        };
        assert_eq!(ends(&progress), Some((476, 501, 751)));
        progress.last_step = None;
        assert_eq!(ends(&progress), None);
    }
}
