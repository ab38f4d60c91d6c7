//! `qstat -Q -f`, `qstat -B -f` and `pbsnodes -x`: queues with their limits, the server, the nodes.

use crate::config::site::{NodeType, Queue, SiteModel};
use crate::foundation::clock::now_ms;
use crate::foundation::units::Bytes;
use crate::job::SchedulerKind;
use crate::scheduler::SchedulerError;
use crate::scheduler::pbs::answer::{Thing, read_text, read_xml};
use crate::scheduler::pbs::commands::Commands;
use crate::scheduler::pbs::values::{size, walltime};

pub(super) fn site(torque: &Commands) -> Result<SiteModel, SchedulerError> {
    let queues = read_text(&asked(torque, "qstat", &["-Q", "-f"])?);
    let server = read_text(&asked(torque, "qstat", &["-B", "-f"])?)
        .pop()
        .unwrap_or_default();
    let nodes = read_xml(&asked(torque, "pbsnodes", &["-x"])?);
    Ok(SiteModel {
        format: SiteModel::FORMAT,
        scheduler: SchedulerKind::Torque,
        version: server.get("pbs_version").map(str::to_owned),
        asked_at_ms: now_ms(),
        accounting: Some(false),
        // `max_job_array_size` limits how many elements there are, not their indexes.
        // A job that asks for no memory is held to none, and one that does is ended beyond it.
        accounts_memory: Some(false),
        max_array_index: None,
        max_array_elements: number(server.get("max_job_array_size")),
        queues: queues
            .iter()
            .map(|told| queue(told, server.get("default_queue")))
            .collect(),
        nodes: node_types(&nodes),
        licenses: Vec::new(),
    })
}

fn asked(torque: &Commands, program: &str, arguments: &[&str]) -> Result<String, SchedulerError> {
    let what = "tell of its queues and nodes";
    let output = torque.ask(&torque.tool(program).args(arguments), what)?;
    let answer = torque.answer(program, output, &[], what);
    answer.map(|output| output.stdout)
}

fn queue(told: &Thing, default: Option<&str>) -> Queue {
    let is = |name: &str| told.get(name) == Some("True");
    Queue {
        name: told.id.clone(),
        is_default: default == Some(told.id.as_str()),
        is_up: is("enabled") && is("started"),
        is_closed: !is("enabled"),
        max_walltime: told.get("resources_max.walltime").and_then(walltime),
        default_walltime: told.get("resources_default.walltime").and_then(walltime),
        min_nodes: number(told.get("resources_min.nodect")),
        max_nodes: number(told.get("resources_max.nodect")),
        accounts: Vec::new(),
    }
}

fn number(text: Option<&str>) -> Option<u32> {
    text?.parse().ok()
}

/// Nodes that are alike together, in the order of the first of each kind.
fn node_types(nodes: &[Thing]) -> Vec<NodeType> {
    let mut types: Vec<NodeType> = Vec::new();
    for node in nodes.iter().filter(|node| node.kind == "Node") {
        let kind = node_type(node);
        let up = u32::from(is_up(node.get("state").unwrap_or_default()));
        match types.iter_mut().find(|known| alike(known, &kind)) {
            Some(known) => {
                known.count += 1;
                known.up += up;
                known.memory = known.memory.max(kind.memory);
            }
            None => types.push(NodeType { up, ..kind }),
        }
    }
    types
}

/// Says whether two nodes differ by no more than some pages of memory.
fn alike(known: &NodeType, node: &NodeType) -> bool {
    let gibibytes = |kind: &NodeType| kind.memory.map(|memory| memory.0 >> 30);
    let counts = NodeType {
        count: known.count,
        up: known.up,
        memory: known.memory,
        ..node.clone()
    };
    counts == *known && gibibytes(known) == gibibytes(node)
}

/// States stand in a list: `down,job-exclusive`.
fn is_up(state: &str) -> bool {
    !state.is_empty()
        && !state
            .split(',')
            .any(|word| matches!(word, "down" | "offline" | "unknown" | "state-unknown"))
}

fn node_type(node: &Thing) -> NodeType {
    let gpus = number(node.get("gpus")).filter(|count| *count > 0);
    let properties = node.get("properties").unwrap_or_default();
    NodeType {
        queues: Vec::new(),
        count: 1,
        up: 0,
        cpus: number(node.get("np")),
        sockets: number(node.get("total_sockets")),
        memory: node.get("status").and_then(physical_memory),
        gpus: gpus
            .map(|count| (String::new(), count))
            .into_iter()
            .collect(),
        features: properties
            .split(',')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect(),
    }
}

/// `physmem=24684084kb` among what a node last said of itself.
fn physical_memory(status: &str) -> Option<Bytes> {
    let text = status
        .split(',')
        .find_map(|part| part.strip_prefix("physmem="))?;
    size(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foundation::units::Walltime;

    #[test]
    fn queues_have_limits() {
        let text = "Queue: short\n    queue_type = Execution\n    resources_max.walltime = 00:30:00\n    \
            resources_default.walltime = 300\n    enabled = True\n    started = True\n\nQueue: closed\n    \
            enabled = False\n    started = True\n\n";
        let told = read_text(text);
        let short = queue(&told[0], Some("short"));
        assert_eq!(
            (short.max_walltime, short.default_walltime),
            (Some(Walltime(1800)), Some(Walltime(300)))
        );
        assert!(short.is_up && short.is_default);
        let closed = queue(&told[1], Some("short"));
        assert!(
            !short.is_closed
                && closed.is_closed
                && !closed.is_up
                && !closed.is_default
                && closed.max_walltime.is_none()
        );
    }

    #[test]
    fn nodes_that_are_alike_stand_together() {
        let node = |name: &str, state: &str, np: u32, more: &str| {
            format!(
                "<Node><name>{name}</name><state>{state}</state><np>{np}</np><properties>fast,v100</properties>\
                 <status>opsys=linux,physmem=24684084kb,ncpus=2</status>{more}</Node>"
            )
        };
        let gpus = "<gpus>2</gpus>";
        let xml = format!(
            "<Data>{}{}{}</Data>",
            node("n1", "free", 8, gpus),
            node("n2", "down,job-exclusive", 8, gpus),
            node("n3", "job-exclusive", 4, "<gpus>0</gpus>")
        );
        let types = node_types(&read_xml(&xml));
        let shown: Vec<_> = types
            .iter()
            .map(|kind| (kind.count, kind.up, kind.cpus, kind.gpus.clone()))
            .collect();
        assert_eq!(
            shown,
            [
                (2, 1, Some(8), vec![(String::new(), 2)]),
                (1, 1, Some(4), vec![])
            ]
        );
        assert_eq!(types[0].features, ["fast", "v100"]);
        assert_eq!(types[0].memory, Some(Bytes(24_684_084 << 10)));
    }
}
