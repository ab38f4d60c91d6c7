//! What limited a run.

use serde::Serialize;

use super::threshold::{
    CPUS_BUSY, GPU_BUSY, GPU_LOW, IO_READ, IO_WAIT, MEM_WAIT, ONE_CPU_LEAST, ONE_CPU_MOST,
    QUOTA_WAIT, WORKER_FULL,
};
use super::used::NodeUsed;
use super::{Evidence, unlike};

/// What a run waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// The CPU quota of its cgroup.
    Quota,
    /// Memory: its tasks waited for pages.
    Memory,
    /// Its GPUs are busy: compute-bound.
    Gpu,
    /// Its GPUs wait, and so do tasks for storage: data-bound.
    Storage,
    /// Its GPUs wait, and its CPUs are all busy: data-bound by preparing the data. Without GPUs: compute-bound.
    Cpus,
    /// Its GPUs wait for worker processes that are each at their limit, while CPUs are free.
    Workers,
    /// One thread does all the work, while CPUs are free.
    OneThread,
    /// Its GPUs wait, and nothing that is measured says for what.
    Unclear,
}

impl LimitKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Quota,
        Self::Memory,
        Self::Gpu,
        Self::Storage,
        Self::Cpus,
        Self::Workers,
        Self::OneThread,
        Self::Unclear,
    ];

    /// Its word in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Quota => "quota",
            Self::Memory => "memory",
            Self::Gpu => "gpu",
            Self::Storage => "storage",
            Self::Cpus => "cpus",
            Self::Workers => "workers",
            Self::OneThread => "one_thread",
            Self::Unclear => "unclear",
        }
    }
}

/// Something that limited a run on one node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limit {
    /// What.
    pub kind: LimitKind,
    /// On which node.
    pub node: String,
    /// In a sentence.
    pub text: String,
    /// The figures that say so.
    pub rests_on: Vec<Evidence>,
}

fn evidence(what: &'static str, value: Option<f64>) -> Option<Evidence> {
    value.map(|value| Evidence { what, value })
}

/// What limited the run on a node of which there are samples enough; what says most is first. Empty where nothing did.
pub(super) fn limits(node: &NodeUsed, cpus: Option<f64>) -> Vec<Limit> {
    let Some(sampled) = &node.sampled else {
        return Vec::new();
    };
    let window = sampled.window();
    let found = |kind, text: String, rests_on: Vec<Option<Evidence>>| Limit {
        kind,
        node: node.node.clone(),
        text,
        rests_on: rests_on.into_iter().flatten().collect(),
    };
    let percent = |ratio: f64| ratio * 100.0;
    let mut limits = Vec::new();
    if let Some(held) = window
        .cpu_throttled_ratio
        .filter(|held| percent(*held) >= QUOTA_WAIT)
    {
        let text = format!(
            "the CPU quota kept it from running in {:.0}% of the time",
            percent(held)
        );
        limits.push(found(
            LimitKind::Quota,
            text,
            vec![evidence("cpu_throttled_ratio", Some(held))],
        ));
    }
    if let Some(waited) = window
        .mem_wait_ratio
        .filter(|waited| percent(*waited) >= MEM_WAIT)
    {
        let text = format!(
            "all its tasks waited for memory in {:.0}% of the time",
            percent(waited)
        );
        limits.push(found(
            LimitKind::Memory,
            text,
            vec![evidence("mem_wait_ratio", Some(waited))],
        ));
    }
    let busy = window.cpus_busy.map(|busy| busy.mean);
    let gpu = node.gpu_busy_training();
    let gpu_busy = evidence("gpu_busy_percent", gpu);
    let cpus_busy = [
        evidence("cpus_busy", busy),
        evidence("cpus_effective", cpus),
    ];
    if let Some(gpu) = gpu.filter(|gpu| *gpu >= GPU_BUSY) {
        let text = format!("compute-bound: its GPUs were busy {gpu:.0}% of the time");
        limits.push(found(LimitKind::Gpu, text, vec![gpu_busy]));
        return limits;
    }
    // Between the two thresholds a GPU neither waits nor is full.
    if gpu.is_some_and(|gpu| gpu >= GPU_LOW) {
        return limits;
    }
    let waits = gpu.map(|gpu| format!("its GPUs were busy only {gpu:.0}% of the time: "));
    let waits = waits.as_deref().unwrap_or("");
    if let Some((text, seen)) = storage(node) {
        limits.push(found(
            LimitKind::Storage,
            format!("{waits}{text}"),
            vec![gpu_busy, Some(seen)],
        ));
    }
    if let (Some(busy), Some(cpus)) = (busy, cpus)
        && busy * 100.0 >= CPUS_BUSY * cpus
    {
        let text = match gpu {
            Some(_) => format!("{waits}{busy:.1} of {cpus:.0} CPUs were busy preparing the data"),
            None => format!("compute-bound: {busy:.1} of {cpus:.0} CPUs were busy"),
        };
        limits.push(found(
            LimitKind::Cpus,
            text,
            vec![gpu_busy, cpus_busy[0], cpus_busy[1]],
        ));
        return limits;
    }
    let workers = node.workers();
    let full = workers
        .iter()
        .filter(|worker| worker.cpus_busy >= WORKER_FULL)
        .count();
    if gpu.is_some() && full > 0 && full * 2 >= workers.len() {
        let text =
            format!("{waits}{full} worker processes were at their limit, while CPUs were free");
        let count = |what, count: usize| {
            Some(Evidence {
                what,
                value: super::real(count as u64),
            })
        };
        let seen = vec![
            gpu_busy,
            count("workers_full", full),
            count("workers", workers.len()),
        ];
        limits.push(found(LimitKind::Workers, text, seen));
    } else if let (Some(busy), Some(cpus)) = (busy, cpus)
        && cpus >= 2.0
        && (ONE_CPU_LEAST..=ONE_CPU_MOST).contains(&busy)
    {
        let text =
            format!("{waits}one CPU of {cpus:.0} was busy all the time: one thread does the work");
        limits.push(found(
            LimitKind::OneThread,
            text,
            vec![gpu_busy, cpus_busy[0], cpus_busy[1]],
        ));
    }
    if limits.is_empty() && gpu.is_some() {
        let text = format!("{waits}nothing that is measured says what they waited for");
        limits.push(found(
            LimitKind::Unclear,
            text,
            vec![gpu_busy, cpus_busy[0], cpus_busy[1]],
        ));
    }
    limits
}

/// Whether storage was waited for, in words, and what says so.
fn storage(node: &NodeUsed) -> Option<(String, Evidence)> {
    let window = node.sampled.as_ref()?.window();
    let waited = |what, ratio: Option<f64>, of: &str| {
        let ratio = ratio?;
        let text = format!(
            "tasks {of} waited for I/O in {:.0}% of the time",
            ratio * 100.0
        );
        (ratio * 100.0 >= IO_WAIT).then_some((text, Evidence { what, value: ratio }))
    };
    match (
        window.io_wait_ratio,
        window.node_io_wait_ratio,
        window.io_read_bytes_per_second,
    ) {
        (Some(_), ..) => waited("io_wait_ratio", window.io_wait_ratio, "of the run"),
        (None, Some(_), _) => waited(
            "node_io_wait_ratio",
            window.node_io_wait_ratio,
            "of the node",
        ),
        (None, None, Some(read)) if read.mean >= IO_READ * 1e6 => {
            let text = format!("it read {:.0} MB a second from storage", read.mean / 1e6);
            Some((
                text,
                Evidence {
                    what: "io_read_bytes_per_second",
                    value: read.mean,
                },
            ))
        }
        _ => None,
    }
}

/// The limits of all nodes, those of one kind but once: of the first node that has it.
pub(super) fn limits_of(nodes: &[(&NodeUsed, Option<f64>)]) -> Vec<Limit> {
    let mut found: Vec<Limit> = Vec::new();
    for limit in nodes.iter().flat_map(|(node, cpus)| limits(node, *cpus)) {
        if found.iter().all(|known| known.kind != limit.kind) {
            found.push(limit);
        }
    }
    found
}

/// CPUs that a node's command could keep busy: not more than it was given.
pub(super) fn cpus_of(node: &NodeUsed, record: &crate::record::NodeRecord) -> Option<f64> {
    match (unlike::effective_cpus(record), node.cpus_allocated) {
        (Some(effective), Some(allocated)) => Some(effective.min(allocated)),
        (effective, allocated) => effective.or(allocated),
    }
}
