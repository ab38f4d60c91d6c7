//! What a node knows of the group before it meets the others.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::job::Launcher;
use crate::launch::{self, Roles};
use crate::node::supervise::context::Context;
use crate::plan::Plan;

/// Variables between batch script, supervisor and ranks that no training sees.
pub(in crate::node::supervise) const INTERNAL: [&str; 4] = [
    "DLRUN_HOSTS",
    "DLRUN_TASKS",
    "DLRUN_GROUP_SECRET",
    "DLRUN_OUTPUT",
];

/// The nodes of a distributed training, and which of them are here.
#[derive(Debug, Clone)]
pub(in crate::node::supervise) struct Group {
    pub(super) launcher: Launcher,
    pub(super) roles: Roles,
    /// Name of each node and its ranks, in the scheduler's order.
    pub(super) nodes: Vec<(String, u32)>,
    /// The nodes that this process starts ranks for: one, of a local job all.
    pub(super) own: Vec<usize>,
    /// Known to the processes of this job alone.
    pub(super) secret: String,
    /// The job's output file.
    output: Option<PathBuf>,
}

impl Group {
    /// What batch script and plan say. `None`: the plan starts no ranks.
    ///
    /// # Errors
    /// A sentence, where they do not say enough.
    pub(in crate::node::supervise) fn from_environment(
        context: &Context,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Option<Result<Self, String>> {
        let plan = context
            .plan
            .as_ref()
            .filter(|plan| plan.launcher.is_distributed())?;
        Some(Self::of_plan(plan, &context.node, variable))
    }

    /// A group for tests.
    #[cfg(test)]
    pub(super) fn of(nodes: Vec<(String, u32)>, own: usize, secret: &str) -> Self {
        let (launcher, own, secret) = (Launcher::Ddp, vec![own], secret.to_owned());
        Self {
            launcher,
            roles: Roles::default(),
            nodes,
            own,
            secret,
            output: None,
        }
    }

    fn of_plan(
        plan: &Plan,
        node: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let resources = &plan.resources;
        let (hosts, own) = if plan.scheduler.is_local() {
            let nodes = resources.nodes.max(1);
            let hosts = (0..nodes).map(|at| match nodes {
                1 => node.to_owned(),
                _ => format!("{node}.{at}"),
            });
            (hosts.collect::<Vec<_>>(), (0..nodes as usize).collect())
        } else {
            let list = set("DLRUN_HOSTS").unwrap_or_default();
            let hosts = launch::hosts(&list)
                .ok_or_else(|| format!("the job's nodes cannot be read from `{list}`"))?;
            let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
            let exact = hosts.iter().position(|host| host == node);
            let at = exact.or_else(|| hosts.iter().position(|host| short(host) == short(node)));
            let at = at.ok_or_else(|| format!("{node} is none of the job's nodes, {list}"))?;
            (hosts, vec![at])
        };
        let all = resources.tasks;
        let listed = set("DLRUN_TASKS").and_then(|text| launch::tasks_of_nodes(&text));
        let listed = listed.filter(|tasks| tasks.len() == hosts.len());
        let tasks = listed.filter(|tasks| all.is_some_and(|all| tasks.iter().sum::<u32>() <= all));
        let count = u32::try_from(hosts.len()).unwrap_or(u32::MAX);
        let tasks = tasks.unwrap_or_else(|| resources.tasks_of_nodes(count));
        Ok(Self {
            launcher: plan.launcher,
            roles: plan.roles,
            nodes: hosts
                .into_iter()
                .zip(tasks)
                .filter(|(_, ranks)| *ranks > 0)
                .collect(),
            own,
            secret: set("DLRUN_GROUP_SECRET").unwrap_or_default(),
            output: set("DLRUN_OUTPUT")
                .map(PathBuf::from)
                .filter(|path| path.is_absolute()),
        })
    }

    /// Whether all ranks are started here.
    pub(super) fn is_alone(&self) -> bool {
        self.own.len() == self.nodes.len()
    }

    /// The number of the first rank that is started here.
    pub(super) fn first_rank(&self) -> u32 {
        let before = self.own.first().copied().unwrap_or(0);
        self.nodes
            .iter()
            .take(before)
            .map(|(_, ranks)| *ranks)
            .sum()
    }

    /// The job's output file for rank 0, `NAME-JOBID.rank-3.out` beside it for the others.
    pub(super) fn output_of(&self, rank: u32) -> Option<PathBuf> {
        let job = self.output.clone()?;
        if rank == 0 {
            return Some(job);
        }
        let name = job.file_name()?.to_string_lossy().into_owned();
        let stem = name.strip_suffix(".out").unwrap_or(&name);
        Some(job.with_file_name(format!("{stem}.rank-{rank}.out")))
    }

    /// The file of this node's first rank, where that is not what the command inherits anyway.
    pub(in crate::node::supervise) fn own_output(&self) -> Option<PathBuf> {
        (!self.is_alone()).then(|| self.output_of(self.first_rank()))?
    }

    /// The nodes that are not in `came`, by name.
    pub(super) fn missing(&self, came: &BTreeSet<usize>) -> Vec<&str> {
        let missing = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(at, _)| !came.contains(at));
        missing.map(|(_, (name, _))| name.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::SchedulerKind;
    use crate::plan::PlannedResources;

    fn group(plan: &Plan, node: &str, variables: &[(&str, &str)]) -> Result<Group, String> {
        Group::of_plan(plan, node, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn plan(scheduler: SchedulerKind, nodes: u32, tasks: Option<u32>) -> Plan {
        let resources = PlannedResources {
            nodes,
            tasks,
            tasks_per_node: 2,
            ..PlannedResources::default()
        };
        Plan {
            scheduler,
            resources,
            launcher: Launcher::Ddp,
            ..Plan::default()
        }
    }

    #[test]
    fn node_finds_itself_and_its_first_rank() {
        let slurm = plan(SchedulerKind::Slurm, 3, None);
        let variables = [("DLRUN_HOSTS", "n[1-3]"), ("DLRUN_OUTPUT", "/w/x-7.out")];
        let third = group(&slurm, "n3", &variables).expect("it is there");
        assert_eq!((third.own.clone(), third.first_rank()), (vec![2], 4));
        assert_eq!(third.own_output(), Some("/w/x-7.rank-4.out".into()));
        assert_eq!(third.missing(&[0, 2].into()), ["n2"]);
        assert!(
            group(&slurm, "login", &variables)
                .expect_err("no node")
                .contains("login")
        );
    }

    #[test]
    fn uneven_tasks_come_from_the_scheduler() {
        let slurm = plan(SchedulerKind::Slurm, 2, Some(3));
        let variables = [("DLRUN_HOSTS", "n1,n2"), ("DLRUN_TASKS", "1,2")];
        let group = group(&slurm, "n2.cluster", &variables).expect("it is there");
        assert_eq!(group.nodes, [("n1".to_owned(), 1), ("n2".to_owned(), 2)]);
        assert_eq!(group.first_rank(), 1);
    }

    #[test]
    fn local_job_has_all_nodes_here() {
        let group = group(&plan(SchedulerKind::Local, 2, Some(3)), "box", &[]).expect("all here");
        assert!(group.is_alone());
        assert_eq!(
            group.nodes,
            [("box.0".to_owned(), 2), ("box.1".to_owned(), 1)]
        );
    }
}
