//! How the command gets onto the nodes: from the shape of a job to the launcher, its ranks and their variables.
//!
//! `none` runs the command once, `each` once on every node, `mpi` hands it to the scheduler's own launcher. All others are
//! distributed trainings whose ranks dlrun starts itself: the nodes meet ([`Meeting`]), one table ([`Rank`]) follows from what
//! they bring, and the launcher ([`Launch`]) turns it into variables.

mod hosts;
mod launchers;
mod mpi;
mod plan;
mod preview;
mod ranks;
mod trial;

pub use hosts::{hosts, tasks_of_nodes};
pub use launchers::{Launch, Variables, Worker, launcher_for};
pub use mpi::{MpiKind, MpiLibrary};
pub use plan::{
    Candidate, Decision, GPU_VARIABLES, IdlePolicy, ImageCandidate, MeetingPlan, NoImage, Plan,
    PlannedBuild, PlannedDependency, PlannedResources, PlannedStorage, Rejected, Seat, Source,
    Step,
};
pub use preview::{PlannedProcess, planned_processes, variables_kept};
pub use ranks::{Meeting, NodeShare, Rank, Roles};
pub use trial::{Trial, TrialWay};

use crate::job::Launcher;

/// The launcher that was chosen, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Never [`Launcher::Auto`].
    pub launcher: Launcher,
    /// Why.
    pub why: String,
}

/// What the launcher is chosen by.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wish<'a> {
    /// What the job file names.
    pub asked: Option<Launcher>,
    /// Nodes.
    pub nodes: u32,
    /// Whether it asks for more than one task.
    pub has_tasks: bool,
    /// Whether the nodes beyond the first may be idle.
    pub idle_nodes: bool,
    /// The framework's name.
    pub framework: Option<&'a str>,
}

/// Chooses the launcher.
///
/// # Errors
/// A sentence fragment, where nodes would be idle although the user does not allow it.
pub fn choose(wish: Wish<'_>) -> Result<Choice, String> {
    let nodes = wish.nodes;
    let chosen = |launcher, why: String| Ok(Choice { launcher, why });
    let known = wish.framework.and_then(launchers::launcher_of_framework);
    match (wish.asked.unwrap_or_default(), known) {
        (Launcher::None, _) if nodes > 1 && !wish.idle_nodes => Err(format!(
            "`launcher = \"none\"` runs on the first node only and leaves {} idle",
            nodes - 1
        )),
        (Launcher::Auto, Some(launcher)) if nodes > 1 || wish.has_tasks => chosen(
            launcher,
            format!("how ranks of {} start", wish.framework.unwrap_or_default()),
        ),
        (Launcher::Auto, _) if nodes == 1 => {
            chosen(Launcher::None, "one node needs no launcher".to_owned())
        }
        (Launcher::Auto, _) => Err(format!("{nodes} nodes need a launcher")),
        (asked, _) => chosen(asked, "the job file says so".to_owned()),
    }
}

/// Programs that start ranks themselves.
const STARTERS: &str = "srun mpirun mpiexec mpiexec.hydra orterun prun prterun ibrun aprun jsrun torchrun accelerate deepspeed horovodrun";
/// Modules of Python that do so.
const STARTER_MODULES: &str = "torch.distributed.run torch.distributed.launch accelerate.commands.launch deepspeed.launcher.runner";

/// Whether a program, by the last part of its path, or a module of Python starts ranks itself.
#[must_use]
pub fn starts_ranks(word: &str) -> bool {
    let mut known = STARTERS.split(' ').chain(STARTER_MODULES.split(' '));
    known.any(|known| known == word)
}

/// Why a distributed launcher, framework and command look as if they were not meant together.
#[must_use]
pub fn doubt(launcher: Launcher, framework: Option<&str>, command: &[String]) -> Option<String> {
    let program = command.first().and_then(|first| first.rsplit('/').next());
    let modules = command.windows(2).filter(|words| words[0] == "-m");
    let mut named = program.into_iter().chain(modules.map(|words| &*words[1]));
    if let Some(starter) = named.find(|word| starts_ranks(word)) {
        return launcher.is_distributed().then(|| {
            format!("`{starter}` starts ranks itself, and dlrun starts it once for each rank of the launcher `{launcher}`; name the training program alone")
        });
    }
    let its = launchers::frameworks_of(launcher);
    let framework = framework.filter(|name| !its.is_empty() && !its.contains(name))?;
    let known = launchers::launcher_of_framework(framework);
    let way = known.map_or_else(String::new, |known| format!("; `{known}` does"));
    Some(format!(
        "the launcher `{launcher}` sets no variables that {framework} reads{way}"
    ))
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
        let of = |asked, nodes, idle_nodes| {
            let wish = Wish {
                asked,
                nodes,
                idle_nodes,
                ..Wish::default()
            };
            choose(wish).map(|choice| choice.launcher)
        };
        assert!(of(Some(Launcher::None), 2, false).is_err() && of(None, 2, false).is_err());
        assert_eq!(of(Some(Launcher::None), 2, true), Ok(Launcher::None));
        assert_eq!(of(None, 1, false), Ok(Launcher::None));
        assert_eq!(of(Some(Launcher::Each), 2, false), Ok(Launcher::Each));
    }

    #[test]
    fn launcher_that_does_not_fit_is_doubted() {
        let of = |launcher, framework, program: &str| {
            doubt(launcher, Some(framework), &[program.to_owned()])
        };
        let said = of(Launcher::Ddp, "jax", "python").expect("a doubt");
        assert!(
            said.contains("jax") && said.contains("`jax` does"),
            "{said}"
        );
        assert!(of(Launcher::Torchrun, "pytorch", "/v/bin/torchrun").is_some());
        let module = ["python", "-m", "torch.distributed.run", "t.py"].map(str::to_owned);
        assert!(doubt(Launcher::Ddp, Some("pytorch"), &module).is_some());
        for (launcher, framework, program) in [
            (Launcher::Torchrun, "pytorch", "./train.sh"),
            (Launcher::Horovod, "mxnet", "python"),
            (Launcher::Mpi, "jax", "mpirun"),
        ] {
            assert_eq!(of(launcher, framework, program), None);
        }
    }

    #[test]
    fn auto_follows_the_framework_where_there_are_several_ranks() {
        let of = |nodes, has_tasks, framework| {
            let wish = Wish {
                nodes,
                has_tasks,
                framework: Some(framework),
                ..Wish::default()
            };
            choose(wish).map(|choice| choice.launcher)
        };
        assert_eq!(of(2, false, "pytorch"), Ok(Launcher::Ddp));
        assert_eq!(of(1, true, "jax"), Ok(Launcher::Jax));
        assert_eq!(of(1, false, "pytorch"), Ok(Launcher::None));
        assert!(of(2, false, "caffe").is_err());
    }
}
