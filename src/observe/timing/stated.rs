//! What an output states, in the words of `dlrun timings --json`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::record::{EpochNumbering, Progress, StepMark, Throughput};

/// What an output states of a training. `None` where it does not state it: nothing here is computed from the times of
/// lines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stated {
    /// Epochs that ended.
    pub epochs_completed: u64,
    /// Planned number of epochs.
    pub epochs_announced: Option<u64>,
    /// How epochs are counted; `none` where they have no numbers.
    pub epoch_numbering: EpochNumbering,
    /// The ended epochs, oldest first; of many the first and the newest.
    pub epochs: Vec<StatedEpoch>,
    /// Steps of an epoch.
    pub steps_per_epoch: Option<u64>,
    /// The last step.
    pub last_step: Option<StepMark>,
    /// Seconds per step, the last value.
    pub step_time_s: Option<f64>,
    /// The last rate of training, or the closing one.
    pub throughput: Option<Throughput>,
    /// Seconds of the whole training.
    pub run_time_s: Option<f64>,
    /// The last value of each loss and metric; `"nan"`, `"inf"` and `"-inf"` stand for what JSON has no number for.
    pub last_metrics: BTreeMap<String, Value>,
}

/// An epoch that ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatedEpoch {
    /// Its number as printed.
    pub epoch: u64,
    /// How long it took, in seconds, as printed.
    pub duration_s: Option<f64>,
}

impl From<&Progress> for Stated {
    fn from(progress: &Progress) -> Self {
        let epoch = |epoch: &crate::record::Epoch| StatedEpoch {
            epoch: epoch.epoch,
            duration_s: epoch.printed_seconds,
        };
        Self {
            epochs_completed: progress.epochs_completed,
            epochs_announced: progress.epochs_announced,
            epoch_numbering: progress
                .epoch_numbering
                .unwrap_or(EpochNumbering::Unnumbered),
            epochs: progress.epochs.iter().map(epoch).collect(),
            steps_per_epoch: progress.steps_per_epoch,
            last_step: progress.last_step,
            step_time_s: progress.step_seconds,
            throughput: progress.throughput.clone(),
            run_time_s: progress.run_seconds,
            last_metrics: progress
                .last_metrics
                .iter()
                .map(|(name, value)| (name.clone(), number(*value)))
                .collect(),
        }
    }
}

/// A number in JSON, or the word for what JSON has none for.
fn number(value: f64) -> Value {
    match value {
        value if value.is_nan() => "nan".into(),
        f64::INFINITY => "inf".into(),
        f64::NEG_INFINITY => "-inf".into(),
        value => value.into(),
    }
}
