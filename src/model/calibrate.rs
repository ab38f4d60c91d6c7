//! Whether intervals hold what they promise: each run and each configuration left out in turn.

use super::chance::{RUN_WIDTH, Z95};
use super::fit::State;

/// So many runs that held as promised are believed before the first.
const BELIEVED: f64 = 40.0;
/// Stretching by more or less than this mends no model.
const STRETCH: std::ops::RangeInclusive<f64> = 0.7..=3.0;

/// What intervals are to be stretched by: of configurations that were measured, and of others.
pub(super) fn stretches(state: &State<'_>) -> (f64, f64) {
    let (mut known, mut new) = (Vec::new(), Vec::new());
    for (at, span) in state.design.spans.iter().enumerate() {
        for cell in span.cells.clone() {
            of_runs(state, cell, state.noise[at], &mut known);
            new.extend(of_cell(state, cell, state.noise[at]));
        }
    }
    (stretch(known), stretch(new))
}

/// The runs of a cell against what the others make expect, in standard deviations.
fn of_runs(state: &State<'_>, cell: usize, noise: f64, found: &mut Vec<f64>) {
    let evidence = state.evidence[cell];
    let row = state.rows[cell];
    let interaction = state.components.interaction;
    let targets = &state.design.targets[state.design.cells[cell].targets.clone()];
    if targets.len() < 2 || evidence.precision <= 0.0 {
        return;
    }
    let open = state.leverage[cell] / evidence.precision;
    for target in targets.iter().filter(|target| !target.censored && !target.doubtful) {
        let expected = row + evidence.kept * (evidence.mean - row);
        let own = super::fit::student(target.y - expected, noise);
        let weight = evidence.weight - own;
        if weight < 0.5 {
            continue;
        }
        let mean = (evidence.weight * evidence.mean - own * target.y) / weight;
        let kept = interaction / (interaction + noise / weight);
        let left = 1.0 - kept;
        let variance = left * interaction + left * left * open + RUN_WIDTH * noise;
        found.push((target.y - row - kept * (mean - row)).abs() / variance.sqrt());
    }
}

/// A cell's runs against what the other cells make expect.
fn of_cell(state: &State<'_>, cell: usize, noise: f64) -> Option<f64> {
    let evidence = state.evidence[cell];
    if evidence.precision <= 0.0 {
        return None;
    }
    // A cell that decides alone about its row says nothing of how well others foretell it.
    let free = 1.0 - state.leverage[cell];
    if free < 0.02 {
        return None;
    }
    let open = state.leverage[cell] / evidence.precision / free;
    let variance = open + state.components.interaction + RUN_WIDTH * noise / evidence.weight;
    Some(((evidence.mean - state.rows[cell]) / free).abs() / variance.sqrt())
}

/// The 90 % quantile of distances over what a normal distribution's is, with what is believed.
fn stretch(mut distances: Vec<f64>) -> f64 {
    distances.retain(|distance| distance.is_finite());
    distances.sort_by(f64::total_cmp);
    let count = distances.len();
    let Some(quantile) = distances.get((count * 9 / 10).min(count.saturating_sub(1))) else { return 1.0 };
    let measured = (quantile / Z95).clamp(*STRETCH.start(), *STRETCH.end());
    let count = super::facts::whole(u64::try_from(count).unwrap_or(u64::MAX));
    (measured.ln() * count / (count + BELIEVED)).exp()
}
