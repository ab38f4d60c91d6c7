//! Which runs are evaluated, and which are held back together.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::steady_seconds;
use crate::learn::model::Observation;
use crate::learn::model::facts::Facts;
use crate::learn::model::hash::Hash;

/// More runs than this are not evaluated: a sample of them says the same, and an evaluation fits the model some twenty times.
pub const EVALUATED: usize = 2_000;
/// Parts that runs and configurations are dealt into.
const FOLDS: usize = 5;
/// Parts that workloads are dealt into at most; up to so many, each is held back by itself.
const WORKLOAD_FOLDS: usize = 10;

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

/// Runs that are evaluated, chosen as they pass by: those with the smallest numbers of their names, so that the same runs are
/// chosen in whatever order they come.
#[derive(Debug, Default)]
pub struct Sample {
    kept: BTreeMap<u64, Observation>,
    timed: u64,
}

impl Sample {
    /// Looks at a run, and keeps it or not.
    pub fn add(&mut self, observation: &Observation) {
        self.timed += u64::from(steady_seconds(observation).is_some());
        let number = number_of(observation);
        let is_full = self.kept.len() == EVALUATED;
        if is_full
            && self
                .kept
                .last_key_value()
                .is_some_and(|last| *last.0 < number)
        {
            return;
        }
        self.kept.insert(number, observation.clone());
        if self.kept.len() > EVALUATED {
            self.kept.pop_last();
        }
    }

    /// Runs with a steady epoch that was seen to its end, kept or not.
    pub(super) fn timed(&self) -> u64 {
        self.timed
    }

    pub(super) fn into_observations(self) -> Vec<Observation> {
        self.kept.into_values().collect()
    }
}

/// The number of one start of a run, by its name.
fn number_of(observation: &Observation) -> u64 {
    Hash::new(13)
        .name(observation.run_id.as_str())
        .number(u64::from(observation.element))
        .number(u64::from(observation.attempt))
        .end()
}

/// The part that each run is held back with, and how many parts there are; `None`: it is never held back, only learned from.
///
/// What is held back together is a unit: a run, a configuration or a workload. One that has no peer (no repeat, no other
/// configuration of its workload, no other workload) stays, for nothing would be known of it.
pub(super) fn parts_of(
    observations: &[Observation],
    hold_out: HoldOut,
) -> (Vec<Option<usize>>, usize) {
    let unit = |observation: &Observation| {
        let facts = Facts::new(&observation.situation);
        match hold_out {
            HoldOut::Run => (facts.configuration(), number_of(observation)),
            HoldOut::Configuration => (facts.workload, facts.configuration()),
            HoldOut::Workload => (0, facts.workload),
        }
    };
    let timed = observations
        .iter()
        .filter(|observation| steady_seconds(observation).is_some());
    let mut units: BTreeSet<(u64, u64)> = timed.map(unit).collect();
    let mut peers: BTreeMap<u64, usize> = BTreeMap::new();
    for (shared, _) in &units {
        *peers.entry(*shared).or_default() += 1;
    }
    units.retain(|(shared, _)| peers[shared] > 1);
    let folds = match hold_out {
        HoldOut::Workload => units.len().min(WORKLOAD_FOLDS),
        HoldOut::Run | HoldOut::Configuration => FOLDS,
    };
    let dealt: BTreeMap<(u64, u64), usize> = units
        .into_iter()
        .enumerate()
        .map(|(rank, unit)| (unit, rank % folds))
        .collect();
    let part = |observation: &Observation| dealt.get(&unit(observation)).copied();
    (observations.iter().map(part).collect(), folds)
}
