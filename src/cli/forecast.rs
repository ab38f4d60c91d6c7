//! Forecasts of the performance model in words, and beside what came.

use crate::app::track::Tracked;
use crate::foundation::units::display_seconds;
use crate::job::RunId;
use crate::learn::model::{Came, Ending, Foretold, Situation, Start, Submitted};
use crate::plan::forecast_text::size;
pub(crate) use crate::plan::forecast_text::{basis, basis_in_short, count, memory, seconds};
use crate::record::{Forecast, NodeMeasure, RunRecord};

/// The forecast of a run that is over, beside what came; `None` where there was none, or nothing was measured.
pub(crate) fn held(tracked: &Tracked) -> Option<Foretold> {
    let forecast = tracked.record.forecast.as_ref()?;
    let outcome = &tracked.reading.outcome;
    let nodes: Vec<NodeMeasure> = outcome.nodes.iter().map(NodeMeasure::of).collect();
    let (begin, end) = (outcome.start.as_ref(), outcome.end.as_ref());
    let shell_code = end.and_then(|end| end.exit_code);
    let start = Start {
        element: tracked.reading.attempt.map_or(0, |attempt| attempt.element),
        attempt: tracked.reading.attempt.map_or(0, |attempt| attempt.attempt),
        ending: Ending::of(Some(tracked.status.state), true, shell_code, &nodes),
        started_at_ms: begin
            .map(|mark| mark.at_ms)
            .or(tracked.status.started_at_ms),
        ended_at_ms: end
            .map(|mark| mark.ended_at_ms(begin))
            .or(tracked.status.ended_at_ms),
        nodes,
    };
    Some(Foretold::of(
        forecast,
        &start.observe(&submitted(&tracked.record))?,
    ))
}

/// Of what was submitted only the name matters here.
fn submitted(record: &RunRecord) -> Submitted {
    let run_id: RunId = record.run_id.clone();
    let situation = Situation::default();
    Submitted {
        run_id,
        at_ms: record.submitted_at_ms,
        scheduler: record.scheduler,
        queue: None,
        situation,
    }
}

/// The line of the table of a run that has a forecast.
pub(crate) fn line(tracked: &Tracked) -> Option<String> {
    let forecast = tracked.record.forecast.as_ref()?;
    let held = held(tracked);
    let came = |of: fn(&Foretold) -> Option<Came>, shown: fn(f64) -> String| {
        let came = held
            .as_ref()
            .and_then(of)
            .map(|came| format!(", came {}", shown(came.came)));
        came.unwrap_or_default()
    };
    let Forecast {
        epoch_seconds,
        total_seconds,
        memory_bytes,
        ..
    } = forecast;
    let mut words = Vec::new();
    if let Some(epoch) = epoch_seconds {
        words.push(format!(
            "an epoch {}{}",
            seconds(epoch),
            came(|held| held.epoch_seconds, display_seconds)
        ));
    }
    if let Some(total) = total_seconds {
        words.push(format!(
            "in all {}{}",
            seconds(total),
            came(|held| held.total_seconds, display_seconds)
        ));
    }
    if let Some(bytes) = memory_bytes {
        let shown = |bytes: f64| size(bytes).to_string();
        words.push(format!(
            "memory {}{}",
            memory(bytes),
            came(|held| held.memory_bytes, shown)
        ));
    }
    Some(words.join("; "))
}
