//! A plan's resources as options of `sbatch`, once as `#SBATCH` lines and once for the command line.

use super::export;
use crate::job::{Mail, MailEvent};
use crate::launch::{Plan, PlannedDependency, PlannedResources};

/// The options of a plan, one each, without `#SBATCH`. All text in them is from sets of characters that neither a
/// directive line nor Slurm's own quoting treats as special (checked where the job file is read).
pub(super) fn directives(plan: &Plan) -> Vec<String> {
    let mut options = requested(plan);
    options.push(format!("--output={}", output(plan)));
    options.push("--open-mode=append".to_owned());
    // Of several `--export` the last counts, so there is one.
    let inherit = export::for_script(plan);
    let own =
        |option: &&String| (inherit.is_none() || !export::is_export(option)) && !is_gres(option);
    options.extend(plan.directives.iter().filter(own).cloned());
    options.extend(inherit.map(|list| format!("--export={list}")));
    options
}

/// The output file in Slurm's patterns. An element's `%j` is an id of its own, `%A` the array's.
pub(super) fn output(plan: &Plan) -> String {
    let job = if plan.resources.array.is_some() {
        "%A"
    } else {
        "%j"
    };
    plan.output_pattern().replace("%j", job)
}

/// The options that say what the job needs, and nothing that was not asked for: `--nodes` or `--ntasks-per-node`, be they 1, set
/// variables such as `SLURM_NTASKS`, by which programs take themselves for started by `srun`. They go on the command line as well, because `SBATCH_*` variables of the
/// user's environment beat `#SBATCH` lines, but not the command line.
pub(super) fn requested(plan: &Plan) -> Vec<String> {
    let resources = &plan.resources;
    let mut options = vec![format!("--job-name={}", plan.name)];
    let mut option = |name: &str, value: Option<String>| {
        options.extend(value.map(|value| format!("--{name}={value}")));
    };
    option(
        "nodes",
        resources.nodes_asked.then(|| resources.nodes.to_string()),
    );
    option("ntasks", resources.tasks.map(|tasks| tasks.to_string()));
    // GPUs of a task need a number of tasks beside them.
    let bare_gpus = resources.gpus_per_task.is_some() && resources.tasks.is_none();
    let per_node = resources.tasks_per_node_asked || bare_gpus;
    option(
        "ntasks-per-node",
        per_node.then(|| resources.tasks_per_node.to_string()),
    );
    option(
        "cpus-per-task",
        resources.cpus_per_task.map(|cpus| cpus.to_string()),
    );
    option("gres", gres(plan));
    option("gpus-per-task", resources.gpus_per_task.clone());
    option(
        "mem",
        resources
            .memory
            .map(|memory| format!("{}M", memory.mebibytes_up())),
    );
    option(
        "time",
        resources.walltime.map(|walltime| walltime.to_slurm()),
    );
    option("partition", resources.queue.clone());
    option("account", resources.account.clone());
    option("qos", resources.qos.clone());
    option("reservation", resources.reservation.clone());
    option("constraint", resources.constraint.clone());
    option("nodelist", resources.nodelist.clone());
    option("exclude", resources.exclude.clone());
    option(
        "mem-per-cpu",
        resources
            .memory_per_cpu
            .map(|memory| format!("{}M", memory.mebibytes_up())),
    );
    option("array", resources.array.as_ref().map(ToString::to_string));
    option("dependency", depends(resources));
    option("begin", resources.begin.map(|begin| begin.to_string()));
    option(
        "mail-user",
        resources.mail.as_ref().and_then(|mail| mail.to.clone()),
    );
    option("mail-type", resources.mail.as_ref().map(mail_types));
    option("licenses", licenses(resources));
    if resources.exclusive {
        options.push("--exclusive".to_owned());
    }
    options
}

/// Says whether an option handed through asks for generic resources: it is part of [`requested`].
pub(super) fn is_gres(option: &str) -> bool {
    option
        .strip_prefix("--gres")
        .is_some_and(|rest| rest.starts_with(['=', ' ']))
}

/// GPUs of a node, and the generic resources that are handed through: of several `--gres` Slurm keeps one. `--gpus-per-node` would set
/// `SLURM_GPUS_PER_NODE`, by which each `srun` inside the job takes all GPUs of its nodes for itself.
fn gres(plan: &Plan) -> Option<String> {
    let own = plan
        .arguments
        .iter()
        .rev()
        .chain(plan.directives.iter().rev())
        .find(|option| is_gres(option));
    let gpus = plan
        .resources
        .gpus_per_node
        .as_ref()
        .map(|gpus| format!("gpu:{gpus}"));
    let own = own.map(|option| option["--gres=".len()..].trim().to_owned());
    let all: Vec<String> = gpus.into_iter().chain(own).collect();
    (!all.is_empty()).then(|| all.join(","))
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
