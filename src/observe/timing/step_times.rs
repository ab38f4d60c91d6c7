//! How long steps take: a histogram that stays small however many there are.

use std::collections::BTreeMap;

use super::event::MAX_SECONDS;
use crate::record::{StepTimes, TimeSource};

/// Width of a bucket: a value is known to 1 % either way.
const BUCKET: f64 = 1.02;

/// Durations in buckets whose bounds grow by a fixed ratio.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    buckets: BTreeMap<i32, u64>,
    total: u64,
    /// Seconds of the steps whose wait for data is known, and of that wait.
    waits: Option<(f64, f64)>,
}

impl Histogram {
    /// Takes `count` durations of `seconds` each; what is no time is left out.
    pub(super) fn add(&mut self, seconds: f64, count: u64) {
        // Between a tenth of a microsecond and a month: nobody's step is outside.
        if !(1e-7..=2.7e6).contains(&seconds) || count == 0 {
            return;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the logarithm of the range above is small"
        )]
        let bucket = (seconds.ln() / BUCKET.ln()).round() as i32;
        *self.buckets.entry(bucket).or_default() += count;
        self.total += count;
    }

    /// Takes in that each of `count` steps of `seconds` waited `waited` seconds of them for data; no step waits longer than it takes.
    pub(super) fn add_wait(&mut self, seconds: f64, waited: f64, count: u64) {
        if seconds > 0.0 && seconds <= MAX_SECONDS && (0.0..=seconds).contains(&waited) {
            #[expect(
                clippy::cast_precision_loss,
                reason = "counts of steps stay far below 2^53"
            )]
            let count = count as f64;
            let (all, known) = self.waits.get_or_insert_default();
            *all += seconds * count;
            *known += waited * count;
        }
    }

    /// The duration below which the share `part`, 0 to 1, of all lies.
    fn quantile(&self, part: f64) -> Option<f64> {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "counts of steps stay far below 2^53"
        )]
        let wanted = ((self.total as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        self.buckets.iter().find_map(|(bucket, count)| {
            seen += count;
            (seen >= wanted).then(|| BUCKET.powi(*bucket))
        })
    }

    /// Median and 95th percentile; `None` of nothing.
    pub(super) fn summary(&self, source: TimeSource) -> Option<StepTimes> {
        Some(StepTimes {
            source,
            steps: self.total,
            median_seconds: self.quantile(0.5)?,
            p95_seconds: self.quantile(0.95)?,
            data_wait_ratio: self.waits.map(|(all, waited)| waited / all),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact_to_two_percent() {
        let mut times = Histogram::default();
        for step in 1..=1000 {
            times.add(f64::from(step) / 1000.0, 1);
        }
        let summary = times.summary(TimeSource::Stated).expect("steps");
        assert_eq!(summary.steps, 1000);
        assert!(
            (summary.median_seconds / 0.5 - 1.0).abs() < 0.02,
            "{summary:?}"
        );
        assert!(
            (summary.p95_seconds / 0.95 - 1.0).abs() < 0.02,
            "{summary:?}"
        );
    }

    #[test]
    fn wait_for_data_is_a_share_of_the_steps_that_state_it() {
        let mut times = Histogram::default();
        times.add(1.0, 20);
        times.add_wait(1.0, 0.1, 10);
        times.add_wait(2.0, 1.0, 5);
        for (seconds, waited) in [(1.0, 1.5), (1.0, -0.1), (1.0, f64::NAN), (0.0, 0.0)] {
            times.add_wait(seconds, waited, 1);
        }
        let summary = times.summary(TimeSource::Stated).expect("steps");
        assert_eq!(summary.data_wait_ratio, Some(0.3));
    }

    #[test]
    fn what_is_no_time_is_left_out() {
        let mut times = Histogram::default();
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
            times.add(seconds, 1);
        }
        times.add(1.0, 0);
        assert_eq!(times.summary(TimeSource::Clock), None);
    }
}
