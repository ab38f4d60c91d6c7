//! How the command gets onto the nodes: from the shape of a job to the argument vector of the job launcher.
//!
//! This version knows three launchers: `none` (once, on the first node), `each` (once on every node) and `mpi` (the ranks of
//! an MPI program, over all nodes).

mod plan;

pub use plan::{
    Candidate, Decision, GPU_VARIABLES, ImageCandidate, NoImage, Plan, PlannedBuild,
    PlannedDependency, PlannedResources, PlannedStorage, Rejected, Source, Step,
};

use crate::job::Launcher;

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
/// A sentence fragment, where nodes would be idle although the user does not allow it.
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

impl<'a> Shape<'a> {
    /// The shape of a plan's job.
    #[must_use]
    pub fn for_plan(plan: &'a Plan) -> Self {
        let resources = &plan.resources;
        Self {
            nodes: resources.nodes,
            tasks: resources.tasks,
            tasks_per_node: resources.tasks_per_node,
            cpus_per_task: resources.cpus_per_task,
            gpus_per_task: resources.gpus_per_task.as_deref(),
        }
    }

    /// Ranks of an MPI program.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.tasks.unwrap_or(self.nodes * self.tasks_per_node)
    }
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
}
