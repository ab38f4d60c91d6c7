//! Which runs are held back when.

use std::collections::{BTreeMap, BTreeSet};

use super::{HoldOut, keys};
use crate::model::{Length, Observation};

/// More runs than this are not evaluated: a sample of them says the same, and an evaluation fits the model some twenty times.
pub const EVALUATED: usize = 2_000;
/// Parts that runs and configurations are dealt into.
const FOLDS: usize = 5;
/// Parts that workloads are dealt into at most; up to so many, each is held back by itself.
const WORKLOAD_FOLDS: usize = 10;

/// The runs that are evaluated, in an order of their own: the same for the same runs, however they came.
pub(super) struct Sample {
    /// The sample, with the number of each one's start.
    pub(super) observations: Vec<Observation>,
    /// Runs with a steady epoch that was seen to its end, in the sample or not.
    pub(super) timed: u64,
}

/// The seconds of a steady epoch that was seen to its end.
pub(in crate::model) fn seconds(observation: &Observation) -> Option<f64> {
    match observation.epoch_seconds.filter(|_| !observation.doubts.warm_up) {
        Some(Length::Known(seconds)) if seconds.is_finite() && seconds > 0.0 => Some(seconds),
        _ => None,
    }
}

impl Sample {
    /// Draws by the runs' names, so that which ones are drawn has nothing to do with how long they took.
    pub(super) fn of(observations: impl IntoIterator<Item = Observation>, size: usize) -> Self {
        let mut kept: BTreeMap<(u64, String, u32, u32), Observation> = BTreeMap::new();
        let mut timed = 0;
        for observation in observations {
            timed += u64::from(seconds(&observation).is_some());
            let start = keys::start(&observation);
            let last = kept.last_key_value().map(|(key, _)| key.0);
            if kept.len() == size && last.is_some_and(|last| last < start) {
                continue;
            }
            let name = observation.run_id.as_str().to_owned();
            kept.insert((start, name, observation.element, observation.attempt), observation);
            if kept.len() > size {
                kept.pop_last();
            }
        }
        Self { observations: kept.into_values().collect(), timed }
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
    for observation in observations.iter().filter(|observation| seconds(observation).is_some()) {
        let situation = &observation.situation;
        of_workload.entry(keys::workload(situation)).or_default().insert(keys::configuration(situation));
    }
    let dealt: BTreeMap<u64, usize> = of_workload
        .into_values()
        .filter(|configurations| configurations.len() > 1)
        .flatten()
        .enumerate()
        .map(|(rank, configuration)| (configuration, rank % FOLDS))
        .collect();
    let part = |observation: &Observation| dealt.get(&keys::configuration(&observation.situation)).copied();
    (observations.iter().map(part).collect(), FOLDS)
}

fn deal_workloads(observations: &[Observation]) -> (Vec<Option<usize>>, usize) {
    let timed = observations.iter().filter(|observation| seconds(observation).is_some());
    let workloads: BTreeSet<u64> = timed.map(|observation| keys::workload(&observation.situation)).collect();
    if workloads.len() < 2 {
        return (vec![None; observations.len()], 0);
    }
    let folds = workloads.len().min(WORKLOAD_FOLDS);
    let dealt: BTreeMap<u64, usize> =
        workloads.into_iter().enumerate().map(|(rank, workload)| (workload, rank % folds)).collect();
    let part = |observation: &Observation| dealt.get(&keys::workload(&observation.situation)).copied();
    (observations.iter().map(part).collect(), folds)
}
