//! A plan's resources as options of `sbatch`, once as `#SBATCH` lines and once for the command line.

use super::export;
use crate::foundation::units::Bytes;
use crate::job::{Mail, MailEvent, ResumeOn, as_gres};
use crate::launch::Plan;
use crate::scheduler::{depends, licenses};

/// The options of a plan, one each, without `#SBATCH`. All text in them is from sets of characters that neither a
/// directive line nor Slurm's own quoting treats as special (checked where the job file is read).
pub(super) fn directives(plan: &Plan) -> Vec<String> {
    let mut options = requested(plan);
    options.push(format!("--output={}", output(plan)));
    options.push("--open-mode=append".to_owned());
    let requeues = [ResumeOn::Node, ResumeOn::Preemption];
    let on = plan.resume.iter().flat_map(|resume| &resume.on);
    if on.into_iter().any(|on| requeues.contains(on)) {
        // After a lost node or a preemption Slurm starts the job again itself, whatever `JobRequeue` says.
        options.push("--requeue".to_owned());
    }
    if plan.resources.spares > 0 {
        // The job outlives a node that is lost, and begins again on those that are left.
        options.push("--no-kill".to_owned());
    }
    // Of several `--export` the last counts, so there is one.
    let inherit = export::for_script(plan);
    let own =
        |option: &&String| (inherit.is_none() || !export::is_export(option)) && !is_gres(option);
    options.extend(plan.directives.iter().filter(own).cloned());
    options.extend(inherit.map(|list| format!("--export={list}")));
    options
}

/// The output file in Slurm's patterns. An element's `%j` is its own id, `%A` the array's.
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
    // GPUs of a task need a number of tasks beside them.
    let bare_gpus = resources.gpus_per_task.is_some() && resources.tasks.is_none();
    // With it Slurm gives as many nodes as the fewest hold tasks (22.05: one of `-N1-4 --ntasks-per-node=1`); one is its default.
    let is_default = plan.elastic.is_some() && resources.tasks_per_node == 1;
    let per_node = (resources.tasks_per_node_asked || bare_gpus) && !is_default;
    let mail = resources.mail.as_ref();
    let number = |number: u32| number.to_string();
    let mebibytes = |memory: Bytes| format!("{}M", memory.mebibytes_up());
    let options = [
        ("job-name", Some(plan.name.clone())),
        ("nodes", resources.nodes_asked.then(|| range(plan))),
        ("ntasks", resources.tasks.map(number)),
        (
            "ntasks-per-node",
            per_node.then(|| number(resources.tasks_per_node)),
        ),
        ("cpus-per-task", resources.cpus_per_task.map(number)),
        ("gres", gres(plan)),
        (
            "gpus-per-task",
            resources.gpus_per_task.as_deref().map(as_gpus),
        ),
        ("mem", resources.memory.map(mebibytes)),
        (
            "time",
            resources.walltime.map(|walltime| walltime.to_slurm()),
        ),
        ("partition", resources.queue.clone()),
        ("account", resources.account.clone()),
        ("qos", resources.qos.clone()),
        ("reservation", resources.reservation.clone()),
        ("constraint", resources.constraint.clone()),
        ("nodelist", resources.nodelist.clone()),
        ("exclude", resources.exclude.clone()),
        ("mem-per-cpu", resources.memory_per_cpu.map(mebibytes)),
        ("array", resources.array.as_ref().map(ToString::to_string)),
        ("dependency", depends(resources)),
        ("begin", resources.begin.map(|begin| begin.to_string())),
        ("mail-user", mail.and_then(|mail| mail.to.clone())),
        ("mail-type", mail.map(mail_types)),
        ("licenses", licenses(resources, ",")),
    ];
    let options = options.into_iter();
    let given = options.filter_map(|(name, value)| Some(format!("--{name}={}", value?)));
    let exclusive = resources.exclusive.then(|| "--exclusive".to_owned());
    given.chain(exclusive).collect()
}

/// The nodes of a start; of an elastic run as many as are free, unless a number was asked for (`dlrun scale`).
fn range(plan: &Plan) -> String {
    match &plan.elastic {
        Some(elastic) if plan.scaled_to.is_none() => {
            format!("{}-{}", elastic.nodes.0, elastic.nodes.1)
        }
        _ => (plan.resources.nodes + plan.resources.spares).to_string(),
    }
}

/// Says whether an option handed through asks for generic resources: it is part of [`requested`].
pub(super) fn is_gres(option: &str) -> bool {
    option
        .strip_prefix("--gres")
        .is_some_and(|rest| rest.starts_with(['=', ' ']))
}

/// `v100:2`; of MIG devices the type alone.
pub(super) fn as_gpus(gpus: &str) -> String {
    as_gres(gpus).trim_start_matches("gpu:").to_owned()
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
        .map(|gpus| as_gres(gpus));
    let own = own.map(|option| option["--gres=".len()..].trim().to_owned());
    let all: Vec<String> = gpus.into_iter().chain(own).collect();
    (!all.is_empty()).then(|| all.join(","))
}

/// `FAIL` alone would leave out a time limit, which Slurm distinguishes (`sbatch(1)`, `--mail-type`).
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
