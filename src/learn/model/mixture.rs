//! One forecast out of several: of a run whose hardware is not known before it starts.
//!
//! What may come is then distributed as the sum of what may come on each kind of hardware, each by its share. Of each only mean,
//! median and the ends of the interval are known, so that between those it is taken for a lognormal distribution whose two halves
//! may differ in width; an epoch's time is one exactly.

use crate::foundation::statistics::{Z95, normal_below};
use crate::record::{Basis, Forecast, Interval};

/// A quantile is found to this share of what it may lie in, or of the runs.
const CLOSE: f64 = 1e-7;
/// Steps to it: half of them halve what it may lie in.
const STEPS: usize = 48;

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
        let width = if place < self.median {
            self.median - self.low
        } else {
            self.high - self.median
        };
        self.share * normal_below(Z95 * (place - self.median) / width.max(1e-12))
    }
}

/// The interval of a mixture; shares sum up to 1.
pub(super) fn interval(parts: &[(f64, Interval)]) -> Interval {
    if let [(_, only)] = parts {
        return *only;
    }
    let is_positive = parts
        .iter()
        .all(|(_, part)| part.low > 0.0 && part.high.is_finite());
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

/// The place below which `share` of a mixture lies; `of` is that place of each part. It lies between the least and the greatest,
/// and is looked for along the chord, or in the middle where that did not halve what it may lie in.
fn quantile(parts: &[Part], share: f64, of: fn(&Part) -> f64) -> f64 {
    let excess = |place: f64| parts.iter().map(|part| part.below(place)).sum::<f64>() - share;
    let ends = parts
        .iter()
        .map(of)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), place| {
            (low.min(place), high.max(place))
        });
    let (mut low, mut high) = ends;
    let (mut below, mut above) = (excess(low), excess(high));
    // Rounding may put it at an end.
    if below >= 0.0 || above <= 0.0 {
        return if below >= 0.0 { low } else { high };
    }
    let mut by_chord = true;
    for _ in 0..STEPS {
        let width = high - low;
        if width <= CLOSE * (ends.1 - ends.0) {
            break;
        }
        let part = if by_chord {
            (below / (below - above)).clamp(0.01, 0.99)
        } else {
            0.5
        };
        let place = low + part * width;
        let found = excess(place);
        if found.abs() < CLOSE {
            return place;
        }
        if found < 0.0 {
            (low, below) = (place, found)
        } else {
            (high, above) = (place, found)
        }
        by_chord = high - low <= 0.5 * width || !by_chord;
    }
    0.5 * (low + high)
}

/// The forecast of a mixture: of each kind the forecast with its share, the likeliest first. Epochs of one run are all on one
/// kind, so its whole time is mixed as such. `None`: there are none.
pub(super) fn forecast(parts: &[(f64, Forecast)]) -> Option<Forecast> {
    let [(_, first), others @ ..] = parts else {
        return None;
    };
    if others.is_empty() {
        return Some(first.clone());
    }
    let mixed = |of: &dyn Fn(&Forecast) -> Option<Interval>| {
        let parts: Option<Vec<(f64, Interval)>> = parts
            .iter()
            .map(|(share, part)| Some((*share, of(part)?)))
            .collect();
        parts.map(|parts| interval(&parts))
    };
    let basis = basis(parts);
    let of_basis: Vec<&Forecast> = parts
        .iter()
        .map(|(_, part)| part)
        .filter(|part| part.basis == basis)
        .collect();
    // Similar runs are on one kind each, others are the same for all kinds.
    let counted = |of: fn(&Forecast) -> u64| {
        let runs = of_basis.iter().map(|part| of(part));
        if basis == Basis::Alike {
            runs.sum()
        } else {
            runs.max().unwrap_or(0)
        }
    };
    let all: Vec<&Forecast> = parts.iter().map(|(_, part)| part).collect();
    Some(Forecast {
        basis,
        runs: counted(|part| part.runs),
        doubtful: counted(|part| part.doubtful),
        doubts: once(&of_basis, |part| &part.doubts),
        epoch_seconds: mixed(&|part| part.epoch_seconds),
        first_extra_seconds: mixed(&|part| part.first_extra_seconds),
        outside_seconds: mixed(&|part| part.outside_seconds),
        total_seconds: mixed(&|part| part.total_seconds),
        memory_bytes: mixed(&|part| part.memory_bytes),
        beyond: once(&all, |part| &part.beyond),
        assumed: once(&all, |part| &part.assumed),
        ..first.clone()
    })
}

/// What forecasts tell, each once.
fn once(parts: &[&Forecast], of: fn(&Forecast) -> &[String]) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for one in parts.iter().flat_map(|part| of(part)) {
        if !texts.contains(one) {
            texts.push(one.clone());
        }
    }
    texts
}

/// What half of it rests on at least.
fn basis(parts: &[(f64, Forecast)]) -> Basis {
    let mut bases: Vec<(Basis, f64)> = parts
        .iter()
        .map(|(share, part)| (part.basis, *share))
        .collect();
    bases.sort_by_key(|(basis, _)| *basis);
    let mut sum = 0.0;
    let half = bases.iter().find(|(_, share)| {
        sum += share;
        sum >= 0.5 - 1e-9
    });
    half.map_or(Basis::Priors, |(basis, _)| *basis)
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
        for (found, expected) in [
            (mixed.mean, one.mean),
            (mixed.median, one.median),
            (mixed.low, one.low),
            (mixed.high, one.high),
        ] {
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
        assert!(
            near(mixed.median, (0.05 * 0.139_710_3_f64).exp()),
            "{mixed:?}"
        );
        // One in twenty is half of the slow ones.
        assert!(near(mixed.high, 100.0), "{mixed:?}");
        assert!(mixed.low > quick.low && mixed.low < quick.median);
    }

    #[test]
    fn below_a_quantile_lies_its_share() {
        for (one, other) in [(0.1, 0.1), (0.02, 0.9), (0.4, 0.05)] {
            for (share, median) in [
                (0.5, 1.1),
                (0.03, 3.0),
                (0.97, 3.0),
                (0.5, 40.0),
                (0.049, 1e6),
            ] {
                let mixed = [
                    (1.0 - share, lognormal(1.0, one)),
                    (share, lognormal(median, other)),
                ];
                let found = interval(&mixed);
                let lies_below = |place: f64| {
                    let part = |median: f64, sd: f64| normal_below((place / median).ln() / sd);
                    (1.0 - share) * part(1.0, one) + share * part(median, other)
                };
                for (place, share) in [(found.low, 0.05), (found.median, 0.5), (found.high, 0.95)] {
                    assert!(
                        (lies_below(place) - share).abs() < 1e-5,
                        "{mixed:?} {found:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_figure_that_may_be_nothing_is_mixed_too() {
        let one = Interval {
            mean: 10.0,
            median: 10.0,
            low: 0.0,
            high: 20.0,
        };
        let other = Interval {
            mean: 50.0,
            median: 50.0,
            low: 40.0,
            high: 60.0,
        };
        let mixed = interval(&[(0.5, one), (0.5, other)]);
        assert!(
            (0.0..10.0).contains(&mixed.low) && (40.0..60.0).contains(&mixed.high),
            "{mixed:?}"
        );
        assert!(mixed.median > 10.0 && mixed.median < 50.0);
        let still = Interval {
            mean: 5.0,
            median: 5.0,
            low: 5.0,
            high: 5.0,
        };
        let mixed = interval(&[(0.5, still), (0.5, still)]);
        assert!(near(mixed.low, 5.0) && near(mixed.high, 5.0), "{mixed:?}");
    }

    #[test]
    fn a_mixture_rests_on_what_half_of_it_rests_on() {
        let part = |basis, runs, doubtful, beyond: &[&str]| Forecast {
            model: "m".into(),
            basis,
            runs,
            doubtful,
            doubts: if doubtful > 0 {
                vec!["it was resumed".into()]
            } else {
                Vec::new()
            },
            epoch_seconds: Some(lognormal(2.0, 0.1)),
            first_extra_seconds: None,
            outside_seconds: None,
            total_seconds: Some(lognormal(20.0, 0.1)),
            memory_bytes: None,
            beyond: beyond.iter().map(|text| (*text).to_owned()).collect(),
            assumed: Vec::new(),
            alternatives: 0,
            explored: false,
        };
        let alike = (0.6, part(Basis::Alike, 3, 1, &["the batch"]));
        let other = part(Basis::Workload, 20, 2, &["the batch", "the threads"]);
        let mixed = forecast(&[alike.clone(), (0.4, other.clone())]).expect("two");
        assert_eq!(
            (mixed.basis, mixed.runs, mixed.doubtful),
            (Basis::Alike, 3, 1)
        );
        assert_eq!(mixed.beyond, ["the batch", "the threads"]);
        let twice = forecast(&[(0.5, alike.1.clone()), (0.5, alike.1.clone())]).expect("two");
        assert_eq!(
            (twice.runs, twice.doubtful, &twice.doubts[..]),
            (6, 2, &["it was resumed".to_owned()][..])
        );
        let mixed =
            forecast(&[(0.4, alike.1.clone()), (0.3, other.clone()), (0.3, other)]).expect("three");
        assert_eq!(
            (mixed.basis, mixed.runs),
            (Basis::Workload, 20),
            "the same runs for all kinds"
        );
        assert!(near(
            mixed.total_seconds.expect("each has one").median,
            20.0
        ));
        assert_eq!(forecast(std::slice::from_ref(&alike)), Some(alike.1));
        assert_eq!(forecast(&[]), None);
    }
}
