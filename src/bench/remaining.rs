//! How long what is left will take, out of what ran so far.

use std::collections::BTreeMap;

/// How long the runs of each cell took.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    /// Of each cell: how many runs, and their seconds together.
    cells: BTreeMap<usize, (u32, f64)>,
    /// Seconds of the runs that this command saw end.
    seen_seconds: f64,
}

impl Pace {
    /// Takes in how long a run took; `is_new` where this command saw it end.
    pub fn add(&mut self, cell: usize, seconds: f64, is_new: bool) {
        let (runs, sum) = self.cells.entry(cell).or_default();
        *runs += 1;
        *sum += seconds;
        if is_new {
            self.seen_seconds += seconds;
        }
    }

    /// Seconds until the runs of these cells are over, `elapsed` seconds after this command began, with so many jobs at a time.
    /// `None` where nothing has run yet. Waiting in queues and the time between two runs go on as they were.
    #[must_use]
    pub fn seconds_to_go(&self, left: impl Iterator<Item = usize>, elapsed: f64, jobs: u32) -> Option<f64> {
        let (runs, sum) =
            self.cells.values().fold((0, 0.0), |(runs, sum), (n, seconds)| (runs + n, sum + seconds));
        let usual = (runs > 0).then(|| sum / f64::from(runs))?;
        let expected: f64 = left
            .map(|cell| self.cells.get(&cell).map_or(usual, |(runs, seconds)| seconds / f64::from(*runs)))
            .sum();
        let pace =
            if self.seen_seconds > 0.0 { elapsed / self.seen_seconds } else { 1.0 / f64::from(jobs.max(1)) };
        Some(expected * pace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_counts_with_its_own_time() {
        let mut pace = Pace::default();
        assert_eq!(pace.seconds_to_go([0, 1].into_iter(), 0.0, 1), None);
        pace.add(0, 10.0, false);
        pace.add(1, 30.0, false);
        // Nothing was seen yet: two jobs at a time take half as long; a cell that never ran takes the mean.
        assert_eq!(pace.seconds_to_go([0, 1, 2].into_iter(), 0.0, 2), Some(30.0));
        // 10 s of running took 15 s: the rest will have as much between its runs.
        pace.add(0, 10.0, true);
        assert_eq!(pace.seconds_to_go([0, 1].into_iter(), 15.0, 1), Some(60.0));
        assert_eq!(pace.seconds_to_go(std::iter::empty(), 15.0, 1), Some(0.0));
    }
}
