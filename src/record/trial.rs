//! What the trial before a command measured (`framework.trial`).

use serde::{Deserialize, Serialize};

/// The trial of a start on its node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// How long all of it took, in seconds.
    pub seconds: f64,
    /// What the times are of: `step` or `epoch`; `None`: nothing was measured.
    pub unit: Option<String>,
    /// The ways; the first is the planned one.
    pub ways: Vec<TriedWay>,
    /// Which of them the command got.
    pub chosen: usize,
    /// Why.
    pub why: String,
    /// The compiler of the chosen way.
    pub compiler: Option<String>,
    /// Its `OMP_NUM_THREADS`.
    pub threads: Option<u32>,
}

/// A way that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TriedWay {
    /// `inductor, 8 threads`.
    pub name: String,
    /// Its passes, in order: the first may have begun with cold caches.
    pub passes: Vec<TrialPass>,
}

/// One short run of a way.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TrialPass {
    /// From the start of the command to the end of its first step or epoch, in seconds: start-up and compilation are in it.
    pub first_seconds: Option<f64>,
    /// Mean of a step, or median of an epoch, after the first ones, in seconds.
    pub unit_seconds: Option<f64>,
    /// How many were measured.
    pub count: u64,
    /// Why the pass measured nothing.
    pub failure: Option<String>,
}
