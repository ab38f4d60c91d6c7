//! What jobs of a queue usually run on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::hash::Hash;
use super::{Hardware, Observation};
use crate::job::SchedulerKind;

/// More kinds of hardware than this are not told apart: a file that is read at each plan must stay small.
const MOST: usize = 200;

/// How often which hardware was met in which queue.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Usual {
    seen: BTreeMap<u64, Seen>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Seen {
    scheduler: SchedulerKind,
    queue: Option<String>,
    runs: u64,
    at_ms: u64,
    hardware: Hardware,
}

impl Usual {
    /// Notes where a run was.
    pub(super) fn add(&mut self, observation: &Observation) {
        let hardware = &observation.situation.hardware;
        if hardware.cpu_model.is_none() && hardware.gpu_model.is_none() {
            return;
        }
        let name = |hash: Hash, name: Option<&str>| hash.name(name.unwrap_or("\u{0}"));
        let hash = Hash::new(7).name(observation.scheduler.as_str());
        let hash = name(hash, observation.queue.as_deref());
        let hash = name(name(hash, hardware.cpu_model.as_deref()), hardware.gpu_model.as_deref());
        let key = hash.number(u64::from(hardware.gpus)).end();
        let seen = self.seen.entry(key).or_insert_with(|| Seen {
            scheduler: observation.scheduler,
            queue: observation.queue.clone(),
            runs: 0,
            at_ms: 0,
            hardware: Hardware { threads: None, figures: None, ..hardware.clone() },
        });
        seen.runs += 1;
        seen.at_ms = seen.at_ms.max(observation.at_ms);
        // The latest measurement of the node; the same one whatever the order of the runs.
        let order = |hardware: &Hardware| {
            let figures = hardware.figures;
            figures.map(|figures| {
                (figures.measured_at_ms, figures.node_gflops.to_bits(), figures.core_gflops.to_bits())
            })
        };
        if order(hardware) > order(&seen.hardware) {
            seen.hardware.figures = hardware.figures;
        }
    }

    /// Leaves the commonest.
    pub(super) fn shortened(mut self) -> Self {
        let mut runs: Vec<(u64, u64)> = self.seen.iter().map(|(key, seen)| (seen.runs, *key)).collect();
        runs.sort_unstable_by(|one, other| other.cmp(one));
        for (_, key) in runs.iter().skip(MOST) {
            self.seen.remove(key);
        }
        self
    }

    /// The commonest hardware of a queue; of the scheduler where no queue is given. The later one, where two are as common.
    pub(super) fn of(&self, scheduler: SchedulerKind, queue: Option<&str>) -> Option<&Hardware> {
        let of_queue = |seen: &&Seen| {
            seen.scheduler == scheduler && queue.is_none_or(|queue| seen.queue.as_deref() == Some(queue))
        };
        let best = self.seen.values().filter(of_queue).max_by_key(|seen| (seen.runs, seen.at_ms))?;
        Some(&best.hardware)
    }
}
