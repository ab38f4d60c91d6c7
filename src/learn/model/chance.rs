//! Distributions: what the equations and the intervals need of them.

/// Quantile of the normal distribution at 95 %.
pub(super) const Z95: f64 = 1.644_853_626_951_472_7;
/// Degrees of freedom of the runs' scatter: outliers happen, and Student's distribution knows it.
pub(super) const RUN_FREEDOM: f64 = 4.0;
/// Variance of a normal distribution that is as wide at 90 % as Student's with four degrees of freedom, in units of its scale:
/// the square of 2.1318 / 1.6449.
pub(super) const RUN_WIDTH: f64 = 1.6797;

/// Quantile of Student's distribution at 95 %, by the expansion of Cornish and Fisher (Abramowitz and Stegun 26.7.5); from two
/// degrees of freedom on it errs by 1 % at most.
pub(super) fn t95(freedom: f64) -> f64 {
    let v = freedom.max(2.0);
    let z = Z95;
    let square = z * z;
    let one = z * (square + 1.0) / 4.0;
    let two = z * (5.0 * square * square + 16.0 * square + 3.0) / 96.0;
    let three = z * (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0;
    z + one / v + two / (v * v) + three / (v * v * v)
}

/// The normal distribution's hazard: its density over what lies above.
pub(super) fn hazard(z: f64) -> f64 {
    if z > 8.0 {
        // The continued fraction of Mills' ratio.
        z + 1.0 / (z + 2.0 / (z + 3.0 / (z + 4.0 / (z + 5.0 / z))))
    } else if z < -30.0 {
        0.0
    } else {
        let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
        density / (0.5 * erfc(z / std::f64::consts::SQRT_2))
    }
}

/// The share of the normal distribution below `z`.
pub(super) fn below(z: f64) -> f64 {
    0.5 * erfc(-z / std::f64::consts::SQRT_2)
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

/// Numbers that look like chance and are the same for the same seed: SplitMix64.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = super::hash::mixed(self.0) >> 11;
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let number = (bits as f64 + 0.5) / (1_u64 << 53) as f64;
        number
    }

    /// A draw of the standard normal distribution, by Box and Muller.
    pub(super) fn normal(&mut self) -> f64 {
        let (radius, angle) = (self.next(), self.next());
        (-2.0 * radius.ln()).sqrt() * (2.0 * std::f64::consts::PI * angle).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, expected, most) in [
            (2.0, 2.920, 0.04),
            (4.0, 2.132, 0.004),
            (10.0, 1.812, 0.001),
            (1e9, 1.645, 0.001),
        ] {
            assert!(
                (t95(freedom) - expected).abs() < most,
                "{freedom}: {}",
                t95(freedom)
            );
        }
        assert!((RUN_WIDTH - (t95(4.0) / Z95).powi(2)).abs() < 0.01);
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
            assert!((below(z) - share).abs() < 1e-6, "{z}: {}", below(z));
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
            assert!((hazard(z) - expected).abs() < 1e-5, "{z}: {}", hazard(z));
        }
        assert!((hazard(8.000_001) - hazard(7.999_999)).abs() < 1e-4);
        assert!(hazard(1e6).is_finite() && hazard(-1e6) == 0.0);
    }
}
