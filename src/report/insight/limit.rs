//! What limited a run.

use serde::Serialize;

use super::threshold::{
    CPUS_BUSY, GPU_BUSY, GPU_LOW, IO_READ, IO_WAIT, MEM_WAIT, ONE_CPU_LEAST, ONE_CPU_MOST,
    OTHERS_BUSY, QUOTA_WAIT,
};
use super::used::NodeUsed;
use super::{Evidence, Window, real, unlike};
use crate::foundation::named_enum;
use crate::record::NodeRecord;

named_enum! {
    /// What a run waited for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum LimitKind {
        /// The CPU quota of its cgroup.
        Quota = "quota",
        /// Other processes kept the CPUs busy that it might use.
        Others = "others",
        /// Memory: its tasks waited for pages.
        Memory = "memory",
        /// Its GPUs are busy: compute-bound.
        Gpu = "gpu",
        /// Its GPUs wait, and so do tasks for storage: data-bound.
        Storage = "storage",
        /// Its GPUs wait, and its CPUs are all busy: data-bound by preparing the data. Without GPUs: compute-bound.
        Cpus = "cpus",
        /// One thread does all the work, while CPUs are free.
        OneThread = "one_thread",
        /// Its GPUs wait, and nothing that is measured says for what.
        Unclear = "unclear",
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

impl Limit {
    /// One of the figures that say so.
    pub(super) fn figure(&self, what: &str) -> Option<f64> {
        let figure = self.rests_on.iter().find(|figure| figure.what == what);
        figure.map(|figure| figure.value)
    }
}

/// A figure that a limit may rest on; left out where it is not known.
type Figure = (&'static str, Option<f64>);

/// What is looked at of a node of which there are samples enough.
struct Seen<'a> {
    node: &'a NodeUsed,
    window: &'a Window,
    /// CPUs that it kept busy, and that it could keep busy.
    busy: Option<f64>,
    cpus: Option<f64>,
    /// CPUs that other processes kept busy, of all that the node has; `None`: it may not use all of them, or nobody knows.
    others: Option<(f64, f64)>,
    /// Mean utilisation of its GPUs, in percent.
    gpu: Option<f64>,
    /// That its GPUs waited, as the beginning of a sentence; empty without GPUs.
    waits: String,
}

impl Seen<'_> {
    fn limit(&self, kind: LimitKind, text: String, figures: &[Figure]) -> Limit {
        let known = |(what, value): &Figure| value.map(|value| Evidence { what, value });
        Limit {
            kind,
            node: self.node.node.clone(),
            text,
            rests_on: figures.iter().filter_map(known).collect(),
        }
    }

    fn gpu_figure(&self) -> Figure {
        ("gpu_busy_percent", self.gpu)
    }

    fn cpu_figures(&self) -> [Figure; 3] {
        [
            self.gpu_figure(),
            ("cpus_busy", self.busy),
            ("cpus_effective", self.cpus),
        ]
    }

    /// Other processes took CPUs that it might use, and hardly any was free.
    fn others(&self) -> Option<Limit> {
        let ((others, cpus), busy) = self.others.zip(self.busy)?;
        let took = others * 100.0 >= OTHERS_BUSY * cpus;
        let is_full = (others + busy) * 100.0 >= CPUS_BUSY * cpus;
        let text = format!(
            "other processes kept {others:.1} of the node's {cpus:.0} CPUs busy, and it {busy:.1}"
        );
        let figures = [("others_cpus_busy", Some(others)), ("cpus_busy", self.busy)];
        // One that hardly runs may be asleep.
        (took && is_full && busy >= 0.25).then(|| self.limit(LimitKind::Others, text, &figures))
    }

    /// A quota, other processes or memory that held it up, whatever else it did.
    fn held_up(&self) -> impl Iterator<Item = Limit> {
        let (quota, memory) = (self.window.cpu_throttled_ratio, self.window.mem_wait_ratio);
        let quota = quota
            .filter(|ratio| ratio * 100.0 >= QUOTA_WAIT)
            .map(|ratio| {
                let text = format!(
                    "the CPU quota kept it from running in {:.0}% of the time",
                    ratio * 100.0
                );
                self.limit(
                    LimitKind::Quota,
                    text,
                    &[("cpu_throttled_ratio", Some(ratio))],
                )
            });
        let memory = memory
            .filter(|ratio| ratio * 100.0 >= MEM_WAIT)
            .map(|ratio| {
                let text = format!(
                    "all its tasks waited for memory in {:.0}% of the time",
                    ratio * 100.0
                );
                self.limit(LimitKind::Memory, text, &[("mem_wait_ratio", Some(ratio))])
            });
        quota.into_iter().chain(self.others()).chain(memory)
    }

    fn storage(&self) -> Option<Limit> {
        let window = self.window;
        let shares = [
            ("io_wait_ratio", window.io_wait_ratio, "run"),
            ("node_io_wait_ratio", window.node_io_wait_ratio, "node"),
        ];
        let known = shares
            .into_iter()
            .find_map(|(what, ratio, of)| Some((what, ratio?, of)));
        let (text, figure) = match (known, window.io_read_bytes_per_second) {
            (Some((what, ratio, of)), _) if ratio * 100.0 >= IO_WAIT => {
                let percent = ratio * 100.0;
                let text = format!("tasks of the {of} waited for I/O in {percent:.0}% of the time");
                (text, (what, Some(ratio)))
            }
            (None, Some(read)) if read.mean >= IO_READ * 1e6 => {
                let text = format!("it read {:.0} MB a second from storage", read.mean / 1e6);
                (text, ("io_read_bytes_per_second", Some(read.mean)))
            }
            _ => return None,
        };
        let text = format!("{}{text}", self.waits);
        Some(self.limit(LimitKind::Storage, text, &[self.gpu_figure(), figure]))
    }

    fn all_cpus(&self) -> Option<Limit> {
        let (busy, cpus) = self.busy.zip(self.cpus)?;
        let waits = &self.waits;
        let text = match self.gpu {
            Some(_) => format!("{waits}{busy:.1} of {cpus:.0} CPUs were busy preparing the data"),
            None => format!("compute-bound: {busy:.1} of {cpus:.0} CPUs were busy"),
        };
        (busy * 100.0 >= CPUS_BUSY * cpus)
            .then(|| self.limit(LimitKind::Cpus, text, &self.cpu_figures()))
    }

    fn one_thread(&self) -> Option<Limit> {
        let (busy, cpus) = self.busy.zip(self.cpus)?;
        let text = format!(
            "{}one CPU of {cpus:.0} was busy all the time: one thread does the work",
            self.waits
        );
        (cpus >= 2.0 && (ONE_CPU_LEAST..=ONE_CPU_MOST).contains(&busy))
            .then(|| self.limit(LimitKind::OneThread, text, &self.cpu_figures()))
    }
}

/// What limited the run on a node of which there are samples enough; what says most is first. Empty where nothing did.
fn limits(node: &NodeUsed, record: &NodeRecord) -> Vec<Limit> {
    let Some(sampled) = &node.sampled else {
        return Vec::new();
    };
    let (window, gpu) = (sampled.window(), node.gpu_busy_training());
    let waits = gpu.map(|gpu| format!("its GPUs were busy only {gpu:.0}% of the time: "));
    let seen = Seen {
        node,
        window,
        busy: window.cpus_busy.map(|busy| busy.mean),
        cpus: cpus_of(node, record),
        others: others(record),
        gpu,
        waits: waits.unwrap_or_default(),
    };
    let mut limits: Vec<Limit> = seen.held_up().collect();
    if let Some(gpu) = gpu.filter(|gpu| *gpu >= GPU_BUSY) {
        let text = format!("compute-bound: its GPUs were busy {gpu:.0}% of the time");
        limits.push(seen.limit(LimitKind::Gpu, text, &[seen.gpu_figure()]));
        return limits;
    }
    // Between the two thresholds a GPU neither waits nor is full.
    if gpu.is_some_and(|gpu| gpu >= GPU_LOW) {
        return limits;
    }
    limits.extend(seen.storage());
    // How many CPUs a run would keep busy that others keep from running is not known.
    if limits.iter().all(|limit| limit.kind != LimitKind::Others) {
        limits.extend(seen.all_cpus().or_else(|| seen.one_thread()));
    }
    if limits.is_empty() && gpu.is_some() {
        let text = format!(
            "{}nothing measured explains what they waited for",
            seen.waits
        );
        limits.push(seen.limit(LimitKind::Unclear, text, &seen.cpu_figures()));
    }
    limits
}

/// The limits of all nodes, those of one kind but once: of the first node that has it.
pub(super) fn limits_of<'a>(
    nodes: impl Iterator<Item = (&'a NodeUsed, &'a NodeRecord)>,
) -> Vec<Limit> {
    let mut found: Vec<Limit> = Vec::new();
    for limit in nodes.flat_map(|(node, record)| limits(node, record)) {
        if found.iter().all(|known| known.kind != limit.kind) {
            found.push(limit);
        }
    }
    found
}

/// CPUs that other processes kept busy, and those of the node, where the run may use all of them: what others do on theirs does not
/// slow a run that is confined to a part.
fn others(record: &NodeRecord) -> Option<(f64, f64)> {
    let (others, cpus) = record.conditions.others_cpus_busy.zip(record.host.cpus)?;
    let cpus = real(cpus);
    (unlike::effective_cpus(record)? >= cpus).then_some((others, cpus))
}

/// CPUs that a node's command could keep busy: not more than it was given.
fn cpus_of(node: &NodeUsed, record: &NodeRecord) -> Option<f64> {
    match (unlike::effective_cpus(record), node.cpus_allocated) {
        (Some(effective), Some(allocated)) => Some(effective.min(allocated)),
        (effective, allocated) => effective.or(allocated),
    }
}
