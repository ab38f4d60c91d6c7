//! Where the course of several signals changes: PELT (Killick, Fearnhead, Eckley 2012) with squared distances from the mean.

/// The shortest piece, in samples.
const LEAST: usize = 6;

/// The places at which a new piece begins, without the first. `rows` are the signals, each scaled by its own noise.
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
    let mut open = vec![0];
    for end in LEAST..=count {
        let total = |from: usize| best[from] + sums.cost(from, end) + penalty;
        let totals: Vec<(usize, f64)> = open
            .iter()
            .map(|from| {
                (
                    *from,
                    if end - from < LEAST {
                        f64::INFINITY
                    } else {
                        total(*from)
                    },
                )
            })
            .collect();
        let least = totals.iter().min_by(|one, other| one.1.total_cmp(&other.1));
        if let Some((from, cost)) = least {
            (best[end], before[end]) = (*cost, *from);
        }
        let limit = best[end] + penalty;
        open = totals
            .iter()
            .filter(|(from, cost)| end - from < LEAST || *cost <= limit)
            .map(|(from, _)| *from)
            .collect();
        open.push(end + 1 - LEAST);
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
    let middle = super::period::middle(steps.collect());
    (middle / (0.6745 * std::f64::consts::SQRT_2)).max(floor)
}

/// Sums and sums of squares up to each place.
struct Sums(Vec<Vec<(f64, f64)>>);

impl Sums {
    fn of(rows: &[Vec<f64>]) -> Self {
        let sums = |row: &Vec<f64>| {
            let mut sum = (0.0, 0.0);
            let mut sums = vec![sum];
            sums.extend(row.iter().map(|value| {
                sum = (sum.0 + value, sum.1 + value * value);
                sum
            }));
            sums
        };
        Self(rows.iter().map(sums).collect())
    }

    /// Squared distances from the mean between two places.
    fn cost(&self, from: usize, to: usize) -> f64 {
        let count = (to - from) as f64;
        let of = |row: &Vec<(f64, f64)>| {
            let (sum, square) = (row[to].0 - row[from].0, row[to].1 - row[from].1);
            square - sum * sum / count
        };
        self.0.iter().map(of).sum()
    }
}
