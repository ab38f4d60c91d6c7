//! Nodes, tasks, ranks, cores and threads of a description, which may contradict each other.

use super::document::Document;
use crate::job::convert::draft::{Draft, Origin};

/// A number and its place.
type Count = Option<(u32, Origin)>;

/// All that a description says.
#[derive(Debug)]
pub(super) struct Sizes {
    pub(super) nodes: Count,
    /// Tasks in all: MODAK writes it as `-n` and `procs=`.
    cores: Count,
    per_node: Count,
    per_process: Count,
    pub(super) ranks: Count,
    threads: Count,
}

fn value(count: &Count) -> Option<u32> {
    count.as_ref().map(|(number, _)| *number)
}

impl Sizes {
    pub(super) fn read(document: &mut Document) -> Self {
        let mut count = |path| document.count(path);
        Self {
            nodes: count("job_options.node_count"),
            cores: count("job_options.core_count"),
            per_node: count("job_options.process_count_per_node"),
            per_process: count("job_options.core_count_per_process"),
            ranks: count("application.mpi_ranks"),
            threads: count("application.threads"),
        }
    }

    /// Sets nodes, tasks, CPUs and `OMP_NUM_THREADS`.
    pub(super) fn set(&self, is_mpi: bool, draft: &mut Draft) {
        if is_mpi {
            self.set_ranks(draft);
        } else {
            self.set_process(draft);
        }
        if let Some((threads, origin)) = &self.threads {
            draft.insert("run.env", "OMP_NUM_THREADS", threads.to_string(), origin);
        }
    }

    /// The ranks decide: MODAK starts exactly as many, whatever nodes and tasks per node make.
    fn set_ranks(&self, draft: &mut Draft) {
        let tasks = self.ranks.as_ref().or(self.cores.as_ref());
        let asked = tasks.map(|(tasks, _)| *tasks);
        let (nodes, each) = shape(value(&self.nodes), asked, value(&self.per_node));
        let all = nodes.saturating_mul(each);
        if let Some((_, origin)) = self.nodes.as_ref().or(tasks.filter(|_| nodes > 1)) {
            draft.set("resources.nodes", nodes, origin);
        }
        match (tasks, self.nodes.as_ref().or(self.per_node.as_ref())) {
            // MODAK takes as many nodes as their cores make necessary, and so does Slurm.
            (Some((tasks, origin)), None) => draft.set("resources.tasks", *tasks, origin),
            _ => {
                if let Some((_, origin)) = self.per_node.as_ref().or(tasks) {
                    draft.set("resources.tasks_per_node", each, origin);
                }
            }
        }
        let decides = if self.ranks.is_some() {
            "mpi_ranks"
        } else {
            "core_count"
        };
        let others = [
            (&self.nodes, nodes),
            (&self.cores, all),
            (&self.per_node, each),
        ];
        for (asked, made_of_it) in others {
            if let Some((_, origin)) = asked.as_ref().filter(|(asked, _)| *asked != made_of_it) {
                draft.note(
                    origin,
                    format!("the {all} of `{decides}` decide: {each} on each of {nodes} nodes"),
                );
            }
        }
        let threads = match (&self.per_process, &self.threads) {
            (Some((cores, _)), Some((threads, origin))) if threads > cores => {
                Some((threads, origin))
            }
            (Some((cores, origin)), _) => Some((cores, origin)),
            // `ppn` is what MODAK asks for, whatever the threads: they share the CPUs that are asked for.
            (None, Some(_)) if self.per_node.is_some() => None,
            (None, threads) => threads
                .as_ref()
                .map(|(threads, origin)| (threads, origin))
                .filter(|(threads, _)| **threads > 1),
        };
        if let Some((cpus, origin)) = threads {
            draft.set("resources.cpus_per_task", *cpus, origin);
        }
    }

    /// One process a node: the tasks that MODAK asks for are its cores.
    fn set_process(&self, draft: &mut Draft) {
        let nodes = value(&self.nodes).unwrap_or(1);
        if let Some((_, origin)) = &self.nodes {
            draft.set("resources.nodes", nodes, origin);
        }
        let per_process = value(&self.per_process).unwrap_or(1);
        let tasks = self.per_node.as_ref().filter(|(tasks, _)| *tasks > 1);
        let of_tasks = tasks.map(|(tasks, origin)| (tasks.saturating_mul(per_process), origin));
        let of_cores = self
            .cores
            .as_ref()
            .filter(|_| tasks.is_none())
            .map(|(cores, origin)| (cores.div_ceil(nodes).saturating_mul(per_process), origin));
        let others = [&self.per_process, &self.threads].into_iter().flatten();
        let others = others.map(|(cpus, origin)| (*cpus, origin));
        let cpus = of_tasks.into_iter().chain(of_cores).chain(others);
        if let Some((cpus, origin)) = cpus.max_by_key(|(cpus, _)| *cpus)
            && (cpus > 1 || self.per_process.is_some())
        {
            draft.set("resources.cpus_per_task", cpus, origin);
        }
        if let Some((tasks, origin)) = tasks {
            let what =
                format!("no MPI: the {tasks} tasks of a node become CPUs of its one process");
            draft.note(origin, what);
        }
        if let Some((ranks, origin)) = self.ranks.as_ref().filter(|(ranks, _)| *ranks > 1) {
            let how = "`app_type` is not mpi, so the program is started once; write `run.launcher = \"mpi\"` for ranks";
            draft.note(origin, format!("{ranks} ranks are not started: {how}"));
        }
    }
}

/// Nodes, and tasks on each: exactly the tasks that are asked for, and no more nodes than asked for.
///
/// Tasks in all beat tasks per node, which is a maximum beside them. Every node gets the same number of tasks, so the nodes must
/// divide them: the most nodes that do, up to those asked for. Without a number of nodes there are as few as the tasks per node
/// allow.
fn shape(nodes: Option<u32>, tasks: Option<u32>, per_node: Option<u32>) -> (u32, u32) {
    let Some(tasks) = tasks else {
        return (nodes.unwrap_or(1), per_node.unwrap_or(1));
    };
    let divides = |nodes: &u32| *nodes > 0 && tasks.is_multiple_of(*nodes);
    let nodes = match (nodes, per_node) {
        (Some(nodes), _) => (1..=nodes.min(tasks)).rev().find(divides),
        (None, Some(most)) => (tasks.div_ceil(most.max(1))..=tasks).find(divides),
        (None, None) => None,
    };
    let nodes = nodes.unwrap_or(1);
    (nodes, tasks / nodes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(nodes: u32, tasks: u32, per_node: u32) -> (u32, u32) {
        let some = |number: u32| Some(number).filter(|number| *number > 0);
        shape(some(nodes), some(tasks), some(per_node))
    }

    #[test]
    fn tasks_decide_and_nodes_are_never_more_than_asked_for() {
        for ((nodes, tasks, per_node), expected) in [
            ((2, 80, 40), (2, 40)),
            ((2, 80, 1), (2, 40)),
            ((2, 40, 40), (2, 20)),
            ((4, 48, 24), (4, 12)),
            ((3, 8, 0), (2, 4)),
            ((4, 2, 0), (2, 1)),
            ((0, 256, 128), (2, 128)),
            ((0, 100, 48), (4, 25)),
            ((0, 256, 1), (256, 1)),
            ((0, 16, 0), (1, 16)),
            ((2, 0, 4), (2, 4)),
            ((0, 0, 0), (1, 1)),
        ] {
            assert_eq!(
                of(nodes, tasks, per_node),
                expected,
                "{nodes} {tasks} {per_node}"
            );
        }
    }

    proptest! {
        #[test]
        fn there_are_exactly_the_tasks_asked_for(nodes in 0_u32..200, tasks in 1_u32..5000, per_node in 0_u32..200) {
            let (made, each) = of(nodes, tasks, per_node);
            prop_assert_eq!(made * each, tasks);
            prop_assert!(nodes == 0 || made <= nodes);
            prop_assert!(nodes > 0 || per_node == 0 || each <= per_node);
        }
    }
}
