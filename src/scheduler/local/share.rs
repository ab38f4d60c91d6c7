//! What a local job takes of the machine: by what it asks for.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::launch::{GPU_VARIABLES, Plan, PlannedResources};
use crate::observe::monitor::host_facts;

/// What local jobs share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Machine {
    /// CPUs that this process may run on, as its jobs may.
    pub(super) cpus: u32,
    /// Main memory in bytes; 0: unknown, and not counted.
    pub(super) memory: u64,
    /// GPUs; `None`: unknown, and one job at a time has them all.
    pub(super) gpus: Option<u32>,
}

impl Machine {
    /// This machine, as the kernel describes it.
    pub(super) fn here() -> Self {
        let facts = host_facts(None);
        let gpus = fs::read_dir("/proc/driver/nvidia/gpus")
            .ok()
            .map(Iterator::count);
        Self {
            // Where the CPUs are unknown, each job takes all of them.
            cpus: facts
                .cpus_allowed
                .and_then(|count| u32::try_from(count).ok())
                .unwrap_or(1)
                .max(1),
            memory: facts.mem_total_bytes.unwrap_or(0),
            gpus: gpus
                .and_then(|count| u32::try_from(count).ok())
                .filter(|count| *count > 0),
        }
    }

    fn gpus(self) -> u32 {
        self.gpus.unwrap_or(1)
    }

    pub(super) fn whole(self) -> Share {
        Share {
            cpus: self.cpus.into(),
            memory: self.memory,
            gpus: self.gpus().into(),
        }
    }
}

/// What a job asks for. It may be more than the machine has; then it is all of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Asked {
    /// `None`: all CPUs.
    pub(super) cpus: Option<u32>,
    /// `None`: the same share as of the CPUs.
    pub(super) memory_bytes: Option<u64>,
    pub(super) gpus: u32,
}

impl Default for Asked {
    /// The whole machine.
    fn default() -> Self {
        Self {
            cpus: None,
            memory_bytes: None,
            gpus: u32::MAX,
        }
    }
}

impl Asked {
    pub(super) fn from_plan(plan: &Plan, machine: Machine) -> Self {
        let resources = &plan.resources;
        let cpus = cpus_of(resources);
        let per_cpu = resources.memory_per_cpu.map(|memory| memory.0);
        let all_cpus =
            per_cpu.map(|memory| memory.saturating_mul(cpus.unwrap_or(machine.cpus).into()));
        let nodes = u64::from(resources.nodes.max(1));
        let asked = resources
            .memory
            .map(|memory| memory.0.saturating_mul(nodes));
        let memory = asked.or(all_cpus);
        if resources.exclusive || (cpus.is_none() && memory.is_none()) {
            return Self::default();
        }
        // A job sees all GPUs, unless it names its own: two that see the same ones would be in each other's way.
        let names_its_own = plan
            .env
            .iter()
            .any(|variable| GPU_VARIABLES.contains(&variable.name.as_str()));
        let gpus =
            resources
                .gpus_per_node
                .as_deref()
                .map_or(0, |asked| match asked.rsplit(':').next() {
                    Some(count) if names_its_own => count.parse().unwrap_or(u32::MAX),
                    _ => u32::MAX,
                });
        Self {
            cpus,
            memory_bytes: memory,
            gpus,
        }
    }

    /// The same in amounts of this machine.
    pub(super) fn share(self, machine: Machine) -> Share {
        let whole = machine.whole();
        let cpus = self
            .cpus
            .map_or(whole.cpus, |cpus| u64::from(cpus).clamp(1, whole.cpus));
        let even = u128::from(whole.memory) * u128::from(cpus) / u128::from(whole.cpus);
        let memory = self
            .memory_bytes
            .unwrap_or_else(|| u64::try_from(even).unwrap_or(u64::MAX));
        Share {
            cpus,
            memory: memory.min(whole.memory),
            gpus: u64::from(self.gpus).min(whole.gpus),
        }
    }
}

/// A job that says how many tasks it has, and not how many CPUs each takes, asks for one CPU each.
fn cpus_of(resources: &PlannedResources) -> Option<u32> {
    let tasks = resources.tasks_per_node.max(1);
    let each = resources.cpus_per_task.or((tasks > 1).then_some(1))?;
    Some(
        each.saturating_mul(tasks)
            .saturating_mul(resources.nodes.max(1)),
    )
}

/// An amount of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Share {
    pub(super) cpus: u64,
    pub(super) memory: u64,
    pub(super) gpus: u64,
}

impl Share {
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            cpus: self.cpus.saturating_add(other.cpus),
            memory: self.memory.saturating_add(other.memory),
            gpus: self.gpus.saturating_add(other.gpus),
        }
    }

    pub(super) fn fits(self, machine: Machine) -> bool {
        let whole = machine.whole();
        self.cpus <= whole.cpus && self.memory <= whole.memory && self.gpus <= whole.gpus
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Machine = Machine {
        cpus: 8,
        memory: 64 << 30,
        gpus: Some(4),
    };

    fn asked(cpus: Option<u32>, memory_gib: Option<u64>, gpus: u32) -> Asked {
        Asked {
            cpus,
            memory_bytes: memory_gib.map(|gib| gib << 30),
            gpus,
        }
    }

    fn share(cpus: u64, memory_gib: u64, gpus: u64) -> Share {
        Share {
            cpus,
            memory: memory_gib << 30,
            gpus,
        }
    }

    #[test]
    fn share_follows_what_the_job_asks_for() {
        for (asked, expected) in [
            (Asked::default(), share(8, 64, 4)),
            (asked(Some(2), None, 0), share(2, 16, 0)),
            (asked(Some(2), Some(4), 1), share(2, 4, 1)),
            (asked(None, Some(4), 0), share(8, 4, 0)),
            (asked(Some(100), Some(1000), 100), share(8, 64, 4)),
            (asked(Some(0), Some(0), 0), share(1, 0, 0)),
        ] {
            assert_eq!(asked.share(MACHINE), expected, "{asked:?}");
        }
    }

    #[test]
    fn gpus_of_an_unknown_number_go_to_one_job_at_a_time() {
        let machine = Machine {
            gpus: None,
            ..MACHINE
        };
        let one = asked(Some(1), None, 1).share(machine);
        assert!(one.fits(machine) && !one.and(one).fits(machine));
        let without = asked(Some(1), None, 0).share(machine);
        assert!(one.and(without).and(without).fits(machine));
    }

    #[test]
    fn this_machine_has_cpus_and_memory() {
        let machine = Machine::here();
        assert!(machine.cpus >= 1 && machine.memory > 1 << 20);
    }
}
