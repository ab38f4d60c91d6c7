//! Whether a refit may take the place of the model that is used.

use serde::{Deserialize, Serialize};

use super::draw::BeforeAndAfter;
use super::folds::deal;
use super::score::log_score;
use super::{Errors, FEWEST, HoldOut, seconds};
use crate::learn::model::{Model, Observation, Priors, Situation};

/// A difference of the scores by less than so many standard errors is chance.
const SURE: f64 = 2.0;

/// The current model and a refit, on runs that neither has seen: those that came after the current one was fitted, each told
/// by a refit that holds it back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Challenge {
    /// The current model.
    pub current: Errors,
    /// The refit.
    pub refit: Errors,
    /// By how much the refit's logarithmic score is better, in the mean; below 0 it is worse. It alone decides: the median error
    /// says nothing of how honest the intervals are.
    pub gain: f64,
    /// Standard error of that.
    pub gain_standard_error: f64,
    /// Whether the refit is worse by more than chance explains.
    pub refit_is_worse: bool,
}

/// Holds a refit against `current`, which was fitted on the runs before the moment of `runs`. `None` where fewer than [`FEWEST`] came
/// after it: they cannot tell.
#[must_use]
pub fn challenge(current: &Model, runs: BeforeAndAfter, priors: &Priors) -> Option<Challenge> {
    let (sample, until_ms) = runs.end();
    let (parts, folds) = deal(&sample, HoldOut::Run);
    // What has no repeat is told as well: here the question is what the runs of today are told by either model.
    let part = |at: usize| parts[at].unwrap_or(at % folds);
    let new = |at: usize| sample[at].at_ms > until_ms && seconds(&sample[at]).is_some();
    let all = 0..sample.len();
    if (all.clone().filter(|at| new(*at)).count() as u64) < FEWEST {
        return None;
    }
    let (mut of_current, mut of_refit) = (Vec::new(), Vec::new());
    for fold in 0..folds {
        let held: Vec<&Observation> = all
            .clone()
            .filter(|at| part(*at) == fold && new(*at))
            .map(|at| &sample[at])
            .collect();
        if held.is_empty() {
            continue;
        }
        let train: Vec<Observation> = all
            .clone()
            .filter(|at| part(*at) != fold)
            .map(|at| sample[at].clone())
            .collect();
        let Ok(refit) = Model::fit(train, priors) else {
            continue;
        };
        let situations: Vec<Situation> = held.iter().map(|of| of.situation.clone()).collect();
        for (model, pairs) in [(current, &mut of_current), (&refit, &mut of_refit)] {
            let forecasts = model.forecasts(&situations);
            let told = forecasts.iter().map(|forecast| forecast.time().copied());
            pairs.extend(
                told.zip(held.iter().map(|of| seconds(of)))
                    .filter_map(|(told, came)| told.zip(came)),
            );
        }
    }
    let gains: Vec<f64> = of_refit
        .iter()
        .zip(&of_current)
        .map(|((refit, came), (current, _))| log_score(refit, *came) - log_score(current, *came))
        .filter(|gain| gain.is_finite())
        .collect();
    if (gains.len() as u64) < FEWEST {
        return None;
    }
    let count = gains.len() as f64;
    let gain = gains.iter().sum::<f64>() / count;
    let scatter = gains.iter().map(|one| (one - gain).powi(2)).sum::<f64>() / (count - 1.0);
    let gain_standard_error = (scatter / count).sqrt();
    Some(Challenge {
        current: Errors::of(&of_current)?,
        refit: Errors::of(&of_refit)?,
        gain,
        gain_standard_error,
        refit_is_worse: gain < -SURE * gain_standard_error,
    })
}
