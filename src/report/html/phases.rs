//! What a run did when, as a band over its curves.

use crate::record::{Phase, PhaseSpan};
use crate::report::chart::clock::Clock;
use crate::report::chart::panel::{Panel, Shape};
use crate::report::chart::{HEIGHT, WIDTH};

/// The band; `None` where nothing is known.
pub(super) fn panel(spans: &[PhaseSpan], clock: &Clock) -> Option<Panel> {
    let whole: u64 = spans.iter().map(|span| span.to_ms - span.from_ms).sum();
    let mut seen: Vec<(u64, Phase)> = Vec::new();
    for (_, phase) in Phase::WORDS {
        let of_it = spans.iter().filter(|span| span.phase == phase);
        let ms = of_it.map(|span| span.to_ms - span.from_ms).sum();
        seen.push((ms, phase));
    }
    seen.retain(|(ms, _)| *ms > 0);
    seen.sort_by_key(|(ms, _)| std::cmp::Reverse(*ms));
    let is_known = seen.iter().any(|(_, phase)| *phase != Phase::Unknown);
    let share = |(ms, phase): &(u64, Phase)| {
        let percent = crate::report::number::real(*ms) * 100.0 / crate::report::number::real(whole);
        format!("{} {percent:.0}%", phase.as_str().replace('_', " "))
    };
    let shapes = seen.iter().map(|(_, phase)| Shape {
        class: class(*phase),
        path: path(spans.iter().filter(|span| span.phase == *phase), clock),
    });
    is_known.then(|| Panel {
        title: "Phases".to_owned(),
        summary: seen.iter().map(share).collect::<Vec<_>>().join(" · "),
        class: "phases",
        height: 22,
        shapes: shapes.collect(),
        ..Panel::default()
    })
}

/// Boxes from the top to the bottom of the band.
fn path<'a>(spans: impl Iterator<Item = &'a PhaseSpan>, clock: &Clock) -> String {
    let boxed = |span: &PhaseSpan| {
        let [left, right] = [span.from_ms, span.to_ms].map(|at| WIDTH * clock.place(at));
        format!("M{left:.0} 0H{right:.0}V{HEIGHT:.0}H{left:.0}Z")
    };
    spans.map(boxed).collect()
}

fn class(phase: Phase) -> &'static str {
    match phase {
        Phase::Startup | Phase::Staging => "startup",
        Phase::Warmup => "warmup",
        Phase::Training | Phase::Computing => "training",
        Phase::Evaluation => "evaluation",
        Phase::Checkpoint => "checkpoint",
        Phase::DataBound | Phase::CommunicationBound => "waiting",
        Phase::Stalled => "stalled",
        Phase::Idle => "idle",
        Phase::Unknown => "unknown",
    }
}
