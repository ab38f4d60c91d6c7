//! Runs compared with the first of them: the times of their epochs, and how sure the difference is.

use super::Run;
use crate::foundation::statistics::{Ratio, Spread, adjusted};
use crate::report::insight::EpochTimes;

/// The heads of the columns that say how two compare.
pub(super) const RATIO_HEADS: [&str; 6] = [
    "Time ratio",
    "95 % interval",
    "Rate ratio",
    "95 % interval",
    "p",
    "In words",
];

/// A run against the first.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// Its steady epochs.
    pub(super) spread: Option<Spread>,
    /// Its time over that of the first.
    pub(super) time_ratio: Option<Ratio>,
    /// Its samples a second over those of the first, where both are known.
    pub(super) rate_ratio: Option<Ratio>,
    /// The probability of such a difference where there is none, raised for the number of comparisons.
    pub(super) p: Option<f64>,
}

/// A difference counts below this probability.
pub(super) const SIGNIFICANT: f64 = 0.05;

/// Compares runs with the first of them.
pub(super) fn compare(runs: &[Run]) -> Vec<Row> {
    let Some(first) = runs.first() else {
        return Vec::new();
    };
    let mut rows: Vec<Row> = runs
        .iter()
        .enumerate()
        .map(|(place, own)| {
            let spreads = own.spread().zip(first.spread()).filter(|_| place > 0);
            let time_ratio = spreads.and_then(|(own, first)| Ratio::of(&own, &first));
            let rate_ratio = time_ratio.and_then(|ratio| {
                let grown = samples_of_mean_epoch(own)? / samples_of_mean_epoch(first)?;
                Some(ratio.inverse().times(grown)).filter(|ratio| ratio.ratio.is_finite())
            });
            Row {
                spread: own.spread(),
                time_ratio,
                rate_ratio,
                p: time_ratio.and_then(|ratio| ratio.p),
            }
        })
        .collect();
    let raised = adjusted(&rows.iter().map(|row| row.p).collect::<Vec<_>>());
    rows.iter_mut().zip(raised).for_each(|(row, p)| row.p = p);
    rows
}

/// Samples that go through a run in the time of its mean epoch.
pub(super) fn samples_of_mean_epoch(run: &Run) -> Option<f64> {
    Some(run.timing()?.samples_per_second?.value * run.spread()?.mean)
}

/// The steady epochs in few figures.
pub(super) fn spread(times: &EpochTimes) -> Spread {
    Spread {
        n: times.count,
        mean: times.mean_seconds,
        deviation: times.deviation_seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{timed, untimed};

    #[test]
    fn the_first_run_is_what_the_others_are_held_against() {
        let runs = [
            timed(&[30.5, 10.1, 9.9]),
            timed(&[30.5, 20.3, 20.1]),
            timed(&[5.5]),
            untimed(),
        ];
        let rows = compare(&runs);
        assert_eq!(rows[0].time_ratio, None);
        let twice = rows[1].time_ratio.expect("both have epochs");
        assert!(
            (twice.ratio - 2.02).abs() < 1e-9 && twice.bounds.is_some(),
            "{twice:?}"
        );
        assert!(rows[1].p.is_some_and(|p| p < SIGNIFICANT), "{:?}", rows[1]);
        assert_eq!(
            rows[1].rate_ratio, None,
            "the samples of an epoch are not known"
        );
        let short = rows[2].time_ratio.expect("one epoch");
        assert_eq!((short.bounds, rows[2].p), (None, None));
        assert_eq!(rows[3].time_ratio, None);
    }

    #[test]
    fn rates_count_the_samples_of_each_run() {
        let mut runs = [timed(&[9.5, 10.0, 10.5]), timed(&[9.5, 10.0, 10.5])];
        runs[0].record.workload.samples = Some(1000);
        runs[1].record.workload.samples = Some(2000);
        let runs = runs.map(crate::report::tests::derived);
        let rate = compare(&runs)[1].rate_ratio.expect("samples are known");
        assert!(
            (rate.ratio - 2.0).abs() < 1e-9 && rate.bounds.is_some(),
            "{rate:?}"
        );
    }
}
