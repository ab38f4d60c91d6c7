//! What a model has learned, for people.

use serde::{Deserialize, Serialize};

/// What a model has learned, with what stands behind each part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Explanation {
    /// Comparisons: how much longer an epoch takes with the one than with the other.
    pub effects: Vec<LearnedEffect>,
    /// By how much things differ from each other, largest first: where time goes with the choice, and where it does not.
    pub spreads: Vec<Spread>,
}

/// How much longer an epoch takes with one thing than with another, all else the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LearnedEffect {
    /// What is compared: `compiler`, `framework`, `version`, `provenance`, `precision`, `storage`, `hardware`, `batch`, `threads`,
    /// `workers` or `nodes`.
    pub kind: String,
    /// The one.
    pub this: String,
    /// The other.
    pub than: String,
    /// Where: such as `tensorflow on cpu`; empty: everywhere.
    pub within: String,
    /// The workload that it is of; `None`: a workload that was never measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// The time with the one divided by the time with the other.
    pub time_ratio: RatioInterval,
    /// What the priors alone say; `None` where they say nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priors_alone: Option<RatioInterval>,
    /// Runs with the one.
    pub runs_this: u64,
    /// Runs with the other.
    pub runs_than: u64,
}

/// A ratio of times with its 90 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RatioInterval {
    /// As likely below as above.
    pub median: f64,
    /// One time in twenty it is below this.
    pub low: f64,
    /// One time in twenty it is above this.
    pub high: f64,
}

/// By how much the members of a group differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Which group: such as `compiler with framework on device, of a workload`.
    pub group: String,
    /// Standard deviation of the natural logarithm of an epoch's time among its members.
    pub sd: f64,
    /// How many members were measured.
    pub members: u64,
}
