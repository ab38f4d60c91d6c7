//! How much the value of a trial depends on each parameter alone.

use std::collections::BTreeMap;

use super::document::Sweep;
use super::space::{Kind, Parameter};
use super::trial::Trial;
use crate::foundation::statistics::f_at_least;

/// With fewer trials nothing can be said.
const LEAST_TRIALS: usize = 20;
/// Groups of a range, of as many trials each.
const GROUPS: f64 = 4.0;
/// Trials before and after one with which it is compared: a sampler that learns moves all parameters while the values improve, and
/// each of them would seem to be the reason.
const NEIGHBOURS: usize = 5;
/// How likely such groups may be by chance.
const CHANCE: f64 = 0.01;

/// Of the variance of the trials' ranks, each against those of the trials around it, the share that lies between groups of alike values
/// of the parameter: each value of a list, each fourth of the trials of a range. 0 to 1, corrected for chance (epsilon squared; Kelley,
/// PNAS 1935); 0 where chance alone may have made them (F test). Trials that were stopped early count with the value that they had.
/// `None`: fewer than 20 have a value and this parameter, or all are alike.
#[must_use]
pub fn importance(sweep: &Sweep, parameter: &Parameter, trials: &[Trial<'_>]) -> Option<f64> {
    let place = |trial: &Trial<'_>| {
        let outcome = trial.outcome.filter(|outcome| outcome.failure.is_none())?;
        let part = parameter.part_of_trial(trial.values)?;
        Some((part, sweep.metric.cost(outcome.value?)))
    };
    let mut trials: Vec<&Trial<'_>> = trials.iter().collect();
    trials.sort_by_key(|trial| trial.number);
    let points: Vec<(f64, f64)> = trials.into_iter().filter_map(place).collect();
    share_between(&points, matches!(parameter.kind, Kind::Choice(_)))
}

/// `points` in the order of their trials.
fn share_between(points: &[(f64, f64)], is_choice: bool) -> Option<f64> {
    let parts = ranks(points.iter().map(|point| point.0));
    let costs = against_neighbours(&ranks(points.iter().map(|point| point.1)));
    // Which groups are one, not in which order they are, is of interest.
    let group = |rank: f64| match is_choice {
        true => rank.to_bits(),
        false => (rank / points.len() as f64 * GROUPS).floor().to_bits(),
    };
    let mut groups: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (part, cost) in parts.iter().zip(&costs) {
        groups.entry(group(*part)).or_default().push(*cost);
    }
    let free = points.len().checked_sub(groups.len())?;
    if points.len() < LEAST_TRIALS || groups.len() < 2 || free == 0 {
        return None;
    }
    let (freedom, total) = ((groups.len() - 1) as f64, squares(&costs));
    if total <= 0.0 {
        return None;
    }
    let within = groups.values().map(|group| squares(group)).sum::<f64>();
    let (between, rest) = ((total - within) / freedom, within / free as f64);
    let is_chance = f_at_least(between / rest, freedom, free as f64) >= CHANCE;
    let share = 1.0 - rest / (total / (points.len() - 1) as f64);
    Some(if is_chance { 0.0 } else { share.max(0.0) })
}

/// Each rank less the mean of those around it.
fn against_neighbours(ranks: &[f64]) -> Vec<f64> {
    let against = |(at, own): (usize, &f64)| {
        let from = at.saturating_sub(NEIGHBOURS);
        let around = &ranks[from..(at + NEIGHBOURS + 1).min(ranks.len())];
        let others = (around.len() - 1).max(1) as f64;
        own - (around.iter().sum::<f64>() - own) / others
    };
    ranks.iter().enumerate().map(against).collect()
}

/// An importance in words: `62%`.
#[must_use]
pub fn importance_text(share: Option<f64>) -> String {
    match share {
        None => "unknown".to_owned(),
        Some(0.0) => "not seen".to_owned(),
        Some(share) => format!("{:.0}%", share * 100.0),
    }
}

/// From 0; equal ones share the mean of their places.
fn ranks(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let values: Vec<f64> = values.collect();
    let mut sorted = values.clone();
    sorted.sort_by(f64::total_cmp);
    let rank = |value: &f64| {
        let below = sorted.partition_point(|other| other.total_cmp(value).is_lt());
        let up_to = sorted.partition_point(|other| other.total_cmp(value).is_le());
        (below + up_to - 1) as f64 / 2.0
    };
    values.iter().map(rank).collect()
}

/// The sum of the squares of the distances from the mean.
fn squares(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foundation::statistics::Dice;
    use crate::learn::sweep::{Sampler, parse};

    /// The importance of two parameters of which the second matters not at all, in so many trials.
    fn shares(seed: u64, trials: usize, is_choice: bool) -> (Option<f64>, Option<f64>) {
        let mut dice = Dice::new(seed);
        let mut part = || (dice.bits() >> 11) as f64 / (1_u64 << 53) as f64;
        let rows: Vec<[f64; 3]> = (0..trials)
            .map(|_| {
                let [one, other, noise] = [part(), part(), part()];
                let one = if is_choice {
                    (one * 3.0).floor() / 3.0
                } else {
                    one
                };
                [one, other, (one - 0.4).powi(2) + 0.02 * noise]
            })
            .collect();
        let of = |column: usize, is_choice| {
            let points: Vec<(f64, f64)> = rows.iter().map(|row| (row[column], row[2])).collect();
            share_between(&points, is_choice)
        };
        (of(0, is_choice), of(1, false))
    }

    #[test]
    fn what_matters_is_important_and_what_does_not_is_not() {
        for is_choice in [false, true] {
            let seeds = (0..100).map(|seed| shares(seed, 40, is_choice));
            let (one, other): (Vec<_>, Vec<_>) = seeds.unzip();
            let least = one.iter().flatten().copied().fold(1.0, f64::min);
            assert!(least > 0.35, "{least}");
            let null = other.iter().flatten().sum::<f64>() / 100.0;
            assert!(null < 0.06, "{null}");
        }
    }

    /// In which share of 100 sweeps a parameter seems to matter: the first, which does, and the second, which does not.
    fn found(sampler: &str, other: &str, trials: usize) -> [f64; 2] {
        let mut found = [0.0; 2];
        for seed in 1..=100_u64 {
            let file = format!(
                "[run]\ncommand = [\"train\", \"{{{{x}}}}\", \"{{{{y}}}}\"]\n[sweep]\nmetric = \"loss\"\nmode = \"min\"\n\
                 sampler = \"{sampler}\"\nseed = {seed}\n[sweep.space]\nvars.x = {{ low = 0.0, high = 1.0 }}\nvars.y = {other}\n"
            );
            let sweep = parse(&file, "stem").unwrap_or_else(|problems| panic!("{problems:?}"));
            let (mut sampler, mut dice) = (Sampler::new(&sweep), Dice::new(seed + 1000));
            let points = (0..trials).map(|number| {
                let values = sampler.propose(number).expect("no grid");
                let parts =
                    [0, 1].map(|at| sweep.space[at].part_of_trial(&values).expect("a part"));
                let noise = (dice.bits() >> 11) as f64 / (1_u64 << 53) as f64;
                let cost = (parts[0] - 0.3).powi(2) + 0.02 * noise;
                sampler.tell(&values, Some(cost));
                (parts, cost)
            });
            let points: Vec<([f64; 2], f64)> = points.collect();
            for (at, found) in found.iter_mut().enumerate() {
                let own: Vec<(f64, f64)> = points
                    .iter()
                    .map(|(parts, cost)| (parts[at], *cost))
                    .collect();
                let is_choice = at == 1 && other.starts_with('[');
                *found += f64::from(share_between(&own, is_choice) > Some(0.0)) / 100.0;
            }
        }
        found
    }

    #[test]
    fn a_sampler_that_learns_makes_no_parameter_important() {
        for other in [
            "{ low = 0.0, high = 1.0 }",
            "[1, 2, 3]",
            "[1, 2, 3, 4, 5, 6, 7, 8]",
        ] {
            for (sampler, trials) in [("random", 20), ("tpe", 20), ("tpe", 60)] {
                let [one, none] = found(sampler, other, trials);
                assert!(
                    one >= 0.95 && none <= 0.08,
                    "{other} {sampler} {trials}: {one} {none}"
                );
            }
        }
    }

    #[test]
    fn of_too_few_or_equal_trials_nothing_is_said() {
        assert_eq!(shares(1, LEAST_TRIALS - 1, false), (None, None));
        let equal: Vec<(f64, f64)> = (0..40).map(|number| (f64::from(number), 1.0)).collect();
        assert_eq!(share_between(&equal, false), None);
        let one_value: Vec<(f64, f64)> = (0..40).map(|number| (0.5, f64::from(number))).collect();
        assert_eq!(share_between(&one_value, true), None);
        assert_eq!(share_between(&[], false), None);
    }

    #[test]
    fn equal_values_share_a_rank() {
        let ranked = ranks([3.0, 1.0, 3.0, 2.0].into_iter());
        assert_eq!(ranked, [2.5, 0.0, 2.5, 1.0]);
    }
}
