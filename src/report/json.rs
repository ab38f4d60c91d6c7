//! The report for programs: all numbers, with units in their names.

use serde_json::{Map, Value, json};

use super::compare::Basis;
use super::scaling::{Kind, Scaling};
use super::timeline::{Curve, Timeline};
use super::{Findings, Run, facts};
use crate::foundation::statistics::Ratio;

/// The whole report.
pub(super) fn value(findings: &Findings<'_>) -> Value {
    let report = findings.report;
    json!({
        "written_at_ms": report.written_at_ms,
        "remarks": report.remarks,
        "runs": report.runs.iter().map(run).collect::<Vec<_>>(),
        "comparison": comparison(findings),
        "scaling": findings.scaling.as_ref().map(|scaling| self::scaling(findings, scaling)),
    })
}

fn run(run: &Run) -> Value {
    let notes: Vec<Value> = run
        .notes
        .iter()
        .map(|note| json!({ "what": note.what, "why": note.why }))
        .collect();
    let nodes: Vec<Value> = run
        .nodes
        .iter()
        .map(|node| json!({ "record": node.record, "series": node.timeline.as_ref().map(series) }))
        .collect();
    json!({
        "run": run.record,
        "element": run.element,
        "status": run.status,
        "is_going_on": run.is_going_on(),
        "wall_seconds": facts::wall_seconds(run),
        "request": run.request,
        "insight": run.insight,
        "nodes": nodes,
        "unreadable": notes,
    })
}

/// Curves: of each point the least, the value and the most.
fn series(timeline: &Timeline) -> Value {
    let of = |curves: &[Curve]| {
        let each = |curve: &Curve| {
            let values = json!({
                "low": rounded(&curve.low), "value": rounded(&curve.value), "high": rounded(&curve.high),
                "mean": curve.mean,
            });
            (curve.name.to_owned(), values)
        };
        Value::Object(curves.iter().map(each).collect::<Map<_, _>>())
    };
    let gpus: Map<String, Value> = timeline
        .gpus
        .iter()
        .map(|(uuid, curves)| (uuid.clone(), of(curves)))
        .collect();
    json!({
        "begin_ms": timeline.begin_ms,
        "interval_ms": timeline.interval_ms,
        "points": timeline.points,
        "samples": timeline.samples,
        "columns": of(&timeline.run),
        "gpus": gpus,
    })
}

/// Values with as many digits as a drawing needs.
fn rounded(values: &[Option<f64>]) -> Vec<Value> {
    let each = |value: &Option<f64>| match value {
        Some(value) if value.abs() >= 1e4 => json!(value.round()),
        Some(value) => json!((value * 1e4).round() / 1e4),
        None => Value::Null,
    };
    values.iter().map(each).collect()
}

fn comparison(findings: &Findings<'_>) -> Value {
    let Some(first) = findings
        .report
        .runs
        .first()
        .filter(|_| findings.report.runs.len() > 1)
    else {
        return Value::Null;
    };
    let rows = findings.report.runs.iter().zip(&findings.rows);
    let row = |(run, row): (&Run, &super::Row)| {
        let bounds = row.spread.and_then(|spread| spread.bounds());
        json!({
            "run_id": run.record.run_id,
            "element": run.element,
            "epochs": row.spread.map_or(0, |spread| spread.n),
            "epoch_mean_seconds": row.spread.map(|spread| spread.mean),
            "epoch_mean_low_seconds": bounds.map(|bounds| bounds.0),
            "epoch_mean_high_seconds": bounds.map(|bounds| bounds.1),
            "compared_by": match row.basis {
                Basis::Epochs => "epochs",
                Basis::Steps => "steps",
                Basis::Nothing => "nothing",
            },
            "time_ratio": row.time_ratio.map(ratio),
            "rate_ratio": row.rate_ratio.map(ratio),
            "p_adjusted": row.p,
        })
    };
    let unlike: Vec<Value> = findings
        .unlike
        .iter()
        .map(|unlike| {
            let values: Vec<Value> = unlike
                .values
                .iter()
                .map(|(value, places)| {
                    let runs: Vec<&Run> = places.iter().map(|place| &findings.report.runs[*place]).collect();
                    json!({ "value": value, "runs": runs.iter().map(|run| &run.record.run_id).collect::<Vec<_>>() })
                })
                .collect();
            json!({ "what": unlike.what, "values": values })
        })
        .collect();
    json!({
        "against": first.record.run_id,
        "confidence": crate::foundation::statistics::CONFIDENCE,
        "runs": rows.map(row).collect::<Vec<_>>(),
        "unlike": unlike,
    })
}

fn ratio(ratio: Ratio) -> Value {
    json!({
        "ratio": ratio.ratio,
        "low": ratio.bounds.map(|bounds| bounds.0),
        "high": ratio.bounds.map(|bounds| bounds.1),
    })
}

fn scaling(findings: &Findings<'_>, scaling: &Scaling) -> Value {
    let points: Vec<Value> = scaling
        .points
        .iter()
        .map(|point| {
            json!({
                "run_id": findings.report.runs[point.run].record.run_id,
                "workers": point.workers,
                "epoch_mean_seconds": point.seconds,
                "speed_up": ratio(point.speed_up),
                "efficiency_ratio": point.efficiency,
                "serial_fraction": point.serial_fraction,
            })
        })
        .collect();
    json!({
        "workers": scaling.workers.as_str(),
        "kind": match scaling.kind {
            Kind::Strong => "strong",
            Kind::Weak => "weak",
            Kind::Unknown => "unknown",
        },
        "baseline": findings.report.runs[scaling.baseline].record.run_id,
        "by": if scaling.is_by_epochs { "epoch_seconds" } else { "samples_per_second" },
        "points": points,
    })
}
