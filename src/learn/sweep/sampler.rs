//! Which values the next trial has. Grid, random and Sobol follow from the seed and the trial's number; TPE (Bergstra et al., NIPS
//! 2011) also from what the trials before it came to.

use rand::SeedableRng;
use rand::rngs::StdRng;
use toml::Value;

use super::document::{SamplerKind, Sweep};
use super::parzen::Parzen;
use super::space::{Kind, Parameter, Values, grid};
use crate::foundation::statistics::Dice;

/// Trials before TPE has enough to go by (Optuna's number).
const STARTUP: usize = 10;

/// Proposes trials.
#[derive(Debug)]
pub struct Sampler<'a> {
    sweep: &'a Sweep,
    /// For TPE, one for each parameter.
    estimators: Vec<Parzen>,
    /// Trials that were taken in.
    known: usize,
    /// For a grid, all that it has.
    grid: Vec<Values>,
}

impl<'a> Sampler<'a> {
    /// One that knows no trial yet.
    #[must_use]
    pub fn new(sweep: &'a Sweep) -> Self {
        let estimator = |parameter: &Parameter| match &parameter.kind {
            Kind::Choice(values) => Parzen::new(Some(values.len())),
            _ => Parzen::new(None),
        };
        Self {
            sweep,
            estimators: sweep.space.iter().map(estimator).collect(),
            known: 0,
            grid: match sweep.sampler {
                SamplerKind::Grid => {
                    let mut all = grid(&sweep.space).unwrap_or_default();
                    all.retain(|values| baseline(sweep) != Some(values));
                    all
                }
                _ => Vec::new(),
            },
        }
    }

    /// So many first trials are the same whatever they come to.
    #[must_use]
    pub fn fixed(&self) -> usize {
        match self.sweep.sampler {
            SamplerKind::Tpe => STARTUP,
            kind if kind.packages().is_some() => 0,
            _ => usize::MAX,
        }
    }

    /// Takes in what a trial came to; a trial that failed came to the worst.
    pub fn tell(&mut self, values: &Values, value: Option<f64>) {
        let cost = value.map_or(f64::INFINITY, |value| self.sweep.metric.cost(value));
        let cost = if cost.is_finite() { cost } else { f64::MAX };
        self.known += 1;
        for (parameter, estimator) in self.sweep.space.iter().zip(&mut self.estimators) {
            let part = match &parameter.kind {
                _ if parameter.otherwise(values).is_some() => None,
                Kind::Choice(all) => {
                    let value = values.get(&parameter.name);
                    all.iter()
                        .position(|one| Some(one) == value)
                        .map(|place| place as f64)
                }
                _ => parameter.part_of_trial(values),
            };
            if let Some(part) = part {
                estimator.tell(part, cost);
            }
        }
    }

    /// The values of a trial, counted from 0; `None`: a grid is at its end.
    #[must_use]
    pub fn propose(&mut self, number: usize) -> Option<Values> {
        let number = match (baseline(self.sweep), number.checked_sub(1)) {
            (Some(baseline), None) => return Some(baseline.clone()),
            (Some(_), Some(before)) => before,
            (None, _) => number,
        };
        let by_tpe = self.sweep.sampler == SamplerKind::Tpe && self.known >= STARTUP;
        let values: Vec<Value> = match self.sweep.sampler {
            SamplerKind::Grid => return self.grid.get(number).cloned(),
            SamplerKind::Random => self.random(number),
            _ if by_tpe => self.by_tpe(number),
            _ => self.sobol(number),
        };
        let mut chosen = Values::default();
        for (parameter, value) in self.sweep.space.iter().zip(values) {
            let value = parameter.otherwise(&chosen).cloned().unwrap_or(value);
            chosen.0.insert(parameter.name.clone(), value);
        }
        Some(chosen)
    }

    fn random(&self, number: usize) -> Vec<Value> {
        let mut dice = Dice::new(seed_of_trial(self.sweep, number));
        let space = self.sweep.space.iter();
        // 53 bits are what a decimal has.
        let part = |bits: u64| (bits >> 11) as f64 / (1_u64 << 53) as f64;
        space
            .map(|parameter| parameter.at(part(dice.bits())))
            .collect()
    }

    fn sobol(&self, number: usize) -> Vec<Value> {
        let point = u32::try_from(number).unwrap_or(u32::MAX) % super::MOST_TRIALS;
        #[expect(clippy::cast_possible_truncation, reason = "any bits are a seed")]
        let seed = self.sweep.seed as u32;
        let space = self.sweep.space.iter().zip(0..);
        let part = |dimension| f64::from(sobol_burley::sample(point, dimension, seed));
        space
            .map(|(parameter, dimension)| parameter.at(part(dimension)))
            .collect()
    }

    fn by_tpe(&mut self, number: usize) -> Vec<Value> {
        let mut rng = StdRng::seed_from_u64(seed_of_trial(self.sweep, number));
        let random = self.random(number);
        let space = self
            .sweep
            .space
            .iter()
            .zip(&mut self.estimators)
            .zip(random);
        space
            .map(|((parameter, estimator), random)| {
                match (&parameter.kind, estimator.ask(&mut rng)) {
                    (_, None) => random,
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "a place in a short list"
                    )]
                    (Kind::Choice(values), Some(place)) => {
                        values.get(place as usize).cloned().unwrap_or(random)
                    }
                    (_, Some(part)) => parameter.at(part.clamp(0.0, 1.0 - f64::EPSILON)),
                }
            })
            .collect()
    }
}

/// The seed of the random numbers of a trial.
pub(super) fn seed_of_trial(sweep: &Sweep, number: usize) -> u64 {
    sweep.seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// What the first trial of a tuning has.
fn baseline(sweep: &Sweep) -> Option<&Values> {
    sweep.tune.as_ref().map(|tune| &tune.baseline)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::sweep::{Stopping, parse};

    const JOB: &str = "[run]\ncommand = [\"train\", \"{{x}}\", \"{{y}}\"]\n[sweep]\nmetric = \"loss\"\nmode = \"min\"\n";
    const PLANE: &str = "[sweep.space]\nvars.x = { low = -5.0, high = 10.0 }\nvars.y = { low = 0.0, high = 15.0 }\n";

    fn sweep(lines: &str) -> Sweep {
        parse(&format!("{JOB}{lines}"), "stem").unwrap_or_else(|problems| panic!("{problems:?}"))
    }

    fn number(values: &Values, name: &str) -> f64 {
        values.0[name].as_float().expect("a decimal")
    }

    /// Branin's function; its minimum is 0.397887.
    fn branin(values: &Values) -> f64 {
        let (x, y) = (number(values, "vars.x"), number(values, "vars.y"));
        let pi = std::f64::consts::PI;
        let first = y - 5.1 / (4.0 * pi * pi) * x * x + 5.0 / pi * x - 6.0;
        first * first + 10.0 * (1.0 - 1.0 / (8.0 * pi)) * x.cos() + 10.0
    }

    /// The least of `trials` values.
    fn best_of(sampler: &str, seed: u64, trials: usize) -> f64 {
        let sweep = sweep(&format!("sampler = \"{sampler}\"\nseed = {seed}\n{PLANE}"));
        let mut sampler = Sampler::new(&sweep);
        let values = (0..trials).map(|number| {
            let values = sampler.propose(number).expect("no grid");
            let value = branin(&values);
            sampler.tell(&values, Some(value));
            value
        });
        values.fold(f64::INFINITY, f64::min)
    }

    fn median_regret(sampler: &str) -> f64 {
        let mut regrets: Vec<f64> = (0..30)
            .map(|seed| best_of(sampler, seed, 40) - 0.397_887)
            .collect();
        regrets.sort_by(f64::total_cmp);
        regrets[15]
    }

    #[test]
    fn tpe_has_at_most_six_tenths_of_the_regret_of_random_search() {
        let (tpe, random) = (median_regret("tpe"), median_regret("random"));
        assert!(tpe <= 0.6 * random, "{tpe} against {random}");
        assert!(median_regret("sobol") <= 1.5 * random);
    }

    /// The regret of a budget of epochs, and the trials that it paid for. The curve at epoch `e` of 81 is
    /// `f + 60 exp(-3 e / 81)`, worse in the beginning and never crossing another's.
    fn under_budget(stop: &str, seed: u64) -> (f64, usize) {
        let sweep = sweep(&format!(
            "stop = \"{stop}\"\nsampler = \"random\"\nseed = {seed}\n{PLANE}"
        ));
        let (mut sampler, mut stopping) = (Sampler::new(&sweep), Stopping::new(&sweep));
        let (mut spent, mut best, mut trials) = (0, f64::INFINITY, 0);
        while spent < 20 * 81 {
            let values = sampler.propose(trials).expect("no grid");
            let end = branin(&values);
            let at = |epoch: u64| end + 60.0 * (-3.0 * epoch as f64 / 81.0).exp();
            let stopped = stopping
                .clone()
                .rungs(0)
                .take_while(|rung| *rung < 81)
                .find(|rung| stopping.reach(*rung, at(*rung)));
            spent += stopped.unwrap_or(81);
            best = if stopped.is_none() {
                best.min(end)
            } else {
                best
            };
            trials += 1;
        }
        (best - 0.397_887, trials)
    }

    #[test]
    fn early_stopping_tries_several_times_as_many_at_the_same_cost() {
        let median = |stop: &str| {
            let mut found: Vec<(f64, usize)> =
                (0..30).map(|seed| under_budget(stop, seed)).collect();
            found.sort_by(|one, other| one.0.total_cmp(&other.0));
            found[15]
        };
        let (plain, asha, by_median) = (median("none"), median("asha"), median("median"));
        assert_eq!(plain.1, 20);
        assert!(
            asha.0 <= 0.5 * plain.0 && asha.1 >= 60,
            "{asha:?} against {plain:?}"
        );
        assert!(
            by_median.0 <= plain.0 && by_median.1 >= 30,
            "{by_median:?} against {plain:?}"
        );
    }

    #[test]
    fn a_grid_has_every_combination_once_and_then_ends() {
        let sweep = sweep(
            "sampler = \"grid\"\n[sweep.space]\nvars.x = [1, 2]\nvars.y = { low = 0.001, high = 0.1, log = true, points = 3 }\n",
        );
        assert_eq!(sweep.trials, 6);
        let mut sampler = Sampler::new(&sweep);
        let labels: Vec<String> = (0..6)
            .map(|at| sweep.label(&sampler.propose(at).expect("six")))
            .collect();
        let expected = [
            "x=1 y=0.001",
            "x=1 y=0.01",
            "x=1 y=0.1",
            "x=2 y=0.001",
            "x=2 y=0.01",
            "x=2 y=0.1",
        ];
        assert_eq!(labels, expected);
        assert_eq!(sampler.propose(6), None);
    }

    #[test]
    fn a_grid_has_a_parameter_without_its_condition_once() {
        let sweep = sweep(
            "sampler = \"grid\"\n[sweep.space]\nvars.x = [\"a\", \"b\"]\nvars.y = { values = [1, 2, 3], when = { x = \"a\" }, otherwise = 0 }\n",
        );
        let mut sampler = Sampler::new(&sweep);
        let labels: Vec<String> = (0..4)
            .map(|at| sweep.label(&sampler.propose(at).expect("four")))
            .collect();
        assert_eq!(labels, ["x=a y=1", "x=a y=2", "x=a y=3", "x=b y=0"]);
        assert_eq!((sweep.trials, sampler.propose(4)), (4, None));
    }

    #[test]
    fn a_narrow_range_is_not_rounded_away() {
        let sweep =
            sweep("[sweep.space]\nvars.x = { low = 0.999999, high = 0.9999999 }\nvars.y = [1]\n");
        let mut sampler = Sampler::new(&sweep);
        for trial in 0..30 {
            let values = sampler.propose(trial).expect("no grid");
            assert!(
                (0.999_999..=0.999_999_9).contains(&number(&values, "vars.x")),
                "{values:?}"
            );
        }
    }

    #[test]
    fn parameters_without_their_condition_have_the_other_value() {
        let sweep = sweep(
            "sampler = \"random\"\n[sweep.space]\nvars.x = [\"sgd\", \"adam\"]\nvars.y = { low = 0.5, high = 0.9, when = { x = \"sgd\" }, otherwise = 0 }\n\
             run.env.Z = { values = [\"first\", \"second\"], with = \"x\" }\n",
        );
        let mut sampler = Sampler::new(&sweep);
        let mut seen = [0, 0];
        for trial in 0..40 {
            let values = sampler.propose(trial).expect("no grid");
            let is_sgd = values.0["vars.x"].as_str() == Some("sgd");
            assert_eq!(values.0["vars.y"] == Value::Integer(0), !is_sgd);
            assert_eq!(values.0["run.env.Z"].as_str() == Some("first"), is_sgd);
            seen[usize::from(is_sgd)] += 1;
        }
        assert!(seen.iter().all(|count| *count > 5), "{seen:?}");
    }

    #[test]
    fn the_same_seed_and_history_give_the_same_trials_and_every_value_is_in_its_range() {
        let space = "[sweep.space]\nvars.x = { low = 1, high = 9, step = 2 }\nvars.y = { low = 1, high = 1024, log = true }\n";
        for sampler in ["tpe", "random", "sobol"] {
            let sweep = sweep(&format!("sampler = \"{sampler}\"\n{space}"));
            let run = || {
                let mut sampler = Sampler::new(&sweep);
                let trials = (0..40).map(|trial| {
                    let values = sampler.propose(trial).expect("no grid");
                    // NaN and failures are the worst.
                    let value = [Some(trial as f64), None, Some(f64::NAN)][trial % 3];
                    sampler.tell(&values, value);
                    values
                });
                trials.collect::<Vec<_>>()
            };
            let trials = run();
            assert_eq!(trials, run());
            for values in trials {
                let (x, y) = (
                    values.0["vars.x"].as_integer(),
                    values.0["vars.y"].as_integer(),
                );
                assert!(
                    x.is_some_and(|x| x % 2 == 1 && (1..=9).contains(&x)),
                    "{values:?}"
                );
                assert!(y.is_some_and(|y| (1..=1024).contains(&y)), "{values:?}");
            }
        }
    }
}
