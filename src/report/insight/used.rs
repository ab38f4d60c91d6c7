//! What a run used, of what it was given.

use serde::Serialize;

use super::sampled::{GpuWindow, Sampled, Spread};
use super::threshold::{GPU_IDLE_SECONDS, GPU_IDLE_SHARE};
use super::unlike::effective_cpus;
use super::{Compared, NodeView, Request, RunView, mean, real};
use crate::foundation::cpu_list::share_one;
use crate::record::{GpuUsage, NodeRecord};

/// How a run used one GPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GpuUsed {
    /// Which.
    pub uuid: String,
    /// Its model.
    pub name: String,
    /// Its number on the node.
    pub minor: Option<u32>,
    /// Mean utilisation over the whole run, in percent.
    pub busy_mean_percent: Option<f64>,
    /// The same while it trained.
    pub busy_training_percent: Option<Spread>,
    /// Most memory in use, in bytes.
    pub mem_peak_bytes: Option<u64>,
    /// Its memory, in bytes.
    pub mem_total_bytes: Option<u64>,
    /// Mean power, in watts.
    pub power_mean_watts: Option<f64>,
    /// Energy over the whole run, in joules.
    pub energy_joules: Option<f64>,
    /// Mean clock of its multiprocessors, in MHz.
    pub sm_clock_mean_mhz: Option<f64>,
    /// The highest that it has, in MHz.
    pub sm_clock_max_mhz: Option<u32>,
    /// Highest temperature, in degrees Celsius.
    pub temperature_peak_celsius: Option<u64>,
    /// Time in which power or heat held it down, in seconds.
    pub throttled_seconds: f64,
    /// Time without a process of the run on it, in seconds.
    pub idle_seconds: f64,
    /// True where it never worked although the run had it for long enough to say so.
    pub is_idle: bool,
    /// XID errors.
    pub xid_errors: u64,
    /// The CPUs of the machine that are near it, as the kernel lists them.
    pub near_cpus: Option<String>,
    /// Whether none of the run's CPUs is among these; `None`: one of both is unknown.
    pub is_far: Option<bool>,
}

/// What a run used on one node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeUsed {
    /// The node.
    pub node: String,
    /// Which `dlrun exec` there.
    pub step: u32,
    /// From start to end of the command, in seconds.
    pub wall_seconds: Option<f64>,
    /// CPUs that it was given: as asked for, else those it could keep busy.
    pub cpus_allocated: Option<f64>,
    /// `request` or `affinity`: whose word `cpus_allocated` is.
    pub cpus_from: Option<&'static str>,
    /// CPU time, in seconds.
    pub cpu_seconds: Option<f64>,
    /// CPUs kept busy on average: CPU time over wall time.
    pub cpus_busy_mean: Option<f64>,
    /// CPU time over the CPUs it was given times wall time, 0 to 1.
    pub cpu_efficiency_ratio: Option<f64>,
    /// The most memory in use, in bytes: of the processes, or of the cgroup without what it can drop.
    pub mem_peak_bytes: Option<u64>,
    /// Memory of the machine, in bytes.
    pub mem_total_bytes: Option<u64>,
    /// Processes that the kernel killed for want of memory.
    pub mem_oom_kills: Option<u64>,
    /// Read from storage, in bytes.
    pub io_read_bytes: Option<u64>,
    /// Written to storage, in bytes.
    pub io_write_bytes: Option<u64>,
    /// The GPUs.
    pub gpus: Vec<GpuUsed>,
    /// What the samples say; `None` where they were not read, or there is none.
    pub sampled: Option<Sampled>,
}

/// What a run used on all its nodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Used {
    /// The nodes, by name.
    pub nodes: Vec<NodeUsed>,
    /// CPU time over given CPUs times wall time, over all nodes of which it is known, 0 to 1.
    pub cpu_efficiency_ratio: Option<f64>,
    /// GPUs that the run had.
    pub gpus_allocated: usize,
    /// Of those, how many never worked.
    pub gpus_idle: usize,
    /// Mean utilisation of all GPUs, in percent.
    pub gpu_busy_mean_percent: Option<f64>,
    /// Energy that the GPUs drew, in joules. That of CPUs, memory and the rest of the nodes is not measured.
    pub gpu_energy_joules: Option<f64>,
}

/// What the run used.
pub(super) fn used(view: &RunView<'_>) -> Used {
    let nodes: Vec<NodeUsed> = view
        .nodes
        .iter()
        .map(|node| node_used(node, view.request))
        .collect();
    let gpus: Vec<&GpuUsed> = nodes.iter().flat_map(|node| &node.gpus).collect();
    let busy: Vec<f64> = gpus
        .iter()
        .filter_map(|gpu| gpu.busy_mean_percent)
        .collect();
    let energy: Vec<f64> = gpus.iter().filter_map(|gpu| gpu.energy_joules).collect();
    // A sum that lacks a GPU is no sum.
    let gpu_energy_joules =
        (!energy.is_empty() && energy.len() == gpus.len()).then(|| energy.iter().sum());
    let capacity =
        |node: &NodeUsed| Some((node.cpu_seconds?, node.cpus_allocated? * node.wall_seconds?));
    let (spent, given) = nodes
        .iter()
        .filter_map(capacity)
        .fold((0.0, 0.0), |sum, (spent, given)| {
            (sum.0 + spent, sum.1 + given)
        });
    Used {
        cpu_efficiency_ratio: (given > 0.0).then(|| spent / given),
        gpus_allocated: gpus.len(),
        gpus_idle: gpus.iter().filter(|gpu| gpu.is_idle).count(),
        gpu_busy_mean_percent: mean(&busy),
        gpu_energy_joules,
        nodes,
    }
}

fn node_used(node: &NodeView<'_>, request: Option<&Request>) -> NodeUsed {
    let NodeView { record, sampled } = node;
    let usage = &record.usage;
    // Whole nodes are given whole. Else the affinity, which may be the machine's, is what is left where nothing was asked for.
    let asked = request.and_then(Request::cpus_per_node).map(f64::from);
    let asked = asked.filter(|_| request.is_some_and(|request| !request.exclusive));
    let affinity = || effective_cpus(record).map(|cpus| (cpus, "affinity"));
    let allocated = asked.map(|cpus| (cpus, "request")).or_else(affinity);
    let wall = usage.wall_seconds.filter(|wall| *wall > 0.0);
    let efficiency = || Some(usage.cpu_seconds()? / (allocated?.0 * wall?));
    NodeUsed {
        node: record.key.node.clone(),
        step: record.key.step,
        wall_seconds: usage.wall_seconds,
        cpus_allocated: allocated.map(|(cpus, _)| cpus),
        cpus_from: allocated.map(|(_, from)| from),
        cpu_seconds: usage.cpu_seconds(),
        cpus_busy_mean: usage.cpus_busy(),
        cpu_efficiency_ratio: efficiency(),
        mem_peak_bytes: usage
            .mem_peak_bytes
            .max(sampled.as_ref().and_then(|sampled| sampled.mem_most_bytes)),
        mem_total_bytes: record.host.mem_total_bytes,
        mem_oom_kills: usage.mem_oom_kills,
        io_read_bytes: usage.io_read_bytes,
        io_write_bytes: usage.io_write_bytes,
        gpus: record
            .gpus
            .iter()
            .map(|gpu| gpu_used(gpu, record, sampled.as_ref()))
            .collect(),
        sampled: sampled.clone(),
    }
}

fn gpu_used(gpu: &GpuUsage, record: &NodeRecord, sampled: Option<&Sampled>) -> GpuUsed {
    let window = |windows: &[GpuWindow]| {
        windows
            .iter()
            .find(|window| window.uuid == gpu.gpu.uuid)
            .cloned()
    };
    let training = sampled.and_then(|sampled| window(&sampled.training.as_ref()?.gpus));
    let whole = sampled.and_then(|sampled| window(&sampled.whole.gpus));
    let wall = record.usage.wall_seconds.unwrap_or(0.0);
    // No process of the run, and in no bin more than noise: another's work on a shared GPU is no work of the run, but a
    // GPU whose processes are unknown (`run_processes` unknown) and that was busy may have been the run's.
    let peak = whole
        .and_then(|window| window.busy_percent)
        .map(|busy| busy.peak);
    let never_busy = peak
        .or(gpu.utilisation_mean_percent)
        .is_some_and(|busy| busy < 1.0);
    let no_process = gpu.idle_seconds * 100.0 >= GPU_IDLE_SHARE * wall;
    let (near, had) = (
        gpu.gpu.place.near_cpus.as_deref(),
        record.conditions.affinity.as_deref(),
    );
    GpuUsed {
        uuid: gpu.gpu.uuid.clone(),
        name: gpu.gpu.name.clone(),
        minor: gpu.gpu.minor,
        busy_mean_percent: gpu.utilisation_mean_percent,
        busy_training_percent: training.and_then(|window| window.busy_percent),
        mem_peak_bytes: gpu.mem_peak_bytes,
        mem_total_bytes: gpu.gpu.mem_total_bytes,
        power_mean_watts: gpu.power_mean_watts,
        energy_joules: gpu.energy_joules,
        sm_clock_mean_mhz: gpu.sm_clock_mean_mhz,
        sm_clock_max_mhz: gpu.gpu.sm_clock_max_mhz,
        temperature_peak_celsius: gpu.temperature_peak_celsius,
        throttled_seconds: gpu.throttled_seconds,
        idle_seconds: gpu.idle_seconds,
        is_idle: never_busy && no_process && wall >= GPU_IDLE_SECONDS,
        xid_errors: gpu.xid_errors,
        near_cpus: near.map(str::to_owned),
        is_far: near
            .zip(had)
            .and_then(|(near, had)| Some(!share_one(near, had)?)),
    }
}

impl NodeUsed {
    /// GPUs of the node that worked.
    pub(super) fn gpus_working(&self) -> usize {
        self.gpus.iter().filter(|gpu| !gpu.is_idle).count()
    }

    /// CPUs kept busy: the 95th percentile of the bins, else the mean.
    pub(super) fn cpus_busy_high(&self) -> Option<f64> {
        let spread = self
            .sampled
            .as_ref()
            .and_then(|sampled| sampled.whole.cpus_busy);
        spread.map(|spread| spread.p95)
    }

    /// Mean utilisation of the GPUs that worked while it trained, in percent, each.
    pub(super) fn gpu_busy_training(&self) -> Option<f64> {
        let windows = self.sampled.as_ref()?.window();
        let works = |window: &&GpuWindow| {
            self.gpus
                .iter()
                .any(|gpu| gpu.uuid == window.uuid && !gpu.is_idle)
        };
        let busy: Vec<f64> = windows
            .gpus
            .iter()
            .filter(works)
            .filter_map(|gpu| Some(gpu.busy_percent?.mean))
            .collect();
        mean(&busy)
    }
}

/// The time limit in seconds: the job file's, or a longer one that the scheduler gave while the job ran. It counts in minutes.
fn time_limit(view: &RunView<'_>) -> Option<u64> {
    let nodes = view.nodes.iter().map(|node| &node.record.progress);
    let ends_ms = nodes.filter_map(|progress| progress.time_limit_ms).max();
    let given = ends_ms.zip(view.status.started_at_ms);
    let given = given.map(|(end, start)| (end.saturating_sub(start) + 30_000) / 60_000 * 60);
    let asked = view.request.and_then(|request| request.walltime_seconds);
    asked.map(|asked| asked.max(given.unwrap_or(0)))
}

/// What was asked for against what was used.
pub(super) fn compared(view: &RunView<'_>, used: &Used, ran_seconds: Option<f64>) -> Vec<Compared> {
    let most =
        |of: &dyn Fn(&NodeUsed) -> Option<f64>| used.nodes.iter().filter_map(of).reduce(f64::max);
    let counts_twice = |node: &NodeRecord| {
        node.cgroup.is_none() && node.usage.processes_peak.is_some_and(|most| most > 1)
    };
    let is_sum = view.nodes.iter().any(|node| counts_twice(node.record));
    let compared = |what: &'static str, asked: Option<f64>, used: Option<f64>| {
        let positive = asked.filter(|asked| *asked > 0.0);
        (asked.is_some() || used.is_some()).then_some(Compared {
            what,
            asked,
            used,
            ratio: positive.and_then(|asked| Some(used? / asked)),
            is_upper_bound: what == "memory_bytes" && is_sum,
        })
    };
    let request = view.request;
    let cpus = request.and_then(Request::cpus_per_node).map(f64::from);
    let memory = request.and_then(Request::memory_per_node_bytes).map(real);
    let gpus = request.and_then(Request::gpus).map(f64::from);
    let walltime = time_limit(view);
    let working = |node: &NodeUsed| {
        let working = real(node.gpus_working() as u64);
        (!node.gpus.is_empty()).then_some(working)
    };
    let most_memory = most(&|node| node.mem_peak_bytes.map(real));
    [
        compared("cpus", cpus, most(&|node| node.cpus_busy_mean)),
        compared("memory_bytes", memory, most_memory),
        compared("gpus", gpus, most(&working)),
        compared("walltime_seconds", walltime.map(real), ran_seconds),
    ]
    .into_iter()
    .flatten()
    .collect()
}
