//! What a job asks a site for, as the checks look at it.

use crate::foundation::units::{Bytes, Walltime};
use crate::job::kind_and_amount;

/// What a job asks for. What is `None` is left to the site and is not checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// Queue, or several of them with commas between (Slurm); any one may take the job.
    pub queue: Option<&'a str>,
    /// Account.
    pub account: Option<&'a str>,
    /// Quality of service; it may lift a queue's limits.
    pub qos: Option<&'a str>,
    /// Nodes.
    pub nodes: u32,
    /// Tasks on each node.
    pub tasks_per_node: u32,
    /// CPUs of each task; a task has one at least.
    pub cpus_per_task: Option<u32>,
    /// GPUs on each node: `2` or `v100:2`.
    pub gpus_per_node: Option<&'a str>,
    /// Main memory on each node.
    pub memory: Option<Bytes>,
    /// Main memory for each CPU.
    pub memory_per_cpu: Option<Bytes>,
    /// Time limit.
    pub walltime: Option<Walltime>,
    /// Node features: words, joined by `&` or `|` or in whatever else the scheduler knows.
    pub constraint: Option<&'a str>,
    /// Licences, each with how many.
    pub licenses: &'a [(String, u32)],
    /// Elements of its array.
    pub elements: Option<u64>,
}

impl Wanted<'_> {
    /// CPUs on each node.
    #[must_use]
    pub fn cpus_per_node(&self) -> u64 {
        u64::from(self.tasks_per_node) * u64::from(self.cpus_per_task.unwrap_or(1))
    }

    /// Main memory on each node, however it was asked for.
    #[must_use]
    pub fn memory_per_node(&self) -> Option<Bytes> {
        let by_cpu = || {
            Some(Bytes(
                self.memory_per_cpu?.0.saturating_mul(self.cpus_per_node()),
            ))
        };
        self.memory.or_else(by_cpu)
    }

    /// GPUs on each node: type, where one is named, and how many.
    #[must_use]
    pub fn gpus(&self) -> Option<(Option<&str>, u32)> {
        let asked = self.gpus_per_node.map(kind_and_amount);
        asked.filter(|(_, count)| *count > 0)
    }

    /// The key of the job file that CPUs come from.
    pub(super) fn cpu_key(&self) -> &'static str {
        if self.cpus_per_task.is_some() {
            "cpus_per_task"
        } else {
            "tasks_per_node"
        }
    }

    /// The key of the job file that memory comes from.
    pub(super) fn memory_key(&self) -> &'static str {
        if self.memory.is_some() {
            "memory"
        } else {
            "memory_per_cpu"
        }
    }
}

/// A job of one node and one task that leaves all else to the site.
#[cfg(test)]
impl Default for Wanted<'_> {
    fn default() -> Self {
        Self {
            queue: None,
            account: None,
            qos: None,
            nodes: 1,
            tasks_per_node: 1,
            cpus_per_task: None,
            gpus_per_node: None,
            memory: None,
            memory_per_cpu: None,
            walltime: None,
            constraint: None,
            licenses: &[],
            elements: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_per_node_follow_from_tasks_and_never_overflow() {
        let gpus = |text| {
            Wanted {
                gpus_per_node: Some(text),
                ..Wanted::default()
            }
            .gpus()
            .map(|(_, n)| n)
        };
        assert_eq!(
            (gpus("2"), gpus("v100:3"), gpus("x")),
            (Some(2), Some(3), None)
        );
        let wanted = Wanted {
            tasks_per_node: 4,
            cpus_per_task: Some(2),
            memory_per_cpu: Some(Bytes(10)),
            ..Wanted::default()
        };
        assert_eq!(
            (wanted.cpus_per_node(), wanted.memory_per_node()),
            (8, Some(Bytes(80)))
        );
        let huge = Wanted {
            tasks_per_node: u32::MAX,
            cpus_per_task: Some(u32::MAX),
            memory_per_cpu: Some(Bytes(u64::MAX)),
            ..wanted
        };
        assert_eq!(huge.memory_per_node(), Some(Bytes(u64::MAX)));
    }
}
