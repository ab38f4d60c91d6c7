//! Whether intervals hold what they promise: each run and each configuration left out in turn.
//!
//! Two things may be misjudged: by how much repeats scatter, and by how much a configuration differs from what its parts make
//! expect. Each has its own stretch, so that one that is believed too wide makes the other no narrower.

use super::fit::{RUN_WIDTH, State};
use crate::foundation::statistics::Z95;

/// So many runs, and so many configurations, that held as promised are believed before the first.
const BELIEVED: (f64, f64) = (20.0, 5.0);
/// Stretching by more or less than this mends no model.
const STRETCH: std::ops::RangeInclusive<f64> = 0.7..=3.0;

/// What standard deviations are to be multiplied by.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Stretch {
    /// Those of repeats.
    pub(super) runs: f64,
    /// Those of what the parts of a configuration make expect.
    pub(super) parts: f64,
}

/// Finds the stretches under which nine of ten lie in their intervals.
pub(super) fn stretches(state: &State<'_>) -> Stretch {
    let (mut runs, mut parts) = (Vec::new(), Vec::new());
    for (at, span) in state.design.spans.iter().enumerate() {
        for cell in span.cells.clone() {
            // Runs of one hour are more alike than runs of two, which shows only in the order of time.
            let noise = state.noise[at].0;
            let ahead = state.design.cells[cell].ahead.iter();
            let stretch = |(distance, before): &(f64, f64)| {
                needed(*distance, noise / before, (RUN_WIDTH * noise).sqrt())
            };
            runs.extend(ahead.map(stretch));
            parts.extend(stretch_of_cell(state, cell, noise));
        }
    }
    Stretch {
        runs: quantile(runs, BELIEVED.0),
        parts: quantile(parts, BELIEVED.1),
    }
}

/// What would have to be multiplied so that something so far off lies at the end of its interval: `sd` where `sure` is the variance
/// that is left as it is.
fn needed(distance: f64, sure: f64, sd: f64) -> f64 {
    ((distance / Z95).powi(2) - sure).max(0.0).sqrt() / sd
}

/// A cell's runs against what the other cells make expect.
fn stretch_of_cell(state: &State<'_>, cell: usize, noise: f64) -> Option<f64> {
    let evidence = state.evidence[cell];
    if evidence.precision <= 0.0 {
        return None;
    }
    // A cell that decides alone about its row says nothing of how well others predict it.
    let free = 1.0 - state.leverage[cell];
    if free < 0.02 {
        return None;
    }
    let open = state.leverage[cell] / evidence.precision / free;
    // A mean of several runs is nearly normal, and no longer as wide as a run.
    let scatter = noise / evidence.weight * (1.0 + (RUN_WIDTH - 1.0) / evidence.weight.max(1.0));
    let distance = ((evidence.mean - state.rows[cell]) / free).abs();
    Some(needed(
        distance,
        scatter,
        (open + state.components.interaction.0).sqrt(),
    ))
}

/// The 90 % quantile, with what is believed.
fn quantile(mut stretches: Vec<f64>, believed: f64) -> f64 {
    stretches.retain(|stretch| stretch.is_finite());
    stretches.sort_by(f64::total_cmp);
    let count = stretches.len();
    // One more than there are: the next one may lie beyond all of them.
    let place = (9 * (count + 1)).div_ceil(10).min(count);
    let Some(measured) = stretches.get(place.saturating_sub(1)) else {
        return 1.0;
    };
    let measured = measured.clamp(*STRETCH.start(), *STRETCH.end());
    let count = super::facts::whole(u64::try_from(count).unwrap_or(u64::MAX));
    (measured.ln() * count / (count + believed)).exp()
}
