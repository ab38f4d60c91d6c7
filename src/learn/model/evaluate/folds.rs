//! Which runs are held back when.

use std::collections::{BTreeMap, BTreeSet};

use super::{HoldOut, keys};
use crate::learn::model::{Length, Observation};

/// More runs than this are not evaluated: a sample of them says the same, and an evaluation fits the model some twenty times.
pub const EVALUATED: usize = 2_000;
/// Parts that runs and configurations are dealt into.
const FOLDS: usize = 5;
/// Parts that workloads are dealt into at most; up to so many, each is held back by itself.
const WORKLOAD_FOLDS: usize = 10;

/// The seconds of a steady epoch that was seen to its end.
pub(in crate::learn::model) fn seconds(observation: &Observation) -> Option<f64> {
    match observation
        .epoch_seconds
        .filter(|_| !observation.doubts.warm_up)
    {
        Some(Length::Known(seconds)) if seconds.is_finite() && seconds > 0.0 => Some(seconds),
        _ => None,
    }
}

/// The part that each run is held back with; `None`: it is never held back, only learned from.
pub(super) fn deal(observations: &[Observation], hold_out: HoldOut) -> (Vec<Option<usize>>, usize) {
    match hold_out {
        HoldOut::Run => deal_runs(observations),
        HoldOut::Configuration => deal_configurations(observations),
        HoldOut::Workload => deal_workloads(observations),
    }
}

/// Repeats of one configuration are spread over the parts; what has no repeat stays.
fn deal_runs(observations: &[Observation]) -> (Vec<Option<usize>>, usize) {
    let mut order: Vec<(u64, u64, usize)> = Vec::new();
    let mut repeats: BTreeMap<u64, usize> = BTreeMap::new();
    for (at, observation) in observations.iter().enumerate() {
        if seconds(observation).is_some() {
            let configuration = keys::configuration(&observation.situation);
            *repeats.entry(configuration).or_default() += 1;
            order.push((configuration, keys::start(observation), at));
        }
    }
    order.retain(|(configuration, ..)| repeats[configuration] > 1);
    order.sort_unstable();
    let mut parts = vec![None; observations.len()];
    for (rank, (.., at)) in order.iter().enumerate() {
        parts[*at] = Some(rank % FOLDS);
    }
    (parts, FOLDS)
}

/// All repeats of a configuration are held back together; the only configuration of a workload stays.
fn deal_configurations(observations: &[Observation]) -> (Vec<Option<usize>>, usize) {
    let mut of_workload: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for observation in observations
        .iter()
        .filter(|observation| seconds(observation).is_some())
    {
        let situation = &observation.situation;
        of_workload
            .entry(keys::workload(situation))
            .or_default()
            .insert(keys::configuration(situation));
    }
    let dealt: BTreeMap<u64, usize> = of_workload
        .into_values()
        .filter(|configurations| configurations.len() > 1)
        .flatten()
        .enumerate()
        .map(|(rank, configuration)| (configuration, rank % FOLDS))
        .collect();
    let part = |observation: &Observation| {
        dealt
            .get(&keys::configuration(&observation.situation))
            .copied()
    };
    (observations.iter().map(part).collect(), FOLDS)
}

fn deal_workloads(observations: &[Observation]) -> (Vec<Option<usize>>, usize) {
    let timed = observations
        .iter()
        .filter(|observation| seconds(observation).is_some());
    let workloads: BTreeSet<u64> = timed
        .map(|observation| keys::workload(&observation.situation))
        .collect();
    if workloads.len() < 2 {
        return (vec![None; observations.len()], 0);
    }
    let folds = workloads.len().min(WORKLOAD_FOLDS);
    let dealt: BTreeMap<u64, usize> = workloads
        .into_iter()
        .enumerate()
        .map(|(rank, workload)| (workload, rank % folds))
        .collect();
    let part =
        |observation: &Observation| dealt.get(&keys::workload(&observation.situation)).copied();
    (observations.iter().map(part).collect(), folds)
}
