//! Runs compared with the first of them: the times of their epochs, and how sure the difference is.

use super::Run;
use crate::foundation::statistics::{Ratio, Spread, adjusted};
use crate::report::insight::{EpochTimes, Timing};

/// What two runs were compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Basis {
    /// The mean of the steady epochs.
    Epochs,
    /// The median of the steps: only figures of them are kept, so there is no interval.
    Steps,
    /// Nothing that both have.
    Nothing,
}

/// A run against the first.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// Its steady epochs.
    pub(super) spread: Option<Spread>,
    /// What it was compared by; of the first run what the others can be compared by.
    pub(super) basis: Basis,
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
            let (basis, ratio) = against(own.timing(), first.timing());
            let time_ratio = ratio.filter(|_| place > 0);
            let rate_ratio = time_ratio
                .filter(|_| basis == Basis::Epochs)
                .and_then(|ratio| {
                    let grown = samples_of_mean_epoch(own)? / samples_of_mean_epoch(first)?;
                    Some(ratio.inverse().times(grown)).filter(|ratio| ratio.ratio.is_finite())
                });
            Row {
                spread: own.spread(),
                basis,
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

fn against(own: Option<&Timing>, first: Option<&Timing>) -> (Basis, Option<Ratio>) {
    let Some((own, first)) = own.zip(first) else {
        return (Basis::Nothing, None);
    };
    if let (Some(own), Some(first)) = (&own.epochs, &first.epochs) {
        return (Basis::Epochs, Ratio::of(&spread(own), &spread(first)));
    }
    match (own.steps, first.steps) {
        (Some(own), Some(first)) if first.median_seconds > 0.0 => {
            let ratio = own.median_seconds / first.median_seconds;
            (
                Basis::Steps,
                Some(Ratio {
                    ratio,
                    bounds: None,
                    p: None,
                }),
            )
        }
        _ => (Basis::Nothing, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{StepTimes, TimeSource};
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
        assert_eq!((rows[0].basis, rows[0].time_ratio), (Basis::Epochs, None));
        let twice = rows[1].time_ratio.expect("both have epochs");
        assert!(
            (twice.ratio - 2.02).abs() < 1e-9 && twice.bounds.is_some(),
            "{twice:?}"
        );
        assert!(rows[1].p.is_some_and(|p| p < SIGNIFICANT), "{:?}", rows[1]);
        assert_eq!(
            rows[1].rate_ratio, None,
            "nobody told the samples of an epoch"
        );
        let short = rows[2].time_ratio.expect("one epoch");
        assert_eq!((short.bounds, rows[2].p), (None, None));
        assert_eq!((rows[3].basis, rows[3].time_ratio), (Basis::Nothing, None));
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

    #[test]
    fn runs_without_epochs_are_compared_by_their_steps() {
        let of = |median_seconds| {
            let mut run = untimed();
            run.nodes[0].record.progress.recogniser = Some("keras".to_owned());
            run.nodes[0].record.progress.step_times = Some(StepTimes {
                source: TimeSource::Stated,
                steps: 100,
                median_seconds,
                p95_seconds: 1.0,
            });
            crate::report::tests::derived(run)
        };
        let rows = compare(&[of(0.2), of(0.3), untimed()]);
        let ratio = rows[1].time_ratio.expect("both have steps");
        assert!((ratio.ratio - 1.5).abs() < 1e-9, "{ratio:?}");
        assert_eq!(
            (rows[1].basis, ratio.bounds, rows[2].basis),
            (Basis::Steps, None, Basis::Nothing)
        );
        assert_eq!(compare(&[of(0.0), of(0.3)])[1].time_ratio, None);
        assert_eq!(compare(&[]), []);
    }
}
