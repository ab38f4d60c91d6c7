//! A plan's resources as options of `sbatch`, once as `#SBATCH` lines and once for the command line.

use crate::launch::Shape;
use crate::plan::Plan;

/// The shape of a plan's job.
#[must_use]
pub fn shape(plan: &Plan) -> Shape {
    Shape {
        nodes: plan.resources.nodes,
        tasks_per_node: plan.resources.tasks_per_node,
        cpus_per_task: plan.resources.cpus_per_task,
    }
}

/// The options of a plan, one each, without `#SBATCH`. All text in them is from sets of characters that neither a
/// directive line nor Slurm's own quoting treats as special (checked where the job file is read).
#[must_use]
pub fn directives(plan: &Plan) -> Vec<String> {
    let mut options = requested(plan);
    options.push(format!("--output={}-%j.out", plan.name));
    options.push("--open-mode=append".to_owned());
    options.extend(plan.directives.iter().cloned());
    options
}

/// The options that say what the job needs. They go on the command line as well, because `SBATCH_*` variables of the
/// user's environment beat `#SBATCH` lines, but not the command line.
pub(super) fn requested(plan: &Plan) -> Vec<String> {
    let resources = &plan.resources;
    let mut options = vec![
        format!("--job-name={}", plan.name),
        format!("--nodes={}", resources.nodes),
        format!("--ntasks-per-node={}", resources.tasks_per_node),
    ];
    let mut option = |name: &str, value: Option<String>| {
        options.extend(value.map(|value| format!("--{name}={value}")));
    };
    option("cpus-per-task", resources.cpus_per_task.map(|cpus| cpus.to_string()));
    option("gpus-per-node", resources.gpus_per_node.clone());
    option("mem", resources.memory.map(|memory| format!("{}M", memory.mebibytes_up())));
    option("time", resources.walltime.map(|walltime| walltime.to_slurm()));
    option("partition", resources.queue.clone());
    option("account", resources.account.clone());
    option("qos", resources.qos.clone());
    option("reservation", resources.reservation.clone());
    option("constraint", resources.constraint.clone());
    option("nodelist", resources.nodelist.clone());
    option("exclude", resources.exclude.clone());
    if resources.exclusive {
        options.push("--exclusive".to_owned());
    }
    options
}
