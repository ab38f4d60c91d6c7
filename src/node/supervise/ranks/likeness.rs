//! What should be the same on all nodes of a training: its image, its framework, the number of GPUs, the time of day.
//!
//! A difference is said before the ranks start, and ends nothing: the training may be made for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::foundation::command::{find, is_python};
use crate::image::runtime::inspect;
use crate::observe::monitor::packages_of;
use crate::plan::Plan;

/// How long the directories may take that are read for it; they may lie on a network that hangs.
const PATIENCE: Duration = Duration::from_secs(2);
/// Clocks that differ by less are as good as equal, in milliseconds.
const SKEW_MAX: i64 = 1000;

/// What one node has. What is not known there is not compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Likeness {
    /// `the image` or the name of a package, with what tells two of them apart: a version, the UUID of a SIF file.
    pub(super) versions: BTreeMap<String, String>,
    /// GPUs that the job sees; `None`: nothing says so.
    pub(super) gpus: Option<usize>,
}

impl Likeness {
    /// Looks at this node: at the image by its header, at the framework by what is installed beside the interpreter. Nothing is
    /// started.
    pub(super) fn of_node(plan: Option<&Plan>, gpus: usize) -> Self {
        let (sender, found) = channel();
        let (image, python) = plan.map(sources).unwrap_or_default();
        let look = move || sender.send(versions(image.as_deref(), python.as_deref()));
        // Without a thread nothing is compared.
        drop(thread::Builder::new().spawn(look));
        let versions = found.recv_timeout(PATIENCE).unwrap_or_default();
        let gpus = Some(gpus).filter(|gpus| *gpus > 0);
        Self { versions, gpus }
    }
}

/// The image, or the interpreter of a program that runs without one.
fn sources(plan: &Plan) -> (Option<PathBuf>, Option<PathBuf>) {
    if let Some(image) = &plan.image {
        let path = Some(PathBuf::from(&image.source));
        return (path.filter(|path| path.is_absolute()), None);
    }
    let python = plan.command.first().filter(|program| is_python(program));
    (None, python.and_then(|python| find(python, &[])))
}

fn versions(image: Option<&Path>, python: Option<&Path>) -> BTreeMap<String, String> {
    let file = image.and_then(|image| inspect(image).ok());
    let uuid = file.and_then(|file| file.uuid);
    let image = uuid.map(|uuid| ("the image".to_owned(), uuid));
    let packages = python.map(packages_of).unwrap_or_default().into_iter();
    let packages = packages.map(|package| (package.name, package.version));
    packages.chain(image).collect()
}

/// The differences between nodes, a sentence each; `nodes`: name, what it has, and by how much its clock is ahead, in milliseconds.
pub(super) fn differences(nodes: &[(&str, &Likeness, i64)]) -> Vec<String> {
    let keys: BTreeSet<&String> = nodes
        .iter()
        .flat_map(|node| node.1.versions.keys())
        .collect();
    let of_versions = keys.into_iter().filter_map(|key| {
        let found = by_value(nodes, |likeness| likeness.versions.get(key).cloned())?;
        Some(format!(
            "{key} is not the same on all nodes: {found}; the ranks may not work together"
        ))
    });
    let gpus = by_value(nodes, |likeness| likeness.gpus.map(|gpus| gpus.to_string()));
    let gpus = gpus.map(|found| format!("the nodes have different numbers of GPUs: {found}"));
    let ahead = |node: &&(&str, &Likeness, i64)| node.2.abs() > SKEW_MAX;
    let clocks = nodes.iter().filter(ahead).map(|(name, _, skew)| {
        let (seconds, side) = (skew.abs() / 1000, if *skew > 0 { "ahead of" } else { "behind" });
        format!("the clock of {name} is {seconds} s {side} that of the first node; times of its ranks are wrong by as much")
    });
    of_versions.chain(gpus).chain(clocks).collect()
}

/// `2.5.1 on n1 and 3 others, 2.3.0 on n4`, where there is more than one value.
fn by_value(
    nodes: &[(&str, &Likeness, i64)],
    value: impl Fn(&Likeness) -> Option<String>,
) -> Option<String> {
    let mut by_value: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, likeness, _) in nodes {
        let Some(value) = value(likeness) else {
            continue;
        };
        match by_value.iter_mut().find(|(known, _)| *known == value) {
            Some((_, names)) => names.push(name),
            None => by_value.push((value, vec![name])),
        }
    }
    let shown = by_value.iter().map(|(value, names)| match &names[..] {
        [one] => format!("{value} on {one}"),
        [first, others @ ..] => format!("{value} on {first} and {} more", others.len()),
        [] => value.clone(),
    });
    (by_value.len() > 1).then(|| shown.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(torch: Option<&str>, gpus: Option<usize>) -> Likeness {
        let versions = torch.map(|version| ("torch".to_owned(), version.to_owned()));
        Likeness {
            versions: versions.into_iter().collect(),
            gpus,
        }
    }

    fn said(nodes: &[(&str, Likeness, i64)]) -> Vec<String> {
        let nodes = nodes
            .iter()
            .map(|(name, likeness, skew)| (*name, likeness, *skew));
        differences(&nodes.collect::<Vec<_>>())
    }

    #[test]
    fn nodes_that_are_alike_or_unknown_give_no_difference() {
        let nodes = [
            ("n1", node(Some("2.5.1"), Some(4)), 0),
            ("n2", node(Some("2.5.1"), None), -900),
            ("n3", node(None, Some(4)), 900),
        ];
        assert_eq!(said(&nodes), Vec::<String>::new());
    }

    #[test]
    fn every_difference_is_said_with_its_nodes() {
        let nodes = [
            ("n1", node(Some("2.5.1"), Some(4)), 0),
            ("n2", node(Some("2.5.1"), Some(4)), 0),
            ("n3", node(Some("2.3.0"), Some(3)), -61_000),
        ];
        assert_eq!(
            said(&nodes),
            [
                "torch is not the same on all nodes: 2.5.1 on n1 and 1 more, 2.3.0 on n3; the ranks may not work together",
                "the nodes have different numbers of GPUs: 4 on n1 and 1 more, 3 on n3",
                "the clock of n3 is 61 s behind that of the first node; times of its ranks are wrong by as much",
            ]
        );
    }

    #[test]
    fn program_without_python_has_no_packages() {
        let plan = Plan {
            command: vec!["/bin/true".into()],
            ..Plan::default()
        };
        assert_eq!(Likeness::of_node(Some(&plan), 0), Likeness::default());
    }
}
