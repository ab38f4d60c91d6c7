//! What the choice of software costs against the best that was measured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::folds::seconds;
use super::keys;
use super::score::median;
use crate::learn::model::{Observation, Situation};
use crate::record::Interval;

/// What choices cost. A choice is among the software (framework, version, compiler, provenance, image) that was measured with the
/// same workload, batch, precision, hardware and storage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Regret {
    /// Choices that were judged.
    pub choices: u64,
    /// Mean of (measured time of the choice ÷ best measured time − 1): 0.02 is 2 % lost. As the best of several noisy
    /// measurements is a lucky one, it is above 0 even of perfect choices.
    pub mean_ratio: f64,
    /// The largest of them.
    pub worst_ratio: f64,
    /// Share of the choices that were the best measured.
    pub best_ratio: f64,
    /// What choosing blindly would have lost in the mean.
    pub blind_ratio: f64,
}

/// What was measured where there was a choice.
pub(super) struct Choices {
    /// By place: what could be chosen, with the median of the measured seconds.
    places: BTreeMap<u64, Vec<(Situation, f64)>>,
}

/// Sums up single choices.
#[derive(Default)]
pub(super) struct Tally {
    choices: u64,
    sum: f64,
    worst: f64,
    best: u64,
    blind: f64,
}

impl Choices {
    pub(super) fn among<'a>(observations: impl IntoIterator<Item = &'a Observation>) -> Self {
        let mut measured: BTreeMap<u64, BTreeMap<u64, (Situation, Vec<f64>)>> = BTreeMap::new();
        for observation in observations {
            let Some(seconds) = seconds(observation) else {
                continue;
            };
            let situation = &observation.situation;
            let place = measured.entry(keys::place(situation)).or_default();
            let software = place.entry(keys::software(situation));
            software
                .or_insert_with(|| (situation.clone(), Vec::new()))
                .1
                .push(seconds);
        }
        measured.retain(|_, software| software.len() > 1);
        let middle = |(situation, seconds)| (situation, median(seconds));
        let of_place = |software: BTreeMap<u64, _>| software.into_values().map(middle).collect();
        Self {
            places: measured
                .into_iter()
                .map(|(place, software)| (place, of_place(software)))
                .collect(),
        }
    }

    /// Lets `predict` choose, by least expected time, where the run `situation` was.
    pub(super) fn judge(
        &self,
        place: u64,
        predict: &dyn Fn(&[Situation]) -> Vec<Interval>,
        tally: &mut Tally,
    ) {
        let Some(candidates) = self.places.get(&place) else {
            return;
        };
        let situations: Vec<Situation> = candidates
            .iter()
            .map(|(situation, _)| situation.clone())
            .collect();
        let expected = predict(&situations);
        let finite = expected
            .iter()
            .enumerate()
            .filter(|(_, interval)| interval.mean.is_finite());
        let Some((chosen, _)) = finite.min_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean)) else {
            return;
        };
        tally.add(candidates, chosen);
    }

    /// The choice that was made of the run `situation`.
    pub(super) fn made(&self, situation: &Situation, tally: &mut Tally) {
        let Some(candidates) = self.places.get(&keys::place(situation)) else {
            return;
        };
        let software = keys::software(situation);
        if let Some(chosen) = candidates
            .iter()
            .position(|(other, _)| keys::software(other) == software)
        {
            tally.add(candidates, chosen);
        }
    }
}

impl Tally {
    fn add(&mut self, candidates: &[(Situation, f64)], chosen: usize) {
        let best = candidates
            .iter()
            .map(|(_, seconds)| *seconds)
            .fold(f64::INFINITY, f64::min);
        let lost = |seconds: f64| seconds / best - 1.0;
        let of_choice = lost(candidates[chosen].1);
        self.choices += 1;
        self.sum += of_choice;
        self.worst = self.worst.max(of_choice);
        self.best += u64::from(of_choice <= 0.0);
        self.blind += candidates
            .iter()
            .map(|(_, seconds)| lost(*seconds))
            .sum::<f64>()
            / candidates.len() as f64;
    }

    pub(super) fn done(&self) -> Option<Regret> {
        let count = self.choices as f64;
        (self.choices > 0).then(|| Regret {
            choices: self.choices,
            mean_ratio: self.sum / count,
            worst_ratio: self.worst,
            best_ratio: self.best as f64 / count,
            blind_ratio: self.blind / count,
        })
    }
}
