//! Forecasts of the performance model in words, and beside what came.

use super::track::Tracked;
use crate::job::RunId;
use crate::model::{Came, Ending, Foretold, NodeMeasure, Situation, Start, Submitted};
use crate::record::{Basis, Forecast, Interval, RunRecord, Sentinel};
use crate::units::{Bytes, display_seconds};

/// `3.10 s (2.80 s to 3.50 s)`.
pub(crate) fn seconds(interval: &Interval) -> String {
    let Interval { median, low, high, .. } = interval;
    format!("{} ({} to {})", signed(*median), signed(*low), signed(*high))
}

/// A first epoch may be shorter than a steady one.
fn signed(seconds: f64) -> String {
    if seconds < 0.0 { format!("-{}", display_seconds(-seconds)) } else { display_seconds(seconds) }
}

/// `1.5GiB (1.2GiB to 1.9GiB)`.
pub(crate) fn memory(interval: &Interval) -> String {
    format!("{} ({} to {})", size(interval.median), size(interval.low), size(interval.high))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturating; no memory is as large"
)]
fn size(bytes: f64) -> Bytes {
    let mebibytes = (bytes.max(0.0) / f64::from(1 << 20)).round() as u64;
    Bytes(mebibytes.saturating_mul(1 << 20))
}

/// `1 run`, `12 runs`.
pub(crate) fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// What a forecast rests on.
pub(crate) fn basis(forecast: &Forecast) -> String {
    let of = match forecast.basis {
        Basis::Alike => "of this workload with this software on this hardware",
        Basis::Workload => "of this workload, with other software or on other hardware",
        Basis::Software => "of other workloads with this software",
        Basis::Priors => return "published effects, and runs that have little in common with it".to_owned(),
    };
    let doubts = forecast.doubt_words().map_or_else(String::new, |words| format!(", {words}"));
    format!("{} {of}{doubts}", count(forecast.runs, "run"))
}

/// The forecast of a run that is over, beside what came; `None` where there was none, or nothing was measured.
pub(crate) fn held(tracked: &Tracked) -> Option<Foretold> {
    let forecast = tracked.record.forecast.as_ref()?;
    let outcome = &tracked.reading.outcome;
    let nodes: Vec<NodeMeasure> = outcome.nodes.iter().map(NodeMeasure::of).collect();
    let shell_code = outcome.end.as_ref().and_then(|end| end.exit_code);
    let at_ms = |mark: &Option<Sentinel>| mark.as_ref().map(|mark| mark.at_ms);
    let start = Start {
        element: tracked.reading.attempt.map_or(0, |attempt| attempt.element),
        attempt: tracked.reading.attempt.map_or(0, |attempt| attempt.attempt),
        ending: Ending::of(Some(tracked.status.state), true, shell_code, &nodes),
        started_at_ms: at_ms(&outcome.start).or(tracked.status.started_at_ms),
        ended_at_ms: at_ms(&outcome.end).or(tracked.status.ended_at_ms),
        nodes,
    };
    Some(Foretold::of(forecast, &start.observe(&submitted(&tracked.record))?))
}

/// Of what was submitted only the name matters here.
fn submitted(record: &RunRecord) -> Submitted {
    let run_id: RunId = record.run_id.clone();
    let situation = Situation::default();
    Submitted { run_id, at_ms: record.submitted_at_ms, scheduler: record.scheduler, queue: None, situation }
}

/// The line of the table of a run that has a forecast.
pub(crate) fn line(tracked: &Tracked) -> Option<String> {
    let forecast = tracked.record.forecast.as_ref()?;
    let held = held(tracked);
    let came = |of: fn(&Foretold) -> Option<Came>, shown: fn(f64) -> String| {
        let came = held.as_ref().and_then(of).map(|came| format!(", came {}", shown(came.came)));
        came.unwrap_or_default()
    };
    let Forecast { epoch_seconds, total_seconds, memory_bytes, .. } = forecast;
    let mut words = Vec::new();
    if let Some(epoch) = epoch_seconds {
        words.push(format!(
            "an epoch {}{}",
            seconds(epoch),
            came(|held| held.epoch_seconds, display_seconds)
        ));
    }
    if let Some(total) = total_seconds {
        words.push(format!("in all {}{}", seconds(total), came(|held| held.total_seconds, display_seconds)));
    }
    if let Some(bytes) = memory_bytes {
        let shown = |bytes: f64| size(bytes).to_string();
        words.push(format!("memory {}{}", memory(bytes), came(|held| held.memory_bytes, shown)));
    }
    Some(words.join("; "))
}
