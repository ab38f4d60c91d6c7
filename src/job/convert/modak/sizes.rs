//! Nodes, tasks, ranks, cores and threads of a description, which may contradict each other.

use super::document::Document;
use crate::job::convert::draft::{Draft, Origin};
use crate::job::convert::shape::{Asked, shape};

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
    pub(super) fn read(document: &mut Document, draft: &mut Draft) -> Self {
        let mut count = |path| document.count(path, draft);
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
        let made = shape(Asked {
            nodes: value(&self.nodes),
            tasks: tasks.map(|(tasks, _)| *tasks),
            tasks_per_node: value(&self.per_node),
        });
        let (nodes, each) = (made.nodes, made.tasks_per_node);
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
            (&self.cores, made.tasks),
            (&self.per_node, each),
        ];
        for (asked, made_of_it) in others {
            if let Some((_, origin)) = asked.as_ref().filter(|(asked, _)| *asked != made_of_it) {
                let all = made.tasks;
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
