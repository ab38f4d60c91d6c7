//! Forecasts of the performance model as text, and compared with what was measured.

use crate::app::track::Tracked;
use crate::foundation::units::display_seconds;
use crate::learn::model::{CheckedFigure, CheckedForecast, Situation, Start, Submitted};
use crate::plan::forecast_text::size;
pub(crate) use crate::plan::forecast_text::{basis, basis_in_short, count, memory, seconds, shift};
use crate::record::NodeMeasure;

/// The forecast of a run that is over, compared with what was measured; `None` where there is none of either.
pub(crate) fn compared(tracked: &Tracked) -> Option<CheckedForecast> {
    let (record, status) = (&tracked.record, &tracked.status);
    let forecast = record.forecast.as_ref()?;
    let outcome = &tracked.reading.outcome;
    let nodes: Vec<NodeMeasure> = outcome.nodes.iter().map(NodeMeasure::from_record).collect();
    let (begin, end) = (outcome.start.as_ref(), outcome.end.as_ref());
    let (started, ended) = (status.started_at_ms, status.ended_at_ms);
    let attempt = tracked.reading.attempt;
    let start = Start {
        element: attempt.map_or(0, |attempt| attempt.element),
        attempt: attempt.map_or(0, |attempt| attempt.attempt),
        is_last: true,
        state: Some(status.state),
        shell_code: end.and_then(|end| end.exit_code),
        started_at_ms: begin.map(|mark| mark.at_ms).or(started),
        ended_at_ms: end.map(|mark| mark.ended_at_ms(begin)).or(ended),
        nodes,
    };
    // Of what was submitted only the name matters here.
    let submitted = Submitted {
        run_id: record.run_id.clone(),
        at_ms: record.submitted_at_ms,
        scheduler: record.scheduler,
        queue: None,
        situation: Situation::default(),
    };
    Some(CheckedForecast::new(forecast, &start.observe(&submitted)?))
}

/// The line of the table of a run that has a forecast.
pub(crate) fn line(tracked: &Tracked) -> Option<String> {
    let forecast = tracked.record.forecast.as_ref()?;
    let compared = compared(tracked);
    let seen = |of: fn(&CheckedForecast) -> Option<CheckedFigure>| compared.as_ref().and_then(of);
    let took = |figure: Option<CheckedFigure>| {
        let seconds = figure.map(|figure| display_seconds(figure.came));
        seconds.map_or_else(String::new, |seconds| format!(", took {seconds}"))
    };
    let mut parts = Vec::new();
    if let Some(epoch) = &forecast.epoch_seconds {
        let took = took(seen(|of| of.epoch_seconds));
        parts.push(format!("an epoch {}{took}", seconds(epoch)));
    }
    if let Some(total) = &forecast.total_seconds {
        let took = took(seen(|of| of.total_seconds));
        parts.push(format!("in all {}{took}", seconds(total)));
    }
    if let Some(bytes) = &forecast.memory_bytes {
        let used = seen(|of| of.memory_bytes).map(|figure| size(figure.came));
        let used = used.map_or_else(String::new, |used| format!(", used {used}"));
        parts.push(format!("memory {}{used}", memory(bytes)));
    }
    Some(parts.join("; "))
}
