//! What a model says of a whole matrix before it runs.

use serde::Serialize;

use crate::record::Interval;

/// How long the runs of a matrix will take, by the forecasts of its cells.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ExpectedDuration {
    /// Cells that have a forecast; the others count for nothing here.
    pub cells: usize,
    /// What is expected.
    pub mean_seconds: f64,
    /// The lower ends of the cells' 90 % intervals, together. A model that is wrong of one cell is wrong of its like, so the
    /// ends are added up as they are.
    pub low_seconds: f64,
    /// The upper ends.
    pub high_seconds: f64,
}

impl ExpectedDuration {
    /// Of the whole runs of all cells, each `repeats` times, so many jobs at a time; what queues take is not in it. `None`
    /// where no cell has a forecast.
    #[must_use]
    pub fn of(
        cells: impl Iterator<Item = Option<Interval>>,
        repeats: u32,
        jobs: u32,
    ) -> Option<Self> {
        let times = f64::from(repeats) / f64::from(jobs.max(1));
        let nothing = Self {
            cells: 0,
            mean_seconds: 0.0,
            low_seconds: 0.0,
            high_seconds: 0.0,
        };
        let sum = cells.flatten().fold(nothing, |sum, cell| Self {
            cells: sum.cells + 1,
            mean_seconds: sum.mean_seconds + cell.mean * times,
            low_seconds: sum.low_seconds + cell.low * times,
            high_seconds: sum.high_seconds + cell.high * times,
        });
        (sum.cells > 0).then_some(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cells_with_a_forecast_are_added_up() {
        let cell = |mean: f64| {
            Some(Interval {
                mean,
                median: mean,
                low: mean / 2.0,
                high: mean * 2.0,
            })
        };
        let sum = ExpectedDuration::of([cell(10.0), None, cell(30.0)].into_iter(), 5, 2)
            .expect("two of three");
        let expected = ExpectedDuration {
            cells: 2,
            mean_seconds: 100.0,
            low_seconds: 50.0,
            high_seconds: 200.0,
        };
        assert_eq!(sum, expected);
        assert_eq!(ExpectedDuration::of([None].into_iter(), 5, 1), None);
    }
}
