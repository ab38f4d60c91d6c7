//! What was measured of one node over time, in so few points that it can be drawn, with the least and the most of each.

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
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Its name for programs, with its unit, as in `dlrun report --json`.
    pub name: &'static str,
    /// What the values are.
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

    /// The place of the highest reading.
    pub(super) fn peak_place(&self) -> Option<usize> {
        let known = self
            .high
            .iter()
            .enumerate()
            .filter_map(|(place, value)| Some((place, (*value)?)));
        known
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(place, _)| place)
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

/// The curves of one node, on one clock.
#[derive(Debug, Clone, PartialEq, Default)]
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
    pub run: Vec<Curve>,
    /// Of each of its GPUs, by UUID.
    pub gpus: Vec<(String, Vec<Curve>)>,
}

impl Timeline {
    /// When a point begins, in milliseconds; the next after the last is the end.
    #[must_use]
    pub fn edge_ms(&self, place: usize) -> u64 {
        self.begin_ms
            .saturating_add(self.interval_ms.saturating_mul(place as u64))
    }

    /// A figure of the run.
    pub(super) fn curve(&self, name: &str) -> Option<&Curve> {
        self.run.iter().find(|curve| curve.name == name)
    }

    /// A figure of each GPU that has it, with the GPU's UUID.
    pub(super) fn of_gpus<'a>(&'a self, name: &str) -> Vec<(&'a str, &'a Curve)> {
        let of = |(uuid, curves): &'a (String, Vec<Curve>)| {
            Some((
                uuid.as_str(),
                curves.iter().find(|curve| curve.name == name)?,
            ))
        };
        self.gpus.iter().filter_map(of).collect()
    }
}
