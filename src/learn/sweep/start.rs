//! The starts of a trial: with promotion it has several, each a job.

use serde::{Deserialize, Serialize};

use crate::learn::bench::Slot;

/// A later start of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Promotion {
    /// Epochs after which it ends, those of the starts before it included.
    pub epochs: u32,
    /// The checkpoint that it continues from, absolute.
    pub from: String,
}

/// The first start of a trial.
#[must_use]
pub fn first_start(trial: usize) -> Slot {
    Slot {
        cell: trial,
        repeat: 0,
    }
}
