//! Epochs and steps of a training, as recognised in its output.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// Epochs that a [`Progress`] keeps one by one. Beyond it the oldest but the first are dropped and only counted, so that
/// a node record stays small.
pub const MAX_EPOCHS_KEPT: usize = 1000;

/// One epoch that ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Epoch {
    /// Its number as printed.
    pub epoch: u64,
    /// How long it took, in seconds, as the program printed it. `None` where it printed nothing.
    pub printed_seconds: Option<f64>,
    /// How long it took by the watcher's clock: from the end of the epoch before (or the epoch's first line) to this
    /// one's. `None` where lines carried no time.
    pub clock_seconds: Option<f64>,
    /// When the line that ended it was seen, in Unix milliseconds UTC.
    pub ended_at_ms: Option<u64>,
    /// Losses and metrics of its last line, under the names in the output. NaN, where a training diverged, is `null` in
    /// JSON.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_nan")]
    pub metrics: BTreeMap<String, f64>,
}

impl Epoch {
    /// The best figure for how long it took: as printed where that is finer than whole seconds, else by the clock, else
    /// as printed.
    #[must_use]
    pub fn seconds(&self) -> Option<f64> {
        match (self.printed_seconds, self.clock_seconds) {
            (Some(printed), Some(clock)) if printed.fract() == 0.0 && printed < 100.0 => Some(clock),
            (Some(printed), _) => Some(printed),
            (None, clock) => clock,
        }
    }
}

/// The last step that was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StepMark {
    /// The epoch it belongs to, as printed.
    pub epoch: Option<u64>,
    /// Its number as printed.
    pub step: u64,
    /// Steps (or samples, where the program counts those) of a whole epoch.
    pub of: Option<u64>,
}

/// A rate of training as the program printed it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// The number.
    pub value: f64,
    /// Its unit: `samples/s`, `steps/s`, `tokens/s`, `it/s`.
    pub unit: String,
}

/// All that was recognised so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Progress {
    /// Which recogniser spoke: `keras`, `pytorch`, `epoch-line`, `pattern`. `None` until one did.
    pub recogniser: Option<String>,
    /// Planned number of epochs, as printed.
    pub epochs_announced: Option<u64>,
    /// Epochs that ended.
    pub epochs_completed: u64,
    /// The ended epochs, oldest first; at most [`MAX_EPOCHS_KEPT`].
    pub epochs: Vec<Epoch>,
    /// Steps of an epoch, as printed.
    pub steps_per_epoch: Option<u64>,
    /// The last step seen.
    pub last_step: Option<StepMark>,
    /// Seconds per step, the last value printed.
    pub step_seconds: Option<f64>,
    /// The last rate printed.
    pub throughput: Option<Throughput>,
    /// The last value of each loss and metric; NaN as in [`Epoch::metrics`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_nan")]
    pub last_metrics: BTreeMap<String, f64>,
}

impl Progress {
    /// Adds an epoch that ended; the first and the newest are kept.
    pub fn push_epoch(&mut self, epoch: Epoch) {
        self.epochs_completed += 1;
        if self.epochs.len() == MAX_EPOCHS_KEPT {
            self.epochs.remove(1);
        }
        self.epochs.push(epoch);
    }
}

/// Reads metrics of which some are not numbers: JSON has no NaN, and `null` is written for it.
fn null_as_nan<'de, D: Deserializer<'de>>(source: D) -> Result<BTreeMap<String, f64>, D::Error> {
    let metrics = BTreeMap::<String, Option<f64>>::deserialize(source)?;
    Ok(metrics.into_iter().map(|(name, value)| (name, value.unwrap_or(f64::NAN))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_epochs_keep_the_first_and_the_newest() {
        let mut progress = Progress::default();
        for epoch in 0..5000 {
            progress.push_epoch(Epoch { epoch, ..Epoch::default() });
        }
        assert_eq!(progress.epochs_completed, 5000);
        assert_eq!(progress.epochs.len(), MAX_EPOCHS_KEPT);
        assert_eq!((progress.epochs[0].epoch, progress.epochs[999].epoch), (0, 4999));
    }

    #[test]
    fn whole_printed_seconds_give_way_to_the_clock() {
        let epoch =
            |printed, clock| Epoch { printed_seconds: printed, clock_seconds: clock, ..Epoch::default() };
        assert_eq!(epoch(Some(2.0), Some(1.84)).seconds(), Some(1.84));
        assert_eq!(epoch(Some(1.79), Some(1.84)).seconds(), Some(1.79));
        assert_eq!(epoch(Some(147.0), Some(147.3)).seconds(), Some(147.0));
        assert_eq!(epoch(None, None).seconds(), None);
    }
}
