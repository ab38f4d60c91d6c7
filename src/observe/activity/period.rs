//! Whether an evenly sampled series repeats itself, and after how many samples.
//!
//! A line of the spectrum that red noise does not explain is a candidate, and so are its multiples, since it may be a harmonic. The
//! autocorrelation decides: it must be high at the multiples of a period and low between them.

use super::spectrum::{Fine, autocorrelation, power, red_noise};
use crate::foundation::statistics::middle;

/// A series that is shorter says nothing.
pub(super) const LEAST_SAMPLES: usize = 24;
/// Of a period there must be so many samples: a shorter one may be a beat between the samples and a faster one.
const LEAST_PERIOD: f64 = 8.0;
/// So often must the period have been seen.
const LEAST_CYCLES: f64 = 3.0;
/// How likely it is that noise alone has a line that counts.
const CHANCE: f64 = 0.01;
const CANDIDATES: usize = 8;
const MULTIPLES: usize = 6;
/// The autocorrelation at the multiples, and how far it must be above that between them.
const LEAST_HEIGHT: f64 = 0.3;

/// A period that was found; times are in samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Found {
    pub(super) period: f64,
    /// Half of its 95 % interval.
    pub(super) range: f64,
    /// Height at the multiples less that between them.
    pub(super) confidence: f64,
    /// Standard deviation over parts of the series, relative.
    pub(super) jitter: Option<f64>,
}

/// What a series is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    Aperiodic,
    /// It repeats itself within fewer samples than show it. The period that was seen may be a beat with these, or a longer one.
    TooFast(Option<f64>),
    Periodic(Found),
}

/// Looks for a period. `least`: samples that one must have; `None`: as many as samples that may hide a faster one need.
pub(super) fn search(values: &[f64], least: Option<f64>) -> Verdict {
    let count = values.len();
    if count < LEAST_SAMPLES {
        return Verdict::Aperiodic;
    }
    let values = clipped(&detrended(values));
    let lines = power(&values);
    let noise = red_noise(&lines);
    let limit = -(1.0 - (1.0 - CHANCE).powf(1.0 / lines.len() as f64)).ln();
    let candidates = candidates(&lines, &noise, limit);
    let least = least.unwrap_or(LEAST_PERIOD);
    let fast_from = (count as f64 / least) as usize;
    let is_fast = |line: &usize| *line > fast_from;
    let tallest = |lines: &[f64]| lines.iter().copied().fold(0.0, f64::max);
    let fast = lines.get(fast_from..).map_or(0.0, tallest);
    let correlation = autocorrelation(&smoothed(&values));
    let Some((period, confidence)) = best(&values, &correlation, &candidates) else {
        let strong = candidates.first().filter(|line| is_fast(line));
        let is_clear = strong.is_some_and(|line| lines[line - 1] / noise[line - 1] > 3.0 * limit);
        return if is_clear {
            Verdict::TooFast(None)
        } else {
            Verdict::Aperiodic
        };
    };
    let line = (count as f64 / period).round() as usize;
    let own =
        tallest(&lines[line.saturating_sub(2).min(lines.len() - 1)..(line + 1).min(lines.len())]);
    if period < least || fast > 4.0 * own {
        return Verdict::TooFast(Some(period));
    }
    let (period, step) = sharpened(&correlation, period);
    if period > count as f64 / LEAST_CYCLES {
        return Verdict::Aperiodic;
    }
    let jitter = jitter(&values, period);
    let cycles = count as f64 / period;
    let by_jitter = jitter.unwrap_or(0.0) * period / cycles.sqrt();
    Verdict::Periodic(Found {
        period,
        range: 1.96 * by_jitter.max(0.3 / step),
        confidence,
        jitter,
    })
}

/// Lines above the noise that are higher than their neighbours, the clearest first.
fn candidates(lines: &[f64], noise: &[f64], limit: f64) -> Vec<usize> {
    let excess = |place: usize| lines[place] / noise[place].max(f64::MIN_POSITIVE);
    let neighbour =
        |place: Option<usize>| place.and_then(|at| lines.get(at)).copied().unwrap_or(0.0);
    let is_peak = |place: &usize| {
        let before = neighbour(place.checked_sub(1));
        excess(*place) > limit
            && lines[*place] >= before
            && lines[*place] >= neighbour(Some(place + 1))
    };
    let mut found: Vec<usize> = (0..lines.len()).filter(is_peak).collect();
    found.sort_by(|one, other| excess(*other).total_cmp(&excess(*one)));
    found.truncate(CANDIDATES);
    found.iter().map(|place| place + 1).collect()
}

/// The shortest period that the autocorrelation confirms, of those nearly as good as the best, and how clear it is.
fn best(values: &[f64], correlation: &[f64], candidates: &[usize]) -> Option<(f64, f64)> {
    if candidates.is_empty() {
        return None;
    }
    let fine = Fine::new(values);
    let periods = candidates.iter().flat_map(|line| {
        let period = fine.period_near(*line);
        (1..=5).map(move |multiple| period * f64::from(multiple))
    });
    let confirmed: Vec<(f64, f64, f64)> = periods
        .filter_map(|period| {
            let (height, between) = confirmed(correlation, period)?;
            Some((period, height, height - between))
        })
        .collect();
    let highest = confirmed
        .iter()
        .map(|(_, height, _)| *height)
        .fold(0.0, f64::max);
    let good = confirmed
        .iter()
        .filter(|(_, height, _)| *height >= 0.8 * highest);
    let shortest = good.min_by(|one, other| one.0.total_cmp(&other.0))?;
    Some((shortest.0, shortest.2))
}

/// The height of the autocorrelation at the multiples of a period and between them, where they make it one.
fn confirmed(correlation: &[f64], period: f64) -> Option<(f64, f64)> {
    let last = correlation.len() as f64 * 2.0 / 3.0;
    // A short dip lies between two samples: the higher of the two, never what is between them.
    let pair = |lag: f64| {
        let place = lag as usize;
        Some((*correlation.get(place)?, *correlation.get(place + 1)?))
    };
    let (mut heights, mut valleys) = (Vec::new(), Vec::new());
    for multiple in (1..=MULTIPLES).map(|multiple| multiple as f64) {
        if multiple * period > last {
            break;
        }
        let (one, other) = pair(multiple * period)?;
        heights.push(one.max(other));
        let (one, other) = pair((multiple - 0.5) * period)?;
        valleys.push(one.min(other));
    }
    if heights.len() < 2 {
        return None;
    }
    let every_second = |from: usize| {
        let part: Vec<f64> = heights.iter().skip(from).step_by(2).copied().collect();
        mean(&part)
    };
    // Where every second multiple is low, it is half of the period.
    let (odd, even) = (every_second(0), every_second(1));
    let (height, between) = (mean(&heights), mean(&valleys));
    // Red noise has humps that come three times and hardly more often.
    let cycles = correlation.len() as f64 / period;
    let least = LEAST_HEIGHT * (1.0 + ((6.0 - cycles) / 3.0).clamp(0.0, 1.0));
    let is_one = height >= least && height - between >= least && odd >= 0.6 * even;
    is_one.then_some((height, between))
}

/// The period by the highest lag near its multiples, ever further out while it is seen there; and how many periods out that was.
fn sharpened(correlation: &[f64], period: f64) -> (f64, f64) {
    let last = correlation.len() as f64 * 2.0 / 3.0;
    let (mut period, mut out) = (period, 1.0);
    for multiple in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0] {
        let lag = multiple * period;
        // Further out than the period may be off by now, another repetition is nearer.
        let reach = (period / 4.0).min(1.5 + 0.1 * period);
        if lag + reach + 2.0 > last && multiple > 1.0 {
            break;
        }
        let Some((at, height)) = summit(correlation, lag - reach, lag + reach) else {
            break;
        };
        if height < LEAST_HEIGHT {
            break;
        }
        (period, out) = (at / multiple, multiple);
    }
    (period, out)
}

/// The highest lag in a range, between samples by a parabola.
fn summit(correlation: &[f64], from: f64, to: f64) -> Option<(f64, f64)> {
    let (from, to) = (
        from.max(1.0).ceil() as usize,
        (to as usize).min(correlation.len() - 2),
    );
    let top = (from..=to).max_by(|one, other| correlation[*one].total_cmp(&correlation[*other]))?;
    let (before, here, after) = (correlation[top - 1], correlation[top], correlation[top + 1]);
    let bend = before - 2.0 * here + after;
    let shift = if bend < 0.0 {
        0.5 * (before - after) / bend
    } else {
        0.0
    };
    Some((top as f64 + shift.clamp(-0.5, 0.5), here))
}

/// How much the period differs from part to part, relative to it; `None` of fewer than 25 periods.
fn jitter(values: &[f64], period: f64) -> Option<f64> {
    let (length, hop) = ((20.0 * period) as usize, (5.0 * period) as usize);
    let parts = values.windows(length).step_by(hop.max(1));
    let periods: Vec<f64> = parts
        .map(|part| sharpened(&autocorrelation(&smoothed(&detrended(part))), period).0)
        .collect();
    if periods.len() < 2 {
        return None;
    }
    let middle = mean(&periods);
    let squares: Vec<f64> = periods
        .iter()
        .map(|period| (period - middle).powi(2))
        .collect();
    Some((squares.iter().sum::<f64>() / (periods.len() - 1) as f64).sqrt() / middle)
}

/// Without its straight line.
fn detrended(values: &[f64]) -> Vec<f64> {
    let count = values.len() as f64;
    let middle = (count - 1.0) / 2.0;
    let mean = mean(values);
    let (mut product, mut square) = (0.0, 0.0);
    for (place, value) in values.iter().enumerate() {
        let from_middle = place as f64 - middle;
        product += from_middle * (value - mean);
        square += from_middle * from_middle;
    }
    let slope = if square > 0.0 { product / square } else { 0.0 };
    let rest = |(place, value): (usize, &f64)| value - mean - slope * (place as f64 - middle);
    values.iter().enumerate().map(rest).collect()
}

/// Without values far beyond the others.
fn clipped(values: &[f64]) -> Vec<f64> {
    let level = middle(values.to_vec());
    let spread = 1.4826 * middle(values.iter().map(|value| (value - level).abs()).collect());
    if spread <= 0.0 {
        return values.to_vec();
    }
    let clip = |value: &f64| value.clamp(level - 5.0 * spread, level + 5.0 * spread);
    let clipped: Vec<f64> = values.iter().map(clip).collect();
    let mean = mean(&clipped);
    clipped.iter().map(|value| value - mean).collect()
}

/// Binomial means of five values: short dips at half samples stay whole.
fn smoothed(values: &[f64]) -> Vec<f64> {
    let last = values.len() - 1;
    let at = |place: usize, shift: isize| values[place.saturating_add_signed(shift).min(last)];
    (0..values.len())
        .map(|place| {
            let (near, far) = (at(place, -1) + at(place, 1), at(place, -2) + at(place, 2));
            (6.0 * values[place] + 4.0 * near + far) / 16.0
        })
        .collect()
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
