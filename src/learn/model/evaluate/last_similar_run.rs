//! The simplest guess, which the model has to beat: it takes as long as the last run that was most similar.

use std::collections::BTreeMap;

use super::steady_seconds;
use crate::learn::model::facts::{Facts, Size};
use crate::learn::model::solution::Predicted;
use crate::learn::model::{Observation, Situation};
use crate::record::Interval;

/// No machine repeats itself more closely than this (standard deviation of the logarithm).
const LEAST_SD: f64 = 0.02;
/// Where one run is all there is.
const LONE_SD: f64 = 1.0;

/// The last run of each kind: the logarithm of the seconds of a sample where the samples are known, as the model has it.
pub(super) struct LastSimilarRun {
    last: BTreeMap<u64, f64>,
    /// How far each run was from the last similar one before it: root of the mean square.
    sd: f64,
}

impl LastSimilarRun {
    /// `None` where no run has a time.
    pub(super) fn learn<'a>(runs: impl Iterator<Item = &'a Observation>) -> Option<Self> {
        let mut timed: Vec<(u64, &str, f64, Facts)> = runs
            .filter_map(|run| {
                let (facts, seconds) = (Facts::new(&run.situation), steady_seconds(run)?);
                let ln = seconds.ln() - facts.size(Size::Samples).unwrap_or(0.0);
                Some((run.at_ms, run.run_id.as_str(), ln, facts))
            })
            .collect();
        timed.sort_by_key(|(at_ms, run_id, ..)| (*at_ms, *run_id));
        let mut guess = Self {
            last: BTreeMap::new(),
            sd: LONE_SD,
        };
        let (mut squares, mut count) = (0.0, 0.0);
        for (.., ln, facts) in timed {
            if let Some(before) = guess.find(&facts) {
                squares += (ln - before).powi(2);
                count += 1.0;
            }
            let keys = facts.keys_of_likeness();
            guess.last.extend(keys.map(|key| (key, ln)));
        }
        if count > 0.0 {
            guess.sd = f64::sqrt(squares / count).max(LEAST_SD);
        }
        (!guess.last.is_empty()).then_some(guess)
    }

    fn find(&self, facts: &Facts) -> Option<f64> {
        let mut keys = facts.keys_of_likeness().into_iter();
        keys.find_map(|key| self.last.get(&key).copied())
    }

    /// How long an epoch takes, in seconds.
    pub(super) fn epoch_seconds(&self, situation: &Situation) -> Option<Interval> {
        let facts = Facts::new(situation);
        let mean = self.find(&facts)? + facts.size(Size::Samples).unwrap_or(0.0);
        Some(Predicted { mean, sd: self.sd }.interval())
    }
}
