//! What jobs of a queue run on, kind by kind.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Hardware, Observation};
use crate::foundation::hash::Hash;
use crate::job::SchedulerKind;
use crate::record::NodeFigures;

/// More kinds of hardware than this are not kept apart: a file that is read at each plan must stay small.
const MOST: usize = 200;

/// How often which hardware was met in which queue.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(super) struct HardwareMet {
    seen: BTreeMap<u64, Seen>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Seen {
    scheduler: SchedulerKind,
    queue: Option<String>,
    runs: u64,
    /// Runs that might use all CPUs of their node, and runs that might use a part of them.
    #[serde(default)]
    free: u64,
    #[serde(default)]
    confined: u64,
    at_ms: u64,
    hardware: Hardware,
}

/// A kind of hardware that jobs met.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    /// What it is, without what a single job has of it.
    pub hardware: Hardware,
    /// Runs that had it.
    pub runs: u64,
}

/// The kinds of hardware that jobs met.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Met {
    /// The commonest first; of two as common the later one.
    pub kinds: Vec<Kind>,
    /// Whether these are of the queues that were asked for; else no run was there, and they are all of the scheduler.
    pub of_queue: bool,
}

/// As JSON: [`Hardware`] leaves fields out, which a model's file cannot.
impl From<HardwareMet> for String {
    fn from(met: HardwareMet) -> Self {
        serde_json::to_string(&met.seen).expect("numbers and text")
    }
}

impl TryFrom<String> for HardwareMet {
    type Error = serde_json::Error;

    fn try_from(json: String) -> Result<Self, Self::Error> {
        serde_json::from_str(&json).map(|seen| Self { seen })
    }
}

impl HardwareMet {
    /// Notes where a run was.
    pub(super) fn add(&mut self, observation: &Observation) {
        let hardware = &observation.situation.hardware;
        if hardware.cpu_model.is_none() && hardware.gpu_model.is_none() {
            return;
        }
        let hash = Hash::new(7).name(observation.scheduler.as_str());
        let hash = hash.optional(observation.queue.as_deref());
        let hash = hash.optional(hardware.cpu_model.as_deref());
        let hash = hash.optional(hardware.gpu_model.as_deref());
        let key = hash.number(hardware.gpus.into()).end();
        let seen = self.seen.entry(key).or_insert_with(|| Seen {
            scheduler: observation.scheduler,
            queue: observation.queue.clone(),
            runs: 0,
            free: 0,
            confined: 0,
            at_ms: 0,
            hardware: Hardware {
                threads: None,
                allowed: None,
                figures: None,
                ..hardware.clone()
            },
        });
        seen.runs += 1;
        if let Some((cpus, allowed)) = hardware.cpus.zip(hardware.allowed) {
            // A CPU quota is a fraction of CPUs.
            let is_free = allowed > cpus - 0.5;
            seen.free += u64::from(is_free);
            seen.confined += u64::from(!is_free);
            let known = seen.hardware.cpus.into_iter().chain([cpus]);
            seen.hardware.cpus = known.reduce(f64::max);
        }
        seen.at_ms = seen.at_ms.max(observation.at_ms);
        newest_figures(&mut seen.hardware, hardware);
    }

    /// Leaves the commonest.
    pub(super) fn shortened(mut self) -> Self {
        let runs = self.seen.iter().map(|(key, seen)| (seen.runs, *key));
        let mut runs: Vec<(u64, u64)> = runs.collect();
        runs.sort_unstable_by(|one, other| other.cmp(one));
        for (_, key) in runs.iter().skip(MOST) {
            self.seen.remove(key);
        }
        self
    }

    /// The kinds of hardware that jobs of these queues met; `None` among them: jobs that named no queue. Jobs with GPUs are told
    /// apart by those, others by their CPUs.
    pub(super) fn met(
        &self,
        scheduler: SchedulerKind,
        queues: &[Option<&str>],
        on_gpus: bool,
    ) -> Met {
        let is_of_queue = |seen: &Seen| queues.contains(&seen.queue.as_deref());
        let is_alike = |seen: &Seen| (seen.hardware.gpus > 0) == on_gpus;
        let chosen = |of_queue: bool, alike: bool| {
            let all = self.seen.values().filter(|its| its.scheduler == scheduler);
            let of_queue = all.filter(|seen| !of_queue || is_of_queue(seen));
            kinds(of_queue.filter(|seen| !alike || is_alike(seen)), on_gpus)
        };
        for of_queue in [true, false] {
            // Jobs without GPUs may run on nodes of which only jobs with GPUs are known.
            for alike in [true, on_gpus] {
                let kinds = chosen(of_queue, alike);
                if !kinds.is_empty() {
                    return Met { kinds, of_queue };
                }
            }
        }
        Met::default()
    }

    /// Whether a scheduler keeps its jobs from CPUs that they did not ask for: some were kept, or all had their whole node.
    /// `None`: nobody knows.
    pub(super) fn confines(&self, scheduler: SchedulerKind) -> Option<bool> {
        let of = self.seen.values().filter(|its| its.scheduler == scheduler);
        let sum = of.fold((0, 0), |(free, confined), its| {
            (free + its.free, confined + its.confined)
        });
        (sum != (0, 0)).then_some(sum.1 > 0)
    }
}

/// The latest measurement of the node; the same one whatever the order of the runs.
fn newest_figures(known: &mut Hardware, other: &Hardware) {
    // A model file holds no other numbers than sound ones.
    let sound = other.figures.filter(NodeFigures::are_sound);
    let order = |it: &NodeFigures| {
        let rates = [it.node_gflops, it.core_gflops].map(f64::to_bits);
        (it.measured_at_ms, rates)
    };
    known.figures = sound.into_iter().chain(known.figures).max_by_key(order);
}

/// What was seen, put together by the name of the GPUs or CPUs.
fn kinds<'a>(seen: impl Iterator<Item = &'a Seen>, on_gpus: bool) -> Vec<Kind> {
    let mut kinds: BTreeMap<&str, (Kind, u64)> = BTreeMap::new();
    let mut seen: Vec<&Seen> = seen.collect();
    // What is known of a kind beside its name is that of most of its runs.
    seen.sort_by_key(|seen| std::cmp::Reverse((seen.runs, seen.at_ms)));
    for one in seen {
        let hardware = &one.hardware;
        let name = match on_gpus {
            true => &hardware.gpu_model,
            false => &hardware.cpu_model,
        };
        let Some(name) = name else {
            continue;
        };
        let (kind, at_ms) = kinds.entry(name).or_insert_with(|| {
            let hardware = Hardware {
                figures: None,
                ..hardware.clone()
            };
            (Kind { hardware, runs: 0 }, 0)
        });
        kind.runs += one.runs;
        *at_ms = one.at_ms.max(*at_ms);
        newest_figures(&mut kind.hardware, hardware);
        let cpus = kind.hardware.cpus.into_iter().chain(hardware.cpus);
        kind.hardware.cpus = cpus.reduce(f64::max);
    }
    let mut kinds: Vec<(Kind, u64)> = kinds.into_values().collect();
    kinds.sort_by_key(|(kind, at_ms)| std::cmp::Reverse((kind.runs, *at_ms)));
    kinds.into_iter().map(|(kind, _)| kind).collect()
}

#[cfg(test)]
mod tests;
