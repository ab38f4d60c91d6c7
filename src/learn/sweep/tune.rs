//! What a tuning is beside a sweep. The first trial has the user's own settings. The best trial and these are run again in turn, in
//! pairs.

use super::space::Values;
use crate::learn::bench::Slot;
use crate::record::Progress;

/// What a tuning has beside a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Tune {
    /// Epochs, or steps behind the figure of steps, after which a trial is ended.
    pub length: u32,
    /// Whether that is steps.
    pub by_steps: bool,
    /// How often the best and the user's settings run again, in turn.
    pub pairs: u32,
    /// The user's own settings, as far as the job file has them.
    pub baseline: Values,
}

impl Tune {
    /// The runs of a trial's pairs. The order within a pair alternates, so that a machine that becomes slower
    /// with time favours neither.
    pub(super) fn slots(&self, trial: usize) -> impl Iterator<Item = Slot> {
        (1..=2 * self.pairs).map(move |repeat| Slot {
            cell: trial,
            repeat,
        })
    }

    /// Whether a run has shown enough and would continue.
    #[must_use]
    pub fn is_long_enough(&self, progress: &Progress) -> bool {
        let length = u64::from(self.length);
        if self.by_steps {
            let times = progress.step_times;
            return times.is_some_and(|times| times.steps >= length);
        }
        let done = progress.epochs_completed;
        done >= length && progress.epochs_announced.is_none_or(|all| done < all)
    }
}

/// The trial whose settings a slot has: those of pairs are in turn the user's and the best one's.
#[must_use]
pub fn trial_of(slot: Slot) -> usize {
    match slot.repeat % 4 {
        _ if slot.repeat == 0 => slot.cell,
        0 | 1 => 0,
        _ => slot.cell,
    }
}
