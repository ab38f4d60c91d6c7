//! How good the model is, by runs that it did not see, beside simpler ways to guess.
//!
//! Three questions, since their answers differ: how well it tells a configuration that was measured before, one that was not of a
//! workload that was, and a workload that was never measured. Everything that the fit chooses, it chooses inside the part that it
//! sees. The parts go by the names of what is held back, so that the same runs give the same evaluation.

mod challenge;
mod draw;
mod folds;
mod keys;
mod live;
mod regret;
mod score;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::baseline;
use super::{Length, Model, Observation, Priors, Situation};
use crate::record::{Forecast, Interval};
use folds::deal;
use regret::{Choices, Tally};

pub use challenge::{Challenge, challenge};
pub use draw::{BeforeAndAfter, Drawn};
pub use folds::EVALUATED;
pub(in crate::learn::model) use folds::seconds;
pub(in crate::learn::model) use keys::{image, place, word, workload};
pub use live::{Live, Month, OfBasis, live};
pub use regret::Regret;
pub use score::Errors;
pub(in crate::learn::model) use score::log_normal;

/// Fewer runs than this that were held back say nothing.
pub const FEWEST: u64 = 10;

/// What is held back, and so what the answer is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldOut {
    /// Single runs, whose repeats are learned from: a job that ran before.
    Run,
    /// All runs of a configuration, while others of its workload are learned from: a known workload with other software, on other
    /// hardware or of another size.
    Configuration,
    /// All runs of a workload: a new one.
    Workload,
}

/// Who says how long an epoch will take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Predictor {
    /// dlrun's model.
    Model,
    /// The mean time of a sample over all runs.
    GlobalMean,
    /// The runs that are most alike.
    NearestNeighbour,
    /// The mean time of a sample over the runs with this framework, version, compiler and provenance.
    ImageMean,
    /// A plain linear regression of the logarithm on everything that is known, without interactions.
    LeastSquares,
}

impl Predictor {
    /// Its word in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::GlobalMean => "global_mean",
            Self::NearestNeighbour => "nearest_neighbour",
            Self::ImageMean => "image_mean",
            Self::LeastSquares => "least_squares",
        }
    }
}

/// How good one predictor is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Who.
    pub by: Predictor,
    /// How far its times of an epoch were off.
    pub errors: Errors,
    /// What its choices cost; `None` where there was nothing to choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regret: Option<Regret>,
}

/// The answer to one of the questions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// What was held back.
    pub hold_out: HoldOut,
    /// Parts that were held back in turn.
    pub folds: u64,
    /// The model, and the simpler ways; empty where there are too few runs.
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
    /// The score of one of the predictors.
    #[must_use]
    pub fn of(&self, by: Predictor) -> Option<&Score> {
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
    pub fn of(&self, hold_out: HoldOut) -> Option<&View> {
        self.views.iter().find(|view| view.hold_out == hold_out)
    }
}

/// Says of each situation how long an epoch takes, in seconds.
pub(super) type Predict<'a> = Box<dyn Fn(&[Situation]) -> Vec<Interval> + 'a>;

/// Evaluates the model by the runs themselves: each part of them is told from the others. `observations` may come in any order.
#[must_use]
pub fn evaluate(
    observations: impl IntoIterator<Item = Observation>,
    priors: &Priors,
) -> Evaluation {
    evaluate_drawn(drawn(observations), priors)
}

fn drawn(observations: impl IntoIterator<Item = Observation>) -> Drawn {
    let mut drawn = Drawn::default();
    observations
        .into_iter()
        .for_each(|observation| drawn.add(&observation));
    drawn
}

/// The same of runs that were drawn already.
#[must_use]
pub fn evaluate_drawn(drawn: Drawn, priors: &Priors) -> Evaluation {
    held_back(drawn, &|train| Model::fit(train, priors).ok())
}

/// The same with any way to fit a model.
pub fn evaluate_with(
    observations: impl IntoIterator<Item = Observation>,
    fit: &dyn Fn(Vec<Observation>) -> Option<Model>,
) -> Evaluation {
    held_back(drawn(observations), fit)
}

fn held_back(drawn: Drawn, fit: &dyn Fn(Vec<Observation>) -> Option<Model>) -> Evaluation {
    let (observations, timed) = drawn.end();
    let choices = Choices::among(&observations);
    let views = [HoldOut::Run, HoldOut::Configuration, HoldOut::Workload];
    Evaluation {
        timed,
        evaluated: observations.len() as u64,
        views: views
            .map(|hold_out| view(&observations, &choices, hold_out, fit))
            .into(),
    }
}

/// What came out of the parts for one predictor.
#[derive(Default)]
struct Sheet {
    epochs: Vec<(Interval, f64)>,
    tally: Tally,
}

fn view(
    observations: &[Observation],
    choices: &Choices,
    hold_out: HoldOut,
    fit: &dyn Fn(Vec<Observation>) -> Option<Model>,
) -> View {
    let (parts, folds) = deal(observations, hold_out);
    let mut answer = View {
        hold_out,
        folds: folds as u64,
        scores: Vec::new(),
        total: None,
        memory: None,
        too_few: None,
    };
    let held = parts
        .iter()
        .zip(observations)
        .filter(|(part, of)| part.is_some() && seconds(of).is_some());
    let held = held.count() as u64;
    if held < FEWEST {
        let whole =
            !observations.is_empty() && observations.iter().all(|run| run.epoch_seconds.is_none());
        answer.too_few = Some(if whole {
            NO_EPOCHS.to_owned()
        } else {
            too_few(hold_out, held)
        });
        return answer;
    }
    let mut model_sheet = Sheet::default();
    let mut sheets: Vec<(Predictor, Sheet)> = baseline::ALL
        .iter()
        .map(|(by, _)| (*by, Sheet::default()))
        .collect();
    let (mut totals, mut memories) = (Vec::new(), Vec::new());
    for fold in 0..folds {
        let chosen = |wanted: bool| {
            let of = parts.iter().zip(observations);
            of.filter(move |(part, _)| (**part == Some(fold)) == wanted)
                .map(|(_, observation)| observation)
        };
        let held: Vec<&Observation> = chosen(true).collect();
        let train: Vec<&Observation> = chosen(false).collect();
        if held.is_empty()
            || !train
                .iter()
                .any(|observation| seconds(observation).is_some())
        {
            continue;
        }
        for ((_, make), (_, sheet)) in baseline::ALL.iter().zip(&mut sheets) {
            sheet.judge(&held, choices, &make(&train));
        }
        let Some(model) = fit(train.into_iter().cloned().collect()) else {
            continue;
        };
        let predict: Predict<'_> = Box::new(|situations: &[Situation]| {
            let time = |forecast: &Forecast| {
                *forecast
                    .time()
                    .expect("a model that was fitted knows times")
            };
            model.forecasts(situations).iter().map(time).collect()
        });
        model_sheet.judge(&held, choices, &predict);
        judge_rest(&model, &held, &mut totals, &mut memories);
    }
    let all = std::iter::once((Predictor::Model, model_sheet)).chain(sheets);
    answer.scores = all.filter_map(|(by, sheet)| sheet.done(by)).collect();
    (answer.total, answer.memory) = (Errors::of(&totals), Errors::of(&memories));
    answer
}

/// Forecasts of whole runs are not judged by holding back: `live` judges them.
const NO_EPOCHS: &str = "no run shows epochs; forecasts of whole runs are judged by `--live` only";

fn too_few(hold_out: HoldOut, held: u64) -> String {
    let what = match hold_out {
        HoldOut::Run => "repeated runs",
        HoldOut::Configuration => "runs of a workload with several configurations",
        HoldOut::Workload => "runs of one of several workloads",
    };
    format!("needs {FEWEST} {what}, has {held}")
}

impl Sheet {
    fn judge(&mut self, held: &[&Observation], choices: &Choices, predict: &Predict<'_>) {
        let timed = held
            .iter()
            .filter_map(|observation| Some((observation, seconds(observation)?)));
        let (situations, came): (Vec<Situation>, Vec<f64>) = timed
            .map(|(observation, seconds)| (observation.situation.clone(), seconds))
            .unzip();
        self.epochs
            .extend(predict(&situations).into_iter().zip(came));
        let places: BTreeSet<u64> = situations.iter().map(place).collect();
        for place in places {
            choices.judge(place, predict, &mut self.tally);
        }
    }

    fn done(&self, by: Predictor) -> Option<Score> {
        Some(Score {
            by,
            errors: Errors::of(&self.epochs)?,
            regret: self.tally.done(),
        })
    }
}

/// Forecasts of whole runs and of memory, which only the model makes.
fn judge_rest(
    model: &Model,
    held: &[&Observation],
    totals: &mut Vec<(Interval, f64)>,
    memories: &mut Vec<(Interval, f64)>,
) {
    let situations: Vec<Situation> = held
        .iter()
        .map(|observation| observation.situation.clone())
        .collect();
    for (forecast, observation) in model.forecasts(&situations).iter().zip(held) {
        totals.extend(total_pair(forecast, observation));
        memories.extend(memory_pair(forecast, observation));
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
