//! What was measured of one node over time, in so few points that it can be drawn, with the least and the most of each.

use std::collections::BTreeMap;

use serde::Serialize;

/// What the values of a curve are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// CPUs kept busy.
    Cpus,
    /// 0 to 1.
    Share,
    /// Bytes.
    Bytes,
    /// Bytes a second.
    BytesPerSecond,
    /// 0 to 100.
    Percent,
    /// Milliwatts.
    Milliwatts,
    /// A number; its name says of what.
    Number,
}

/// One figure over time. The three are as long as the points; `None` where nothing is known.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Curve {
    /// What the values are.
    #[serde(skip)]
    pub unit: Unit,
    /// The least reading of each point.
    pub low: Vec<Option<f64>>,
    /// The value of each point: the mean over its time, of memory the most.
    pub value: Vec<Option<f64>>,
    /// The highest reading of each point.
    pub high: Vec<Option<f64>>,
    /// The mean over all that is known; `None` where the points are the most of each.
    pub mean: Option<f64>,
}

impl Curve {
    /// The highest reading.
    #[must_use]
    pub fn peak(&self) -> f64 {
        self.high.iter().flatten().copied().fold(0.0, f64::max)
    }

    /// The same with as many digits as a drawing needs.
    pub(super) fn rounded(mut self) -> Self {
        let rounded = |value: f64| match value {
            value if value.abs() >= 1e4 => value.round(),
            value => (value * 1e4).round() / 1e4,
        };
        for values in [&mut self.low, &mut self.value, &mut self.high] {
            for value in values.iter_mut() {
                *value = value.map(rounded);
            }
        }
        self
    }

    /// The least reading.
    #[must_use]
    pub fn least(&self) -> f64 {
        self.low
            .iter()
            .flatten()
            .copied()
            .fold(f64::INFINITY, f64::min)
            .min(self.peak())
    }
}

/// Curves by their names for programs, which end in the unit.
pub type Curves = BTreeMap<&'static str, Curve>;

/// The curves of one node, on one clock.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Timeline {
    /// When the first point begins, in Unix milliseconds UTC.
    pub begin_ms: u64,
    /// The length of a point, in milliseconds.
    pub interval_ms: u64,
    /// How many points there are.
    pub points: usize,
    /// Samples behind them.
    pub samples: u64,
    /// Of the run.
    #[serde(rename = "columns")]
    pub run: Curves,
    /// Of each of its GPUs, by UUID.
    pub gpus: BTreeMap<String, Curves>,
}

impl Timeline {
    /// When a point begins, in milliseconds; the next after the last is the end.
    #[must_use]
    pub fn edge_ms(&self, place: usize) -> u64 {
        self.begin_ms
            .saturating_add(self.interval_ms.saturating_mul(place as u64))
    }

    /// A figure of each GPU that has it, with the GPU's UUID.
    pub(super) fn of_gpus<'a>(&'a self, name: &str) -> Vec<(&'a str, &'a Curve)> {
        let of =
            |(uuid, curves): (&'a String, &'a Curves)| Some((uuid.as_str(), curves.get(name)?));
        self.gpus.iter().filter_map(of).collect()
    }
}
