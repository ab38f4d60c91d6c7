//! Reports that people look at: one run, or several side by side, as one HTML file or as JSON. Pure: what was
//! read goes in, text comes out.
//!
//! Figures come from [`crate::report::insight`]; what is computed here is how sure a difference between runs is (`compare`)
//! and how a training scales (`scaling`). Drawings are SVG by hand: the page has no script, asks no network for anything and
//! is readable without its style.

mod bench;
mod chart;
mod compare;
mod facts;
mod html;
pub mod insight;
mod json;
mod number;
mod scaling;
pub(crate) mod series;
mod timeline;
mod unlike;

pub use bench::{
    Asked, AxisFigures, CellFigures, Comparison, Effect, Environment, Failure, Figures, Kind,
    Result, Rows,
};
pub use html::sweep_page;
pub use json::ReportAnswer;
pub use scaling::{
    Gain as ScalingGain, Kind as ScalingKind, Law as ScalingLaw, Point as ScalingPoint,
    Sample as ScalingSample, Series as ScalingSeries, Study as ScalingStudy,
    Target as ScalingTarget, Validity as ScalingValidity, read_published,
};
pub use timeline::{Curve, Curves, Timeline, Unit};

use serde::Serialize;

use crate::foundation::statistics::Spread;
use crate::job::JobState;
use crate::record::{
    AllStarts, AttemptSeen, Missing, NodeRecord, PhaseSpan, Progress, RunRecord, Status,
};
use crate::report::insight::{EpochTimes, Insight, Request, Timing};
use compare::Row;
use scaling::Scaling;
use unlike::Unlike;

/// Points of a curve at most: one for each pixel or two of a wide screen.
const MOST_POINTS: usize = 600;
/// Points of a curve at least, however many curves there are.
const LEAST_POINTS: usize = 100;
/// Points of all curves of a report together; one takes about 20 bytes of the page.
const POINTS_OF_ALL: usize = 40_000;

/// Nodes of a run whose curves are drawn.
pub const NODES_DRAWN: usize = 4;

/// How many points each curve may have in a report of so many curves.
#[must_use]
pub fn points_of_each(curves: usize) -> usize {
    (POINTS_OF_ALL / curves.max(1)).clamp(LEAST_POINTS, MOST_POINTS)
}

/// One node of a run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Node {
    /// Its record.
    pub record: NodeRecord,
    /// Its samples over time; `None` where there are none, or where they were not read since the run has many nodes.
    #[serde(rename = "series")]
    pub timeline: Option<Timeline>,
    /// What it did when, as far as its samples were read.
    pub phases: Vec<PhaseSpan>,
}

/// One run, or one element of an array.
#[derive(Debug, Clone)]
pub struct Run {
    /// The shortest beginning of its id that means no other run.
    pub prefix: String,
    /// Which element of its array.
    pub element: Option<u32>,
    /// Who submitted what.
    pub record: RunRecord,
    /// Its status.
    pub status: Status,
    /// What was asked for; `None` where no plan is kept.
    pub request: Option<Request>,
    /// What its measurements mean.
    pub insight: Insight,
    /// Its nodes, by name.
    pub nodes: Vec<Node>,
    /// Its starts.
    pub attempts: Vec<AttemptSeen>,
    /// All of them as one, where it continued.
    pub all_starts: Option<AllStarts>,
    /// What lay in its directory but could not be read, and why.
    pub notes: Vec<Missing>,
}

impl Run {
    /// Its name, with the element of the array.
    fn name(&self) -> String {
        self.element.map_or_else(
            || self.record.name.clone(),
            |element| format!("{}[{element}]", self.record.name),
        )
    }

    /// The shortest word that names it on a command line.
    fn id(&self) -> String {
        self.element.map_or_else(
            || self.prefix.clone(),
            |element| format!("{}[{element}]", self.prefix),
        )
    }

    fn timing(&self) -> Option<&Timing> {
        self.insight.timing.as_ref()
    }

    fn epoch_times(&self) -> Option<&EpochTimes> {
        self.timing()?.epochs.as_ref()
    }

    /// Its steady epochs in few figures.
    fn spread(&self) -> Option<Spread> {
        self.epoch_times().map(compare::spread)
    }

    /// What the node recognised whose epochs stand for the run.
    fn progress(&self) -> Option<&Progress> {
        let node = &self.timing()?.node;
        let mut nodes = self.nodes.iter().map(|node| &node.record);
        nodes
            .find(|record| record.key.node == *node)
            .map(|record| &record.progress)
    }

    fn nodes_used(&self) -> u64 {
        u64::from(self.record.nodes).max(self.nodes.len() as u64)
    }

    /// GPUs of all nodes: as recorded; where nodes have no record, as asked for.
    fn gpus_used(&self) -> u64 {
        let nodes = self.nodes.iter();
        let recorded = nodes.map(|node| node.record.gpus.len() as u64).sum();
        let identity = self.record.identity.as_ref();
        let asked = identity.and_then(|identity| identity.asked.gpus);
        match asked {
            Some(asked) if self.lacks_nodes() => asked,
            _ => recorded,
        }
    }

    /// Whether some of its nodes have no record.
    fn lacks_nodes(&self) -> bool {
        self.nodes.len() < self.record.nodes as usize
    }

    fn is_going_on(&self) -> bool {
        !self.status.state.is_final() && self.status.state != JobState::Unknown
    }
}

/// What a report is made of.
#[derive(Debug, Clone)]
pub struct Report {
    /// The runs, in the order in which they were named; the rest is compared with the first.
    pub runs: Vec<Run>,
    /// When it is written, in Unix milliseconds UTC.
    pub written_at_ms: u64,
    /// What the reader must know of it as a whole.
    pub remarks: Vec<String>,
}

/// A report with what follows from its runs together.
struct Findings<'a> {
    report: &'a Report,
    rows: Vec<Row>,
    scaling: Option<Scaling>,
    unlike: Vec<Unlike>,
}

impl Report {
    fn findings(&self) -> Findings<'_> {
        let rows = compare::compare(&self.runs);
        let scaling = scaling::scaling(&self.runs, &rows);
        Findings {
            report: self,
            rows,
            scaling,
            unlike: unlike::unlike(&self.runs),
        }
    }

    /// What it is called: the name of its run, or how many it compares.
    fn title(&self) -> String {
        match &self.runs[..] {
            [run] => run.name(),
            runs => format!("Comparison of {} runs", runs.len()),
        }
    }

    /// One file of HTML, with all that it shows in it.
    #[must_use]
    pub fn to_html(&self) -> String {
        html::page(&self.findings())
    }

    /// All numbers, with units in their names.
    #[must_use]
    pub fn to_json(&self) -> ReportAnswer<'_> {
        ReportAnswer::new(self.findings())
    }
}

#[cfg(test)]
mod tests;
