//! How long what is left will take, out of what ran so far.

use std::collections::BTreeMap;

use crate::record::median;

/// How long the runs of each cell took, by this command and by those before it.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    /// Of each cell: how many runs, and their seconds together.
    cells: BTreeMap<usize, (u32, f64)>,
    /// How many times as long as it ran each run took from its hand-over until its end was seen.
    stretches: Vec<f64>,
}

impl Pace {
    /// Takes in how long a run of a cell ran, and how long it took from its hand-over until its end was seen, both in seconds.
    /// The second is `None` where nobody looked meanwhile.
    pub fn add(&mut self, cell: usize, seconds: f64, turnaround: Option<f64>) {
        if !seconds.is_finite() || seconds <= 0.0 {
            return;
        }
        let (runs, sum) = self.cells.entry(cell).or_default();
        *runs += 1;
        *sum += seconds;
        self.stretches
            .extend(turnaround.map(|turnaround| (turnaround / seconds).max(1.0)));
    }

    /// Seconds until all is over with so many jobs at a time: `waiting` are the cells of runs that have not begun, `going_on`
    /// those of runs at work, with the seconds since their hand-over. `None` where nothing has run yet. Queues and the
    /// scheduler are taken to be as slow as they were: in the middle of all runs, so that a night in which nobody looked does
    /// not count.
    #[must_use]
    pub fn seconds_to_go(
        &self,
        waiting: impl Iterator<Item = usize>,
        going_on: impl Iterator<Item = (usize, f64)>,
        jobs: u32,
    ) -> Option<f64> {
        let (runs, sum) = self
            .cells
            .values()
            .fold((0, 0.0), |(runs, sum), (n, seconds)| {
                (runs + n, sum + seconds)
            });
        let usual = (runs > 0).then(|| sum / f64::from(runs))?;
        let stretch = median(self.stretches.clone()).unwrap_or(1.0);
        let expected = |cell: usize| {
            self.cells
                .get(&cell)
                .map_or(usual, |(runs, seconds)| seconds / f64::from(*runs))
                * stretch
        };
        let mut left = 0_u32;
        let mut count = |seconds: f64| {
            left = left.saturating_add(1);
            seconds
        };
        let waiting: f64 = waiting.map(|cell| count(expected(cell))).sum();
        let (mut at_work, mut longest) = (0.0, 0.0_f64);
        for (cell, since) in going_on {
            let seconds = count((expected(cell) - since).max(0.0));
            at_work += seconds;
            longest = longest.max(seconds);
        }
        let at_a_time = f64::from(jobs.min(left).max(1));
        Some(((waiting + at_work) / at_a_time).max(longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_go(pace: &Pace, waiting: &[usize], going_on: &[(usize, f64)], jobs: u32) -> Option<f64> {
        pace.seconds_to_go(waiting.iter().copied(), going_on.iter().copied(), jobs)
    }

    #[test]
    fn each_cell_counts_with_its_own_time() {
        let mut pace = Pace::default();
        assert_eq!(to_go(&pace, &[0, 1], &[], 1), None);
        pace.add(0, 10.0, None);
        pace.add(1, 30.0, None);
        // A cell that never ran takes the mean; two jobs at a time take half as long, one run alone does not.
        assert_eq!(to_go(&pace, &[0, 1, 2], &[], 1), Some(60.0));
        assert_eq!(to_go(&pace, &[0, 1, 2], &[], 2), Some(30.0));
        assert_eq!(to_go(&pace, &[1], &[], 2), Some(30.0));
        assert_eq!(to_go(&pace, &[], &[], 1), Some(0.0));
    }

    #[test]
    fn what_a_command_before_measured_counts_as_what_this_one_sees() {
        // Ten runs of 10 s took 15 s each, the last was taken up again after a night: nobody knows when it ended.
        let mut pace = Pace::default();
        (0..10).for_each(|_| pace.add(0, 10.0, Some(15.0)));
        assert_eq!(to_go(&pace, &[0, 0], &[], 1), Some(30.0));
        pace.add(0, 10.0, None);
        assert_eq!(to_go(&pace, &[0, 0], &[], 1), Some(30.0));
        pace.add(0, 10.0, Some(30_000.0));
        assert_eq!(to_go(&pace, &[0, 0], &[], 1), Some(30.0));
    }

    #[test]
    fn what_is_at_work_has_less_before_it() {
        let mut pace = Pace::default();
        pace.add(0, 10.0, Some(10.0));
        assert_eq!(to_go(&pace, &[0], &[(0, 4.0)], 1), Some(16.0));
        // Longer than its like: nobody knows how much longer.
        assert_eq!(to_go(&pace, &[0], &[(0, 400.0)], 1), Some(10.0));
        // The last one has to end, however many at a time.
        assert_eq!(to_go(&pace, &[], &[(0, 4.0), (0, 9.0)], 2), Some(6.0));
    }

    #[test]
    fn times_that_are_none_do_no_harm() {
        let mut pace = Pace::default();
        pace.add(0, 0.0, Some(1.0));
        pace.add(0, f64::NAN, Some(1.0));
        assert_eq!(to_go(&pace, &[0], &[], 1), None);
    }
}
