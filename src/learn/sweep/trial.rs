//! A trial: what it came to, how it continues, and what it took.

use serde::Serialize;

use super::outcome::Outcome;
use super::space::Values;
use crate::job::RunId;

/// One trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial<'a> {
    /// Its number, from 0.
    pub number: usize,
    /// Its parameters.
    pub values: &'a Values,
    /// The run that counts, or that is under way.
    pub run_id: Option<&'a RunId>,
    /// What it came to, by its newest start that came to a value; `None`: it is under way.
    pub outcome: Option<&'a Outcome>,
    /// A start after that one, which is under way or came to no value.
    pub later: Option<Later<'a>>,
    /// How many starts it has, with those to come that are decided.
    pub starts: usize,
    /// What all its runs took that are over.
    pub spent: Spent,
}

/// What the runs of a trial took.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Spent {
    /// Epochs that ended, those that were trained twice twice.
    pub epochs: u64,
    /// From start to end, in seconds; null: none has a time.
    pub wall_seconds: Option<f64>,
    /// Nodes times time, in hours; null likewise.
    pub node_hours: Option<f64>,
}

/// How a trial continues, or failed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Later<'a> {
    /// Epochs after which this start ends, those before it included.
    pub epochs: u32,
    /// Its run; null: it has none yet.
    pub run_id: Option<&'a str>,
    /// `waiting` for a job, `running`, or how it ended.
    pub state: &'static str,
    /// Why it came to no value; null: it is not over.
    pub failure: Option<&'a str>,
}

impl Trial<'_> {
    /// Both metrics of two, of a trial that did not fail and has both.
    #[must_use]
    pub fn both_values(&self) -> Option<(f64, f64)> {
        let outcome = self.outcome.filter(|outcome| outcome.failure.is_none())?;
        outcome.value.zip(outcome.second_value)
    }

    /// What became of it, in a few words.
    #[must_use]
    pub fn state_text(&self) -> String {
        let Some(outcome) = self.outcome else {
            return waiting_or_running(self.run_id).to_owned();
        };
        let ended = outcome.failure.clone().or_else(|| outcome.stopped_text());
        let ended = ended.unwrap_or_else(|| "completed".to_owned());
        let ended = match outcome.value.is_none() && outcome.failure.is_none() {
            true => format!("{ended}, its value is no number"),
            false => ended,
        };
        match self.later {
            None => ended,
            Some(its) => format!(
                "{ended}; to {}: {}",
                its.epochs,
                its.failure.unwrap_or(its.state)
            ),
        }
    }

    /// Whether it neither runs nor waits to continue.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.outcome.is_some() && self.later.is_none_or(|later| later.failure.is_some())
    }

    /// Whether it was continued, or is being.
    #[must_use]
    pub fn is_continued(&self) -> bool {
        let has_failed = self.later.is_some_and(|later| later.failure.is_some());
        self.starts - usize::from(has_failed) > 1
    }

    /// The state of its last run, in one word.
    #[must_use]
    pub fn state_word(&self) -> &'static str {
        let own = || match self.outcome {
            Some(outcome) => outcome.state.as_str(),
            None => waiting_or_running(self.run_id),
        };
        self.later.map_or_else(own, |later| later.state)
    }
}

/// The state of a start that is not over.
pub(super) fn waiting_or_running(run_id: Option<&RunId>) -> &'static str {
    run_id.map_or("waiting", |_| "running")
}
