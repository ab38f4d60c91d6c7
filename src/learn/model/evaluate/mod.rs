//! How good the model is, by runs that it did not see, beside the simplest guess: the last similar run.
//!
//! Three questions, since their answers differ: how well it forecasts a configuration that was measured before, one that was not of
//! a workload that was, and a workload that was never measured. Everything that the fit chooses, it chooses inside the part that it
//! sees. The parts go by the names of what is held back, so that the same runs give the same evaluation.

mod fingerprint;
mod hold_out;
mod last_similar_run;
mod live;
mod score;

use serde::{Deserialize, Serialize};

use super::{Length, Model, Observation, Priors, Situation};
use crate::record::{Forecast, Interval};
use hold_out::parts_of;
use last_similar_run::LastSimilarRun;

pub use hold_out::{EVALUATED, HoldOut, Sample};
pub use live::{Live, live};
pub use score::Errors;

/// Fewer runs than this that were held back say nothing.
pub const FEWEST: u64 = 10;

/// Fits a model on runs; `None` where there is nothing to learn from them.
pub type Fit<'a> = &'a dyn Fn(Vec<Observation>) -> Option<Model>;

/// How good one way to forecast is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Who forecasts: [`Score::MODEL`] or [`Score::LAST_SIMILAR_RUN`]; older models may hold others.
    pub by: String,
    /// How far its times of an epoch were off.
    pub errors: Errors,
}

impl Score {
    /// dlrun's model.
    pub const MODEL: &'static str = "model";
    /// The last run that is most similar.
    pub const LAST_SIMILAR_RUN: &'static str = "last_similar_run";
}

/// The answer to one of the questions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// What was held back.
    pub hold_out: HoldOut,
    /// Parts that were held back in turn.
    pub folds: u64,
    /// The model, and the simpler way; empty where there are too few runs.
    pub scores: Vec<Score>,
    /// The model's errors of the time of whole runs, where the number of epochs is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Errors>,
    /// The model's errors of main memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Errors>,
    /// Why there is no answer, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub too_few: Option<String>,
}

impl View {
    /// The score of one of the ways to forecast.
    #[must_use]
    pub fn score(&self, by: &str) -> Option<&Score> {
        self.scores.iter().find(|score| score.by == by)
    }
}

/// How good a model of these runs is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Runs with a steady epoch that was seen to its end.
    pub timed: u64,
    /// Runs that were learned from and held back in turn; of more than [`EVALUATED`] runs, a sample by their names.
    pub evaluated: u64,
    /// The answers.
    pub views: Vec<View>,
}

impl Evaluation {
    /// The answer to one of the questions.
    #[must_use]
    pub fn view(&self, hold_out: HoldOut) -> Option<&View> {
        self.views.iter().find(|view| view.hold_out == hold_out)
    }
}

/// Evaluates the model by the runs themselves: each part of them is forecast from the others. `observations` may come in any order.
#[must_use]
pub fn evaluate(
    observations: impl IntoIterator<Item = Observation>,
    priors: &Priors,
) -> Evaluation {
    evaluate_with(observations, &|train| Model::fit(train, priors).ok())
}

/// The same with any way to fit a model.
pub fn evaluate_with(
    observations: impl IntoIterator<Item = Observation>,
    fit: Fit<'_>,
) -> Evaluation {
    let mut sample = Sample::default();
    observations
        .into_iter()
        .for_each(|observation| sample.add(&observation));
    sample.evaluate(fit)
}

impl Sample {
    /// Evaluates the model by these runs.
    #[must_use]
    pub fn evaluate(self, fit: Fit<'_>) -> Evaluation {
        let timed = self.timed();
        let observations = self.into_observations();
        let views = [HoldOut::Run, HoldOut::Configuration, HoldOut::Workload];
        Evaluation {
            timed,
            evaluated: observations.len() as u64,
            views: views
                .map(|hold_out| view(&observations, hold_out, fit))
                .into(),
        }
    }
}

/// Pairs of a forecast and what came.
type Pairs = Vec<(Interval, f64)>;

fn view(observations: &[Observation], hold_out: HoldOut, fit: Fit<'_>) -> View {
    let (parts, folds) = parts_of(observations, hold_out);
    let held = parts
        .iter()
        .zip(observations)
        .filter(|(part, run)| part.is_some() && steady_seconds(run).is_some())
        .count() as u64;
    let mut view = View {
        hold_out,
        folds: folds as u64,
        scores: Vec::new(),
        total: None,
        memory: None,
        too_few: too_few(observations, hold_out, held),
    };
    if view.too_few.is_some() {
        return view;
    }
    let (mut by_model, mut by_last) = (Pairs::new(), Pairs::new());
    let (mut totals, mut memories) = (Pairs::new(), Pairs::new());
    for fold in 0..folds {
        let chosen = |wanted: bool| {
            let runs = parts.iter().zip(observations);
            runs.filter(move |(part, _)| (**part == Some(fold)) == wanted)
                .map(|(_, observation)| observation)
        };
        let held: Vec<&Observation> = chosen(true).collect();
        let Some(last) = LastSimilarRun::learn(chosen(false)) else {
            continue;
        };
        by_last.extend(held.iter().filter_map(|run| {
            let expected = last.epoch_seconds(&run.situation)?;
            Some((expected, steady_seconds(run)?))
        }));
        let Some(model) = fit(chosen(false).cloned().collect()) else {
            continue;
        };
        let situations: Vec<Situation> = held.iter().map(|run| run.situation.clone()).collect();
        for (forecast, run) in model.forecasts(&situations).iter().zip(held) {
            by_model.extend(forecast.time().copied().zip(steady_seconds(run)));
            totals.extend(total_pair(forecast, run));
            memories.extend(memory_pair(forecast, run));
        }
    }
    let ways = [(Score::MODEL, by_model), (Score::LAST_SIMILAR_RUN, by_last)];
    let score = |(by, pairs): (&str, Pairs)| {
        Some(Score {
            by: by.to_owned(),
            errors: Errors::of(&pairs)?,
        })
    };
    view.scores = ways.into_iter().filter_map(score).collect();
    (view.total, view.memory) = (Errors::of(&totals), Errors::of(&memories));
    view
}

/// Why there is no answer, in words.
fn too_few(observations: &[Observation], hold_out: HoldOut, held: u64) -> Option<String> {
    let what = match hold_out {
        HoldOut::Run => "repeated runs",
        HoldOut::Configuration => "runs of a workload with several configurations",
        HoldOut::Workload => "runs of one of several workloads",
    };
    let no_epochs =
        !observations.is_empty() && observations.iter().all(|run| run.epoch_seconds.is_none());
    (held < FEWEST).then(|| match no_epochs {
        // Forecasts of whole runs are not judged by holding back.
        true => "no run shows epochs; forecasts of whole runs are judged by `--live` only".into(),
        false => format!("needs {FEWEST} {what}, has {held}"),
    })
}

/// The seconds of a steady epoch that was seen to its end.
fn steady_seconds(observation: &Observation) -> Option<f64> {
    match observation.epoch_seconds? {
        Length::Known(seconds) if seconds.is_finite() && seconds > 0.0 => {
            Some(seconds).filter(|_| !observation.doubts.warm_up)
        }
        _ => None,
    }
}

fn total_pair(forecast: &Forecast, observation: &Observation) -> Option<(Interval, f64)> {
    match observation.wall_seconds? {
        Length::Known(seconds) => Some((forecast.total_seconds?, seconds)),
        Length::AtLeast(_) => None,
    }
}

fn memory_pair(forecast: &Forecast, observation: &Observation) -> Option<(Interval, f64)> {
    Some((forecast.memory_bytes?, observation.memory_bytes? as f64))
}
