//! Nodes, tasks, ranks, cores and threads of a description, which may contradict each other.

use crate::job::convert::draft::{Draft, Origin};
use crate::job::convert::shape::{Asked, Shape, shape};

/// A number and where it stands.
pub(super) type Count = Option<(u32, Origin)>;

/// All that a description says.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    pub(super) node_count: Count,
    /// Tasks in all: MODAK writes it as `-n` and `procs=`.
    pub(super) core_count: Count,
    pub(super) process_count_per_node: Count,
    pub(super) core_count_per_process: Count,
    pub(super) mpi_ranks: Count,
    pub(super) threads: Count,
}

/// How the program is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    Mpi,
    Single,
}

fn value(count: &Count) -> Option<u32> {
    count.as_ref().map(|(number, _)| *number)
}

/// Sets nodes, tasks, CPUs, the launcher and `OMP_NUM_THREADS`.
pub(super) fn set(sizes: &Sizes, program: Program, draft: &mut Draft) {
    match program {
        Program::Mpi => mpi(sizes, draft),
        Program::Single => single(sizes, draft),
    }
    if let Some((threads, origin)) = &sizes.threads {
        draft.insert("run.env", "OMP_NUM_THREADS", threads.to_string(), origin);
    }
}

fn number(key: &'static str, number: u32, origin: &Origin, draft: &mut Draft) {
    draft.set(key, number, origin);
}

/// The ranks decide: MODAK starts exactly as many, whatever nodes and tasks per node make.
fn mpi(sizes: &Sizes, draft: &mut Draft) {
    let tasks = sizes.mpi_ranks.as_ref().or(sizes.core_count.as_ref());
    let asked = Asked {
        nodes: value(&sizes.node_count),
        tasks: tasks.map(|(tasks, _)| *tasks),
        tasks_per_node: value(&sizes.process_count_per_node),
    };
    let made = shape(asked);
    if let Some(origin) = sizes
        .node_count
        .as_ref()
        .or(tasks)
        .map(|(_, origin)| origin)
        && (sizes.node_count.is_some() || made.nodes > 1)
    {
        number("resources.nodes", made.nodes, origin, draft);
    }
    let per_node = sizes.process_count_per_node.as_ref().or(tasks);
    if let (Some((tasks, origin)), None, None) =
        (tasks, &sizes.node_count, &sizes.process_count_per_node)
    {
        // MODAK takes as many nodes as their cores make necessary, and so does Slurm.
        number("resources.tasks", *tasks, origin, draft);
    } else if let Some((_, origin)) = per_node {
        number(
            "resources.tasks_per_node",
            made.tasks_per_node,
            origin,
            draft,
        );
    }
    contradictions(sizes, made, draft);
    mpi_cpus(sizes, made.tasks_per_node, draft);
}

fn contradictions(sizes: &Sizes, made: Shape, draft: &mut Draft) {
    let Shape {
        nodes,
        tasks_per_node,
        ..
    } = made;
    let made = match nodes {
        1 => format!("{tasks_per_node} on one node"),
        _ => format!("{tasks_per_node} on each of {nodes} nodes"),
    };
    let decides = if sizes.mpi_ranks.is_some() {
        "mpi_ranks"
    } else {
        "core_count"
    };
    let tasks = nodes * tasks_per_node;
    if let (Some((cores, origin)), Some(ranks)) = (&sizes.core_count, value(&sizes.mpi_ranks))
        && *cores != ranks
    {
        draft.note(
            origin,
            format!("asks for {cores} tasks in all; the {ranks} of `mpi_ranks` decide"),
        );
    }
    let asked_nodes = value(&sizes.node_count);
    if let Some((per_node, origin)) = &sizes.process_count_per_node
        && *per_node != tasks_per_node
    {
        let product = u64::from(*per_node) * u64::from(asked_nodes.unwrap_or(nodes));
        draft.note(
            origin,
            format!("would make {product} tasks; the {tasks} of `{decides}` decide: {made}"),
        );
    }
    match &sizes.node_count {
        Some((asked, origin)) if *asked != nodes => {
            let why = format!(
                "{tasks} tasks cannot be spread evenly over {asked} nodes; there are {made}"
            );
            draft.note(origin, why);
        }
        None if tasks > 1 && sizes.process_count_per_node.is_none() => {
            if let Some((_, origin)) = sizes.mpi_ranks.as_ref().or(sizes.core_count.as_ref()) {
                let why = "no `node_count` and no `process_count_per_node`: Slurm spreads the tasks, PBS has them on one node";
                draft.note(origin, why);
            }
        }
        None if nodes > 1 => {
            draft.comment(
                "resources.nodes",
                &format!("{tasks} ranks, {tasks_per_node} on each node"),
            );
        }
        _ => {}
    }
}

fn mpi_cpus(sizes: &Sizes, tasks_per_node: u32, draft: &mut Draft) {
    match (&sizes.core_count_per_process, &sizes.threads) {
        (Some((cores, origin)), Some((threads, _))) if threads > cores => {
            draft.note(
                origin,
                format!("is less than the {threads} of `threads`, which decide"),
            );
            number("resources.cpus_per_task", *threads, origin, draft);
        }
        (Some((cores, origin)), _) => number("resources.cpus_per_task", *cores, origin, draft),
        // `ppn` is what MODAK asks for, whatever the threads: they share the CPUs that are asked for.
        (None, Some(_)) if sizes.process_count_per_node.is_some() => {}
        (None, Some((threads, origin))) if *threads > 1 => {
            number("resources.cpus_per_task", *threads, origin, draft);
            let cpus = u64::from(*threads) * u64::from(tasks_per_node);
            draft.note(
                origin,
                format!(
                    "each task gets {threads} CPUs for its threads, which makes {cpus} on a node"
                ),
            );
        }
        _ => {}
    }
}

/// One process a node: the tasks that MODAK asks for are its cores.
fn single(sizes: &Sizes, draft: &mut Draft) {
    let nodes = value(&sizes.node_count).unwrap_or(1);
    if let Some((_, origin)) = &sizes.node_count {
        number("resources.nodes", nodes, origin, draft);
    }
    let per_process = value(&sizes.core_count_per_process).unwrap_or(1);
    let per_node = match (&sizes.process_count_per_node, &sizes.core_count) {
        (Some((tasks, origin)), _) if *tasks > 1 => {
            Some((tasks.saturating_mul(per_process), origin))
        }
        (_, Some((cores, origin))) => {
            Some((cores.div_ceil(nodes).saturating_mul(per_process), origin))
        }
        _ => sizes
            .core_count_per_process
            .as_ref()
            .map(|(cores, origin)| (*cores, origin)),
    };
    let threads = sizes.threads.as_ref().filter(|(threads, _)| *threads > 1);
    let cpus = per_node
        .into_iter()
        .chain(threads.map(|(threads, origin)| (*threads, origin)));
    if let Some((cpus, origin)) = cpus.max_by_key(|(cpus, _)| *cpus)
        && (cpus > 1 || sizes.core_count_per_process.is_some())
    {
        number("resources.cpus_per_task", cpus, origin, draft);
    }
    if let Some((tasks, origin)) = sizes
        .process_count_per_node
        .as_ref()
        .filter(|(tasks, _)| *tasks > 1)
    {
        draft.note(
            origin,
            format!("no MPI: the {tasks} tasks of a node become CPUs of its one process"),
        );
    }
    if let (Some((cores, origin)), Some(tasks)) =
        (&sizes.core_count, value(&sizes.process_count_per_node))
        && tasks > 1
        && u64::from(*cores) != u64::from(tasks) * u64::from(nodes)
    {
        draft.note(
            origin,
            "contradicts `node_count` and `process_count_per_node`, which decide",
        );
    }
    if let Some((ranks, origin)) = sizes.mpi_ranks.as_ref().filter(|(ranks, _)| *ranks > 1) {
        let how = "`app_type` is not mpi, so the program is started once; write `run.launcher = \"mpi\"` for ranks";
        draft.note(origin, format!("{ranks} ranks are not started: {how}"));
    }
}
