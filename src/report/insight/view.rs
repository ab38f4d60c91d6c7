//! What an insight is made of.

use serde::{Deserialize, Serialize};

use super::Sampled;
use crate::job::{Launcher, SchedulerKind, StorageClass, gpus_on_node, kind_and_count};
use crate::record::{NodeRecord, RunRecord, Status};

/// What was asked for, as the plan has it; `None`: the line was left out and the site's default held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The scheduler that was asked.
    pub scheduler: SchedulerKind,
    /// Nodes.
    pub nodes: u32,
    /// Tasks on each node.
    pub tasks_per_node: u32,
    /// How the command got onto the nodes.
    pub launcher: Launcher,
    /// CPUs of each task.
    pub cpus_per_task: Option<u32>,
    /// GPUs on each node: `2` or `v100:2`.
    pub gpus_per_node: Option<String>,
    /// GPUs of each task: `1` or `v100:1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_per_task: Option<String>,
    /// Main memory on each node, in bytes.
    pub memory_bytes: Option<u64>,
    /// Main memory for each CPU, in bytes.
    pub memory_per_cpu_bytes: Option<u64>,
    /// Time limit, in seconds.
    pub walltime_seconds: Option<u64>,
    /// Queue.
    pub queue: Option<String>,
    /// The longest time limit of that queue, in seconds, as the site reports it.
    pub queue_walltime_seconds: Option<u64>,
    /// The class of storage that was chosen.
    pub storage: Option<StorageClass>,
    /// Whole nodes.
    pub exclusive: bool,
    /// One of many elements that share the request.
    pub is_array: bool,
}

impl Request {
    /// CPUs asked for on each node.
    #[must_use]
    pub fn cpus_per_node(&self) -> Option<u32> {
        self.cpus_per_task?.checked_mul(self.tasks_per_node.max(1))
    }

    /// GPUs asked for on each node.
    #[must_use]
    pub fn gpus(&self) -> Option<u32> {
        let (of_node, of_task) = (self.gpus_per_node.as_deref(), self.gpus_per_task.as_deref());
        let gpus = gpus_on_node(of_node, of_task, self.tasks_per_node)?;
        Some(kind_and_count(&gpus).1).filter(|count| *count > 0)
    }

    /// Memory asked for on each node, in bytes, in either way.
    #[must_use]
    pub fn memory_per_node_bytes(&self) -> Option<u64> {
        let by_cpu = || {
            self.memory_per_cpu_bytes?
                .checked_mul(u64::from(self.cpus_per_node()?))
        };
        self.memory_bytes.or_else(by_cpu)
    }
}

/// One node of a run.
#[derive(Debug, Clone)]
pub struct NodeView<'a> {
    /// Its record.
    pub record: &'a NodeRecord,
    /// What its samples say; `None` where they were not read, or there is none.
    pub sampled: Option<Sampled>,
}

/// One run, or one element of an array.
#[derive(Debug, Clone)]
pub struct RunView<'a> {
    /// Who submitted what.
    pub run: &'a RunRecord,
    /// Its status.
    pub status: &'a Status,
    /// What was asked for; `None` where no plan is kept.
    pub request: Option<&'a Request>,
    /// Its nodes, by name.
    pub nodes: Vec<NodeView<'a>>,
}

impl RunView<'_> {
    /// The node whose epochs stand for the run: the first that recognised any, else the first that recognised anything.
    #[must_use]
    pub fn timed(&self) -> Option<&NodeRecord> {
        let mut nodes = self.nodes.iter().map(|node| node.record);
        let epochs = nodes.clone().find(|node| super::has_epochs(&node.progress));
        epochs.or_else(|| nodes.find(|node| node.progress.recogniser.is_some()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A job of one node that asked for little.
    pub(crate) fn request() -> Request {
        Request {
            scheduler: SchedulerKind::Slurm,
            nodes: 1,
            tasks_per_node: 1,
            launcher: Launcher::None,
            cpus_per_task: None,
            gpus_per_node: None,
            gpus_per_task: None,
            memory_bytes: None,
            memory_per_cpu_bytes: None,
            walltime_seconds: None,
            queue: None,
            queue_walltime_seconds: None,
            storage: None,
            exclusive: false,
            is_array: false,
        }
    }

    #[test]
    fn what_was_asked_for_on_a_node() {
        let gpus = |text: &str| {
            Request {
                gpus_per_node: Some(text.into()),
                ..request()
            }
            .gpus()
        };
        assert_eq!(
            [gpus("2"), gpus("v100:4"), gpus("v100")],
            [Some(2), Some(4), None]
        );
        let cpus = Request {
            tasks_per_node: 2,
            cpus_per_task: Some(3),
            ..request()
        };
        let by_cpu = Request {
            memory_per_cpu_bytes: Some(5),
            ..cpus.clone()
        };
        assert_eq!(
            (cpus.cpus_per_node(), cpus.memory_per_node_bytes()),
            (Some(6), None)
        );
        assert_eq!(by_cpu.memory_per_node_bytes(), Some(30));
        assert_eq!(
            Request {
                memory_bytes: Some(7),
                ..by_cpu
            }
            .memory_per_node_bytes(),
            Some(7)
        );
    }
}
