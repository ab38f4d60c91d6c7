//! How good the model is, by runs that it did not see.
//!
//! Three questions, since their answers differ: how well it forecasts a configuration that was measured before, one that was not of
//! a workload that was, and a workload that was never measured. Everything that the fit chooses, it chooses inside the part that it
//! sees. The parts go by the names of what is held back, so that the same runs give the same evaluation.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::facts::Facts;
use super::{CheckedForecast, Model, Observation, Priors, Situation};
use crate::foundation::hash::Hash;
use crate::foundation::statistics::mean;
use crate::record::{Forecast, Interval, Training, median};

/// Fewer runs than this that were held back say nothing.
pub const FEWEST: u64 = 10;
/// More runs than this are not evaluated: a sample of them says the same, and an evaluation fits the model some twenty times.
pub const EVALUATED: usize = 2_000;
/// Parts that runs and configurations are dealt into.
const FOLDS: usize = 5;
/// Parts that workloads are dealt into at most; up to so many, each is held back by itself.
const WORKLOAD_FOLDS: usize = 10;

/// Fits a model on runs; `None` where there is nothing to learn from them.
pub type Fit<'a> = &'a dyn Fn(Vec<Observation>) -> Option<Model>;

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
    /// Nothing: what was forecast of the runs when they were submitted.
    Submitted,
}

/// How far forecasts were off. A logarithm's error of 0.1 is one of about 10 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    /// Runs that were judged.
    pub runs: u64,
    /// Mean of |forecast ÷ measured − 1|, of the forecasts' medians (MAPE).
    pub mean_error_ratio: f64,
    /// Median of |ln(forecast ÷ measured)|: what one run in two is off at most. Outliers do not move it.
    pub median_error_ln: f64,
    /// Mean of ln(forecast ÷ measured): below 0 the forecasts are too short.
    pub bias_ln: f64,
    /// Share of the runs within their 90 % interval: 0.9 is right.
    pub coverage_ratio: f64,
    /// Median of upper ÷ lower end of the intervals.
    pub width_ratio: f64,
}

impl Errors {
    /// Of pairs of a forecast and what was measured. Pairs that are no positive numbers are left out; `None` where none is left.
    #[must_use]
    pub fn from_pairs(pairs: &[(Interval, f64)]) -> Option<Self> {
        let is_positive = |value: &f64| value.is_finite() && *value > 0.0;
        let (mut ratios, mut logarithms) = (Vec::new(), Vec::new());
        let (mut inside, mut widths) = (Vec::new(), Vec::new());
        for (forecast, measured) in pairs {
            let [median, low, high] = [forecast.median, forecast.low, forecast.high];
            if ![*measured, median, low, high].iter().all(is_positive) {
                continue;
            }
            ratios.push((median / measured - 1.0).abs());
            logarithms.push((median / measured).ln());
            inside.push(f64::from(u8::from((low..=high).contains(measured))));
            widths.push(high / low);
        }
        Some(Self {
            runs: ratios.len() as u64,
            mean_error_ratio: mean(&ratios)?,
            median_error_ln: median(logarithms.iter().map(|ln| ln.abs()).collect())?,
            bias_ln: mean(&logarithms)?,
            coverage_ratio: mean(&inside)?,
            width_ratio: median(widths)?,
        })
    }
}

/// The answer to one of the questions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// What was held back.
    pub hold_out: HoldOut,
    /// Parts that were held back in turn.
    pub folds: u64,
    /// Errors of the time of an epoch; `None` where there are too few runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Errors>,
    /// Errors of the time of whole runs, where the number of epochs is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Errors>,
    /// Errors of main memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Errors>,
    /// Why there is no answer, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub too_few: Option<String>,
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
    /// How good the time left was that trainings showed while they ran; empty: none of them showed one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<LeftErrors>,
}

/// Errors of the time left of trainings that ran, after a share of their time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftErrors {
    /// The share of the run that was over, 0 to 1.
    pub share: f64,
    /// Errors of the time left.
    pub errors: Errors,
}

/// The time left that was shown a quarter, a half and three quarters into trainings, and what it came to.
#[derive(Debug, Default)]
pub struct Left([Vec<(Interval, f64)>; 3]);

impl Left {
    const SHARES: [f64; 3] = [0.25, 0.5, 0.75];

    /// Looks at a training.
    pub fn add(&mut self, training: &Training) {
        for (pairs, share) in self.0.iter_mut().zip(Self::SHARES) {
            pairs.extend(training.left_after(share));
        }
    }

    /// How good it was.
    #[must_use]
    pub fn errors(&self) -> Vec<LeftErrors> {
        let shares = self.0.iter().zip(Self::SHARES);
        let judged = shares.map(|(pairs, share)| {
            Some(LeftErrors {
                share,
                errors: Errors::from_pairs(pairs)?,
            })
        });
        judged.flatten().collect()
    }
}

/// Evaluates the model by the runs themselves: each part of them is forecast from the others. `observations` may come in any order.
#[must_use]
pub fn evaluate(
    observations: impl IntoIterator<Item = Observation>,
    priors: &Priors,
) -> Evaluation {
    let mut sample = Sample::default();
    for observation in observations {
        sample.add(&observation);
    }
    sample.evaluate(&|train| Model::fit(train, priors).ok())
}

/// Runs that are evaluated, chosen as they pass by: those with the smallest hashes, so that the same runs are chosen in whatever
/// order they come.
#[derive(Debug, Default)]
pub struct Sample {
    kept: BTreeMap<u64, Observation>,
    timed: u64,
}

impl Sample {
    /// Looks at a run, and keeps it or not.
    pub fn add(&mut self, observation: &Observation) {
        self.timed += u64::from(steady_seconds(observation).is_some());
        let hash = start(observation);
        let last = self.kept.last_key_value().map(|(last, _)| *last);
        if self.kept.len() < EVALUATED || last.is_some_and(|last| hash < last) {
            self.kept.insert(hash, observation.clone());
            if self.kept.len() > EVALUATED {
                self.kept.pop_last();
            }
        }
    }

    /// Evaluates the model by these runs.
    #[must_use]
    pub fn evaluate(self, fit: Fit<'_>) -> Evaluation {
        let observations: Vec<Observation> = self.kept.into_values().collect();
        let views = [HoldOut::Run, HoldOut::Configuration, HoldOut::Workload];
        Evaluation {
            timed: self.timed,
            evaluated: observations.len() as u64,
            views: views
                .map(|hold_out| view(&observations, hold_out, fit))
                .into(),
            left: Vec::new(),
        }
    }
}

fn view(observations: &[Observation], hold_out: HoldOut, fit: Fit<'_>) -> View {
    let (parts, folds) = held_parts(observations, hold_out);
    let runs = || parts.iter().zip(observations);
    let held = runs().filter(|(part, run)| part.is_some() && steady_seconds(run).is_some());
    let too_few = too_few(observations, hold_out, held.count() as u64);
    let mut judged = Judged::default();
    for fold in (0..folds).filter(|_| too_few.is_none()) {
        let chosen = |is_held: bool| {
            runs()
                .filter(move |(part, _)| (**part == Some(fold)) == is_held)
                .map(|(_, observation)| observation)
        };
        let Some(model) = fit(chosen(false).cloned().collect()) else {
            continue;
        };
        let situations: Vec<Situation> = chosen(true).map(|run| run.situation.clone()).collect();
        for (forecast, run) in model.forecasts(&situations).iter().zip(chosen(true)) {
            judged.add(forecast, run);
        }
    }
    judged.view(hold_out, folds, too_few)
}

/// Figures that were forecast, and those that came.
#[derive(Debug, Default)]
pub struct Judged {
    epochs: Vec<(Interval, f64)>,
    totals: Vec<(Interval, f64)>,
    memories: Vec<(Interval, f64)>,
}

impl Judged {
    /// Compares a forecast with its run.
    pub fn add(&mut self, forecast: &Forecast, run: &Observation) {
        let checked = CheckedForecast::new(forecast, run);
        for (pairs, figure) in [
            (&mut self.epochs, checked.epoch_seconds),
            (&mut self.totals, checked.total_seconds),
            (&mut self.memories, checked.memory_bytes),
        ] {
            pairs.extend(figure.map(|figure| (figure.forecast, figure.came)));
        }
    }

    fn view(&self, hold_out: HoldOut, folds: usize, too_few: Option<String>) -> View {
        View {
            hold_out,
            folds: folds as u64,
            epoch: Errors::from_pairs(&self.epochs),
            total: Errors::from_pairs(&self.totals),
            memory: Errors::from_pairs(&self.memories),
            too_few,
        }
    }

    /// How good the forecasts were that runs had when they were submitted.
    #[must_use]
    pub fn submitted(&self) -> View {
        let is_empty = self.epochs.is_empty() && self.totals.is_empty();
        let too_few = is_empty.then(|| "no run that ended had a forecast".to_owned());
        self.view(HoldOut::Submitted, 0, too_few)
    }
}

/// A start of a run as a number.
fn start(observation: &Observation) -> u64 {
    let run = Hash::new(7).name(observation.run_id.as_str());
    let run = run.number(observation.element.into());
    run.number(observation.attempt.into()).end()
}

/// The part that each run is held back with, and how many parts there are; `None`: it is never held back, only learned from.
///
/// What is held back together is a unit: a run, a configuration or a workload. One that has no peer (no repeat, no other
/// configuration of its workload, no other workload) stays, for nothing would be known of it.
fn held_parts(observations: &[Observation], hold_out: HoldOut) -> (Vec<Option<usize>>, usize) {
    let unit = |observation: &Observation| {
        let facts = Facts::new(&observation.situation);
        let configuration = facts.without_epochs().fingerprint();
        match hold_out {
            HoldOut::Run => (configuration, start(observation)),
            HoldOut::Configuration => (facts.workload, configuration),
            HoldOut::Workload | HoldOut::Submitted => (0, facts.workload),
        }
    };
    let timed = observations
        .iter()
        .filter(|run| steady_seconds(run).is_some());
    let mut units: BTreeSet<(u64, u64)> = timed.map(unit).collect();
    let mut peers: BTreeMap<u64, usize> = BTreeMap::new();
    for (shared, _) in &units {
        *peers.entry(*shared).or_default() += 1;
    }
    units.retain(|(shared, _)| peers[shared] > 1);
    let folds = match hold_out {
        HoldOut::Workload => units.len().min(WORKLOAD_FOLDS),
        HoldOut::Run | HoldOut::Configuration | HoldOut::Submitted => FOLDS,
    };
    let dealt = units.into_iter().enumerate();
    let dealt: BTreeMap<(u64, u64), usize> =
        dealt.map(|(rank, unit)| (unit, rank % folds)).collect();
    let part = |observation: &Observation| dealt.get(&unit(observation)).copied();
    (observations.iter().map(part).collect(), folds)
}

/// Why there is no answer, in words.
fn too_few(observations: &[Observation], hold_out: HoldOut, held: u64) -> Option<String> {
    let what = match hold_out {
        HoldOut::Run => "repeated runs",
        HoldOut::Configuration => "runs of a workload with several configurations",
        HoldOut::Workload | HoldOut::Submitted => "runs of one of several workloads",
    };
    let no_epochs =
        !observations.is_empty() && observations.iter().all(|run| run.epoch_seconds.is_none());
    (held < FEWEST).then(|| match no_epochs {
        // Forecasts of whole runs are not judged by holding back.
        true => "no run shows epochs".to_owned(),
        false => format!("needs {FEWEST} {what}, has {held}"),
    })
}

/// The seconds of a steady epoch that was seen to its end.
fn steady_seconds(observation: &Observation) -> Option<f64> {
    let seconds = observation.epoch_seconds?.known()?;
    let is_steady = seconds.is_finite() && seconds > 0.0 && !observation.doubts.warm_up;
    is_steady.then_some(seconds)
}
