//! How far forecasts were off.

use serde::{Deserialize, Serialize};

use crate::foundation::statistics::mean;
use crate::record::Interval;

/// The 95 % quantile of Student's distribution with 4 degrees of freedom.
const STUDENT_95: f64 = 2.131_846_8;
/// ln(Γ(5/2) / (Γ(2) √(4π))): the height of that distribution.
const STUDENT_HEIGHT: f64 = -0.980_829_3;

/// How far forecasts were off. A logarithm's error of 0.1 is one of about 10 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    /// Runs that were judged.
    pub runs: u64,
    /// Mean of |forecast ÷ came − 1|, of the forecasts' medians (MAPE).
    pub mean_error_ratio: f64,
    /// Median of |ln(forecast ÷ came)|: what one run in two is off at most. Outliers do not move it.
    pub median_error_ln: f64,
    /// Mean of ln(forecast ÷ came): below 0 the forecasts are too short.
    pub bias_ln: f64,
    /// Share of the runs within their 90 % interval: 0.9 is right.
    pub coverage_ratio: f64,
    /// Mean logarithm of the density that the forecasts gave to what came, per unit of its logarithm: larger is better. A
    /// Student's distribution with 4 degrees of freedom is laid through each interval.
    pub log_score: f64,
    /// Median of upper ÷ lower end of the intervals.
    pub width_ratio: f64,
}

/// The logarithm of the density that `forecast` gave to the logarithm of `came`.
fn log_score(forecast: &Interval, came: f64) -> f64 {
    let scale = ((forecast.high / forecast.low).ln() / (2.0 * STUDENT_95)).max(1e-4);
    let z = (came / forecast.median).ln() / scale;
    STUDENT_HEIGHT - scale.ln() - 2.5 * (z * z / 4.0).ln_1p()
}

/// Says whether all of it can be judged.
fn usable(forecast: &Interval, came: f64) -> bool {
    let positive = |value: f64| value.is_finite() && value > 0.0;
    positive(came)
        && [forecast.mean, forecast.median, forecast.low, forecast.high]
            .into_iter()
            .all(positive)
}

impl Errors {
    /// Of pairs of a forecast and what came. Pairs that are no positive numbers are left out; `None` where none is left.
    #[must_use]
    pub fn of(pairs: &[(Interval, f64)]) -> Option<Self> {
        let pairs: Vec<&(Interval, f64)> = pairs
            .iter()
            .filter(|(forecast, came)| usable(forecast, *came))
            .collect();
        if pairs.is_empty() {
            return None;
        }
        let each = |of: &dyn Fn(&Interval, f64) -> f64| -> Vec<f64> {
            let values = pairs.iter().map(|(forecast, came)| of(forecast, *came));
            values.collect()
        };
        let mean = |of: &dyn Fn(&Interval, f64) -> f64| mean(&each(of)).unwrap_or(0.0);
        let within =
            |forecast: &Interval, came: f64| (forecast.low..=forecast.high).contains(&came);
        Some(Self {
            runs: pairs.len() as u64,
            mean_error_ratio: mean(&|forecast, came| (forecast.median / came - 1.0).abs()),
            median_error_ln: median(each(&|forecast, came| (forecast.median / came).ln().abs())),
            bias_ln: mean(&|forecast, came| (forecast.median / came).ln()),
            coverage_ratio: mean(&|forecast, came| f64::from(u8::from(within(forecast, came)))),
            log_score: mean(&log_score),
            width_ratio: median(each(&|forecast, _| forecast.high / forecast.low)),
        })
    }
}

/// The middle of values that are numbers; 0 of none.
fn median(values: Vec<f64>) -> f64 {
    crate::record::median(values).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::model::solution::Predicted;

    fn log_normal(mean: f64, sd: f64) -> Interval {
        Predicted { mean, sd }.interval()
    }

    #[test]
    fn errors_are_counted_as_they_are_named() {
        let sure = log_normal(0.0, 0.1);
        let errors =
            Errors::of(&[(sure, 1.0), (sure, 1.0), (sure, 2.0), (sure, f64::NAN)]).expect("three");
        assert_eq!(errors.runs, 3);
        assert!(
            (errors.mean_error_ratio - 0.5 / 3.0).abs() < 1e-9,
            "{errors:?}"
        );
        assert!(errors.median_error_ln.abs() < 1e-9, "{errors:?}");
        assert!(
            (errors.bias_ln + 2.0_f64.ln() / 3.0).abs() < 1e-9,
            "{errors:?}"
        );
        assert!(
            (errors.coverage_ratio - 2.0 / 3.0).abs() < 1e-9,
            "{errors:?}"
        );
        assert!(
            (errors.width_ratio - (0.2 * crate::foundation::statistics::Z95).exp()).abs() < 1e-6,
            "{errors:?}"
        );
        assert_eq!(Errors::of(&[(sure, 0.0)]), None);
    }

    #[test]
    fn the_score_is_a_density_and_prefers_the_honest_interval() {
        let mut sum = 0.0;
        let forecast = log_normal(0.0, 0.1);
        for step in -40_000..40_000 {
            let ln = f64::from(step) / 1_000.0;
            sum += log_score(&forecast, ln.exp()).exp() / 1_000.0;
        }
        assert!((sum - 1.0).abs() < 1e-3, "{sum}");
        // What came lies 20 % off: an interval that allows for it is better than one that does not, and than a vague one.
        let score = |sd| log_score(&log_normal(0.0, sd), 1.2);
        assert!(score(0.15) > score(0.02) && score(0.15) > score(2.0));
    }
}
