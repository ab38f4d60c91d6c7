//! Nodes and tasks that agree with each other, out of numbers that may not.

/// What is asked for; `None` where nothing is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) nodes: Option<u32>,
    /// Tasks in all.
    pub(super) tasks: Option<u32>,
    pub(super) tasks_per_node: Option<u32>,
}

/// Nodes, tasks in all, and tasks on each node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) nodes: u32,
    pub(super) tasks: u32,
    pub(super) tasks_per_node: u32,
}

impl Shape {
    /// As many tasks on each node.
    pub(super) fn even(nodes: u32, tasks_per_node: u32) -> Self {
        Self {
            nodes,
            tasks: nodes.saturating_mul(tasks_per_node),
            tasks_per_node,
        }
    }

    /// What Slurm makes of it: the fewest nodes, over which it spreads the tasks.
    pub(super) fn spread(asked: Asked) -> Self {
        let Asked {
            nodes,
            tasks,
            tasks_per_node,
        } = asked;
        let of_tasks = tasks
            .zip(tasks_per_node)
            .map(|(tasks, most)| tasks.div_ceil(most.max(1)));
        let nodes = nodes.or(of_tasks).unwrap_or(1).max(1);
        let tasks_per_node = tasks_per_node
            .or(tasks.map(|tasks| tasks.div_ceil(nodes)))
            .unwrap_or(1);
        Self {
            tasks: tasks.unwrap_or(nodes.saturating_mul(tasks_per_node)),
            nodes,
            tasks_per_node,
        }
    }
}

/// The shape with exactly the tasks that are asked for, and no more nodes than asked for.
///
/// Tasks in all beat tasks per node, which is a maximum beside them (`sbatch(1)`, `--ntasks-per-node`). Every node gets the
/// same number of tasks, so the nodes must divide them: the most nodes that do, up to those asked for. Without a number of
/// nodes there are as few as the tasks per node allow.
pub(super) fn shape(asked: Asked) -> Shape {
    let Asked {
        nodes,
        tasks,
        tasks_per_node,
    } = asked;
    let Some(tasks) = tasks.filter(|tasks| *tasks > 0) else {
        return Shape::even(nodes.unwrap_or(1), tasks_per_node.unwrap_or(1));
    };
    let divides = |nodes: &u32| *nodes > 0 && tasks.is_multiple_of(*nodes);
    let nodes = match (nodes, tasks_per_node) {
        (Some(nodes), _) => (1..=nodes.min(tasks)).rev().find(divides),
        (None, Some(most)) => (tasks.div_ceil(most.max(1))..=tasks).find(divides),
        (None, None) => Some(1),
    };
    let nodes = nodes.unwrap_or(1);
    Shape::even(nodes, tasks / nodes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(nodes: u32, tasks: u32, per_node: u32) -> (u32, u32) {
        let some = |number: u32| Some(number).filter(|number| *number > 0);
        let asked = Asked {
            nodes: some(nodes),
            tasks: some(tasks),
            tasks_per_node: some(per_node),
        };
        let shape = shape(asked);
        (shape.nodes, shape.tasks_per_node)
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
