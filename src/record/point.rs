//! Losses and metrics over a training: its curves.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::foundation::vocabulary::vocabulary;

/// Points of a kind that are kept. Beyond it every other one goes, and from then on only every second is taken, and so on.
pub const MAX_POINTS: usize = 200;

vocabulary! {
    /// What a point is of.
    pub enum PointKind {
        /// A whole epoch; such points are in the epochs of a record, and in no list of points.
        Epoch = "epoch",
        /// Training, as of a step.
        Step = "step",
        /// An evaluation, on validation or test data.
        Evaluation = "evaluation",
    }
}

/// One value of a [`MetricPoint`], as an index knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricValue {
    /// What the point is of.
    pub kind: PointKind,
    /// Which of its kind in this measurement, from 0.
    pub place: u64,
    /// The name of the loss or metric.
    pub name: String,
    /// The epoch, as printed.
    pub epoch: Option<u64>,
    /// The step, as printed.
    pub step: Option<u64>,
    /// When the line was seen, in Unix milliseconds UTC.
    pub at_ms: Option<u64>,
    /// The value; `None` where it was no finite number.
    pub value: Option<f64>,
}

/// Losses and metrics at one moment of a training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricPoint {
    /// What it is of.
    pub kind: PointKind,
    /// Which of its kind in this measurement, from 0; those that were thinned out are counted.
    pub place: u64,
    /// The epoch, as printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// The step, as printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// When the line was seen, in Unix milliseconds UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
    /// Values by name; NaN, where a training diverged, is `null` in JSON.
    #[serde(deserialize_with = "null_as_nan")]
    pub metrics: BTreeMap<String, f64>,
}

/// Reads metrics of which some are not numbers: JSON has no NaN, and `null` is written for it.
pub(super) fn null_as_nan<'de, D: Deserializer<'de>>(
    source: D,
) -> Result<BTreeMap<String, f64>, D::Error> {
    let metrics = BTreeMap::<String, Option<f64>>::deserialize(source)?;
    Ok(metrics
        .into_iter()
        .map(|(name, value)| (name, value.unwrap_or(f64::NAN)))
        .collect())
}
