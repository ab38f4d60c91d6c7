//! What was forecast of a run, compared with what came.

use serde::{Deserialize, Serialize};

use super::{Length, Observation};
use crate::record::{Basis, Forecast, Interval};

/// A figure that was forecast, and the one that came.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CheckedFigure {
    /// What was forecast.
    pub forecast: Interval,
    /// What came.
    pub came: f64,
    /// What came, divided by the median of the forecast.
    pub ratio: f64,
    /// Whether it lies in the interval, which nine of ten should.
    pub is_within: bool,
}

impl CheckedFigure {
    fn new(forecast: Interval, came: f64) -> Option<Self> {
        let ratio = came / forecast.median;
        let is_within = (forecast.low..=forecast.high).contains(&came);
        (ratio.is_finite() && ratio > 0.0).then_some(Self {
            forecast,
            came,
            ratio,
            is_within,
        })
    }
}

/// A forecast and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckedForecast {
    /// The model that forecast it.
    pub model: String,
    /// What it rested on.
    pub basis: Basis,
    /// Runs behind that.
    pub runs: u64,
    /// A steady epoch, in seconds; `None` where none was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_seconds: Option<CheckedFigure>,
    /// The whole run, in seconds; of one that was cut off what had passed, where that is more than was forecast. `None`: its length
    /// was not forecast, or is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_seconds: Option<CheckedFigure>,
    /// Main memory of a node, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<CheckedFigure>,
}

impl CheckedForecast {
    /// Compares a forecast with the run that it was made for.
    #[must_use]
    pub fn new(forecast: &Forecast, came: &Observation) -> Self {
        let steady = came.epoch_seconds.filter(|_| !came.doubts.warm_up);
        let steady = steady.and_then(Length::known);
        let high = forecast
            .total_seconds
            .map_or(f64::INFINITY, |total| total.high);
        let checked =
            |forecast: Option<Interval>, came: Option<f64>| CheckedFigure::new(forecast?, came?);
        Self {
            model: forecast.model.clone(),
            basis: forecast.basis,
            runs: forecast.runs,
            epoch_seconds: checked(forecast.epoch_seconds, steady),
            total_seconds: checked(
                forecast.total_seconds,
                came.wall_seconds
                    .filter(|wall| wall.known().is_some() || wall.seconds() > high)
                    .map(Length::seconds),
            ),
            memory_bytes: checked(
                forecast.memory_bytes,
                came.memory_bytes.map(|bytes| bytes as f64),
            ),
        }
    }
}
