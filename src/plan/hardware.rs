//! The kinds of hardware that a job of a cluster may get: those that the runs before it met, as far as what it asks for leaves
//! them open.

use super::PlannedResources;
use super::decisions::Resolver;
use super::facts::ModelFacts;
use super::forecast_text::per_cent;
use crate::config::site;
use crate::job::kind_and_count;
use crate::learn::model::{Hardware, Kind, Likely, Met};
use crate::scheduler::adapter_for;

/// Kinds are left out where the others hold this share of the runs.
const HELD: f64 = 0.98;
/// More kinds are not held apart: each costs a forecast of each candidate.
const MOST: usize = 6;
/// Shorter words of a constraint name nothing.
const SHORTEST: usize = 3;

/// What a job asks of its hardware.
pub(super) struct Wish<'a> {
    /// GPUs on each node, and the type that is asked for.
    pub(super) gpus: u32,
    pub(super) gpu_type: Option<&'a str>,
    /// CPUs on each node that are asked for.
    pub(super) cpus: Option<f64>,
    /// Tasks on each node.
    tasks: f64,
    /// What `OMP_NUM_THREADS` leaves of them.
    pub(super) threads: Option<f64>,
}

impl<'a> Wish<'a> {
    pub(super) fn new(resources: &'a PlannedResources, threads: Option<f64>) -> Self {
        let of_tasks = || {
            let (kind, count) = kind_and_count(resources.gpus_per_task.as_deref()?);
            Some((kind, count.saturating_mul(resources.tasks_per_node)))
        };
        let of_node = resources.gpus_per_node.as_deref().map(kind_and_count);
        let (gpu_type, gpus) = of_node.or_else(of_tasks).unwrap_or((None, 0));
        let tasks = f64::from(resources.tasks_per_node);
        let cpus = resources.cpus_per_task.map(|cpus| f64::from(cpus) * tasks);
        Self {
            gpus,
            gpu_type,
            cpus,
            tasks,
            threads,
        }
    }

    /// CPUs that the program can keep busy, of `may_use`.
    pub(super) fn threads_of(&self, may_use: Option<f64>) -> Option<f64> {
        match (may_use, self.threads) {
            (Some(cpus), Some(threads)) => Some(cpus.min(threads)),
            (cpus, threads) => cpus.or(threads),
        }
    }
}

impl Resolver<'_> {
    /// What the job may get, one kind at least, the likeliest first; and how that is known, for people.
    pub(super) fn likely(
        &self,
        facts: &ModelFacts,
        wish: &Wish<'_>,
    ) -> (Vec<Likely>, Option<String>) {
        let (scheduler, resources) = (self.plan.scheduler, &self.plan.resources);
        let queues: Vec<Option<&str>> = match resources.queue.as_deref() {
            // Slurm takes several with commas between, and gives the job to one of them.
            Some(named) => std::iter::once(named)
                .chain(named.split(','))
                .map(Some)
                .collect(),
            None => vec![None, self.queue.as_deref()],
        };
        let Met {
            mut kinds,
            of_queue,
        } = facts.model.hardware_met(scheduler, &queues, wish.gpus > 0);
        self.narrow(&mut kinds, wish);
        let is_known = !kinds.is_empty();
        if !is_known {
            kinds.push(Kind {
                hardware: Hardware::default(),
                runs: 1,
            });
        }
        let all: u64 = kinds.iter().map(|kind| kind.runs).sum();
        let mut kept = 0.0;
        kinds.truncate(MOST);
        kinds.retain(|kind| {
            let is_needed = kept < HELD;
            kept += if is_needed {
                share(kind.runs, all)
            } else {
                0.0
            };
            is_needed
        });
        let confines = facts.model.confines(scheduler);
        let alone = resources.exclusive && adapter_for(scheduler).gives_whole_nodes();
        let likely: Vec<Likely> = kinds
            .iter()
            .map(|kind| {
                let threads = wish.threads_of(may_use(kind.hardware.cpus, confines, alone, wish));
                let hardware = Hardware {
                    threads,
                    gpu_model: kind.hardware.gpu_model.clone().filter(|_| wish.gpus > 0),
                    gpus: wish.gpus,
                    ..kind.hardware.clone()
                };
                Likely {
                    hardware,
                    share: share(kind.runs, all) / kept,
                }
            })
            .collect();
        let text = is_known.then(|| hardware_text(&likely, of_queue));
        (likely, text)
    }

    /// Leaves out what the job cannot get by what it asks for. What nothing is known to speak against stays; only a type of GPU
    /// that is asked for must be there.
    fn narrow(&self, kinds: &mut Vec<Kind>, wish: &Wish<'_>) {
        if let Some(asked) = wish.gpu_type.map(plain) {
            kinds.retain(|kind| names(&kind.hardware).contains(&asked));
        }
        if let Some(asked) = wish.cpus {
            leave(kinds, |kind| {
                kind.hardware.cpus.is_none_or(|cpus| asked <= cpus)
            });
        }
        let Some(constraint) = self.plan.resources.constraint.as_deref() else {
            return;
        };
        // It may name hardware: `epyc`. Alternatives leave all open, and other words are about something else.
        if constraint.contains(['!', '=', '|', ',', '[', '(']) {
            return;
        }
        for word in site::words_of_constraint(constraint).into_iter().map(plain) {
            if word.len() >= SHORTEST {
                leave(kinds, |kind| names(&kind.hardware).contains(&word));
            }
        }
    }
}

/// CPUs that the job may use of a node with `cpus`, as a record of it will have them: the affinity of its processes. A job that is
/// not confined has the whole node, whatever it asked for, as has one whose nodes are its own; one that is confined and asks for
/// nothing has one for each task, which is what schedulers give.
fn may_use(cpus: Option<f64>, confines: Option<bool>, alone: bool, wish: &Wish<'_>) -> Option<f64> {
    let whole = cpus.filter(|_| alone || confines == Some(false));
    let least = (confines == Some(true) && !alone).then_some(wish.tasks);
    whole.or(wish.cpus).or(least)
}

/// Leaves those that are to be kept, unless these are none.
fn leave(kinds: &mut Vec<Kind>, keep: impl Fn(&Kind) -> bool) {
    if kinds.iter().any(&keep) {
        kinds.retain(keep);
    }
}

/// The names of CPU and GPU, as they are compared: `nvidia a100-sxm4-40gb` has an `A100`.
fn names(hardware: &Hardware) -> String {
    let name = |name: &Option<String>| plain(name.as_deref().unwrap_or_default());
    format!(
        "{} {}",
        name(&hardware.cpu_model),
        name(&hardware.gpu_model)
    )
}

/// Letters and digits, which all spellings of a name share.
fn plain(name: &str) -> String {
    name.chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

fn share(runs: u64, all: u64) -> f64 {
    runs as f64 / all as f64
}

/// What is held of the hardware, in words.
fn hardware_text(likely: &[Likely], of_queue: bool) -> String {
    let name = |likely: &Likely| {
        let Hardware {
            gpu_model,
            cpu_model,
            ..
        } = &likely.hardware;
        gpu_model
            .as_ref()
            .or(cpu_model.as_ref())
            .cloned()
            .unwrap_or_else(|| "nodes without a name".to_owned())
    };
    let whose = if of_queue {
        "its queue"
    } else {
        "other queues"
    };
    let named = likely
        .iter()
        .map(|one| format!("{} ({})", name(one), per_cent(one.share)));
    let named: Vec<String> = named.collect();
    format!(
        "the forecast is for {}, by the runs of {whose}",
        named.join(", ")
    )
}
