//! How long steps take: a histogram that stays small however many there are.

use std::collections::BTreeMap;

use crate::record::{StepTimes, TimeSource};

/// Width of a bucket: a value is known to 1 % either way.
const BUCKET: f64 = 1.02;

/// Durations in buckets whose bounds grow by a fixed ratio.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    buckets: BTreeMap<i32, u64>,
    total: u64,
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
    fn what_is_no_time_is_left_out() {
        let mut times = Histogram::default();
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
            times.add(seconds, 1);
        }
        times.add(1.0, 0);
        assert_eq!(times.summary(TimeSource::Clock), None);
    }
}
