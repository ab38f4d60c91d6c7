//! The report for programs: all numbers, with units in their names.

use serde::Serialize;

use super::insight::{Insight, Request};
use super::scaling::{Kind, Scaling};
use super::{Findings, Node, Run, facts};
use crate::foundation::statistics::{CONFIDENCE, Ratio};
use crate::job::RunId;
use crate::record::{AllStarts, AttemptSeen, FollowedScore, Missing, RunRecord, Status};

/// The whole report.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReportAnswer<'a> {
    written_at_ms: u64,
    remarks: &'a [String],
    runs: Vec<ReportedRun<'a>>,
    comparison: Option<ComparedRuns<'a>>,
    scaling: Option<ScalingAnswer<'a>>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReportedRun<'a> {
    run: &'a RunRecord,
    element: Option<u32>,
    status: &'a Status,
    is_going_on: bool,
    wall_seconds: Option<f64>,
    request: Option<&'a Request>,
    insight: &'a Insight,
    /// What came of the advice that it follows (`run.identity.followed`).
    #[serde(skip_serializing_if = "Option::is_none")]
    followed_score: Option<FollowedScore>,
    nodes: &'a [Node],
    attempts: &'a [AttemptSeen],
    #[serde(skip_serializing_if = "Option::is_none")]
    all_starts: Option<AllStarts>,
    unreadable: &'a [Missing],
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ComparedRuns<'a> {
    /// The run that the rest is compared with.
    against: &'a RunId,
    confidence: f64,
    runs: Vec<ComparedRun<'a>>,
    unlike: Vec<UnlikeAnswer<'a>>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ComparedRun<'a> {
    run_id: &'a RunId,
    element: Option<u32>,
    epochs: usize,
    epoch_mean_seconds: Option<f64>,
    epoch_mean_low_seconds: Option<f64>,
    epoch_mean_high_seconds: Option<f64>,
    compared_by: &'static str,
    time_ratio: Option<RatioAnswer>,
    rate_ratio: Option<RatioAnswer>,
    p_adjusted: Option<f64>,
}

/// What differs between runs, with the runs of each value.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UnlikeAnswer<'a> {
    what: String,
    values: Vec<UnlikeValue<'a>>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UnlikeValue<'a> {
    value: String,
    runs: Vec<&'a RunId>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RatioAnswer {
    ratio: f64,
    low: Option<f64>,
    high: Option<f64>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ScalingAnswer<'a> {
    workers: &'static str,
    kind: Kind,
    baseline: &'a RunId,
    by: &'static str,
    points: Vec<ScalingPoint<'a>>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ScalingPoint<'a> {
    run_id: &'a RunId,
    workers: u64,
    epoch_mean_seconds: f64,
    speed_up: RatioAnswer,
    /// None of what is no scaling measurement, or has none for its baseline.
    efficiency_ratio: Option<f64>,
    serial_fraction: Option<f64>,
    /// Why it is none; empty: it is one.
    not_a_scaling_measurement: Vec<String>,
}

impl<'a> ReportAnswer<'a> {
    /// The report as it is printed.
    pub(super) fn new(findings: Findings<'a>) -> Self {
        let report = findings.report;
        let scaling = findings.scaling.as_ref();
        let scaling = scaling.map(|scaling| ScalingAnswer::new(&report.runs, scaling));
        Self {
            written_at_ms: report.written_at_ms,
            remarks: &report.remarks,
            runs: report.runs.iter().map(ReportedRun::new).collect(),
            scaling,
            comparison: comparison(findings),
        }
    }
}

impl<'a> ReportedRun<'a> {
    fn new(run: &'a Run) -> Self {
        Self {
            run: &run.record,
            element: run.element,
            status: &run.status,
            is_going_on: run.is_going_on(),
            wall_seconds: facts::wall_seconds(run),
            request: run.request.as_ref(),
            insight: &run.insight,
            followed_score: facts::followed(run).and_then(|(_, score)| score),
            nodes: &run.nodes,
            attempts: &run.attempts,
            all_starts: run.all_starts,
            unreadable: &run.notes,
        }
    }
}

fn comparison<'a>(findings: Findings<'a>) -> Option<ComparedRuns<'a>> {
    let Findings {
        report,
        rows,
        unlike,
        ..
    } = findings;
    let runs = &report.runs;
    let first = runs.first().filter(|_| runs.len() > 1)?;
    let compared = runs.iter().zip(rows).map(|(run, row)| {
        let bounds = row.spread.and_then(|spread| spread.bounds());
        ComparedRun {
            run_id: &run.record.run_id,
            element: run.element,
            epochs: row.spread.map_or(0, |spread| spread.n),
            epoch_mean_seconds: row.spread.map(|spread| spread.mean),
            epoch_mean_low_seconds: bounds.map(|bounds| bounds.0),
            epoch_mean_high_seconds: bounds.map(|bounds| bounds.1),
            compared_by: row.spread.map_or("nothing", |_| "epochs"),
            time_ratio: row.time_ratio.map(RatioAnswer::from),
            rate_ratio: row.rate_ratio.map(RatioAnswer::from),
            p_adjusted: row.p,
        }
    });
    let unlike = unlike.into_iter().map(|unlike| {
        let values = unlike
            .values
            .into_iter()
            .map(|(value, places)| UnlikeValue {
                value,
                runs: places.iter().map(|at| &runs[*at].record.run_id).collect(),
            });
        UnlikeAnswer {
            what: unlike.what,
            values: values.collect(),
        }
    });
    Some(ComparedRuns {
        against: &first.record.run_id,
        confidence: CONFIDENCE,
        runs: compared.collect(),
        unlike: unlike.collect(),
    })
}

impl From<Ratio> for RatioAnswer {
    fn from(ratio: Ratio) -> Self {
        Self {
            ratio: ratio.ratio,
            low: ratio.bounds.map(|bounds| bounds.0),
            high: ratio.bounds.map(|bounds| bounds.1),
        }
    }
}

impl<'a> ScalingAnswer<'a> {
    fn new(runs: &'a [Run], scaling: &Scaling) -> Self {
        let points = scaling.points.iter().map(|point| ScalingPoint {
            run_id: &runs[point.run].record.run_id,
            workers: point.workers,
            epoch_mean_seconds: point.seconds,
            speed_up: point.speed_up.into(),
            efficiency_ratio: point.efficiency,
            serial_fraction: point.serial_fraction,
            not_a_scaling_measurement: point.doubts.clone(),
        });
        let by = match scaling.is_by_epochs {
            true => "epoch_seconds",
            false => "samples_per_second",
        };
        Self {
            workers: scaling.workers,
            kind: scaling.kind,
            baseline: &runs[scaling.baseline].record.run_id,
            by,
            points: points.collect(),
        }
    }
}
