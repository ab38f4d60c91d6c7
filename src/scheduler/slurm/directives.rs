//! A plan's resources as options of `sbatch`, once as `#SBATCH` lines and once for the command line.

use super::export;
use crate::job::{Mail, MailEvent};
use crate::launch::Shape;
use crate::plan::{Plan, PlannedDependency, PlannedResources};

/// The shape of a plan's job.
#[must_use]
pub fn shape(plan: &Plan) -> Shape<'_> {
    Shape {
        nodes: plan.resources.nodes,
        tasks_per_node: plan.resources.tasks_per_node,
        cpus_per_task: plan.resources.cpus_per_task,
        gpus_per_task: plan.resources.gpus_per_task.as_deref(),
    }
}

/// The options of a plan, one each, without `#SBATCH`. All text in them is from sets of characters that neither a
/// directive line nor Slurm's own quoting treats as special (checked where the job file is read).
#[must_use]
pub fn directives(plan: &Plan) -> Vec<String> {
    let mut options = requested(plan);
    let job = if plan.resources.array.is_some() { "%A_%a" } else { "%j" };
    options.push(format!("--output={}-{job}.out", plan.name));
    options.push("--open-mode=append".to_owned());
    // Of several `--export` the last counts, so there is one.
    let inherit = export::for_script(plan);
    let own = |option: &&String| inherit.is_none() || !export::is_export(option);
    options.extend(plan.directives.iter().filter(own).cloned());
    options.extend(inherit.map(|list| format!("--export={list}")));
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
    // It needs a task count beside it, which `--ntasks-per-node` is.
    option("gpus-per-task", resources.gpus_per_task.clone());
    option("mem", resources.memory.map(|memory| format!("{}M", memory.mebibytes_up())));
    option("time", resources.walltime.map(|walltime| walltime.to_slurm()));
    option("partition", resources.queue.clone());
    option("account", resources.account.clone());
    option("qos", resources.qos.clone());
    option("reservation", resources.reservation.clone());
    option("constraint", resources.constraint.clone());
    option("nodelist", resources.nodelist.clone());
    option("exclude", resources.exclude.clone());
    option("mem-per-cpu", resources.memory_per_cpu.map(|memory| format!("{}M", memory.mebibytes_up())));
    option("array", resources.array.as_ref().map(ToString::to_string));
    option("dependency", depends(resources));
    option("begin", resources.begin.map(|begin| begin.to_string()));
    option("mail-user", resources.mail.as_ref().and_then(|mail| mail.to.clone()));
    option("mail-type", resources.mail.as_ref().map(mail_types));
    option("licenses", licenses(resources));
    if resources.exclusive {
        options.push("--exclusive".to_owned());
    }
    options
}

/// All conditions must hold: `,` joins them, `:` several jobs of one kind.
fn depends(resources: &PlannedResources) -> Option<String> {
    let one = |depend: &PlannedDependency| {
        let ids: Vec<&str> = depend.job_ids.iter().map(|id| id.0.as_str()).collect();
        format!("{}:{}", depend.kind, ids.join(":"))
    };
    let all: Vec<String> = resources.depends.iter().map(one).collect();
    (!all.is_empty()).then(|| all.join(","))
}

/// `FAIL` alone would leave out a time limit, which Slurm tells apart (`sbatch(1)`, `--mail-type`).
fn mail_types(mail: &Mail) -> String {
    let one = |event: &MailEvent| match event {
        MailEvent::Begin => "BEGIN",
        MailEvent::End => "END",
        MailEvent::Fail => "FAIL,INVALID_DEPEND",
        MailEvent::Requeue => "REQUEUE",
        MailEvent::TimeLimit => "TIME_LIMIT",
    };
    mail.on.iter().map(one).collect::<Vec<_>>().join(",")
}

fn licenses(resources: &PlannedResources) -> Option<String> {
    let one = |(name, count): &(String, u32)| format!("{name}:{count}");
    let all: Vec<String> = resources.licenses.iter().map(one).collect();
    (!all.is_empty()).then(|| all.join(","))
}
