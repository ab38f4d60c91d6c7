//! Distributions and what follows from them: Student's t and the normal distribution, means and ratios with intervals, numbers that
//! look like chance. It is our own code since no crate that is in use has it.
//!
//! Epochs of one run are no repeats of the run: what is computed of them speaks of the epochs of these runs, and the report says so.
//! Of a matrix each run counts once.

use std::f64::consts::{PI, SQRT_2};

/// Share of cases in which an interval of [`Spread::bounds`] and [`Ratio`] holds the true value.
pub const CONFIDENCE: f64 = 0.95;
/// Quantile of the normal distribution at 95 %.
pub const Z95: f64 = 1.644_853_626_951_472_7;

/// The mean; `None` of no values.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The median: the middle value, or halfway between the two in the middle. `None` of no values.
#[must_use]
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

/// The middle value, of an even number the upper of the two in the middle; 0 of no values. It does not sort.
#[must_use]
pub fn middle(mut values: Vec<f64>) -> f64 {
    let middle = values.len() / 2;
    if values.is_empty() {
        return 0.0;
    }
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// The value at `share`, between 0 and 1, of sorted values, by nearest rank; `None` of no values.
#[must_use]
pub fn nearest_rank(sorted: &[f64], share: f64) -> Option<f64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the length"
    )]
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// Values in few figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// How many there are.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// Standard deviation of a sample; `None` of a single value.
    pub deviation: Option<f64>,
}

impl Spread {
    /// Of values; `None` where there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let (n, mean) = (values.len(), mean(values)?);
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self {
            n,
            mean,
            deviation: (n > 1).then(|| (squares / (n as f64 - 1.0)).sqrt()),
        })
    }

    /// Variance of the mean, with its degrees of freedom; `None` of a single value.
    fn variance_of_mean(&self) -> Option<(f64, f64)> {
        let count = self.n as f64;
        Some((self.deviation?.powi(2) / count, count - 1.0))
    }

    /// Bounds of the mean.
    #[must_use]
    pub fn bounds(&self) -> Option<(f64, f64)> {
        let (variance, freedom) = self.variance_of_mean()?;
        let half = t_quantile(freedom) * variance.sqrt();
        Some((self.mean - half, self.mean + half))
    }
}

/// The ratio of two means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Mean over mean of the baseline.
    pub ratio: f64,
    /// Its bounds; `None` where one of the two has a single value.
    pub bounds: Option<(f64, f64)>,
    /// The probability of a ratio at least so far from 1 where the means are the same.
    pub p: Option<f64>,
}

impl Ratio {
    /// A ratio of which nobody knows how sure it is.
    #[must_use]
    pub fn unsure(ratio: f64) -> Self {
        Self {
            ratio,
            bounds: None,
            p: None,
        }
    }

    /// Of two means, by the logarithm of their ratio (delta method) and Welch's degrees of freedom. `None` where a mean is not
    /// above 0.
    #[must_use]
    pub fn of(times: &Spread, baseline: &Spread) -> Option<Self> {
        if times.mean <= 0.0 || baseline.mean <= 0.0 {
            return None;
        }
        let ratio = times.mean / baseline.mean;
        let relative = |spread: &Spread| {
            let (variance, freedom) = spread.variance_of_mean()?;
            Some((variance / spread.mean.powi(2), freedom))
        };
        let variances = [times, baseline].into_iter().map(relative).collect();
        Some(Self::welch(ratio, ratio.ln(), variances, 1.0))
    }

    /// Of geometric means, each pair the logarithms of times and of those of its baseline: the geometric mean of the pairs'
    /// ratios, with Welch's degrees of freedom (Welch 1947; Satterthwaite 1946). `None` where there is no pair.
    #[must_use]
    pub fn of_logarithms(pairs: &[(Spread, Spread)]) -> Option<Self> {
        let differences: Vec<f64> = pairs
            .iter()
            .map(|(times, baseline)| times.mean - baseline.mean)
            .collect();
        let difference = mean(&differences)?;
        let both = pairs.iter().flat_map(|(times, baseline)| [times, baseline]);
        let variances = both.map(Spread::variance_of_mean).collect();
        let ratio = Self::welch(difference.exp(), difference, variances, pairs.len() as f64);
        ratio.ratio.is_finite().then_some(ratio)
    }

    /// A ratio whose logarithm is a mean of `count` differences of means with these variances and degrees of freedom.
    fn welch(ratio: f64, logarithm: f64, variances: Option<Vec<(f64, f64)>>, count: f64) -> Self {
        let Some(variances) = variances else {
            return Self::unsure(ratio);
        };
        let sum: f64 = variances.iter().map(|(variance, _)| variance).sum();
        if sum == 0.0 {
            return Self {
                ratio,
                bounds: Some((ratio, ratio)),
                p: Some(if logarithm == 0.0 { 1.0 } else { 0.0 }),
            };
        }
        let rest: f64 = variances
            .iter()
            .map(|(variance, freedom)| variance.powi(2) / freedom)
            .sum();
        let (freedom, error) = (sum.powi(2) / rest, sum.sqrt() / count);
        let reach = (t_quantile(freedom) * error).exp();
        Self {
            ratio,
            bounds: Some((ratio / reach, ratio * reach)),
            p: Some(t_two_sided(logarithm / error, freedom)),
        }
    }

    /// The baseline against this.
    #[must_use]
    pub fn inverse(&self) -> Self {
        Self {
            ratio: 1.0 / self.ratio,
            bounds: self.bounds.map(|(low, high)| (1.0 / high, 1.0 / low)),
            p: self.p,
        }
    }

    /// Times a number that is known without error.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        Self {
            ratio: self.ratio * factor,
            bounds: self.bounds.map(|(low, high)| (low * factor, high * factor)),
            p: None,
        }
    }
}

/// Probabilities of several comparisons, each raised so that all of them together mislead in no more cases than one does
/// (Holm 1979).
#[must_use]
pub fn adjusted(probabilities: &[Option<f64>]) -> Vec<Option<f64>> {
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
fn t_quantile(freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, 1e3_f64);
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if t_two_sided(middle, freedom) > 1.0 - CONFIDENCE {
            low = middle
        } else {
            high = middle
        }
    }
    low
}

/// The probability of a t at least so far from 0.
fn t_two_sided(t: f64, freedom: f64) -> f64 {
    incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// The probability of an F at least so large, with these degrees of freedom of its two parts.
#[must_use]
pub fn f_at_least(f: f64, between: f64, within: f64) -> f64 {
    incomplete_beta(within / 2.0, between / 2.0, within / (within + between * f))
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
        return (PI / (PI * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let mut sum = 0.999_999_999_999_809_9;
    let mut place = x;
    for coefficient in COEFFICIENTS {
        sum += coefficient / place;
        place += 1.0;
    }
    let t = x + 6.5;
    0.5 * (2.0 * PI).ln() + (x - 0.5) * t.ln() - t + sum.ln()
}

/// Quick quantile of Student's distribution at 95 %, for the thousands of forecasts of a plan, by the expansion of Cornish and Fisher (Abramowitz and Stegun 26.7.5); from two
/// degrees of freedom on it errs by 1 % at most.
#[must_use]
pub fn quick_t95(freedom: f64) -> f64 {
    let v = freedom.max(2.0);
    let z = Z95;
    let square = z * z;
    let one = z * (square + 1.0) / 4.0;
    let two = z * (5.0 * square * square + 16.0 * square + 3.0) / 96.0;
    let three = z * (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0;
    z + one / v + two / (v * v) + three / (v * v * v)
}

/// The normal distribution's hazard: its density over what lies above.
#[must_use]
pub fn normal_hazard(z: f64) -> f64 {
    if z > 8.0 {
        // The continued fraction of Mills' ratio.
        z + 1.0 / (z + 2.0 / (z + 3.0 / (z + 4.0 / (z + 5.0 / z))))
    } else if z < -30.0 {
        0.0
    } else {
        let density = (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
        density / (0.5 * erfc(z / SQRT_2))
    }
}

/// The share of the normal distribution below `z`.
#[must_use]
pub fn normal_below(z: f64) -> f64 {
    0.5 * erfc(-z / SQRT_2)
}

/// The complementary error function, with a relative error below 1.2e-7 (Numerical Recipes, `erfcc`).
fn erfc(x: f64) -> f64 {
    const FACTORS: [f64; 10] = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let z = x.abs();
    let t = 1.0 / (1.0 + 0.5 * z);
    let polynomial = FACTORS
        .iter()
        .rev()
        .fold(0.0, |sum, factor| sum * t + factor);
    let tail = t * (-z * z + polynomial).exp();
    if x >= 0.0 { tail } else { 2.0 - tail }
}

/// The last step of SplitMix64 (Steele, Lea and Flood 2014): neighbouring numbers get numbers far apart.
#[must_use]
pub fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Numbers that look like chance and are the same for the same seed: SplitMix64.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The numbers of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-4 * b.abs().max(1e-3), "{a} is not {b}");
    }

    #[test]
    fn the_order_of_the_values_does_not_matter() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!((median(vec![7.0]), median(Vec::new())), (Some(7.0), None));
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
            near(t_quantile(free), t);
        }
        near(t_quantile(1e6), 1.95997);
        near(t_two_sided(2.0, 10.0), 0.073_388);
        near(t_two_sided(-2.0, 10.0), 0.073_388);
        near(t_two_sided(0.0, 3.0), 1.0);
        near(t_two_sided(50.0, 3.0), 1.7617e-5);
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

    #[test]
    fn quick_quantiles_are_those_of_the_tables() {
        for (freedom, expected, most) in [
            (2.0, 2.920, 0.04),
            (4.0, 2.132, 0.004),
            (10.0, 1.812, 0.001),
            (1e9, 1.645, 0.001),
        ] {
            assert!(
                (quick_t95(freedom) - expected).abs() < most,
                "{freedom}: {}",
                quick_t95(freedom)
            );
        }
    }

    #[test]
    fn shares_are_those_of_the_tables() {
        for (z, share) in [
            (0.0, 0.5),
            (Z95, 0.95),
            (-Z95, 0.05),
            (3.0, 0.998_650),
            (f64::INFINITY, 1.0),
        ] {
            assert!(
                (normal_below(z) - share).abs() < 1e-6,
                "{z}: {}",
                normal_below(z)
            );
        }
    }

    #[test]
    fn the_hazard_is_that_of_the_tables_and_has_no_jump() {
        for (z, expected) in [
            (0.0, 0.797_885),
            (1.0, 1.525_135),
            (-2.0, 0.055_248),
            (3.0, 3.283_099),
        ] {
            assert!(
                (normal_hazard(z) - expected).abs() < 1e-5,
                "{z}: {}",
                normal_hazard(z)
            );
        }
        assert!((normal_hazard(8.000_001) - normal_hazard(7.999_999)).abs() < 1e-4);
        assert!(normal_hazard(1e6).is_finite() && normal_hazard(-1e6) == 0.0);
    }
}
