//! Means of epoch times with intervals, and ratios of them with intervals: Student's t, nothing more.
//!
//! Epochs of one run are no repeats of the run: what is computed of them speaks of the epochs of these runs, and the report
//! says so. Of a matrix each run counts once.

/// Share of cases in which an interval holds the true value.
pub(super) const CONFIDENCE: f64 = 0.95;

/// Times in few figures, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    /// How many times there are.
    pub(super) n: usize,
    pub(super) mean: f64,
    /// Standard deviation of a sample; `None` of a single time.
    pub(super) deviation: Option<f64>,
}

impl Spread {
    /// Of values; `None` where there are none.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self {
            n,
            mean,
            deviation: (n > 1).then(|| (squares / (n as f64 - 1.0)).sqrt()),
        })
    }

    /// Variance of the mean; `None` of a single time.
    fn variance_of_mean(&self) -> Option<f64> {
        Some(self.deviation?.powi(2) / self.n as f64)
    }

    /// Bounds of the mean.
    pub(super) fn bounds(&self) -> Option<(f64, f64)> {
        let half = quantile(self.n as f64 - 1.0) * self.variance_of_mean()?.sqrt();
        Some((self.mean - half, self.mean + half))
    }
}

/// How one mean stands to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ratio {
    /// Mean over mean of the baseline.
    pub(super) ratio: f64,
    /// Its bounds; `None` where one of the two has a single time.
    pub(super) bounds: Option<(f64, f64)>,
    /// The probability of a ratio at least so far from 1 where the means are the same.
    pub(super) p: Option<f64>,
}

impl Ratio {
    /// Of two means, by the logarithm of their ratio (delta method) and Welch's degrees of freedom. `None` where a mean is not
    /// above 0.
    pub(super) fn of(times: &Spread, baseline: &Spread) -> Option<Self> {
        if times.mean <= 0.0 || baseline.mean <= 0.0 {
            return None;
        }
        let ratio = times.mean / baseline.mean;
        let relative =
            |of: &Spread| Some((of.variance_of_mean()? / of.mean.powi(2), of.n as f64 - 1.0));
        let (bounds, p) = match relative(times).zip(relative(baseline)) {
            Some(((a, _), (b, _))) if a + b == 0.0 => (
                Some((ratio, ratio)),
                Some(if times.mean == baseline.mean {
                    1.0
                } else {
                    0.0
                }),
            ),
            Some(((a, a_free), (b, b_free))) => {
                let error = (a + b).sqrt();
                let free = (a + b).powi(2) / (a.powi(2) / a_free + b.powi(2) / b_free);
                let reach = (quantile(free) * error).exp();
                (
                    Some((ratio / reach, ratio * reach)),
                    Some(two_sided(ratio.ln() / error, free)),
                )
            }
            None => (None, None),
        };
        Some(Self { ratio, bounds, p })
    }

    /// Of geometric means, each pair the logarithms of times and of those of its baseline: the geometric mean of the pairs'
    /// ratios, with Welch's degrees of freedom (Welch 1947; Satterthwaite 1946). `None` where there is no pair.
    pub(super) fn of_logarithms(pairs: &[(Spread, Spread)]) -> Option<Self> {
        let count = pairs.len() as f64;
        let difference = pairs
            .iter()
            .map(|(of, baseline)| of.mean - baseline.mean)
            .sum::<f64>()
            / count;
        let ratio = difference.exp();
        if pairs.is_empty() || !ratio.is_finite() {
            return None;
        }
        let both = || pairs.iter().flat_map(|(of, baseline)| [of, baseline]);
        let variances: Option<Vec<(f64, f64)>> = both()
            .map(|spread| Some((spread.variance_of_mean()?, spread.n as f64 - 1.0)))
            .collect();
        let Some(variances) = variances else {
            return Some(Self {
                ratio,
                bounds: None,
                p: None,
            });
        };
        let sum: f64 = variances.iter().map(|(variance, _)| variance).sum();
        if sum == 0.0 {
            let p = if difference == 0.0 { 1.0 } else { 0.0 };
            return Some(Self {
                ratio,
                bounds: Some((ratio, ratio)),
                p: Some(p),
            });
        }
        let free = sum.powi(2)
            / variances
                .iter()
                .map(|(variance, free)| variance.powi(2) / free)
                .sum::<f64>();
        let error = sum.sqrt() / count;
        let reach = (quantile(free) * error).exp();
        let p = two_sided(difference / error, free);
        Some(Self {
            ratio,
            bounds: Some((ratio / reach, ratio * reach)),
            p: Some(p),
        })
    }

    /// Where the bounds are of the inverse.
    pub(super) fn inverse(&self) -> Self {
        let bounds = self.bounds.map(|(low, high)| (1.0 / high, 1.0 / low));
        Self {
            ratio: 1.0 / self.ratio,
            bounds,
            p: self.p,
        }
    }

    /// Times a number that is known without error.
    pub(super) fn times(&self, factor: f64) -> Self {
        let bounds = self.bounds.map(|(low, high)| (low * factor, high * factor));
        Self {
            ratio: self.ratio * factor,
            bounds,
            p: None,
        }
    }
}

/// Probabilities of several comparisons, each raised so that all of them together mislead in no more cases than one does
/// (Holm 1979).
pub(super) fn adjusted(probabilities: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<usize> = (0..probabilities.len())
        .filter(|at| probabilities[*at].is_some())
        .collect();
    order.sort_by(|a, b| {
        f64::total_cmp(
            &probabilities[*a].unwrap_or(1.0),
            &probabilities[*b].unwrap_or(1.0),
        )
    });
    let mut adjusted = vec![None; probabilities.len()];
    let mut least = 0.0_f64;
    for (rank, at) in order.iter().enumerate() {
        let raised = probabilities[*at].unwrap_or(1.0) * (order.len() - rank) as f64;
        least = least.max(raised.min(1.0));
        adjusted[*at] = Some(least);
    }
    adjusted
}

/// The t that is exceeded on either side in `1 - CONFIDENCE` of all cases, with so many degrees of freedom.
fn quantile(free: f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, 1e3_f64);
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if two_sided(middle, free) > 1.0 - CONFIDENCE {
            low = middle
        } else {
            high = middle
        }
    }
    low
}

/// The probability of a t at least so far from 0.
fn two_sided(t: f64, free: f64) -> f64 {
    incomplete_beta(free / 2.0, 0.5, free / (free + t * t))
}

/// The regularised incomplete beta function, by its continued fraction (Lentz's method; Abramowitz and Stegun 26.5.8).
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    let away_from_zero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let (mut c, mut d) = (1.0, 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for step in 1..300 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for numerator in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + numerator * d);
            c = away_from_zero(1.0 + numerator / c);
            fraction *= c * d;
        }
        if (fraction / before - 1.0).abs() < 1e-14 {
            break;
        }
    }
    front * fraction
}

/// The logarithm of the gamma function (Lanczos, g = 7, n = 9), of arguments above 0.
fn ln_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        let pi = std::f64::consts::PI;
        return (pi / (pi * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let mut sum = 0.999_999_999_999_809_9;
    let mut place = x;
    for coefficient in COEFFICIENTS {
        sum += coefficient / place;
        place += 1.0;
    }
    let t = x + 6.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x - 0.5) * t.ln() - t + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-4 * b.abs().max(1e-3), "{a} is not {b}");
    }

    /// The values of every printed table of Student's t.
    #[test]
    fn the_quantiles_are_those_of_the_tables() {
        for (free, t) in [
            (1.0, 12.7062),
            (2.0, 4.30265),
            (4.0, 2.77645),
            (10.0, 2.22814),
            (30.0, 2.04227),
        ] {
            near(quantile(free), t);
        }
        near(quantile(1e6), 1.95997);
        near(two_sided(2.0, 10.0), 0.073_388);
        near(two_sided(-2.0, 10.0), 0.073_388);
        near(two_sided(0.0, 3.0), 1.0);
        near(two_sided(50.0, 3.0), 1.7617e-5);
    }

    fn spread(n: usize, mean: f64, deviation: f64) -> Spread {
        Spread {
            n,
            mean,
            deviation: (n > 1).then_some(deviation),
        }
    }

    #[test]
    fn a_mean_has_bounds_where_there_are_two_times() {
        // 9, 9.5, 10, 10.5, 11
        let (low, high) = spread(5, 10.0, 0.790_569).bounds().expect("five");
        near(low, 10.0 - 2.77645 * 0.353_553);
        near(high, 10.0 + 2.77645 * 0.353_553);
        assert_eq!(spread(1, 3.0, 0.0).bounds(), None);
    }

    #[test]
    fn a_ratio_holds_one_where_nothing_differs() {
        let (a, b) = (spread(4, 10.025, 0.170_783), spread(4, 10.05, 0.129_099));
        let ratio = Ratio::of(&a, &b).expect("above 0");
        let (low, high) = ratio.bounds.expect("four each");
        assert!(
            low < 1.0 && 1.0 < high && ratio.p.expect("four each") > 0.5,
            "{ratio:?}"
        );
        let ratio = Ratio::of(&spread(4, 20.05, 0.341_565), &a).expect("above 0");
        near(ratio.ratio, 2.0);
        let (low, high) = ratio.bounds.expect("four each");
        assert!(
            1.9 < low && high < 2.1 && ratio.p.expect("four each") < 1e-6,
            "{ratio:?}"
        );
        near(ratio.inverse().bounds.expect("as before").1, 1.0 / low);
    }

    /// Of 20,000 simulated pairs of three and five normal times of the same mean (10) and deviation (1) such bounds held 1 in
    /// 95.5 %.
    #[test]
    fn the_bounds_are_those_of_welch() {
        let ratio = Ratio::of(&spread(3, 10.0, 1.0), &spread(5, 10.0, 1.0)).expect("above 0");
        // t of 4.339 degrees of freedom, by numerical integration, times the error.
        near(ratio.bounds.expect("both").1.ln(), 2.692_957 * 0.073_029_7);
    }

    fn logarithms(values: &[f64]) -> Spread {
        Spread::of(&values.iter().map(|value| value.ln()).collect::<Vec<_>>()).expect("values")
    }

    /// The figures are those of `scipy.stats` 1.15.3: `t.interval` with `sem`, and `ttest_ind(.., equal_var=False)` of the
    /// logarithms with its `confidence_interval(0.95)`.
    #[test]
    fn means_and_ratios_of_runs_are_those_of_scipy() {
        let (low, high) = Spread::of(&[0.512, 0.498, 0.505, 0.530, 0.501])
            .and_then(|all| all.bounds())
            .expect("five");
        near(low, 0.493_362_090);
        near(high, 0.525_037_910);
        let slow = logarithms(&[2.1, 1.9, 2.0, 2.05, 1.95]);
        let quick = logarithms(&[1.02, 0.98, 1.05, 1.00, 0.97]);
        let ratio = Ratio::of_logarithms(&[(slow, quick)]).expect("a pair");
        near(ratio.ratio, 1.991_594_034);
        near(ratio.bounds.expect("five each").0, 1.889_227_545);
        near(ratio.bounds.expect("five each").1, 2.099_507_180);
        assert!(
            (ratio.p.expect("five each") / 3.006_492_857e-9 - 1.0).abs() < 1e-6,
            "{ratio:?}"
        );
        let pair = (logarithms(&[3.0, 3.3, 2.9]), logarithms(&[1.5, 1.4, 1.6]));
        let ratio = Ratio::of_logarithms(&[pair]).expect("a pair");
        near(ratio.bounds.expect("three each").0, 1.756_763_286);
        near(ratio.p.expect("three each"), 1.964_112_491e-4);
        // The mean of both differences: its variance is that of four means over four, its degrees of freedom 5.4167.
        let both = Ratio::of_logarithms(&[(slow, quick), pair]).expect("two pairs");
        near(both.ratio, 2.017_821_418);
        near(both.bounds.expect("enough").0, 1.873_353_568);
        near(both.bounds.expect("enough").1, 2.173_430_229);
        assert!(
            (both.p.expect("enough") / 1.101_488_955e-6 - 1.0).abs() < 1e-4,
            "{both:?}"
        );
    }

    #[test]
    fn ratios_of_single_or_equal_runs_do_no_harm() {
        let (one, same, other) = (
            logarithms(&[2.0]),
            logarithms(&[1.0, 1.0]),
            logarithms(&[2.0, 2.0]),
        );
        let ratio = Ratio::of_logarithms(&[(one, same)]).expect("a pair");
        assert!(
            (ratio.ratio - 2.0).abs() < 1e-12 && ratio.bounds.is_none() && ratio.p.is_none(),
            "{ratio:?}"
        );
        assert_eq!(
            Ratio::of_logarithms(&[(same, same)]).and_then(|ratio| ratio.p),
            Some(1.0)
        );
        assert_eq!(
            Ratio::of_logarithms(&[(other, same)]).and_then(|ratio| ratio.p),
            Some(0.0)
        );
        assert_eq!((Ratio::of_logarithms(&[]), Spread::of(&[])), (None, None));
    }

    #[test]
    fn single_or_equal_times_and_zeros_do_no_harm() {
        let (one, two) = (spread(1, 5.0, 0.0), spread(2, 5.0, 1.0));
        let (zero, same) = (spread(2, 0.0, 0.0), spread(2, 5.0, 0.0));
        let ratio = Ratio::of(&one, &two).expect("above 0");
        assert_eq!((ratio.ratio, ratio.bounds, ratio.p), (1.0, None, None));
        assert_eq!(Ratio::of(&zero, &two), None);
        assert_eq!(Ratio::of(&two, &zero), None);
        assert_eq!(Ratio::of(&same, &same).expect("above 0").p, Some(1.0));
        assert!(Ratio::of(&two, &same).expect("above 0").bounds.is_some());
    }

    #[test]
    fn many_comparisons_are_told_with_more_caution() {
        let adjusted = adjusted(&[Some(0.01), None, Some(0.04), Some(0.03)]);
        assert_eq!(adjusted, [Some(0.03), None, Some(0.06), Some(0.06)]);
        assert_eq!(super::adjusted(&[]), []);
    }
}
