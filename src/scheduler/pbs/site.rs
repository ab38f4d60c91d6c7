//! What a PBS says of its queues and nodes.

use super::answer::Thing;
use super::values::walltime;
use crate::config::site::{NodeType, Queue, SiteModel};
use crate::job::SchedulerKind;
use crate::scheduler::BrokenNode;

/// A site by what its server says of itself, of its queues and of its nodes.
pub(in crate::scheduler) fn model(
    kind: SchedulerKind,
    server: &Thing,
    queues: &[Thing],
    nodes: impl Iterator<Item = NodeType>,
) -> SiteModel {
    SiteModel {
        version: server.get("pbs_version").map(str::to_owned),
        queues: queues
            .iter()
            .map(|it| queue(it, server.get("default_queue")))
            .collect(),
        nodes: grouped(nodes),
        // What the servers limit is the number of elements of an array, not their indexes.
        ..SiteModel::asked_now(kind)
    }
}

fn queue(it: &Thing, default: Option<&str>) -> Queue {
    let is = |key: &str| {
        it.get(key)
            .is_none_or(|text| text.eq_ignore_ascii_case("true"))
    };
    Queue {
        name: it.id.clone(),
        is_default: default == Some(it.id.as_str()),
        is_up: is("enabled") && is("started"),
        is_closed: !is("enabled"),
        max_walltime: it.get("resources_max.walltime").and_then(walltime),
        default_walltime: it.get("resources_default.walltime").and_then(walltime),
        min_nodes: it.number("resources_min.nodect"),
        max_nodes: it.number("resources_max.nodect"),
        accounts: Vec::new(),
    }
}

/// Words in a node's state that keep jobs away.
const DOWN: [&str; 7] = [
    "down",
    "offline",
    "unknown",
    "state-unknown",
    "stale",
    "unresolvable",
    "maintenance",
];

/// Those of them with which the node's jobs continue.
const RUNS_ON: [&str; 2] = ["offline", "maintenance"];

/// 1 where jobs may run on a node, by its states: `down,job-exclusive`.
pub(in crate::scheduler) fn up(node: &Thing) -> u32 {
    let is_down = |state: &str| state.split(',').any(|word| DOWN.contains(&word.trim()));
    u32::from(node.get("state").is_some_and(|state| !is_down(state)))
}

/// Those of the nodes that `pbsnodes NAME...` prints whose state keeps jobs away.
pub(in crate::scheduler) fn broken(printed: &str) -> Vec<BrokenNode> {
    let mut name = "";
    let mut found = Vec::new();
    for line in printed.lines() {
        if !line.starts_with([' ', '\t']) {
            name = line.trim();
            continue;
        }
        let Some(state) = line.trim().strip_prefix("state = ") else {
            continue;
        };
        let words: Vec<&str> = state.split(',').map(str::trim).collect();
        if words.iter().any(|word| DOWN.contains(word)) {
            found.push(BrokenNode {
                name: name.to_owned(),
                state: state.to_owned(),
                // One that is offline still runs its jobs.
                is_dead: words
                    .iter()
                    .any(|word| DOWN.contains(word) && !RUNS_ON.contains(word)),
            });
        }
    }
    found
}

/// So many GPUs of a node, of which no PBS knows the type.
pub(in crate::scheduler) fn gpus(count: Option<u32>) -> Vec<(String, u32)> {
    let count = count.filter(|count| *count > 0);
    Vec::from_iter(count.map(|count| (String::new(), count)))
}

/// Equal nodes together, in the order of the first of each kind: those that differ by no more than some pages of
/// memory. Each comes with `count` 1.
fn grouped(nodes: impl Iterator<Item = NodeType>) -> Vec<NodeType> {
    let gibibytes = |kind: &NodeType| kind.memory.map(|memory| memory.0 >> 30);
    let mut types: Vec<NodeType> = Vec::new();
    for node in nodes {
        let is_alike = |known: &&mut NodeType| {
            let counts = NodeType {
                count: known.count,
                up: known.up,
                memory: known.memory,
                ..node.clone()
            };
            counts == **known && gibibytes(known) == gibibytes(&node)
        };
        match types.iter_mut().find(is_alike) {
            Some(known) => {
                known.count += 1;
                known.up += node.up;
                known.memory = known.memory.max(node.memory);
            }
            None => types.push(node),
        }
    }
    types
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foundation::units::Walltime;
    use crate::scheduler::pbs::answer::read_text;

    #[test]
    fn queues_have_limits() {
        let text = "Queue: short\n    queue_type = Execution\n    resources_max.walltime = 00:30:00\n    \
            resources_default.walltime = 300\n    enabled = True\n    started = True\n\nQueue: closed\n    \
            enabled = False\n    started = True\n\n";
        let queues = read_text(text);
        let short = queue(&queues[0], Some("short"));
        assert_eq!(
            (short.max_walltime, short.default_walltime),
            (Some(Walltime(1800)), Some(Walltime(300)))
        );
        assert!(short.is_up && short.is_default);
        let closed = queue(&queues[1], Some("short"));
        assert!(!short.is_closed && closed.is_closed && !closed.is_up && !closed.is_default);
        assert!(closed.max_walltime.is_none());
    }

    #[test]
    fn nodes_that_are_away_are_up_no_more() {
        for (state, expected) in [
            ("job-exclusive", 1),
            ("down,offline", 0),
            ("state-unknown,down", 0),
            ("free", 1),
        ] {
            let attributes = [("state".to_owned(), state.to_owned())].into();
            let node = Thing {
                attributes,
                ..Thing::default()
            };
            assert_eq!(up(&node), expected, "{state}");
        }
    }

    #[test]
    fn nodes_that_are_down_or_offline_are_out_of_order() {
        // Of OpenPBS 23.06 and of Torque 6.1.3, shortened.
        let openpbs = "node01\n     Mom = node01\n     state = job-busy\n\nnode02\n     ntype = PBS\n     state = down\n";
        let torque = "node03\n     state = offline,job-exclusive\n     power_state = Running\n\nnode04\n     state = down\n";
        let found = broken(&format!("{openpbs}\n{torque}"));
        let found: Vec<_> = found
            .iter()
            .map(|node| (&*node.name, node.is_dead))
            .collect();
        assert_eq!(
            found,
            [("node02", true), ("node03", false), ("node04", true)]
        );
    }
}
