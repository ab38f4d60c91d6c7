//! One figure on its way through many readings to few points. Pure.

use super::figure::Kind;
use crate::report::{Curve, Unit};

/// A reading says something of the time since the one before, but not of more than this, in milliseconds: between two
/// samples there is a minute at most, and what is costly is read every minute or with the next sample after it.
const REACH_MS: u64 = 150_000;

/// The points, of one length each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Axis {
    pub(super) begin_ms: u64,
    /// The length of a point.
    pub(super) width_ms: u64,
    pub(super) count: usize,
}

impl Axis {
    /// From the first sample to the last, in so many points at most.
    pub(crate) fn new(begin_ms: u64, end_ms: u64, points: usize) -> Self {
        let points = u64::try_from(points.max(1)).unwrap_or(u64::MAX);
        // The millisecond of the last sample is within.
        let span = end_ms.saturating_sub(begin_ms).saturating_add(1);
        let width_ms = span.div_ceil(points);
        let count = usize::try_from(span.div_ceil(width_ms)).unwrap_or(usize::MAX);
        Self {
            begin_ms,
            width_ms,
            count,
        }
    }

    /// The point of a time.
    pub(super) fn place(&self, at_ms: u64) -> usize {
        let place = at_ms.saturating_sub(self.begin_ms) / self.width_ms;
        usize::try_from(place)
            .unwrap_or(usize::MAX)
            .min(self.count - 1)
    }

    /// When a point begins; that after the last, when the last ends.
    pub(super) fn edge_ms(&self, place: usize) -> u64 {
        self.begin_ms
            .saturating_add(self.width_ms.saturating_mul(place as u64))
    }
}

/// When something was read.
#[derive(Debug, Clone, Copy)]
pub(in crate::report) struct Moment {
    pub(in crate::report) at_ms: u64,
    /// The point it falls into.
    pub(super) place: usize,
    /// What was read before this has nothing to do with it.
    pub(super) cut_ms: u64,
}

impl Moment {
    /// How long the time since an earlier reading is, in milliseconds, where that is known.
    pub(in crate::report) fn since(&self, before_ms: u64) -> Option<u64> {
        let ms = self.at_ms.checked_sub(before_ms)?;
        ((1..=REACH_MS).contains(&ms) && before_ms >= self.cut_ms).then_some(ms)
    }
}

/// What is known of one point.
#[derive(Debug, Clone, Copy)]
pub(in crate::report) struct Cell {
    /// Value times milliseconds, or the largest value.
    pub(in crate::report) value: f64,
    /// Milliseconds of which something is known.
    pub(in crate::report) known: f64,
    /// The least and the highest value that was known of a part of it; NaN before the first.
    low: f64,
    high: f64,
}

impl Default for Cell {
    fn default() -> Self {
        Self {
            value: 0.0,
            known: 0.0,
            low: f64::NAN,
            high: f64::NAN,
        }
    }
}

impl Cell {
    /// Adds a value that held for so many milliseconds.
    fn add(&mut self, kind: Kind, value: f64, share: f64) {
        if kind != Kind::Most {
            self.value += value * share;
        } else if self.known == 0.0 || value > self.value {
            self.value = value;
        }
        self.known += share;
        // Of NaN and a number either keeps the number.
        self.low = self.low.min(value);
        self.high = self.high.max(value);
    }
}

/// One figure on its way through the samples.
#[derive(Debug, Clone, Default)]
pub(in crate::report) struct Track {
    /// How many there are.
    pub(in crate::report) readings: u64,
    /// The reading before: when, and its value.
    before: Option<(Moment, f64)>,
    /// Empty until something is known.
    pub(in crate::report) cells: Vec<Cell>,
}

impl Track {
    /// Takes a reading in. It counts along an axis as far as each point reaches, without one whole in its own place.
    pub(super) fn take(&mut self, axis: Option<&Axis>, kind: Kind, now: Moment, value: f64) {
        self.readings += 1;
        let is_near = |(before, _): &(Moment, f64)| now.since(before.at_ms).is_some();
        let before = self.before.replace((now, value)).filter(is_near);
        let (from, to, value) = match (kind, before) {
            // Where a counter fell it restarted, and how far it got before is not known.
            (Kind::Rate(of), Some((from, first))) if value >= first => {
                let rate = (value - first) / of * 1000.0 / milliseconds(now.at_ms - from.at_ms);
                (from, now, rate)
            }
            (Kind::Rate(_), _) => return,
            (_, Some((from, _))) => (from, now, value),
            // The first speaks for its own millisecond.
            _ => {
                let at_ms = now.at_ms.saturating_add(1);
                (now, Moment { at_ms, ..now }, value)
            }
        };
        match axis {
            Some(axis) => self.spread(axis, kind, from, to, value),
            None => {
                let count = self.cells.len().max(now.place + 1);
                self.cells.resize(count, Cell::default());
                self.cells[now.place].add(kind, value, milliseconds(to.at_ms - from.at_ms));
            }
        }
    }

    /// Puts a value into the points between two times, as far as each lies between them.
    fn spread(&mut self, axis: &Axis, kind: Kind, from: Moment, to: Moment, value: f64) {
        if self.cells.is_empty() {
            self.cells.resize(axis.count, Cell::default());
        }
        for (place, cell) in (from.place..).zip(&mut self.cells[from.place..=to.place]) {
            let begin = from.at_ms.max(axis.edge_ms(place));
            let end = to.at_ms.min(axis.edge_ms(place + 1));
            if begin >= end {
                continue;
            }
            cell.add(kind, value, milliseconds(end - begin));
        }
    }

    /// The figure over time; `None` where nothing is known of it.
    pub(super) fn finish(self, kind: Kind, unit: Unit) -> Option<Curve> {
        let total = |part: fn(&Cell) -> f64| self.cells.iter().map(part).sum::<f64>();
        let known = total(|cell| cell.known);
        let mean = (kind != Kind::Most).then(|| total(|cell| cell.value) / known);
        let value = |cell: &Cell| {
            let value = if kind == Kind::Most {
                cell.value
            } else {
                cell.value / cell.known
            };
            (cell.known > 0.0).then_some(value)
        };
        let known_of = |part: fn(&Cell) -> f64| {
            self.cells
                .iter()
                .map(|cell| (cell.known > 0.0).then(|| part(cell)))
                .collect()
        };
        let (low, high) = (known_of(|cell| cell.low), known_of(|cell| cell.high));
        (known > 0.0).then_some(Curve {
            unit,
            value: self.cells.iter().map(value).collect(),
            low,
            high,
            mean,
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "less than 2^53 milliseconds")]
fn milliseconds(ms: u64) -> f64 {
    ms as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of these readings, at times in seconds, between the first and the last.
    fn thinned(
        kind: Kind,
        points: usize,
        gaps: &[(u64, u64)],
        readings: &[(u64, f64)],
    ) -> Vec<Option<f64>> {
        let (first, last) = (readings[0].0 * 1000, readings[readings.len() - 1].0 * 1000);
        let axis = Axis::new(first, last - 1, points);
        let mut cuts = gaps
            .iter()
            .map(|(from, to)| (from + to) * 500)
            .collect::<Vec<_>>();
        cuts.sort_unstable();
        let mut track = Track::default();
        for (at, value) in readings {
            let cut = cuts
                .iter()
                .copied()
                .filter(|cut| *cut <= at * 1000)
                .max()
                .unwrap_or(0);
            let at_ms = at * 1000;
            track.take(
                Some(&axis),
                kind,
                Moment {
                    at_ms,
                    place: axis.place(at_ms),
                    cut_ms: cut,
                },
                *value,
            );
        }
        track
            .finish(kind, Unit::Number)
            .map_or_else(Vec::new, |curve| curve.value)
    }

    const RATE: Kind = Kind::Rate(1.0);

    #[test]
    fn a_rate_is_growth_over_the_time_it_took() {
        assert_eq!(
            thinned(RATE, 2, &[], &[(0, 5.0), (1, 7.0), (2, 7.0), (4, 47.0)]),
            [Some(1.0), Some(20.0)]
        );
        // Read every ten seconds and told every five.
        let read = [(0, 0.0), (10, 100.0), (20, 100.0)];
        assert_eq!(
            thinned(RATE, 4, &[], &read),
            [Some(10.0), Some(10.0), Some(0.0), Some(0.0)]
        );
        // A part of a point on either side.
        assert_eq!(
            thinned(RATE, 2, &[], &[(0, 0.0), (3, 30.0), (4, 50.0)]),
            [Some(10.0), Some(15.0)]
        );
    }

    #[test]
    fn the_growth_is_all_there_however_it_is_cut() {
        let readings: Vec<(u64, f64)> = (0..200)
            .map(|n| (n * 7 % 5 + n * 5, (n * n) as f64))
            .collect();
        for points in [1, 2, 3, 7, 48, 300, 9999] {
            let values = thinned(RATE, points, &[], &readings);
            let span = (readings[199].0 - readings[0].0) * 1000;
            let width = span.div_ceil(points as u64);
            let total: f64 = values
                .iter()
                .enumerate()
                .map(|(place, value)| {
                    let length = width.min(span - width * place as u64);
                    value.expect("there are no holes") * length as f64 / 1000.0
                })
                .sum();
            assert!((total - 39_601.0).abs() < 1e-6, "{total} with {points}");
        }
    }

    #[test]
    fn nothing_is_told_across_a_counter_that_began_anew() {
        let readings = [(0, 50.0), (1, 60.0), (2, 4.0), (3, 10.0)];
        assert_eq!(
            thinned(RATE, 3, &[], &readings),
            [Some(10.0), None, Some(6.0)]
        );
        // One point of three seconds: of two of them something is known.
        assert_eq!(thinned(RATE, 1, &[], &readings), [Some(8.0)]);
        assert!(thinned(RATE, 3, &[], &readings[1..3]).is_empty());
    }

    #[test]
    fn a_hole_is_a_hole_and_no_zero() {
        let readings = [(0, 0.0), (10, 10.0), (40, 100.0), (50, 150.0)];
        let rates = [Some(1.0), None, None, None, Some(5.0)];
        assert_eq!(thinned(RATE, 5, &[(10, 40)], &readings), rates);
        // The gap is told a little beside the samples.
        assert_eq!(thinned(RATE, 5, &[(8, 41)], &readings), rates);
        assert_eq!(thinned(RATE, 5, &[], &readings)[2], Some(3.0));
        // Nobody told of it, but it is too long.
        let far = [(0, 0.0), (100, 10.0), (300, 100.0), (400, 150.0)];
        assert_eq!(
            thinned(RATE, 4, &[], &far),
            [Some(0.1), None, None, Some(0.5)]
        );
        let gauge = thinned(Kind::Most, 4, &[], &far);
        assert_eq!(gauge, [Some(10.0), None, None, Some(150.0)]);
    }

    #[test]
    fn gauges_are_means_over_time_or_the_most() {
        let readings = [(0, 2.0), (1, 4.0), (2, 4.0), (8, 10.0), (10, 0.0)];
        let means = thinned(Kind::Mean, 2, &[], &readings);
        // The first, of which nobody knows how long it was so, counts a millisecond.
        assert!(
            (means[0].expect("known") - 38.002 / 5.001).abs() < 1e-9,
            "{means:?}"
        );
        assert_eq!(means[1], Some(6.0));
        assert_eq!(
            thinned(Kind::Most, 5, &[], &readings),
            [4.0, 10.0, 10.0, 10.0, 0.0].map(Some)
        );
        // A gauge of 0 is known.
        assert_eq!(
            thinned(Kind::Most, 1, &[], &[(0, 0.0), (1, 0.0)]),
            [Some(0.0)]
        );
    }

    #[test]
    fn the_least_and_the_highest_of_each_point_are_kept() {
        let axis = Axis::new(0, 5999, 2);
        for (kind, value) in [(Kind::Mean, Some(4.0)), (Kind::Most, Some(9.0))] {
            let mut track = Track::default();
            for (second, value) in [(0, 2.0), (1, 9.0), (2, 1.0), (3, 2.0), (6, 5.0)] {
                let at_ms = second * 1000;
                track.take(
                    Some(&axis),
                    kind,
                    Moment {
                        at_ms,
                        place: axis.place(at_ms),
                        cut_ms: 0,
                    },
                    value,
                );
            }
            let curve = track.finish(kind, Unit::Number).expect("it is known");
            // The first reading counts its own millisecond.
            let near = |a: Option<f64>, b: Option<f64>| {
                a.zip(b).is_some_and(|(a, b)| (a - b).abs() < 1e-2)
            };
            assert!(near(curve.value[0], value), "{curve:?}");
            assert_eq!(
                (&curve.low[..], &curve.high[..]),
                (&[Some(1.0), Some(5.0)][..], &[Some(9.0), Some(5.0)][..])
            );
        }
    }

    #[test]
    fn the_axis_holds_every_sample_and_no_more_points_than_wanted() {
        for (end, points) in [
            (0, 300),
            (1, 300),
            (9, 10),
            (10, 10),
            (10, 3),
            (2_592_000_000, 10_000),
            (7, 0),
        ] {
            let axis = Axis::new(1000, 1000 + end, points);
            assert!(axis.count <= points.max(1) && axis.count > 0, "{axis:?}");
            assert_eq!(
                (axis.place(1000), axis.place(1000 + end)),
                (0, axis.count - 1),
                "{axis:?}"
            );
            assert!(
                axis.edge_ms(axis.count) > 1000 + end && axis.edge_ms(axis.count - 1) <= 1000 + end
            );
        }
        // A clock that was wrong for a while.
        assert!(Axis::new(0, u64::MAX, 10).count <= 10);
    }
}
