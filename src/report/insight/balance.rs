//! Several nodes compared with each other.

use serde::Serialize;

use super::threshold::IMBALANCE;
use super::used::{NodeUsed, Used};
use super::{RunView, median};
use crate::record::NodeRecord;

/// One figure of all nodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Balance {
    /// `epoch_median_seconds`, `gpu_busy_percent` or `cpus_busy`.
    pub what: &'static str,
    /// The node with the least of it.
    pub least_node: String,
    /// Its figure.
    pub least: f64,
    /// The node with the most of it.
    pub most_node: String,
    /// Its figure.
    pub most: f64,
    /// The median of all nodes of which it is known.
    pub median: f64,
    /// Nodes of which it is known.
    pub nodes: usize,
    /// True where they differ by more than steady workers do.
    pub is_uneven: bool,
}

impl Balance {
    /// In a sentence.
    pub(super) fn text(&self) -> String {
        let (least, most) = (&self.least_node, &self.most_node);
        match self.what {
            "epoch_median_seconds" => format!(
                "the epochs of {most} take {:.1} s, those of {least} {:.1} s: is {most} slower, or has it more to do?",
                self.most, self.least
            ),
            "gpu_busy_percent" => format!(
                "the GPUs of {least} are busy {:.0}% of the time, those of {most} {:.0}%: {least} may wait for {most}",
                self.least, self.most
            ),
            _ => format!(
                "{:.1} CPUs are busy on {least}, {:.1} on {most}: is the work shared as it should be?",
                self.least, self.most
            ),
        }
    }
}

/// How even the nodes are; empty with one node.
pub(super) fn balance_of_nodes(view: &RunView<'_>, used: &Used) -> Vec<Balance> {
    let epoch = |node: &NodeRecord| {
        // As many as there are of each: a restart's warm-up is in all of them.
        median(
            node.progress
                .epochs
                .iter()
                .skip(1)
                .filter_map(crate::record::Epoch::seconds)
                .collect(),
        )
    };
    let epochs = view
        .nodes
        .iter()
        .map(|node| (node.record.key.node.as_str(), epoch(node.record)));
    let named = |of: fn(&NodeUsed) -> Option<f64>| {
        used.nodes
            .iter()
            .map(move |node| (node.node.as_str(), of(node)))
            .collect::<Vec<_>>()
    };
    let found = [
        balance("epoch_median_seconds", epochs.collect(), |least, most| {
            most / least - 1.0
        }),
        balance(
            "gpu_busy_percent",
            named(NodeUsed::gpu_busy_training),
            |least, most| (most - least) / 100.0,
        ),
        balance(
            "cpus_busy",
            named(|node| node.cpus_busy_mean),
            |least, most| {
                // Fractions of a CPU are nothing.
                if most < 1.0 {
                    0.0
                } else {
                    most / least.max(0.1) - 1.0
                }
            },
        ),
    ];
    found.into_iter().flatten().collect()
}

fn balance(
    what: &'static str,
    values: Vec<(&str, Option<f64>)>,
    apart: impl Fn(f64, f64) -> f64,
) -> Option<Balance> {
    let mut known: Vec<(&str, f64)> = values
        .into_iter()
        .filter_map(|(node, value)| Some((node, value?)))
        .collect();
    known.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (least, most) = (*known.first()?, *known.last()?);
    let sorted: Vec<f64> = known.iter().map(|(_, value)| *value).collect();
    (known.len() > 1).then(|| Balance {
        what,
        least_node: least.0.to_owned(),
        least: least.1,
        most_node: most.0.to_owned(),
        most: most.1,
        median: median(sorted).unwrap_or(least.1),
        nodes: known.len(),
        is_uneven: apart(least.1, most.1) * 100.0 > IMBALANCE,
    })
}
