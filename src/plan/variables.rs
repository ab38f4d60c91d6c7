//! Variables of the user's environment that the submit command obeys: which of them the job overrides, and which hold.

use super::PlannedResources;
use super::resolve::Resolver;
use crate::job::SchedulerKind;

/// Variables of `sbatch` that stand for a key of the job file (`sbatch(1)`, input environment variables). An option on the
/// command line beats them, and dlrun puts all that the job asks for there.
const OF_KEYS: [(&str, &str); 12] = [
    ("SBATCH_ACCOUNT", "account"),
    ("SBATCH_CONSTRAINT", "constraint"),
    ("SBATCH_EXCLUSIVE", "exclusive"),
    ("SBATCH_GPUS_PER_NODE", "gpus_per_node"),
    ("SBATCH_GPUS_PER_TASK", "gpus_per_task"),
    ("SBATCH_JOB_NAME", "name"),
    ("SBATCH_MEM_PER_CPU", "memory_per_cpu"),
    ("SBATCH_MEM_PER_NODE", "memory"),
    ("SBATCH_PARTITION", "queue"),
    ("SBATCH_QOS", "qos"),
    ("SBATCH_RESERVATION", "reservation"),
    ("SBATCH_TIMELIMIT", "walltime"),
];

impl Resolver<'_> {
    /// What holds is a warning: it is no part of the job file. What is overridden is worth a note.
    pub(super) fn variables(&mut self, resources: &PlannedResources, scheduler: SchedulerKind) {
        let found = self
            .facts
            .schedulers
            .iter()
            .filter(|found| found.kind == scheduler);
        for (name, value) in found.flat_map(|found| &found.environment) {
            let key = OF_KEYS
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, key)| *key);
            if let Some(key) = key.filter(|key| is_set(resources, key)) {
                self.notes.push(format!(
                    "{name}={value} of your environment would beat a line of the script; `{key}` of the job holds, on the command line"
                ));
            } else if scheduler == SchedulerKind::Slurm {
                self.warnings.push(format!(
                    "{name}={value} of your environment holds wherever the job file says nothing (Slurm lets it beat #SBATCH lines)"
                ));
            } else {
                self.warnings.push(format!(
                    "{name}={value} of your environment holds: qsub obeys it"
                ));
            }
        }
    }
}

fn is_set(resources: &PlannedResources, key: &str) -> bool {
    match key {
        "name" => true,
        "account" => resources.account.is_some(),
        "constraint" => resources.constraint.is_some(),
        "exclusive" => resources.exclusive,
        "gpus_per_node" => resources.gpus_per_node.is_some(),
        "gpus_per_task" => resources.gpus_per_task.is_some(),
        "memory" => resources.memory.is_some(),
        "memory_per_cpu" => resources.memory_per_cpu.is_some(),
        "queue" => resources.queue.is_some(),
        "qos" => resources.qos.is_some(),
        "reservation" => resources.reservation.is_some(),
        "walltime" => resources.walltime.is_some(),
        _ => false,
    }
}
