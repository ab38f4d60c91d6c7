//! Options of `sbatch` handed through beside the key of the job file that says the same.
//!
//! Both reach Slurm: a directive loses against the key, which stands on the command line too, an argument beats it. Either
//! way one of two wishes is dropped in silence. PBS's options are refused with or without the key (`pbs/handed_through.rs`).

use super::handed_through::named;
use crate::foundation::diagnostic::Problem;
use crate::job::Located;
use crate::launch::PlannedResources;

/// Options by long and short name, with the keys that say the same.
const SAME: [(&str, &str, &[&str]); 24] = [
    ("--time", "-t", &["walltime"]),
    ("--partition", "-p", &["queue"]),
    ("--account", "-A", &["account"]),
    ("--qos", "-q", &["qos"]),
    ("--reservation", "", &["reservation"]),
    ("--constraint", "-C", &["constraint"]),
    ("--nodelist", "-w", &["nodelist"]),
    ("--nodefile", "-F", &["nodelist"]),
    ("--exclude", "-x", &["exclude"]),
    ("--exclusive", "", &["exclusive"]),
    ("--oversubscribe", "-s", &["exclusive"]),
    ("--cpus-per-task", "-c", &["cpus_per_task"]),
    ("--mem", "", &["memory", "memory_per_cpu"]),
    ("--mem-per-cpu", "", &["memory", "memory_per_cpu"]),
    ("--mem-per-gpu", "", &["memory", "memory_per_cpu"]),
    ("--gpus-per-node", "", &["gpus_per_node"]),
    ("--gpus-per-task", "", &["gpus_per_task"]),
    ("--gres", "", &["gpus_per_node"]),
    ("--gpus", "-G", &["gpus_per_node"]),
    ("--dependency", "-d", &["depends"]),
    ("--begin", "-b", &["begin"]),
    ("--licenses", "-L", &["licenses"]),
    ("--mail-type", "", &["mail"]),
    ("--mail-user", "", &["mail"]),
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
    let names = SAME.iter().flat_map(|(long, short, _)| [*long, *short]);
    let own = named(option, names.filter(|name| !name.is_empty()))?;
    let value = option.split_once(['=', ' ']).map(|(_, value)| value.trim());
    let is_gpu = |part: &str| part == "gpu" || part.starts_with("gpu:");
    if own == "--gres" && value.is_some_and(|list| !list.split(',').any(is_gpu)) {
        return None;
    }
    let mut keys = SAME
        .iter()
        .filter(|(long, short, _)| *long == own || *short == own)
        .flat_map(|(.., keys)| *keys);
    keys.find(|key| resources.has(key) == Some(true)).copied()
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
