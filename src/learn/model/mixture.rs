//! One forecast out of several: of a run whose hardware is not known before it starts.
//!
//! What may come is then distributed as the sum of what may come on each kind of hardware, each by its share. Of each only mean,
//! median and the ends of the interval are known, so that between those it is taken for a lognormal distribution whose two halves
//! may differ in width; an epoch's time is one exactly.

use crate::foundation::statistics::{Z95, normal_below};
use crate::record::{Basis, Forecast, Interval, add_new};

/// Halvings until a quantile is found.
const STEPS: usize = 28;

/// The interval of a mixture; shares sum up to 1.
fn interval(parts: &[(f64, Interval)]) -> Interval {
    let is_positive = parts
        .iter()
        .all(|(_, part)| part.low > 0.0 && part.high.is_finite());
    let scaled = |value: f64| if is_positive { value.ln() } else { value };
    let along: Vec<(f64, [f64; 3])> = parts
        .iter()
        .map(|(share, part)| (*share, [part.low, part.median, part.high].map(scaled)))
        .collect();
    // What of a kind lies below a place, by its share.
    let below = |place: f64, (share, [low, median, high]): &(f64, [f64; 3])| {
        let width = if place < *median {
            median - low
        } else {
            high - median
        };
        share * normal_below(Z95 * (place - median) / width.max(1e-12))
    };
    let at = |share: f64| {
        let ends = along.iter().flat_map(|(_, ends)| ends);
        let mut from = ends.clone().copied().fold(f64::INFINITY, f64::min);
        let mut to = ends.copied().fold(f64::NEG_INFINITY, f64::max);
        for _ in 0..STEPS {
            let middle = f64::midpoint(from, to);
            if along.iter().map(|part| below(middle, part)).sum::<f64>() < share {
                from = middle;
            } else {
                to = middle;
            }
        }
        if is_positive { to.exp() } else { to }
    };
    Interval {
        mean: parts.iter().map(|(share, part)| share * part.mean).sum(),
        median: at(0.5),
        low: at(0.05),
        high: at(0.95),
    }
}

/// The forecast of a mixture: of each kind the forecast with its share, the likeliest first, whose basis it has. Epochs of one run are
/// all on one kind, so its whole time is mixed as such. `None`: there are none.
pub(super) fn forecast(parts: &[(f64, Forecast)]) -> Option<Forecast> {
    let ((_, first), others) = parts.split_first()?;
    let mut forecast = first.clone();
    if others.is_empty() {
        return Some(forecast);
    }
    let mixed = |of: fn(&Forecast) -> Option<Interval>| {
        let known = parts.iter().map(|(share, part)| Some((*share, of(part)?)));
        let known: Option<Vec<(f64, Interval)>> = known.collect();
        known.map(|parts| interval(&parts))
    };
    forecast.epoch_seconds = mixed(|part| part.epoch_seconds);
    forecast.between_seconds = mixed(|part| part.between_seconds);
    forecast.outside_seconds = mixed(|part| part.outside_seconds);
    forecast.total_seconds = mixed(|part| part.total_seconds);
    forecast.memory_bytes = mixed(|part| part.memory_bytes);
    for (_, other) in others {
        add_new(&mut forecast.beyond, &other.beyond);
        add_new(&mut forecast.assumed, &other.assumed);
        // Similar runs are on one kind each, others are the same for all kinds.
        if (forecast.basis, other.basis) == (Basis::Alike, Basis::Alike) {
            forecast.runs += other.runs;
            forecast.doubtful += other.doubtful;
            add_new(&mut forecast.doubts, &other.doubts);
        }
    }
    Some(forecast)
}
