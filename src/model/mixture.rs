//! One forecast out of several: of a run whose hardware is not known before it starts.
//!
//! What may come is then distributed as the sum of what may come on each kind of hardware, each by its share. Of each only mean,
//! median and the ends of the interval are told, so that between those it is taken for a lognormal distribution whose two halves
//! may differ in width; an epoch's time is one exactly.

use super::chance::{Z95, below};
use crate::record::{Basis, Forecast, Interval};

/// Halvings in which a quantile is found: to a ten-millionth of what it may lie in.
const HALVINGS: usize = 24;

/// One distribution of a mixture, along a scale.
#[derive(Debug, Clone, Copy)]
struct Part {
    share: f64,
    low: f64,
    median: f64,
    high: f64,
}

impl Part {
    /// What of it lies below a place, by its share.
    fn below(self, place: f64) -> f64 {
        let width = if place < self.median { self.median - self.low } else { self.high - self.median };
        self.share * below(Z95 * (place - self.median) / width.max(1e-12))
    }
}

/// The interval of a mixture; shares sum up to 1.
pub(super) fn interval(parts: &[(f64, Interval)]) -> Interval {
    if let [(_, only)] = parts {
        return *only;
    }
    let is_positive = parts.iter().all(|(_, part)| part.low > 0.0 && part.high.is_finite());
    let scaled = |value: f64| if is_positive { value.ln() } else { value };
    let along: Vec<Part> = parts
        .iter()
        .map(|(share, part)| Part {
            share: *share,
            low: scaled(part.low),
            median: scaled(part.median),
            high: scaled(part.high),
        })
        .collect();
    let at = |share: f64, of: fn(&Part) -> f64| {
        let place = quantile(&along, share, of);
        if is_positive { place.exp() } else { place }
    };
    Interval {
        mean: parts.iter().map(|(share, part)| share * part.mean).sum(),
        median: at(0.5, |part| part.median),
        low: at(0.05, |part| part.low),
        high: at(0.95, |part| part.high),
    }
}

/// The place below which `share` of a mixture lies; `of` is that place of each part. It lies between the least and the greatest.
fn quantile(parts: &[Part], share: f64, of: fn(&Part) -> f64) -> f64 {
    let (mut low, mut high) = parts
        .iter()
        .map(of)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), place| (low.min(place), high.max(place)));
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        let found: f64 = parts.iter().map(|part| part.below(middle)).sum();
        if found < share { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// The forecast of a mixture: of each kind the forecast with its share, the likeliest first. Epochs of one run are all on one
/// kind, so its whole time is mixed as such. `None`: there are none.
pub(super) fn forecast(parts: &[(f64, Forecast)]) -> Option<Forecast> {
    let [(_, first), others @ ..] = parts else { return None };
    if others.is_empty() {
        return Some(first.clone());
    }
    let mixed = |of: &dyn Fn(&Forecast) -> Option<Interval>| {
        let parts: Option<Vec<(f64, Interval)>> =
            parts.iter().map(|(share, part)| Some((*share, of(part)?))).collect();
        parts.map(|parts| interval(&parts))
    };
    let (basis, runs, doubtful) = basis(parts);
    let once = |of: fn(&Forecast) -> &[String]| {
        let mut told: Vec<String> = Vec::new();
        for one in parts.iter().flat_map(|(_, part)| of(part)) {
            if !told.contains(one) {
                told.push(one.clone());
            }
        }
        told
    };
    Some(Forecast {
        basis,
        runs,
        doubtful,
        doubts: once(|part| &part.doubts),
        epoch_seconds: mixed(&|part| part.epoch_seconds),
        first_extra_seconds: mixed(&|part| part.first_extra_seconds),
        outside_seconds: mixed(&|part| part.outside_seconds),
        total_seconds: mixed(&|part| part.total_seconds),
        memory_bytes: mixed(&|part| part.memory_bytes),
        beyond: once(|part| &part.beyond),
        assumed: once(|part| &part.assumed),
        ..first.clone()
    })
}

/// What half of it rests on at least, with the runs behind that and how many of these are in doubt. Runs that are alike are on one kind each, others are the same
/// for all kinds.
fn basis(parts: &[(f64, Forecast)]) -> (Basis, u64, u64) {
    let mut bases: Vec<(Basis, f64)> = parts.iter().map(|(share, part)| (part.basis, *share)).collect();
    bases.sort_by_key(|(basis, _)| *basis);
    let mut sum = 0.0;
    let half = bases.iter().find(|(_, share)| {
        sum += share;
        sum >= 0.5 - 1e-9
    });
    let basis = half.map_or(Basis::Priors, |(basis, _)| *basis);
    let of_basis = || parts.iter().map(|(_, part)| part).filter(|part| part.basis == basis);
    let together = |count: fn(&Forecast) -> u64| match basis {
        Basis::Alike => of_basis().map(count).sum(),
        _ => of_basis().map(count).max().unwrap_or(0),
    };
    (basis, together(|part| part.runs), together(|part| part.doubtful))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lognormal(median: f64, sd: f64) -> Interval {
        Interval {
            mean: median * (0.5 * sd * sd).exp(),
            median,
            low: median * (-Z95 * sd).exp(),
            high: median * (Z95 * sd).exp(),
        }
    }

    fn near(one: f64, other: f64) -> bool {
        (one / other - 1.0).abs() < 1e-5
    }

    #[test]
    fn equal_parts_are_their_mixture() {
        let one = lognormal(3.0, 0.2);
        let mixed = interval(&[(0.3, one), (0.7, one)]);
        for (found, expected) in
            [(mixed.mean, one.mean), (mixed.median, one.median), (mixed.low, one.low), (mixed.high, one.high)]
        {
            assert!(near(found, expected), "{mixed:?} {one:?}");
        }
        assert_eq!(interval(&[(1.0, one)]), one, "to the last bit");
    }

    #[test]
    fn parts_far_apart_give_their_own_quantiles() {
        // Nothing of one lies where the other is.
        let (quick, slow) = (lognormal(1.0, 0.05), lognormal(100.0, 0.05));
        let mixed = interval(&[(0.9, quick), (0.1, slow)]);
        assert!(near(mixed.mean, 0.9 * quick.mean + 0.1 * slow.mean));
        // Half of all is five ninths of the quick ones, which lies 0.1397 standard deviations above their median.
        assert!(near(mixed.median, (0.05 * 0.139_710_3_f64).exp()), "{mixed:?}");
        // One in twenty is half of the slow ones.
        assert!(near(mixed.high, 100.0), "{mixed:?}");
        assert!(mixed.low > quick.low && mixed.low < quick.median);
    }

    #[test]
    fn a_figure_that_may_be_nothing_is_mixed_too() {
        let one = Interval { mean: 10.0, median: 10.0, low: 0.0, high: 20.0 };
        let other = Interval { mean: 50.0, median: 50.0, low: 40.0, high: 60.0 };
        let mixed = interval(&[(0.5, one), (0.5, other)]);
        assert!((0.0..10.0).contains(&mixed.low) && (40.0..60.0).contains(&mixed.high), "{mixed:?}");
        assert!(mixed.median > 10.0 && mixed.median < 50.0);
        let still = Interval { mean: 5.0, median: 5.0, low: 5.0, high: 5.0 };
        let mixed = interval(&[(0.5, still), (0.5, still)]);
        assert!(near(mixed.low, 5.0) && near(mixed.high, 5.0), "{mixed:?}");
    }
}
