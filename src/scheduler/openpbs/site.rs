//! `qstat -B`, `qstat -Q` and `pbsnodes -a`, each with `-f -F json`: version, queues and nodes.

use super::json::{self, Value};
use crate::config::site::{NodeType, Queue, SiteModel};
use crate::foundation::clock::now_ms;
use crate::job::SchedulerKind;
use crate::scheduler::SchedulerError;
use crate::scheduler::pbs::commands::Commands;
use crate::scheduler::pbs::values::{size, walltime};

pub(super) fn site(openpbs: &Commands) -> Result<SiteModel, SchedulerError> {
    let server = ask(
        openpbs,
        "qstat",
        &["-B", "-f", "-F", "json"],
        "describe its server",
    )?;
    let queues = ask(
        openpbs,
        "qstat",
        &["-Q", "-f", "-F", "json"],
        "list its queues",
    )?;
    let nodes = ask(openpbs, "pbsnodes", &["-a", "-F", "json"], "list its nodes")?;
    Ok(model(&server, &queues, &nodes, now_ms()))
}

fn ask(
    openpbs: &Commands,
    program: &str,
    options: &[&str],
    what: &str,
) -> Result<Value, SchedulerError> {
    let output = openpbs.ask(&openpbs.tool(program).args(options), what)?;
    let answer = openpbs.answer(program, output, &[], what)?;
    Ok(json::read(&answer.stdout))
}

fn model(server: &Value, queues: &Value, nodes: &Value, asked_at_ms: u64) -> SiteModel {
    let its = table(server, "Server").first().map(|(_, server)| server);
    let default_queue = its.and_then(|server| server.text("default_queue"));
    SiteModel {
        format: SiteModel::FORMAT,
        scheduler: SchedulerKind::OpenPbs,
        version: server.text("pbs_version").map(str::to_owned),
        asked_at_ms,
        // The server's job history: two weeks, unless the site says otherwise.
        accounting: its.map(|server| {
            server
                .text("job_history_enable")
                .is_some_and(|text| text.eq_ignore_ascii_case("true"))
        }),
        // Its `max_array_size` bounds the number of elements, and no index.
        accounts_memory: None,
        max_array_index: None,
        max_array_elements: its.and_then(|server| server.number("max_array_size")),
        queues: table(queues, "Queue")
            .iter()
            .map(|(name, it)| queue(name, it, default_queue))
            .collect(),
        nodes: node_types(table(nodes, "nodes")),
        licenses: Vec::new(),
    }
}

fn table<'a>(answer: &'a Value, name: &str) -> &'a [(String, Value)] {
    answer.get(name).map(Value::members).unwrap_or_default()
}

fn queue(name: &str, queue: &Value, default: Option<&str>) -> Queue {
    let is = |key: &str| {
        queue
            .text(key)
            .is_none_or(|text| text.eq_ignore_ascii_case("true"))
    };
    let resource = |table: &str, key: &str| {
        queue
            .get(table)
            .and_then(|table| table.text(key))
            .map(str::to_owned)
    };
    let time = |table: &str| resource(table, "walltime").as_deref().and_then(walltime);
    let nodes = |table: &str| resource(table, "nodect").and_then(|count| count.parse().ok());
    Queue {
        name: name.to_owned(),
        is_default: default == Some(name),
        is_up: is("enabled") && is("started"),
        is_closed: !is("enabled"),
        max_walltime: time("resources_max"),
        default_walltime: time("resources_default"),
        min_nodes: nodes("resources_min"),
        max_nodes: nodes("resources_max"),
        accounts: Vec::new(),
    }
}

/// Words in a node's state that keep jobs away.
const DOWN: [&str; 6] = [
    "down",
    "offline",
    "unknown",
    "stale",
    "unresolvable",
    "maintenance",
];

/// Resources of a node that are told otherwise or say what the node is called.
const PLAIN: [&str; 6] = ["host", "vnode", "mem", "ncpus", "ngpus", "vmem"];

fn node_types(nodes: &[(String, Value)]) -> Vec<NodeType> {
    let mut types: Vec<NodeType> = Vec::new();
    for (_, node) in nodes {
        let up = node
            .text("state")
            .is_some_and(|state| !state.split(',').any(|word| DOWN.contains(&word.trim())));
        let kind = node_type(node);
        let known = types.iter_mut().find(|known| {
            NodeType {
                count: 0,
                up: 0,
                ..(**known).clone()
            } == kind
        });
        let kind = match known {
            Some(known) => known,
            None => {
                types.push(kind);
                let Some(last) = types.last_mut() else {
                    continue;
                };
                last
            }
        };
        kind.count += 1;
        kind.up += u32::from(up);
    }
    types
}

/// What a node is, without how many there are.
fn node_type(node: &Value) -> NodeType {
    let available = node.get("resources_available");
    let resource = |key: &str| available.and_then(|available| available.text(key));
    let gpus = resource("ngpus")
        .and_then(|count| count.parse().ok())
        .filter(|count| *count > 0);
    let others = available.map(Value::members).unwrap_or_default().iter();
    let mut features: Vec<String> = others
        .filter(|(name, _)| !PLAIN.contains(&name.as_str()))
        .filter_map(|(name, value)| match value {
            Value::Text(text) => Some(format!("{name}={text}")),
            _ => None,
        })
        .collect();
    features.sort();
    // A node is in the queue that it names, or in those that its resource `Qlist` names, or in all.
    let queues = node.text("queue").or_else(|| resource("Qlist"));
    NodeType {
        queues: queues
            .map(|names| {
                names
                    .split(',')
                    .map(|name| name.trim().to_owned())
                    .collect()
            })
            .unwrap_or_default(),
        count: 0,
        up: 0,
        cpus: resource("ncpus").and_then(|count| count.parse().ok()),
        sockets: None,
        memory: resource("mem").and_then(size),
        gpus: gpus
            .map(|count| (String::new(), count))
            .into_iter()
            .collect(),
        features,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foundation::units::Bytes;

    const SERVER: &str =
        include_str!("../../../tests/fixtures/scheduler/openpbs/server-23.06.json");
    const QUEUES: &str =
        include_str!("../../../tests/fixtures/scheduler/openpbs/queues-23.06.json");
    const NODES: &str = include_str!("../../../tests/fixtures/scheduler/openpbs/nodes-23.06.json");
    const NODES_20: &str =
        include_str!("../../../tests/fixtures/scheduler/openpbs-pbsnodes-json-a.json");

    #[test]
    fn a_site_is_described() {
        let model = model(
            &json::read(SERVER),
            &json::read(QUEUES),
            &json::read(NODES),
            7,
        );
        assert_eq!(
            (model.version.as_deref(), model.asked_at_ms),
            (Some("23.06.06"), 7)
        );
        assert_eq!(
            (model.max_array_index, model.max_array_elements),
            (None, Some(10_000))
        );
        let queue = |name: &str| {
            model
                .queues
                .iter()
                .find(|queue| queue.name == name)
                .expect("a queue")
        };
        let workq = queue("workq");
        assert!(
            workq.is_default && workq.is_up && !queue("short").is_default && !queue("closed").is_up
        );
        assert!(queue("closed").is_closed && !workq.is_closed);
        assert_eq!(
            (workq.max_walltime, workq.default_walltime),
            (walltime("48:00:00"), walltime("1:00:00"))
        );
        assert_eq!(queue("private").max_walltime, None);
        let expected = NodeType {
            count: 2,
            up: 2,
            cpus: Some(8),
            memory: Some(Bytes(16 << 30)),
            gpus: vec![(String::new(), 2)],
            features: vec!["arch=linux".into()],
            ..NodeType::default()
        };
        assert_eq!(model.nodes, [expected]);
    }

    #[test]
    fn nodes_that_are_away_are_counted_apart() {
        let node = &json::read(NODES_20);
        let (_, node) = &table(node, "nodes")[0];
        let types = |state: &str| {
            let Value::Object(mut members) = node.clone() else {
                panic!("a node")
            };
            members.push(("state".to_owned(), Value::Text(state.to_owned())));
            node_types(&[
                ("a".to_owned(), node.clone()),
                ("b".to_owned(), Value::Object(members)),
            ])
        };
        for (state, up) in [
            ("job-exclusive", 2),
            ("down,offline", 1),
            ("state-unknown,down", 1),
            ("free", 2),
        ] {
            let types = types(state);
            assert_eq!(
                types
                    .iter()
                    .map(|kind| (kind.count, kind.up))
                    .collect::<Vec<_>>(),
                [(2, up)],
                "{state}"
            );
            assert_eq!(
                (types[0].cpus, types[0].memory),
                (Some(48), Some(Bytes(394_875_440 << 10)))
            );
        }
        assert_eq!(model(node, node, node, 0).nodes, []);
    }
}
