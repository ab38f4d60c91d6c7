//! TPE for one parameter, from a bounded number of trials.
//!
//! The crate `tpe` fits its two densities to all trials that it has each time that it is asked, and compares 24 candidates with each
//! of them. After thousands of trials that takes longer than the scheduler's answer, and more of them change the densities
//! little. So it gets the best tenth, up to [`GOOD`], and up to [`REST`] of the others, evenly from the better to the worse.
//! Up to 223 trials these are all.

use rand::Rng;
use tpe::{TpeOptimizer, TpeOptimizerBuilder};

/// Good trials at most: the crate makes its kernels no narrower than a hundredth of the range, which it reaches with 100 of them.
const GOOD: usize = 100;
/// Other trials at most.
const REST: usize = 200;

/// What is known of one parameter.
#[derive(Debug)]
pub(super) struct Parzen {
    /// Good trials and others at most.
    limits: (usize, usize),
    /// Values of a list; `None`: a range, from 0 to 1.
    choices: Option<usize>,
    /// The parameter of each trial, and what it cost.
    trials: Vec<(f64, f64)>,
    /// Made of them when it is asked.
    optimizer: Option<TpeOptimizer>,
}

impl Parzen {
    /// Of a list of so many values; `None`: of a range from 0 to 1.
    pub(super) fn new(choices: Option<usize>) -> Self {
        Self {
            limits: (GOOD, REST),
            choices,
            trials: Vec::new(),
            optimizer: None,
        }
    }

    /// Takes in a trial. `cost` is a number, smaller is better.
    pub(super) fn tell(&mut self, part: f64, cost: f64) {
        self.trials.push((part, cost));
        self.optimizer = None;
    }

    /// A value for the next trial.
    pub(super) fn ask(&mut self, rng: &mut impl Rng) -> Option<f64> {
        if self.optimizer.is_none() {
            self.optimizer = self.optimizer_of_trials();
        }
        self.optimizer.as_mut()?.ask(rng).ok()
    }

    fn optimizer_of_trials(&mut self) -> Option<TpeOptimizer> {
        self.trials.sort_by(|one, other| one.1.total_cmp(&other.1));
        let good = self.trials.len().div_ceil(10).min(self.limits.0);
        let (best, others) = self.trials.split_at(good);
        let count = others.len().min(self.limits.1);
        let others = (0..count).map(|place| &others[place * others.len() / count]);
        // The crate rounds the number of good ones up.
        let share = (good as f64 - 0.5).max(0.0) / (good + count).max(1) as f64;
        let (estimator, range) = match self.choices {
            Some(choices) => (
                tpe::histogram_estimator(),
                tpe::categorical_range(choices).ok()?,
            ),
            None => (tpe::parzen_estimator(), tpe::range(0.0, 1.0).ok()?),
        };
        let mut optimizer = TpeOptimizerBuilder::new()
            .gamma(share)
            .build(estimator, range)
            .ok()?;
        for (part, cost) in best.iter().chain(others) {
            // Outside of its range it would only not be learned from.
            let _ = optimizer.tell(*part, *cost);
        }
        Some(optimizer)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    const ALL: (usize, usize) = (usize::MAX, usize::MAX);

    /// How far Branin's function is above its minimum, on the unit square.
    fn branin(at: &[f64]) -> f64 {
        let (x, y) = (15.0 * at[0] - 5.0, 15.0 * at[1]);
        let pi = std::f64::consts::PI;
        let first = y - 5.1 / (4.0 * pi * pi) * x * x + 5.0 / pi * x - 6.0;
        first * first + 10.0 * (1.0 - 1.0 / (8.0 * pi)) * x.cos() + 10.0 - 0.397_887
    }

    /// How far Hartmann's function of six parameters is above its minimum.
    fn hartmann(at: &[f64]) -> f64 {
        const HEIGHTS: [f64; 4] = [1.0, 1.2, 3.0, 3.2];
        const STEEP: [[f64; 6]; 4] = [
            [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
            [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
            [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
            [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
        ];
        const CENTRES: [[f64; 6]; 4] = [
            [0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886],
            [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
            [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650],
            [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381],
        ];
        let height = |peak: usize| {
            let square = |part: usize| STEEP[peak][part] * (at[part] - CENTRES[peak][part]).powi(2);
            HEIGHTS[peak] * (-(0..6).map(square).sum::<f64>()).exp()
        };
        3.322_37 - (0..4).map(height).sum::<f64>()
    }

    type Function = (u32, fn(&[f64]) -> f64);

    /// The regret after 40, 200 and 1,000 trials, of which the first ten are points of a Sobol sequence.
    fn regrets((parts, function): Function, seed: u32, limits: (usize, usize)) -> [f64; 3] {
        let estimator = |_| Parzen {
            limits,
            ..Parzen::new(None)
        };
        let mut estimators: Vec<Parzen> = (0..parts).map(estimator).collect();
        let mut rng = StdRng::seed_from_u64(seed.into());
        let (mut best, mut found) = (f64::INFINITY, Vec::new());
        for trial in 0..1000 {
            let at: Vec<f64> = match trial {
                0..10 => (0..parts)
                    .map(|part| f64::from(sobol_burley::sample(trial, part, seed)))
                    .collect(),
                _ => estimators
                    .iter_mut()
                    .map(|one| one.ask(&mut rng).expect("a value"))
                    .collect(),
            };
            let cost = function(&at);
            best = cost.min(best);
            for (estimator, part) in estimators.iter_mut().zip(at) {
                estimator.tell(part, cost);
            }
            if [39, 199, 999].contains(&trial) {
                found.push(best);
            }
        }
        found.try_into().expect("three")
    }

    fn medians(function: Function, seeds: u32, limits: (usize, usize)) -> [f64; 3] {
        let all: Vec<[f64; 3]> = (0..seeds)
            .map(|seed| regrets(function, seed, limits))
            .collect();
        [0, 1, 2].map(|place| {
            let mut column: Vec<f64> = all.iter().map(|row| row[place]).collect();
            column.sort_by(f64::total_cmp);
            column[column.len() / 2]
        })
    }

    #[test]
    fn a_thousand_trials_still_come_closer() {
        let [at_40, at_200, at_1000] = medians((2, branin), 5, (GOOD, REST));
        assert!(
            at_200 < 0.1 * at_40 && at_1000 < 0.1 * at_200,
            "{at_40} {at_200} {at_1000}"
        );
    }

    /// Five minutes in a debug build.
    #[test]
    #[ignore = "takes long: cargo test --lib -- --ignored bounded_trials"]
    fn bounded_trials_are_as_good_as_all() {
        for function in [(2, branin as fn(&[f64]) -> f64), (6, hartmann)] {
            let (bounded, all) = (
                medians(function, 30, (GOOD, REST)),
                medians(function, 30, ALL),
            );
            assert_eq!(bounded[..2], all[..2], "up to 223 trials these are all");
            assert!(bounded[2] <= all[2], "{bounded:?} against {all:?}");
        }
    }

    #[test]
    fn of_many_trials_only_some_are_fitted() {
        let mut estimator = Parzen::new(None);
        for trial in 0..10_000 {
            estimator.tell(f64::from(trial) / 1e4, f64::from(trial));
        }
        let optimizer = estimator.optimizer_of_trials().expect("it has trials");
        let costs: Vec<f64> = optimizer.trials().map(|(_, cost)| cost).collect();
        assert_eq!(costs.len(), GOOD + REST);
        assert!(costs[..GOOD].iter().all(|cost| *cost < 100.0));
        assert!(costs.last().is_some_and(|cost| *cost > 9_900.0));
        let mut rng = StdRng::seed_from_u64(1);
        assert!(estimator.ask(&mut rng).is_some_and(|part| part < 0.1));
    }

    #[test]
    fn a_parameter_that_no_trial_had_gets_a_value() {
        let mut rng = StdRng::seed_from_u64(1);
        for choices in [None, Some(3)] {
            assert!(Parzen::new(choices).ask(&mut rng).is_some());
        }
    }
}
