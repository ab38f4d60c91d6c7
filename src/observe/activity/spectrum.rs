//! Spectrum and autocorrelation of an evenly sampled series.

use realfft::RealFftPlanner;
use realfft::num_complex::Complex;

use crate::foundation::statistics::{mean, middle};

/// A padded spectrum has so many lines for one of the plain spectrum.
const PADDING: usize = 8;
/// Places at which the noise is estimated.
const ANCHORS: usize = 128;

/// The spectrum of a series padded with zeros to `length`, from frequency 0 on.
fn transformed(values: impl Iterator<Item = f64>, length: usize) -> Vec<Complex<f64>> {
    let transform = RealFftPlanner::<f64>::new().plan_fft_forward(length);
    let mut input = transform.make_input_vec();
    input
        .iter_mut()
        .zip(values)
        .for_each(|(place, value)| *place = value);
    let mut output = transform.make_output_vec();
    // The lengths are the plan's own.
    let _ = transform.process(&mut input, &mut output);
    output
}

/// Power of the lines 1 to n/2: line k has k cycles in the series.
pub(super) fn power(values: &[f64]) -> Vec<f64> {
    let lines = transformed(values.iter().copied(), values.len());
    let count = values.len() as f64;
    lines
        .iter()
        .skip(1)
        .map(|line| line.norm_sqr() / count)
        .collect()
}

/// The power that red noise would have at each line: of first order, its strength and correlation by the lines' medians in the
/// logarithm (an autoregressive process; the median of an exponential distribution is ln 2 times its mean).
pub(super) fn red_noise(power: &[f64]) -> Vec<f64> {
    let count = power.len();
    let window = (count / 4).max(5);
    let anchors: Vec<(f64, f64)> = (0..count)
        .step_by(count.div_ceil(ANCHORS))
        .filter_map(|line| {
            let from = line.saturating_sub(window / 2);
            let near = power[from..count.min(line + window / 2 + 1)].to_vec();
            let middle = middle(near) / std::f64::consts::LN_2;
            (middle > 0.0).then(|| (cosine(line, count), middle.ln()))
        })
        .collect();
    let shape = |correlation: f64, cosine: f64| {
        let square = correlation * correlation;
        (1.0 - square) / (1.0 + square - 2.0 * correlation * cosine)
    };
    // The mean of the logarithms' differences, and what is left of them.
    let fit = |correlation: f64| {
        let left = |(cosine, middle): &(f64, f64)| middle - shape(correlation, *cosine).ln();
        let left: Vec<f64> = anchors.iter().map(left).collect();
        let mean = mean(&left).unwrap_or_default();
        let rest: f64 = left.iter().map(|left| (left - mean).powi(2)).sum();
        (rest, correlation, mean)
    };
    let fits = (0..50).map(|step| fit(f64::from(step) * 0.02));
    let best = fits.min_by(|one, other| one.0.total_cmp(&other.0));
    let (_, correlation, mean) = best.unwrap_or((0.0, 0.0, 0.0));
    (0..count)
        .map(|line| mean.exp() * shape(correlation, cosine(line, count)))
        .collect()
}

/// The cosine of the angle of line `line + 1` of so many: half a turn is the highest frequency.
fn cosine(line: usize, count: usize) -> f64 {
    (std::f64::consts::PI * (line + 1) as f64 / count as f64).cos()
}

/// A spectrum with lines closer together, of the series under a Hann window.
pub(super) struct Fine {
    power: Vec<f64>,
    length: usize,
    count: usize,
}

impl Fine {
    pub(super) fn new(values: &[f64]) -> Self {
        let count = values.len();
        let length = (count * PADDING).next_power_of_two();
        let window = |place: usize| {
            let turn = 2.0 * std::f64::consts::PI * place as f64 / (count - 1).max(1) as f64;
            0.5 - 0.5 * turn.cos()
        };
        let windowed = values.iter().enumerate();
        let lines = transformed(windowed.map(|(place, value)| value * window(place)), length);
        Self {
            power: lines.iter().map(Complex::norm_sqr).collect(),
            length,
            count,
        }
    }

    /// The period of the highest line near line `line` of the plain spectrum, in samples.
    pub(super) fn period_near(&self, line: usize) -> f64 {
        let scale = self.length as f64 / self.count as f64;
        let at = |line: f64| ((line * scale) as usize).clamp(1, self.power.len() - 1);
        let (from, to) = (at(line as f64 - 1.0), at(line as f64 + 1.0));
        let lines =
            (from..=to).max_by(|one, other| self.power[*one].total_cmp(&self.power[*other]));
        self.length as f64 / lines.unwrap_or(from) as f64
    }
}

/// Autocorrelation at lags 0 to n - 1, unbiased: what fewer pairs give is weighed up. `values` have the mean 0.
pub(super) fn autocorrelation(values: &[f64]) -> Vec<f64> {
    let count = values.len();
    let length = (2 * count).next_power_of_two();
    let lines = transformed(values.iter().copied(), length);
    let inverse = RealFftPlanner::<f64>::new().plan_fft_inverse(length);
    let mut input: Vec<Complex<f64>> = lines
        .iter()
        .map(|line| Complex::new(line.norm_sqr(), 0.0))
        .collect();
    let mut output = inverse.make_output_vec();
    let _ = inverse.process(&mut input, &mut output);
    let whole = output[0];
    if whole <= 0.0 {
        return vec![0.0; count];
    }
    let weighed = |lag: usize| output[lag] / whole * count as f64 / (count - lag) as f64;
    (0..count).map(weighed).collect()
}
