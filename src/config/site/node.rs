//! A job against kinds of nodes: what a kind lacks, and which comes nearest.

use super::misfit::{Misfit, Place};
use super::{NodeType, SiteModel, Wanted, constraint};
use crate::foundation::units::Bytes;

/// Something of which a kind of node has too little.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lack {
    key: &'static str,
    /// `64 CPUs`, `2 GPUs of type v100`.
    what: String,
}

/// All that a kind of node lacks for a job.
fn lacks(node: &NodeType, wanted: &Wanted<'_>) -> Vec<Lack> {
    let mut lacks = Vec::new();
    let mut lack = |key, what: String| lacks.push(Lack { key, what });
    let cpus = wanted.cpus_per_node();
    if node.cpus.is_some_and(|has| cpus > u64::from(has)) {
        lack(wanted.cpu_key(), format!("{cpus} CPUs"));
    }
    if let Some(gpus) = wanted
        .gpus()
        .filter(|(kind, count)| gpus_of(node, *kind) < u64::from(*count))
    {
        lack("gpus_per_node", shown_gpus(gpus));
    }
    if let (Some(memory), Some(has)) = (wanted.memory_per_node(), node.memory)
        && memory > has
    {
        lack(wanted.memory_key(), format!("{memory} of memory"));
    }
    if let Some(constraint) = wanted
        .constraint
        .filter(|constraint| !constraint::fulfils(node, constraint))
    {
        lack("constraint", format!("`{constraint}`"));
    }
    lacks
}

/// Says whether a kind of node has all that a job asks for, as far as both are known.
#[must_use]
pub fn serves(node: &NodeType, wanted: &Wanted<'_>) -> bool {
    lacks(node, wanted).is_empty()
}

/// How many GPUs of a type a node has. GPUs whose type the scheduler does not know may be of any. Slurm
/// tells `v100` from `V100` (22.05).
fn gpus_of(node: &NodeType, kind: Option<&str>) -> u64 {
    let counts = node
        .gpus
        .iter()
        .filter(|(has, _)| has.is_empty() || kind.is_none_or(|kind| has == kind));
    counts.map(|(_, count)| u64::from(*count)).sum()
}

fn shown_gpus((kind, count): (Option<&str>, u32)) -> String {
    let plural = if count == 1 { "" } else { "s" };
    let kind = kind
        .map(|kind| format!(" of type `{kind}`"))
        .unwrap_or_default();
    format!("{count} GPU{plural}{kind}")
}

/// What is amiss with a job on the nodes of a place. Nothing where the site knows no nodes of it.
pub(super) fn misfits(model: &SiteModel, place: &Place<'_>, wanted: &Wanted<'_>) -> Vec<Misfit> {
    let types: Vec<(&NodeType, Vec<Lack>)> = place
        .nodes(model)
        .map(|node| (node, lacks(node, wanted)))
        .collect();
    let Some((nearest, lacking)) = types.iter().min_by_key(|(_, lacks)| lacks.len()) else {
        return Vec::new();
    };
    let fitting: u64 = types
        .iter()
        .filter(|(_, lacks)| lacks.is_empty())
        .map(|(node, _)| u64::from(node.count))
        .sum();
    if lacking.is_empty() {
        return too_few(model, place, wanted, fitting).into_iter().collect();
    }
    // What every kind lacks is told by itself; where each lacks something else, by the nearest kind.
    let common: Vec<&Lack> = lacking
        .iter()
        .filter(|lack| types.iter().all(|(_, lacks)| lacks.contains(lack)))
        .collect();
    if common.is_empty() {
        let what: Vec<&str> = lacking.iter().map(|lack| lack.what.as_str()).collect();
        let message = format!(
            "no kind of node{} has all that the job asks for at once: the nearest, {}, has no {}",
            place.of(),
            described(nearest),
            what.join(" and no ")
        );
        return vec![Misfit::new(lacking[0].key, message)];
    }
    common
        .into_iter()
        .map(|lack| of_lack(model, place, wanted, lack))
        .collect()
}

fn too_few(
    model: &SiteModel,
    place: &Place<'_>,
    wanted: &Wanted<'_>,
    fitting: u64,
) -> Option<Misfit> {
    if u64::from(wanted.nodes) <= fitting {
        return None;
    }
    let all: u64 = place.nodes(model).map(|node| u64::from(node.count)).sum();
    let has = if fitting == all {
        format!("there are {all}{}", place.within())
    } else {
        format!(
            "only {fitting} of the {all}{} have what the job asks for",
            place.within()
        )
    };
    Some(Misfit::new(
        "nodes",
        format!("{} nodes are asked for; {has}", wanted.nodes),
    ))
}

fn of_lack(model: &SiteModel, place: &Place<'_>, wanted: &Wanted<'_>, lack: &Lack) -> Misfit {
    let none = format!("no node{} has", place.of());
    match lack.key {
        "gpus_per_node" => of_gpus(model, place, wanted, lack),
        "memory" | "memory_per_cpu" => {
            let most = place
                .nodes(model)
                .filter_map(|node| node.memory)
                .max()
                .unwrap_or(Bytes(0));
            let how = if lack.key == "memory" {
                String::new()
            } else {
                format!(
                    " ({} CPUs times {})",
                    wanted.cpus_per_node(),
                    wanted.memory_per_cpu.unwrap_or(Bytes(0))
                )
            };
            Misfit::new(
                lack.key,
                format!("{none} {}{how}; the most is {most}", lack.what),
            )
        }
        "constraint" => of_constraint(model, place, lack),
        key => {
            let most = place
                .nodes(model)
                .filter_map(|node| node.cpus)
                .max()
                .unwrap_or(0);
            let cpus = wanted.cpus_per_task.unwrap_or(1);
            let how = format!(" ({} x {cpus})", wanted.tasks_per_node);
            let how = if wanted.tasks_per_node == 1 || cpus == 1 {
                ""
            } else {
                &how
            };
            Misfit::new(
                key,
                format!("{none} {}{how}; the most is {most}", lack.what),
            )
        }
    }
}

fn of_gpus(model: &SiteModel, place: &Place<'_>, wanted: &Wanted<'_>, lack: &Lack) -> Misfit {
    let here: u64 = place
        .nodes(model)
        .map(|node| gpus_of(node, None))
        .max()
        .unwrap_or(0);
    let kind = wanted.gpus().and_then(|(kind, _)| kind);
    let of_kind: u64 = place
        .nodes(model)
        .map(|node| gpus_of(node, kind))
        .max()
        .unwrap_or(0);
    let message = if here == 0 {
        format!("no node{} has GPUs", place.of())
    } else if let Some(kind) = kind.filter(|_| of_kind == 0) {
        format!("no node{} has GPUs of type `{kind}`", place.of())
    } else {
        format!(
            "no node{} has {}; the most is {of_kind}",
            place.of(),
            lack.what
        )
    };
    let there = shown_list(gpus_there(model));
    let hint = if there.is_empty() {
        "the site has no GPUs".to_owned()
    } else {
        format!("there are {there}")
    };
    Misfit::new("gpus_per_node", message).hinted(hint)
}

/// `h100 (8 a node) in gpu, debug`, each kind of GPU once.
fn gpus_there(model: &SiteModel) -> Vec<String> {
    let mut there: Vec<String> = Vec::new();
    for node in &model.nodes {
        for (kind, count) in &node.gpus {
            let kind = if kind.is_empty() { "GPUs" } else { kind };
            let queues = if node.queues.is_empty() {
                "all queues".to_owned()
            } else {
                shown_list(
                    node.queues
                        .iter()
                        .map(|queue| format!("`{queue}`"))
                        .collect(),
                )
            };
            let text = format!("{kind} ({count} a node) in {queues}");
            if !there.contains(&text) {
                there.push(text);
            }
        }
    }
    there
}

fn of_constraint(model: &SiteModel, place: &Place<'_>, lack: &Lack) -> Misfit {
    let mut features: Vec<String> = place
        .nodes(model)
        .flat_map(|node| &node.features)
        .map(|name| format!("`{name}`"))
        .collect();
    features.sort();
    features.dedup();
    let hint = if features.is_empty() {
        "they have no features".to_owned()
    } else {
        format!("their features are {}", shown_list(features))
    };
    Misfit::new(
        "constraint",
        format!("no node{} has {}", place.of(), lack.what),
    )
    .hinted(hint)
}

/// A kind of node in a few words: `16 CPUs, 62.5GiB, 8 x h100`.
#[must_use]
pub fn described(node: &NodeType) -> String {
    let mut parts = Vec::new();
    parts.extend(node.cpus.map(|cpus| format!("{cpus} CPUs")));
    parts.extend(node.memory.map(|memory| memory.to_string()));
    parts.extend(node.gpus.iter().map(|(kind, count)| {
        let kind = if kind.is_empty() { "GPU" } else { kind };
        format!("{count} x {kind}")
    }));
    if parts.is_empty() {
        "of which nothing is known".to_owned()
    } else {
        parts.join(", ")
    }
}

/// A list for people, cut off where it gets long.
pub(super) fn shown_list(items: Vec<String>) -> String {
    const SHOWN: usize = 12;
    let more = items.len().saturating_sub(SHOWN);
    let mut text = items.into_iter().take(SHOWN).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}
