//! `srun`, which starts what runs on the nodes of a job.

use super::directives::as_gpus;
use crate::job::{gpus_on_node, kind_and_count};
use crate::launch::Shape;

/// The nodes of a step, as shell words: all that the job got, since `dlrun render FILE | sbatch -N3` may give it others than the plan
/// has; of a job with spare ones those in use.
pub(super) fn nodes(spares: u32) -> &'static str {
    match spares {
        0 => r#""--nodes=$SLURM_JOB_NUM_NODES" "--ntasks=$SLURM_JOB_NUM_NODES""#,
        // A step that lost a node counts as running for a while, and has the CPUs of the others (22.05).
        _ => {
            r#"--overlap "--nodes=$dlrun_use_count" "--ntasks=$dlrun_use_count" "--nodelist=$dlrun_use""#
        }
    }
}

/// `srun` and its options for one dlrun on every node. It takes the CPUs and GPUs of all tasks of its node, since it starts one
/// program that has the node's whole share. Each node's output goes to its own file, which the node itself opens; without `output`
/// it goes to the job's, through `srun`. Behind these words stand [`nodes`].
pub(super) fn on_each_node(shape: Shape<'_>, output: Option<&str>) -> Vec<String> {
    let mut argv = vec!["srun".to_owned(), "--ntasks-per-node=1".to_owned()];
    match (shape.cpus_per_task, shape.tasks) {
        (Some(cpus), None) => argv.push(format!("--cpus-per-task={}", cpus * shape.tasks_per_node)),
        // Nodes have different shares, and each its whole one.
        (_, Some(_)) => argv.push("--cpu-bind=none".to_owned()),
        (None, None) => {}
    }
    // With the type that the job has, since SLURM_GPUS_PER_TASK has it too.
    let gpus = gpus_on_node(None, shape.gpus_per_task, shape.tasks_per_node);
    argv.extend(gpus.map(|gpus| format!("--gpus-per-node={}", as_gpus(&gpus))));
    argv.extend([
        "--kill-on-bad-exit=0".to_owned(),
        // `sbatch --export=NONE` would otherwise leave the tasks without PATH.
        "--export=ALL".to_owned(),
    ]);
    if let Some(output) = output {
        argv.extend([
            format!("--output={output}"),
            "--open-mode=append".to_owned(),
        ]);
    }
    argv
}

/// `srun` and its options for the ranks of an MPI program, over all nodes of the job. Its output is the job's own.
pub(super) fn ranks(shape: Shape<'_>) -> Vec<String> {
    let mut argv = vec!["srun".to_owned()];
    match shape.tasks {
        Some(tasks) => argv.push(format!("--ntasks={tasks}")),
        None => argv.extend([
            format!("--nodes={}", shape.nodes),
            format!("--ntasks={}", shape.ranks()),
            format!("--ntasks-per-node={}", shape.tasks_per_node),
        ]),
    }
    argv.extend(
        shape
            .cpus_per_task
            .map(|cpus| format!("--cpus-per-task={cpus}")),
    );
    // The number alone: with a type Slurm 22.05 binds no GPU at all to the ranks.
    argv.extend(
        shape
            .gpus_per_task
            .map(|gpus| format!("--gpus-per-task={}", kind_and_count(gpus).1)),
    );
    // A rank that dies leaves the others waiting for it.
    argv.extend(["--kill-on-bad-exit=1".to_owned(), "--export=ALL".to_owned()]);
    argv
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_ranks_as_tasks() {
        let shape = Shape {
            nodes: 2,
            tasks: None,
            tasks_per_node: 40,
            cpus_per_task: Some(2),
            gpus_per_task: None,
        };
        let argv = ranks(shape);
        assert!(
            argv.contains(&"--ntasks=80".to_owned())
                && argv.contains(&"--cpus-per-task=2".to_owned())
        );
        assert_eq!(shape.ranks(), 80);
        let spread = ranks(Shape {
            tasks: Some(7),
            ..shape
        });
        assert!(
            spread.contains(&"--ntasks=7".to_owned())
                && !spread.iter().any(|word| word.contains("node"))
        );
    }

    #[test]
    fn srun_is_told_its_cpus() {
        let shape = Shape {
            nodes: 2,
            tasks: None,
            tasks_per_node: 4,
            cpus_per_task: Some(2),
            gpus_per_task: Some("v100:1"),
        };
        let argv = on_each_node(shape, Some("x-%j.%n.out"));
        assert!(argv.contains(&"--cpus-per-task=8".to_owned()), "{argv:?}");
        assert!(
            argv.contains(&"--gpus-per-node=v100:4".to_owned()),
            "{argv:?}"
        );
        assert!(ranks(shape).contains(&"--gpus-per-task=1".to_owned()));
        assert!(
            !on_each_node(
                Shape {
                    cpus_per_task: None,
                    ..shape
                },
                Some("x")
            )
            .iter()
            .any(|a| a.contains("cpus"))
        );
    }
}
