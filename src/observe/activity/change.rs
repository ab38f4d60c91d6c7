//! Where the course of several signals changes: PELT (Killick, Fearnhead, Eckley 2012) with squared distances from the mean.

use crate::foundation::statistics::middle;

/// The shortest piece, in samples.
const LEAST: usize = 6;
/// No more signals are given.
const MOST: usize = 4;

/// The places at which a new piece begins, without the first. `rows` are at most four signals, each scaled by its own noise.
pub(super) fn changes(rows: &[Vec<f64>]) -> Vec<usize> {
    let count = rows.first().map_or(0, Vec::len);
    if count < 2 * LEAST {
        return Vec::new();
    }
    let sums = Sums::of(rows);
    let penalty = 3.0 * rows.len() as f64 * (count as f64).ln();
    let mut best = vec![f64::INFINITY; count + 1];
    let mut before = vec![0; count + 1];
    best[0] = -penalty;
    let mut open = vec![(0, 0.0)];
    for end in LEAST..=count {
        for (from, total) in &mut open {
            *total = best[*from] + sums.cost(*from, end) + penalty;
            if *total < best[end] {
                (best[end], before[end]) = (*total, *from);
            }
        }
        let limit = best[end] + penalty;
        open.retain(|(_, total)| *total <= limit);
        open.push((end + 1 - LEAST, 0.0));
    }
    let mut found = Vec::new();
    let mut end = count;
    while before[end] > 0 {
        end = before[end];
        found.push(end);
    }
    found.reverse();
    found
}

/// The noise of a signal: what it changes by from one sample to the next, in the middle; no less than `floor`.
pub(super) fn noise(values: &[f64], floor: f64) -> f64 {
    let steps = values.windows(2).map(|pair| (pair[1] - pair[0]).abs());
    let middle = middle(steps.collect());
    (middle / (0.6745 * std::f64::consts::SQRT_2)).max(floor)
}

/// Of each place the sums and the sums of squares of all signals up to it; side by side and in a plain loop, since this is what the search
/// spends its time on, and what is optimised for size calls each closure.
struct Sums(Vec<[[f64; 2]; MOST]>);

impl Sums {
    fn of(rows: &[Vec<f64>]) -> Self {
        let mut sums = vec![[[0.0; 2]; MOST]; rows.first().map_or(0, Vec::len) + 1];
        for (signal, row) in rows.iter().enumerate() {
            for (place, value) in row.iter().enumerate() {
                let [sum, square] = sums[place][signal];
                sums[place + 1][signal] = [sum + value, square + value * value];
            }
        }
        Self(sums)
    }

    /// Squared distances from the mean between two places.
    fn cost(&self, from: usize, to: usize) -> f64 {
        let (mut cost, mut squares) = (0.0, 0.0);
        for (before, all) in self.0[from].iter().zip(&self.0[to]) {
            let sum = all[0] - before[0];
            squares += sum * sum;
            cost += all[1] - before[1];
        }
        cost - squares / (to - from) as f64
    }
}
