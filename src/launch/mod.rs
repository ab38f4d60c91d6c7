//! How the command gets onto the nodes: from the shape of a job to the argument vector of the job launcher.
//!
//! This version knows three launchers: `none` (once, on the first node), `each` (once on every node) and `mpi` (the ranks of
//! an MPI program, over all nodes).

use crate::job::{Launcher, gpus_on_node, kind_and_count};

/// The launcher that was chosen, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Never [`Launcher::Auto`].
    pub launcher: Launcher,
    /// Why.
    pub why: String,
}

/// Chooses the launcher for a number of nodes.
///
/// # Errors
/// A sentence fragment, where nodes would stand idle without the user having said so.
pub fn choose(asked: Option<Launcher>, nodes: u32, idle_nodes: bool) -> Result<Choice, String> {
    let chosen = |launcher, why: &str| {
        Ok(Choice {
            launcher,
            why: why.to_owned(),
        })
    };
    match asked.unwrap_or_default() {
        asked @ (Launcher::Each | Launcher::Mpi) => chosen(asked, "the job file says so"),
        Launcher::None if nodes > 1 && !idle_nodes => Err(format!(
            "`launcher = \"none\"` runs on the first node only and leaves {} idle",
            nodes - 1
        )),
        Launcher::None => chosen(Launcher::None, "the job file says so"),
        Launcher::Auto if nodes == 1 => chosen(Launcher::None, "one node needs no launcher"),
        Launcher::Auto => Err(format!("{nodes} nodes need a launcher")),
    }
}

/// The shape of a job that a step must repeat: `srun` takes neither from the batch job since Slurm 22.05.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape<'a> {
    /// Nodes.
    pub nodes: u32,
    /// Tasks in all, where the job file says so.
    pub tasks: Option<u32>,
    /// Tasks on each node.
    pub tasks_per_node: u32,
    /// CPUs of each task, where the job file says so.
    pub cpus_per_task: Option<u32>,
    /// GPUs of each task, where the job file says so: `1` or `v100:1`.
    pub gpus_per_task: Option<&'a str>,
}

impl Shape<'_> {
    /// Ranks of an MPI program.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.tasks.unwrap_or(self.nodes * self.tasks_per_node)
    }
}

/// `srun` and its options for one dlrun on every node. It takes the CPUs and GPUs of all tasks of its node, since it starts one
/// program that has the node's whole share. Each node's output goes to a file of its own, which the node itself opens.
#[must_use]
pub fn srun_each(shape: Shape<'_>, output: &str) -> Vec<String> {
    let mut argv = vec![
        "srun".to_owned(),
        format!("--nodes={}", shape.nodes),
        format!("--ntasks={}", shape.nodes),
        "--ntasks-per-node=1".to_owned(),
    ];
    if let Some(cpus) = shape.cpus_per_task {
        argv.push(format!("--cpus-per-task={}", cpus * shape.tasks_per_node));
    }
    // With the type that the job has, since SLURM_GPUS_PER_TASK has it too.
    let gpus = gpus_on_node(None, shape.gpus_per_task, shape.tasks_per_node);
    argv.extend(gpus.map(|gpus| format!("--gpus-per-node={gpus}")));
    argv.extend([
        "--kill-on-bad-exit=0".to_owned(),
        // `sbatch --export=NONE` would otherwise leave the tasks without PATH.
        "--export=ALL".to_owned(),
        format!("--output={output}"),
        "--open-mode=append".to_owned(),
    ]);
    argv
}

/// `srun` and its options for the ranks of an MPI program, over all nodes of the job. Its output is the job's own.
#[must_use]
pub fn srun_ranks(shape: Shape<'_>) -> Vec<String> {
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

/// `mpirun` for the ranks of an MPI program on this machine.
#[must_use]
pub fn mpirun_ranks(shape: Shape<'_>) -> Vec<String> {
    [
        "mpirun".to_owned(),
        "-np".to_owned(),
        shape.ranks().to_string(),
    ]
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_never_left_idle_by_accident() {
        assert!(choose(Some(Launcher::None), 2, false).is_err());
        assert!(choose(None, 2, false).is_err());
        assert_eq!(
            choose(Some(Launcher::None), 2, true).map(|c| c.launcher),
            Ok(Launcher::None)
        );
        assert_eq!(
            choose(None, 1, false).map(|c| c.launcher),
            Ok(Launcher::None)
        );
        assert_eq!(
            choose(Some(Launcher::Each), 2, false).map(|c| c.launcher),
            Ok(Launcher::Each)
        );
    }

    #[test]
    fn there_are_as_many_ranks_as_tasks() {
        let shape = Shape {
            nodes: 2,
            tasks: None,
            tasks_per_node: 40,
            cpus_per_task: Some(2),
            gpus_per_task: None,
        };
        let argv = srun_ranks(shape);
        assert!(
            argv.contains(&"--ntasks=80".to_owned())
                && argv.contains(&"--cpus-per-task=2".to_owned())
        );
        assert_eq!(mpirun_ranks(shape), ["mpirun", "-np", "80"]);
        let spread = srun_ranks(Shape {
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
        let argv = srun_each(shape, "x-%j.%n.out");
        assert!(argv.contains(&"--cpus-per-task=8".to_owned()), "{argv:?}");
        assert!(
            argv.contains(&"--gpus-per-node=v100:4".to_owned()),
            "{argv:?}"
        );
        assert!(srun_ranks(shape).contains(&"--gpus-per-task=1".to_owned()));
        assert!(
            !srun_each(
                Shape {
                    cpus_per_task: None,
                    ..shape
                },
                "x"
            )
            .iter()
            .any(|a| a.contains("cpus"))
        );
    }
}
