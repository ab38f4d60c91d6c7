//! How long steps take: as stated, and by the clock.

use crate::record::{StepTimes, TimeSource};

use super::event::{Facts, is_time};
use super::step_times::Histogram;

/// The last step that a line named, or the first of those that were read at one go.
#[derive(Debug, Clone, Copy)]
struct Stepped {
    epoch: Option<u64>,
    step: u64,
    /// When its line was seen, where that is known.
    at_ms: Option<u64>,
}

/// Collects the times of steps.
#[derive(Debug, Default)]
pub(super) struct Pace {
    stated: Histogram,
    clocked: Histogram,
    stepped: Option<Stepped>,
    /// Steps between the lines that were read, be they timed or not.
    steps: u64,
    /// Seconds of the same steps, as stated and by the clock.
    both: (f64, f64),
    /// Numbers went back: of several trainings in one output the clock says nothing.
    goes_back: bool,
    /// The step of the last line that was behind, and how many such lines came in a row, each of a later step.
    behind: (u64, u32),
    /// An evaluation came after the last step.
    evaluated: bool,
}

/// Lines of smaller numbers that follow each other are not of a rank that is behind, but of a training that continued at a checkpoint.
const RESUMED: u32 = 3;

/// Stated times of steps that are together so many times as long as the clock says are of something else, such as all steps since the last
/// line, or since the start.
const OF_OTHERS: f64 = 2.0;

impl Pace {
    /// The times that are stated, unless the clock rules them out, else those by the clock.
    pub(super) fn times(&self) -> Option<StepTimes> {
        let (stated, clock) = self.both;
        let is_possible = self.goes_back || stated <= OF_OTHERS * clock + 1.0;
        let stated = self
            .stated
            .summary(TimeSource::Stated)
            .filter(|_| is_possible);
        // A bar prints seconds per step only for the slow ones.
        let of_most = |stated: &StepTimes| 2 * stated.steps >= self.steps;
        stated
            .filter(of_most)
            .or_else(|| self.clocked.summary(TimeSource::Clock))
    }

    /// Takes in how long the steps since the last line took. The steps of the first epoch, without epochs the first step,
    /// are left out.
    pub(super) fn add(
        &mut self,
        (epoch, step): (Option<u64>, u64),
        after_first_epoch: bool,
        facts: &Facts<'_>,
        at_ms: Option<u64>,
    ) {
        // Nobody knows how many samples are a step.
        if facts.counts_samples {
            return;
        }
        let warm = if epoch.is_some() {
            after_first_epoch
        } else {
            self.stepped.is_some()
        };
        let last = self.stepped.filter(|last| last.epoch == epoch);
        // Another rank draws its bar, a little behind; what begins again is not that far.
        let is_behind = |last: Stepped| step < last.step && step > last.step / 2;
        if last.is_some_and(is_behind) {
            if step > self.behind.0 {
                self.behind = (step, self.behind.1 + 1);
            }
            if self.behind.1 < RESUMED {
                return;
            }
        }
        self.behind = (0, 0);
        self.goes_back |= last.is_some_and(|last| last.step > step);
        let is_again = last.is_some_and(|last| last.step == step);
        let last = last.filter(|last| last.step < step);
        let steps = last.map(|last| step - last.step);
        self.steps += steps.filter(|_| warm).unwrap_or(0);
        if let Some(seconds) = facts
            .step_seconds
            .filter(|seconds| warm && is_time(*seconds))
        {
            let steps = steps.unwrap_or(1);
            self.stated.add(seconds, steps);
            if let Some(waited) = facts.data_seconds {
                self.stated.add_wait(seconds, waited, steps);
            }
        }
        // A bar is drawn again with other figures: its step was done when it was first drawn.
        if is_again && !self.evaluated {
            return;
        }
        if let Some((from, to)) = last.and_then(|last| last.at_ms).zip(at_ms) {
            // Lines that were read at one go have one time: the steps between such readings share it.
            if to == from {
                return;
            }
            // A clock that was set back says nothing of the steps in between.
            if let Some((steps, seconds)) = steps.filter(|_| warm).zip(seconds_between(from, to)) {
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "counts of steps stay far below 2^53"
                )]
                let count = steps as f64;
                self.clocked.add(seconds / count, steps);
                if let Some(stated) = facts.step_seconds.filter(|stated| is_time(*stated)) {
                    self.both = (self.both.0 + stated * count, self.both.1 + seconds);
                }
            }
        }
        self.stepped = Some(Stepped { epoch, step, at_ms });
        self.evaluated = false;
    }

    /// Takes in that an evaluation is over: the next line about the same step is of what comes after it.
    pub(super) fn evaluated(&mut self) {
        self.evaluated = true;
    }
}

/// Seconds from one Unix time in milliseconds to another; a clock that was set back does not tell.
pub(super) fn seconds_between(from_ms: u64, to_ms: u64) -> Option<f64> {
    Some(std::time::Duration::from_millis(to_ms.checked_sub(from_ms)?).as_secs_f64())
}
