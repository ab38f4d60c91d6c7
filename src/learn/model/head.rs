//! What a model says of itself: what it was fitted on, and by whom.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of the file that is written and read: another one whenever a field, the length of an
/// array or the order of variants changes, since `postcard` writes no names.
pub const MODEL_FORMAT: u32 = 9;

/// The beginning of a model file: all that is known of a model without the model itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Version of the file's form; see [`MODEL_FORMAT`].
    pub dlrun_model: u32,
    /// Its name: the same runs and priors have the same one.
    pub name: String,
    /// When it was fitted, in Unix milliseconds UTC, if the caller sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_at_ms: Option<u64>,
    /// The version of dlrun that fitted it.
    pub made_by: String,
    /// Fingerprint of the observations, whatever their order: 32 hexadecimal digits.
    pub data_hash: String,
    /// When the first of the runs was handed over, in Unix milliseconds UTC.
    pub first_at_ms: u64,
    /// When the last one was.
    pub last_at_ms: u64,
    /// How much it rests on.
    pub counts: Counts,
    /// By how much repeats of one configuration differ: the standard deviation of the natural logarithm of an epoch's time, over
    /// all runs. Where [`Counts::repeats`] is 0 nothing was measured of it, and it is what is believed before. `None` where no
    /// epochs were timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise_sd: Option<f64>,
    /// By how much a configuration that was never measured differs from what its parts make expect, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interaction_sd: Option<f64>,
    /// How good it is on runs that were held back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<serde_json::Value>,
}

/// How much a model rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Counts {
    /// Runs that were given, array elements and attempts counted singly.
    pub runs: u64,
    /// Those with a usable time of an epoch.
    pub with_epochs: u64,
    /// Those that were cut off: their epoch, or the run, is longer than what was seen.
    pub cut_off: u64,
    /// Those that tell no epochs, with a usable time of the whole run.
    pub whole_runs: u64,
    /// Runs about which something speaks, so that they weigh less.
    pub doubtful: u64,
    /// Values that were left out because they are no times or sizes (NaN, zero, negative), by what they were of.
    pub left_out: BTreeMap<String, u64>,
    /// Workloads: network, data set, samples and parameters.
    pub workloads: u64,
    /// Configurations: workload, software, hardware and sizes.
    pub configurations: u64,
    /// Timed runs of a configuration beyond its first: what is known of the noise was measured on them. `None`: a dlrun fitted it
    /// that did not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u64>,
    /// Coefficients that all workloads share.
    pub coefficients: u64,
    /// Rare versions, images and the like that got no coefficient of their own, because there are too many.
    pub pooled: u64,
    /// Published effects among the priors.
    pub published: u64,
}

/// Why there is no model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unfit {
    /// There are no observations.
    #[error("there are no runs to learn from")]
    NoRuns,
    /// None of the observations holds a usable time.
    #[error("none of {runs} runs has usable timings: {left_out}")]
    NothingTimed {
        /// How many there are.
        runs: u64,
        /// What they lack, in words.
        left_out: String,
    },
    /// The equations have no solution in floating point, whatever was tried.
    #[error("the model's equations could not be solved for the {response}")]
    Unsolvable {
        /// For what.
        response: &'static str,
    },
}

/// Why bytes are no model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unreadable {
    /// Something else.
    #[error("it is not a model of dlrun")]
    NoModel,
    /// A newer dlrun wrote it.
    #[error("it has format {found}; this dlrun reads format {known}", known = MODEL_FORMAT)]
    Newer {
        /// The format that it has.
        found: u64,
    },
    /// An older dlrun wrote it.
    #[error("it has format {found}, of an older dlrun; this one reads format {known}", known = MODEL_FORMAT)]
    Older {
        /// The format that it has.
        found: u64,
    },
    /// It was cut off or changed.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
}
