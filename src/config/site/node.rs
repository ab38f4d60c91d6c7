//! A job against kinds of nodes: what a kind lacks, and which comes nearest.

use std::collections::BTreeSet;

use super::misfit::{Misfit, Place};
use super::{NodeType, SiteModel, Wanted, constraint};
use crate::job::SHARES;

/// The key of something of which a kind of node has too little, and what it is: `64 CPUs`, `2 GPUs of type v100`.
type Lack = (&'static str, String);

/// All that a kind of node lacks for a job.
fn lacks(node: &NodeType, wanted: &Wanted<'_>) -> Vec<Lack> {
    let mut lacks = Vec::new();
    let mut lack = |key, what: String| lacks.push((key, what));
    let cpus = wanted.cpus_per_node();
    if node.cpus.is_some_and(|has| cpus > u64::from(has)) {
        let of_tasks = match wanted.cpus_per_task {
            Some(each @ 2..) if wanted.tasks_per_node > 1 => {
                format!(" ({} x {each})", wanted.tasks_per_node)
            }
            _ => String::new(),
        };
        lack(wanted.cpu_key(), format!("{cpus} CPUs{of_tasks}"));
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
    let counts = node.gpus.iter().filter(|(has, _)| match kind {
        Some(kind) if SHARES.contains(&kind) => has == kind,
        kind => {
            let is_gpu = !SHARES.contains(&&**has);
            is_gpu && (has.is_empty() || kind.is_none_or(|kind| has == kind))
        }
    });
    counts.map(|(_, count)| u64::from(*count)).sum()
}

fn shown_gpus((kind, count): (Option<&str>, u32)) -> String {
    if let Some(share) = kind.filter(|kind| SHARES.contains(kind)) {
        return format!("{count} x {share}");
    }
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
    // What every kind lacks is reported by itself; where each lacks something else, by the nearest kind.
    let common: Vec<&Lack> = lacking
        .iter()
        .filter(|lack| types.iter().all(|(_, lacks)| lacks.contains(lack)))
        .collect();
    if common.is_empty() {
        let what: Vec<&str> = lacking.iter().map(|(_, what)| what.as_str()).collect();
        let message = format!(
            "no kind of node of {} has all that the job asks for at once: the nearest, {}, has no {}",
            place.shown(),
            described(nearest),
            what.join(" and no ")
        );
        return vec![Misfit::new(lacking[0].0, message)];
    }
    let of_lack = |(key, what): &Lack| {
        let of = place.shown();
        let has = |node: &&NodeType| match *key {
            "gpus_per_node" => gpus_of(node, wanted.gpus().and_then(|(kind, _)| kind)),
            key if key == wanted.memory_key() => node.memory.map_or(0, |memory| memory.0),
            _ => u64::from(node.cpus.unwrap_or(0)),
        };
        let nearest = match *key {
            "constraint" => nearest,
            _ => place.nodes(model).max_by_key(has).unwrap_or(nearest),
        };
        let message = format!(
            "no node of {of} has {what}; the nearest has {}",
            described(nearest)
        );
        let misfit = Misfit::new(key, message);
        match *key {
            "constraint" => {
                let features = features_of(place.nodes(model));
                misfit.hinted(match features.is_empty() {
                    true => "they have no features".to_owned(),
                    false => format!("there are {}", shown_names(features)),
                })
            }
            "gpus_per_node" => misfit.hinted(gpus_of_site(model)),
            _ => misfit,
        }
    };
    common.into_iter().map(of_lack).collect()
}

/// `there are h100 (8 a node) in `gpu``
fn gpus_of_site(model: &SiteModel) -> String {
    let mut kinds = BTreeSet::new();
    for node in &model.nodes {
        let queues = match &node.queues[..] {
            [] => String::new(),
            queues => format!(" in {}", shown_names(queues.iter().map(String::as_str))),
        };
        kinds.extend(node.gpus.iter().map(|(kind, count)| {
            let kind = if kind.is_empty() { "GPUs" } else { kind };
            format!("{kind} ({count} a node){queues}")
        }));
    }
    match kinds.is_empty() {
        true => "the site has no GPUs".to_owned(),
        false => format!("there are {}", shown_list(kinds.into_iter().collect())),
    }
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
    let of = place.shown();
    let has = if fitting == all {
        format!("{of} has {all}")
    } else {
        format!("only {fitting} of the {all} of {of} have what the job asks for")
    };
    Some(Misfit::new(
        "nodes",
        format!("{} nodes are asked for; {has}", wanted.nodes),
    ))
}

/// The features of nodes, each once, in the order of the alphabet.
pub(super) fn features_of<'a>(nodes: impl Iterator<Item = &'a NodeType>) -> BTreeSet<&'a str> {
    nodes
        .flat_map(|node| &node.features)
        .map(String::as_str)
        .collect()
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

/// Names for people, each in backquotes.
pub(super) fn shown_names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names = names.into_iter().map(|name| format!("`{name}`"));
    shown_list(names.collect())
}

/// A list for people, cut off where it gets long.
pub(crate) fn shown_list(items: Vec<String>) -> String {
    const SHOWN: usize = 12;
    let more = items.len().saturating_sub(SHOWN);
    let mut text = items.into_iter().take(SHOWN).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}
