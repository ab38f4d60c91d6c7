//! Options of `sbatch` handed through beside the key of the job file that says the same.
//!
//! Both reach Slurm: a directive loses against the key, which stands on the command line too, an argument beats it. Either
//! way one of two wishes is dropped in silence. PBS's options are refused with or without the key (`pass_through_pbs.rs`).

use super::PlannedResources;
use super::pass_through::named;
use crate::foundation::diagnostic::Problem;
use crate::job::Located;

/// What may stand in the job file, and whether a job has it.
type Key = (&'static str, fn(&PlannedResources) -> bool);

const MEMORY: Key = ("memory", |resources| resources.memory.is_some());
const MEMORY_PER_CPU: Key = ("memory_per_cpu", |resources| {
    resources.memory_per_cpu.is_some()
});
const GPUS: Key = ("gpus_per_node", |resources| {
    resources.gpus_per_node.is_some()
});
const GPUS_PER_TASK: Key = ("gpus_per_task", |resources| {
    resources.gpus_per_task.is_some()
});
const MAIL: Key = ("mail", |resources| resources.mail.is_some());

/// Options by long and short name, with the key; an option that two keys speak for has two rows.
const SAME: [(&str, &str, Key); 27] = [
    (
        "--time",
        "-t",
        ("walltime", |resources| resources.walltime.is_some()),
    ),
    (
        "--partition",
        "-p",
        ("queue", |resources| resources.queue.is_some()),
    ),
    (
        "--account",
        "-A",
        ("account", |resources| resources.account.is_some()),
    ),
    ("--qos", "-q", ("qos", |resources| resources.qos.is_some())),
    (
        "--reservation",
        "",
        ("reservation", |resources| resources.reservation.is_some()),
    ),
    (
        "--constraint",
        "-C",
        ("constraint", |resources| resources.constraint.is_some()),
    ),
    (
        "--nodelist",
        "-w",
        ("nodelist", |resources| resources.nodelist.is_some()),
    ),
    (
        "--nodefile",
        "-F",
        ("nodelist", |resources| resources.nodelist.is_some()),
    ),
    (
        "--exclude",
        "-x",
        ("exclude", |resources| resources.exclude.is_some()),
    ),
    (
        "--exclusive",
        "",
        ("exclusive", |resources| resources.exclusive),
    ),
    (
        "--oversubscribe",
        "-s",
        ("exclusive", |resources| resources.exclusive),
    ),
    (
        "--cpus-per-task",
        "-c",
        ("cpus_per_task", |resources| {
            resources.cpus_per_task.is_some()
        }),
    ),
    ("--mem", "", MEMORY),
    ("--mem", "", MEMORY_PER_CPU),
    ("--mem-per-cpu", "", MEMORY),
    ("--mem-per-cpu", "", MEMORY_PER_CPU),
    ("--mem-per-gpu", "", MEMORY),
    ("--mem-per-gpu", "", MEMORY_PER_CPU),
    ("--gpus-per-node", "", GPUS),
    ("--gpus-per-task", "", GPUS_PER_TASK),
    ("--gres", "", GPUS),
    ("--gpus", "-G", GPUS),
    (
        "--dependency",
        "-d",
        ("depends", |resources| !resources.depends.is_empty()),
    ),
    (
        "--begin",
        "-b",
        ("begin", |resources| resources.begin.is_some()),
    ),
    ("--mail-type", "", MAIL),
    ("--mail-user", "", MAIL),
    (
        "--licenses",
        "-L",
        ("licenses", |resources| !resources.licenses.is_empty()),
    ),
];

/// What is wrong with `option` where the job has the key that says the same.
pub(super) fn problem(option: &Located<String>, resources: &PlannedResources) -> Option<Problem> {
    let key = key(&option.value, resources)?;
    let message = format!(
        "`{}` and `resources.{key}` say the same thing twice",
        option.value
    );
    let hint = format!("leave one of them out: `dlrun plan` tells where `{key}` comes from");
    Some(Problem::at(option.span.clone(), message).hinted(hint))
}

/// The key under `[resources]` that says the same as `option`, where the job has it.
fn key(option: &str, resources: &PlannedResources) -> Option<&'static str> {
    let names = SAME
        .iter()
        .flat_map(|(long, short, _)| [*long, *short])
        .filter(|name| !name.is_empty());
    let own = named(option, names)?;
    let value = option.split_once(['=', ' ']).map(|(_, value)| value.trim());
    let is_gpu = |part: &str| part == "gpu" || part.starts_with("gpu:");
    if own == "--gres" && value.is_some_and(|list| !list.split(',').any(is_gpu)) {
        return None;
    }
    let rows = SAME
        .iter()
        .filter(|(long, short, _)| *long == own || *short == own);
    rows.map(|(_, _, key)| key)
        .find(|(_, has)| has(resources))
        .map(|(key, _)| *key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foundation::units::{Bytes, Walltime};

    fn bare() -> PlannedResources {
        let bare = serde_json::json!({ "nodes": 1, "tasks_per_node": 1, "exclusive": false });
        serde_json::from_value(bare).expect("the rest may be left out")
    }

    #[test]
    fn an_option_beside_its_key_is_found_in_every_spelling() {
        let job = PlannedResources {
            walltime: Some(Walltime(60)),
            queue: Some("gpu".into()),
            gpus_per_node: Some("2".into()),
            gpus_per_task: Some("1".into()),
            memory_per_cpu: Some(Bytes(1 << 30)),
            exclusive: true,
            ..bare()
        };
        for (option, expected) in [
            ("--time=5", "walltime"),
            ("--time 5", "walltime"),
            ("--tim=5", "walltime"),
            ("-t5", "walltime"),
            ("-t", "walltime"),
            ("-Ht 5", "walltime"),
            ("-pgpu", "queue"),
            ("--gres=nvme:1,gpu:2", "gpus_per_node"),
            ("--gpus=2", "gpus_per_node"),
            ("--gpus-per-task=1", "gpus_per_task"),
            ("--mem=4G", "memory_per_cpu"),
            ("--exclusive=user", "exclusive"),
        ] {
            assert_eq!(key(option, &job), Some(expected), "{option}");
            assert_eq!(key(option, &bare()), None, "{option}");
        }
        for option in [
            "--time-min=5",
            "--gres=nvme:1",
            "--gres-flags=x",
            "-H",
            "--comment=time",
            "--qos=x",
        ] {
            assert_eq!(key(option, &job), None, "{option}");
        }
    }
}
