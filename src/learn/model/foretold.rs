//! What was foretold of a run, held against what came.

use serde::{Deserialize, Serialize};

use super::{Length, Observation};
use crate::record::{Basis, Forecast, Interval};

/// A figure that was foretold, and the one that came.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Came {
    /// What was foretold.
    pub forecast: Interval,
    /// What came.
    pub came: f64,
    /// What came, divided by the median of what was foretold.
    pub ratio: f64,
    /// Whether it lies in the interval, which nine of ten should.
    pub is_within: bool,
}

impl Came {
    fn of(forecast: Interval, came: f64) -> Option<Self> {
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
pub struct Foretold {
    /// The model that foretold it.
    pub model: String,
    /// What it rested on.
    pub basis: Basis,
    /// Runs behind that.
    pub runs: u64,
    /// A steady epoch, in seconds; `None` where none was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_seconds: Option<Came>,
    /// The whole run, in seconds; `None` where it was cut off, or its length was not foretold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_seconds: Option<Came>,
    /// Main memory of a node, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<Came>,
}

impl Foretold {
    /// Holds a forecast against the run that it was made for.
    #[must_use]
    pub fn of(forecast: &Forecast, came: &Observation) -> Self {
        let known = |length: Option<Length>| match length {
            Some(Length::Known(seconds)) => Some(seconds),
            _ => None,
        };
        let steady = known(came.epoch_seconds).filter(|_| !came.doubts.warm_up);
        let held = |foretold: Option<Interval>, came: Option<f64>| Came::of(foretold?, came?);
        Self {
            model: forecast.model.clone(),
            basis: forecast.basis,
            runs: forecast.runs,
            epoch_seconds: held(forecast.epoch_seconds, steady),
            total_seconds: held(forecast.total_seconds, known(came.wall_seconds)),
            memory_bytes: held(
                forecast.memory_bytes,
                came.memory_bytes.map(|bytes| bytes as f64),
            ),
        }
    }
}
