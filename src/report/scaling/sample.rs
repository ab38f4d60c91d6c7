//! One measurement of a training on so many ranks: a run, or a published figure, and why it may say nothing about scaling.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::foundation::statistics::mean;
use crate::job::{JobState, Launcher, RunId};
use crate::record::{NodeRecord, Straggler};
use crate::report::Run;
use crate::report::insight::{Setting, effective_cpus};
use crate::report::number::{counted, real, short};

/// Less than this share of a machine's CPUs is always busy with something else (our choice).
const OTHERS_SHARE: f64 = 0.1;

/// What the measurements of a series share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::report) struct Group {
    /// Network and data set, else the program.
    pub program: String,
    /// Framework with its version and compiler, as the job file has them.
    pub framework: Option<String>,
    /// `CPU` or `GPU`, with the models.
    pub device: String,
    /// The image, by digest where it is known.
    pub image: Option<String>,
    /// What started the ranks; `None`: a single one needs nothing.
    pub launcher: Option<String>,
    /// Where a published figure comes from.
    pub source: Option<String>,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    pub(super) group: Group,
    pub(super) run: Option<RunId>,
    pub(super) nodes: u64,
    pub(super) ranks: u64,
    pub(super) gpus: u64,
    /// Samples of a step, of all ranks together.
    pub(super) batch: Option<u64>,
    /// It is published that the work is the same on any number of ranks.
    pub(super) has_fixed_work: bool,
    /// Mean of the steady epochs, in seconds.
    pub(super) seconds: Option<f64>,
    /// Samples a second, of all ranks together.
    pub(super) rate: Option<f64>,
    /// Where the samples are from, as [`crate::report::insight::Timing`] has it.
    pub(super) rate_from: Option<&'static str>,
    /// Median and 95th percentile of a step, in seconds.
    pub(super) step_seconds: Option<(f64, f64)>,
    /// Share of the time of steps in which they waited for data.
    pub(super) data_wait_ratio: Option<f64>,
    pub(super) first_extra_seconds: Option<f64>,
    /// Time of the slowest rank over the median of the ranks, and whether by steps or epochs.
    pub(super) straggler: Option<(f64, &'static str)>,
    pub(super) energy_joules: Option<f64>,
    /// The last value of the metric that says most.
    pub(super) metric: Option<(String, f64)>,
    pub(super) seconds_to_target: Option<f64>,
    /// Why it is not a scaling measurement; empty where nothing speaks against it.
    pub(super) doubts: Vec<String>,
    pub(super) conditions: Conditions,
}

/// Under what conditions a run was measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Conditions {
    pub(super) exclusive: Option<bool>,
    pub(super) node_names: Vec<String>,
    pub(super) boot_ids: Vec<String>,
    pub(super) throttled_seconds: Option<f64>,
    pub(super) setting: Setting,
}

/// A metric with the value that a training is to reach.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    metric: String,
    value: f64,
    is_least: bool,
}

impl std::str::FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (metric, is_least, value) = match (text.split_once(">="), text.split_once("<=")) {
            (Some((metric, value)), None) => (metric, true, value),
            (None, Some((metric, value))) => (metric, false, value),
            _ => return Err("write METRIC>=VALUE or METRIC<=VALUE".to_owned()),
        };
        let value: f64 = (value.trim().parse()).map_err(|_| format!("`{value}` is no number"))?;
        let metric = metric.trim().to_owned();
        match value.is_finite() && !metric.is_empty() {
            true => Ok(Self {
                metric,
                value,
                is_least,
            }),
            false => Err("name a metric and a finite value".to_owned()),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.is_least { ">=" } else { "<=" };
        write!(f, "{}{sign}{}", self.metric, self.value)
    }
}

impl Sample {
    /// How many work: GPUs, else ranks.
    pub(super) fn workers(&self) -> u64 {
        if self.gpus > 0 { self.gpus } else { self.ranks }
    }

    /// CPUs that each rank was given, where nodes are alike; `None`: not recorded.
    pub(super) fn cpus_of_rank(&self) -> Option<f64> {
        let least = self.conditions.setting.cpus_effective.first()?;
        Some(least * real(self.nodes) / real(self.ranks))
    }

    /// Of a run; else why it counts for nothing.
    pub(crate) fn of(run: &Run, target: Option<&Target>) -> Result<Self, &'static str> {
        if run.status.state != JobState::Completed {
            return Err("did not complete");
        }
        let timed = run.timing();
        let times = run.epoch_times().filter(|times| !times.is_warmup);
        let Some((timing, times)) = timed.zip(times) else {
            return Err("show no epochs beyond the warm-up");
        };
        let setting = &run.insight.setting;
        let nodes = || run.nodes.iter().map(|node| &node.record);
        let conditions = Conditions {
            exclusive: run.request.as_ref().map(|request| request.exclusive),
            node_names: nodes().map(|node| node.key.node.clone()).collect(),
            boot_ids: nodes()
                .filter_map(|node| node.conditions.boot_id.clone())
                .collect(),
            throttled_seconds: nodes()
                .flat_map(|node| {
                    let gpus = node.gpus.iter().map(|gpu| gpu.throttled_seconds);
                    gpus.chain(node.usage.cpu_throttled_seconds)
                })
                .reduce(f64::max),
            setting: setting.clone(),
        };
        Ok(Self {
            group: group(run),
            run: Some(run.record.run_id.clone()),
            nodes: run.nodes_used().max(1),
            ranks: ranks(run),
            gpus: run.gpus_used(),
            batch: batch(run),
            has_fixed_work: false,
            seconds: Some(times.mean_seconds).filter(|seconds| *seconds > 0.0),
            rate: timing.samples_per_second.map(|rate| rate.value),
            rate_from: timing.samples_per_second.map(|rate| rate.from),
            step_seconds: timing
                .steps
                .map(|steps| (steps.median_seconds, steps.p95_seconds)),
            data_wait_ratio: timing.steps.and_then(|steps| steps.data_wait_ratio),
            first_extra_seconds: times.first_seconds.map(|first| first - times.mean_seconds),
            straggler: Straggler::among(nodes().flat_map(|node| &node.ranks))
                .map(|straggler| (straggler.ratio, straggler.of)),
            energy_joules: run.insight.used.gpu_energy_joules,
            metric: metric(run),
            seconds_to_target: target.and_then(|target| seconds_to(run, target)),
            doubts: doubts(run),
            conditions,
        })
    }
}

/// Samples of a step of all ranks.
fn batch(run: &Run) -> Option<u64> {
    let identity = run.record.identity.as_ref();
    let stated = run.record.workload.batch_size;
    stated.or_else(|| identity?.global_batch())
}

/// The workload, with what the arguments say of it.
fn completed(run: &Run) -> crate::job::Workload {
    let workload = &run.record.workload;
    let identity = run.record.identity.as_ref();
    identity.map_or_else(|| workload.clone(), |identity| identity.completed(workload))
}

fn group(run: &Run) -> Group {
    let setting = &run.insight.setting;
    let workload = completed(run);
    let named = [workload.model, workload.dataset, workload.precision];
    let named: Vec<String> = named.into_iter().flatten().collect();
    let compiler = setting.compiler.as_ref().filter(|name| *name != "none");
    let framework = setting.framework.clone().map(|name| match compiler {
        Some(compiler) => format!("{name} + {compiler}"),
        None => name,
    });
    let mut models = setting.gpu_models.clone();
    models.dedup();
    let (kind, models) = match run.gpus_used() {
        0 => ("CPU", &setting.cpu_models),
        _ => ("GPU", &models),
    };
    let launcher = run.request.as_ref().map(|request| request.launcher);
    let launcher = launcher.filter(|launcher| *launcher != Launcher::None);
    Group {
        program: match named.is_empty() {
            true => run.record.name.clone(),
            false => named.join(", "),
        },
        framework,
        device: format!("{kind} {}", models.join(", "))
            .trim_end()
            .to_owned(),
        image: setting.image.clone(),
        launcher: launcher.map(|launcher| launcher.as_str().to_owned()),
        source: None,
    }
}

/// Ranks of the run: as they were started, else as they were asked for.
pub(super) fn ranks(run: &Run) -> u64 {
    let started = run.nodes.iter().flat_map(|node| &node.record.ranks);
    let asked = || run.nodes_used() * u64::from(run.record.tasks_per_node.unwrap_or(1).max(1));
    let started = started.map(|rank| u64::from(rank.world_size)).max();
    started.unwrap_or_else(asked).max(1)
}

/// Why the times of a run say nothing about how the training scales: its nodes share a machine, or its ranks share CPUs, or
/// nobody knows. Empty where nothing speaks against it.
pub(in crate::report) fn doubts(run: &Run) -> Vec<String> {
    let mut doubts = Vec::new();
    let (nodes, ranks) = (run.nodes_used().max(1), ranks(run));
    let records = || run.nodes.iter().map(|node| &node.record);
    let known = records().filter_map(|node| node.conditions.boot_id.as_deref());
    let machines = known.clone().collect::<BTreeSet<&str>>().len() as u64;
    let is_local = run.record.scheduler.is_local();
    let is_known = known.count() as u64 >= nodes || is_local;
    let machines = if is_local { 1 } else { machines.max(1) };
    if nodes > 1 && !is_known {
        doubts.push(format!(
            "it is not recorded whether its {nodes} nodes are separate machines"
        ));
    } else if machines < nodes {
        let machines = counted(machines, "machine");
        doubts.push(format!(
            "its {nodes} nodes are on {machines} (by the boot id)"
        ));
    }
    let launcher = run.request.as_ref().map(|request| request.launcher);
    if launcher == Some(Launcher::Mpi) && run.lacks_nodes() {
        doubts.push("only the first node is recorded under mpi".to_owned());
    }
    let of_node = ranks.div_ceil(nodes);
    match records().filter_map(effective_cpus).reduce(f64::min) {
        Some(cpus) if real(of_node) > cpus => doubts.push(format!(
            "{} of a node were given {} CPUs",
            counted(of_node, "rank"),
            short(cpus)
        )),
        Some(_) if records().any(|node| is_crowded(node, of_node, run.gpus_used() > 0)) => {
            doubts.push("other programs used CPUs that its ranks needed".to_owned())
        }
        None if ranks > 1 => {
            doubts.push("it is not recorded how many CPUs its machines have".to_owned())
        }
        _ => {}
    }
    doubts
}

/// Others took CPUs that the ranks need, more than a tenth of the machine's. Ranks without GPUs need a CPU for each of their threads,
/// and may have as many threads as they were given CPUs.
fn is_crowded(node: &NodeRecord, ranks: u64, has_gpus: bool) -> bool {
    let (host, others) = (&node.host, node.conditions.others_cpus_busy);
    let (Some(others), Some(cpus), Some(given)) = (others, host.cpus, effective_cpus(node)) else {
        return false;
    };
    let threads = host.omp_num_threads.as_ref();
    let threads: Option<f64> = threads.and_then(|threads| threads.parse().ok());
    let needed = match (has_gpus, threads) {
        (true, _) => real(ranks),
        (false, Some(threads)) => given.min(threads * real(ranks)),
        (false, None) => given,
    };
    let cpus = real(cpus);
    others > OTHERS_SHARE * cpus && needed + others > cpus
}

/// The metric that says most of the training: an accuracy before a loss, of the evaluation before others.
fn metric(run: &Run) -> Option<(String, f64)> {
    let metrics = run.progress()?.last_metrics.iter();
    let known = metrics.filter(|(_, value)| value.is_finite());
    let rank = |name: &str| {
        let has = |part: &str| name.to_ascii_lowercase().contains(part);
        (has("acc"), has("loss"), has("val") || has("test"))
    };
    let best = known.max_by_key(|(name, _)| rank(name));
    best.map(|(name, value)| (name.clone(), *value))
}

/// From the start of the command to the end of the first epoch that reached the target.
fn seconds_to(run: &Run, target: &Target) -> Option<f64> {
    let node = &run.timing()?.node;
    let record = &run.nodes.iter().find(|one| one.record.key.node == *node)?;
    let reached = run.progress()?.epochs.iter().find(|epoch| {
        let value = epoch.metrics.get(&target.metric);
        value.is_some_and(|value| match target.is_least {
            true => *value >= target.value,
            false => *value <= target.value,
        })
    })?;
    let passed_ms = reached
        .ended_at_ms?
        .checked_sub(record.record.started_at_ms)?;
    Some(real(passed_ms) / 1e3)
}

/// The mean of what is known.
pub(super) fn mean_of(samples: &[&Sample], of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
    let known: Vec<f64> = samples.iter().filter_map(|sample| of(sample)).collect();
    mean(&known)
}
