//! What a run did when: the rhythm of its steps, and its phases, derived from samples and from its own log.

use serde::{Deserialize, Serialize};

use crate::foundation::vocabulary::vocabulary;

vocabulary! {
    /// What kind of curve a signal is.
    #[cfg_attr(test, derive(schemars::JsonSchema))]
    pub enum PatternKind {
        /// It hardly changes.
        Flat = "flat",
        /// It changes without a period.
        Aperiodic = "aperiodic",
        /// It repeats itself.
        Periodic = "periodic",
        /// It repeats itself, faster than its samples can show.
        LowResolution = "low_resolution",
        /// There are too few samples to say.
        Unresolvable = "unresolvable",
    }
}

vocabulary! {
    /// What a run does at a time.
    #[cfg_attr(test, derive(schemars::JsonSchema))]
    pub enum Phase {
        /// Before the first step: imports, reading of data, compilation.
        Startup = "startup",
        /// The part of that in which files are copied.
        Staging = "staging",
        /// The GPUs have begun to work and are not yet at their pace.
        Warmup = "warmup",
        /// Steps and epochs, by the run's own log.
        Training = "training",
        /// Busy GPUs, and no log says with what.
        Computing = "computing",
        /// Validation or test, by the run's own log.
        Evaluation = "evaluation",
        /// A checkpoint is written.
        Checkpoint = "checkpoint",
        /// The training waits for its data.
        DataBound = "data_bound",
        /// The training waits for other ranks.
        CommunicationBound = "communication_bound",
        /// The GPUs have no work although the run has not ended: something else works or hangs.
        Stalled = "stalled",
        /// Nothing works at all.
        Idle = "idle",
        /// Neither log nor samples say.
        Unknown = "unknown",
    }
}

vocabulary! {
    /// Whose word the time of an iteration is.
    #[cfg_attr(test, derive(schemars::JsonSchema))]
    pub enum IterationSource {
        /// Steps of the run's log.
        Steps = "steps",
        /// Epochs of the run's log.
        Epochs = "epochs",
        /// The period of a signal.
        Signal = "signal",
    }
}

/// The rhythm of one signal, or of all that agree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pattern {
    /// `gpu`, `cpu`, `read` or `write`; of several that agree the clearest. `None`: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// The GPU, where it is one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// What kind of curve it is.
    pub kind: PatternKind,
    /// Time from one repetition to the next, in seconds; only of what is periodic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_seconds: Option<f64>,
    /// 95 % interval of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_low_seconds: Option<f64>,
    /// Its other end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_high_seconds: Option<f64>,
    /// By how much repetitions are more alike than what lies between them: 0 to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Repetitions that were seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<f64>,
    /// Standard deviation of the period over parts of the time, relative to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_ratio: Option<f64>,
    /// A longer period over the first, or a shorter one within it, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_period_seconds: Option<f64>,
    /// Why there is no period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Pattern {
    /// A pattern that has no period, and why.
    #[must_use]
    pub fn without_period(kind: PatternKind, why: impl Into<String>) -> Self {
        Self {
            signal: None,
            gpu: None,
            kind,
            period_seconds: None,
            period_low_seconds: None,
            period_high_seconds: None,
            confidence: None,
            cycles: None,
            jitter_ratio: None,
            second_period_seconds: None,
            why: Some(why.into()),
        }
    }
}

/// How long one iteration takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Iteration {
    /// In seconds.
    pub seconds: f64,
    /// Whose word that is: the log's, where it gives steps or epochs.
    pub source: IterationSource,
    /// The period of the signals that was compared with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_seconds: Option<f64>,
    /// Whether the two agree within 10 %; `None`: there is only one, or none that could agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agrees: Option<bool>,
}

/// How much time a phase took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PhaseTime {
    /// Which.
    pub phase: Phase,
    /// In seconds.
    pub seconds: f64,
    /// Of the time from the first to the last sample, 0 to 1.
    pub share: f64,
}

/// A time in one phase.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PhaseSpan {
    /// Which.
    pub phase: Phase,
    /// From here, in Unix milliseconds UTC.
    pub from_ms: u64,
    /// To here.
    pub to_ms: u64,
}

/// The rhythm and the phases of a run on one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Activity {
    /// The pattern that most signals agree on.
    pub pattern: Pattern,
    /// Those of single GPUs that do not agree with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlike: Vec<Pattern>,
    /// How long an iteration takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<Iteration>,
    /// The time of each phase, the longest first.
    pub phases: Vec<PhaseTime>,
    /// The phase of the last sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Since when, in Unix milliseconds UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_since_ms: Option<u64>,
}

impl Activity {
    /// Seconds of a phase; `None`: it was not seen.
    #[must_use]
    pub fn seconds_of(&self, phase: Phase) -> Option<f64> {
        let mut phases = self.phases.iter();
        let found = phases.find(|time| time.phase == phase);
        found.map(|time| time.seconds)
    }
}
