//! Which files hold the output of a run: the job's, the nodes' own, those of the elements of an array.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::app::error::{Error, failure};
use crate::app::track::{Tracked, output_path};
use crate::job::{ArraySpec, JobState};
use crate::record::rundir::RunDir;
use crate::record::{NodeRecord, RankRecord};

/// A file of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutputFile {
    /// The element whose it is.
    pub(crate) element: Option<u32>,
    /// The node whose own it is; `None`: the job's.
    pub(crate) node: Option<String>,
    pub(crate) path: PathBuf,
}

impl OutputFile {
    /// The heading above it: `job`, `n1`, `element 3`, `element 3, n1`.
    pub(crate) fn head(&self) -> String {
        match (self.element, &self.node) {
            (None, None) => "job".to_owned(),
            (None, Some(node)) => node.clone(),
            (Some(element), None) => format!("element {element}"),
            (Some(element), Some(node)) => format!("element {element}, {node}"),
        }
    }

    /// The prefix of each of its lines where several files are followed.
    pub(crate) fn prefix(&self) -> String {
        match (self.element, &self.node) {
            (Some(element), None) => format!("[{element}] "),
            (Some(element), Some(node)) => format!("[{element}] {node}: "),
            _ => format!("{}: ", self.head()),
        }
    }
}

/// Which of them are wanted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted<'a> {
    pub(crate) node: Option<&'a str>,
    /// The rank of a distributed training.
    pub(crate) rank: Option<u32>,
    pub(crate) elements: Option<&'a ArraySpec>,
}

/// The job's output file first, then the nodes' own where they have any; of an array those of the elements that began.
pub(crate) fn outputs(
    run: &RunDir,
    tracked: &Tracked,
    wanted: Wanted<'_>,
) -> Result<Vec<OutputFile>, Error> {
    let record = &tracked.record;
    if let Some(elements) = wanted.elements {
        tracked.expect_elements(elements)?;
    }
    if record.array.is_none() {
        let nodes = &tracked.reading.outcome.nodes;
        return of_nodes(
            None,
            record.output.clone().map(PathBuf::from),
            nodes,
            wanted,
        );
    }
    let mut files = Vec::new();
    for element in &tracked.elements {
        let index = element.element;
        let is_wanted = wanted.elements.is_none_or(|some| some.contains(index));
        let began = element.attempt.is_some() || element.status.state != JobState::Pending;
        if !is_wanted || !(began || wanted.elements.is_some()) {
            continue;
        }
        let path = output_path(record, Some(index));
        // The nodes' records are many files: they are read where the job's own output is not all.
        let is_all = record.nodes == 1
            && wanted.node.or(wanted.rank.map(|_| "")).is_none()
            && path.as_ref().is_some_and(|path| path.exists());
        let reading = if is_all {
            None
        } else {
            run.newest_outcome(index).ok()
        };
        let nodes = reading
            .map(|reading| reading.outcome.nodes)
            .unwrap_or_default();
        files.extend(of_nodes(Some(index), path, &nodes, wanted).unwrap_or_default());
    }
    match wanted.node.filter(|_| files.is_empty()) {
        Some(node) => Err(failure!(
            Missing,
            "no element has output of a node `{node}`"
        )),
        None => Ok(files),
    }
}

fn of_nodes(
    element: Option<u32>,
    output: Option<PathBuf>,
    nodes: &[NodeRecord],
    wanted: Wanted<'_>,
) -> Result<Vec<OutputFile>, Error> {
    let node = wanted.node;
    if let Some(rank) = wanted.rank {
        return of_rank(element, output, nodes, rank);
    }
    let mut files: Vec<OutputFile> = Vec::new();
    // `jobs/../out` is `out`, where no link lies between.
    let resolved = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut known = HashSet::new();
    if node.is_none() {
        known.extend(output.as_deref().map(resolved));
        files.extend(output.map(|path| OutputFile {
            element,
            node: None,
            path,
        }));
    }
    for record in nodes
        .iter()
        .filter(|record| node.map_or(record.ranks.is_empty(), |node| record.key.node == node))
    {
        let Some(path) = record.output.as_ref().map(PathBuf::from) else {
            continue;
        };
        if known.insert(resolved(&path)) {
            files.push(OutputFile {
                element,
                node: Some(record.key.node.clone()),
                path,
            });
        }
    }
    if let Some(node) = node.filter(|_| files.is_empty()) {
        let known: Vec<&str> = nodes
            .iter()
            .map(|record| record.key.node.as_str())
            .collect();
        return Err(
            failure!(Missing, "the run has no output of a node `{node}`")
                .hinted(format!("nodes with output so far: {}", known.join(", "))),
        );
    }
    Ok(files)
}

/// The file of one rank; rank 0 writes to the job's.
fn of_rank(
    element: Option<u32>,
    output: Option<PathBuf>,
    nodes: &[NodeRecord],
    rank: u32,
) -> Result<Vec<OutputFile>, Error> {
    let ranks = nodes
        .iter()
        .flat_map(|node| node.ranks.iter().map(move |rank| (node, rank)));
    // An agent's file has the output of the ranks that it starts: its own number and those up to the next agent's.
    let has_it = |known: &RankRecord| {
        known.rank == rank
            || known.role.as_deref() == Some("agent")
                && (known.rank..known.world_size).contains(&rank)
    };
    let found = ranks.filter(|(_, known)| has_it(known));
    let Some((node, found)) = found.max_by_key(|(_, known)| known.rank) else {
        return Err(
            failure!(Missing, "the run has no output of a rank {rank}").hinted(
                "`dlrun show` says how many ranks it has; `dlrun logs` without --rank shows rank 0",
            ),
        );
    };
    let own = found
        .output
        .as_ref()
        .or(node.output.as_ref())
        .map(PathBuf::from);
    let path = own.or(output.filter(|_| rank == 0));
    let node = Some(node.key.node.clone());
    Ok(path
        .map(|path| OutputFile {
            element,
            node,
            path,
        })
        .into_iter()
        .collect())
}
