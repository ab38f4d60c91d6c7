//! The rhythm of a signal: its readings, at whatever times, to a [`Pattern`]. A long and a short period are two things.

use super::period::{Found, LEAST_SAMPLES, Verdict, mean, search};
use crate::foundation::statistics::middle;
use crate::record::{Pattern, PatternKind};

/// A signal that changes less is flat, in percent of what it may be.
const LEAST_RANGE: f64 = 3.0;
/// A pause that is so many times as long as the usual one is a hole.
const HOLE: f64 = 3.0;
/// Of readings this far from even the values are put on an even grid first.
const UNEVEN: f64 = 0.1;

/// One reading: seconds, and percent of what the signal may be since the reading before.
pub(super) type Reading = (f64, f64);

/// The rhythm of these readings, ascending in time.
pub(super) fn rhythm(readings: &[Reading]) -> Pattern {
    let readings: Vec<Reading> = readings
        .iter()
        .copied()
        .filter(|(at, value)| at.is_finite() && value.is_finite())
        .collect();
    let unresolvable = |why: String| Pattern::without_period(PatternKind::Unresolvable, why);
    if readings.len() < LEAST_SAMPLES {
        return unresolvable(format!("there are only {} readings", readings.len()));
    }
    let steps: Vec<f64> = readings
        .windows(2)
        .map(|pair| pair[1].0 - pair[0].0)
        .collect();
    let step = middle(steps);
    if step <= 0.0 {
        return unresolvable("the clock of its samples was set back".to_owned());
    }
    let piece = longest_piece(&readings, step);
    if piece.len() < LEAST_SAMPLES {
        return unresolvable("no stretch without holes is long enough".to_owned());
    }
    let (least, most) = range(piece);
    if most - least < LEAST_RANGE {
        return Pattern::without_period(PatternKind::Flat, "it hardly changes");
    }
    let values = even(piece, step);
    if values.len() < LEAST_SAMPLES {
        return unresolvable("its readings are too far from even".to_owned());
    }
    match search(&values, None) {
        Verdict::Aperiodic => {
            Pattern::without_period(PatternKind::Aperiodic, "it does not repeat itself")
        }
        Verdict::TooFast(seen) => {
            let short = seen.and_then(|long| Some((within(&values, long)?, long)));
            let why = format!("it repeats itself faster than samples every {step:.1} s can show");
            short.map_or_else(
                || Pattern::without_period(PatternKind::LowResolution, why),
                |(short, long)| pattern(&values, step, short, Some(long)),
            )
        }
        Verdict::Periodic(found) => match within(&values, found.period) {
            Some(short) => pattern(&values, step, short, Some(found.period)),
            None => pattern(&values, step, found, over(&values, found.period)),
        },
    }
}

fn pattern(values: &[f64], step: f64, first: Found, second: Option<f64>) -> Pattern {
    let seconds = |samples: f64| samples * step;
    Pattern {
        signal: None,
        gpu: None,
        kind: PatternKind::Periodic,
        period_seconds: Some(seconds(first.period)),
        period_low_seconds: Some(seconds(first.period - first.range)),
        period_high_seconds: Some(seconds(first.period + first.range)),
        confidence: Some(first.confidence),
        cycles: Some(values.len() as f64 / first.period),
        jitter_ratio: first.jitter,
        second_period_seconds: second.map(seconds),
        why: None,
    }
}

/// A shorter period within a long one: each pause of the long one begins the short one again, so that it is only seen between them.
fn within(values: &[f64], long: f64) -> Option<Found> {
    let length = long.round() as usize;
    if length < LEAST_SAMPLES + 8 {
        return None;
    }
    let cut = pause(values, long);
    let margin = (0.12 * long) as usize;
    let mut found = Vec::new();
    let mut pieces = 0;
    let mut begin = cut as f64 - long;
    while begin < values.len() as f64 {
        let from = (begin.max(0.0) as usize + margin).min(values.len());
        let to = ((begin + long).max(0.0) as usize)
            .saturating_sub(margin)
            .min(values.len());
        begin += long;
        if to < from + LEAST_SAMPLES.max(length / 2) {
            continue;
        }
        pieces += 1;
        if let Verdict::Periodic(short) = search(&values[from..to], None) {
            found.push(short);
        }
    }
    let period = middle(found.iter().map(|short| short.period).collect());
    found.retain(|short| (short.period / period - 1.0).abs() < 0.1);
    if pieces == 0 || found.len() * 2 < pieces {
        return None;
    }
    let of = |part: fn(&Found) -> f64| mean(&found.iter().map(part).collect::<Vec<_>>());
    Some(Found {
        period,
        range: of(|short| short.range) / (found.len() as f64).sqrt(),
        confidence: of(|short| short.confidence),
        jitter: None,
    })
}

/// Where in a long period the pause is: where its mean course is farthest from its usual height.
fn pause(values: &[f64], long: f64) -> usize {
    let length = long.round() as usize;
    let mut sums: Vec<(f64, f64)> = vec![(0.0, 0.0); length];
    for (place, value) in values.iter().enumerate() {
        let sum = &mut sums[((place as f64 % long) as usize).min(length - 1)];
        *sum = (sum.0 + value, sum.1 + 1.0);
    }
    let course: Vec<f64> = sums
        .iter()
        .map(|(sum, count)| sum / count.max(1.0))
        .collect();
    let width = (length / 10).max(1);
    let smooth: Vec<f64> = (0..length)
        .map(|from| {
            mean(
                &(0..width)
                    .map(|step| course[(from + step) % length])
                    .collect::<Vec<_>>(),
            )
        })
        .collect();
    let usual = middle(smooth.clone());
    let far = |place: &usize| (smooth[*place] - usual).abs();
    let from = (0..length).max_by(|one, other| far(one).total_cmp(&far(other)));
    (from.unwrap_or(0) + width / 2) % length
}

/// A longer period over a short one, of the means of each of those.
fn over(values: &[f64], short: f64) -> Option<f64> {
    let count = (values.len() as f64 / short) as usize;
    let means = (0..count).map(|place| {
        let at = |place: usize| (place as f64 * short) as usize;
        mean(&values[at(place)..at(place + 1).max(at(place) + 1).min(values.len())])
    });
    let means: Vec<f64> = means.collect();
    let (least, most) = means.iter().fold((f64::MAX, f64::MIN), |range, value| {
        (range.0.min(*value), range.1.max(*value))
    });
    if most - least < LEAST_RANGE {
        return None;
    }
    match search(&means, Some(4.0)) {
        Verdict::Periodic(long) => Some(long.period * short),
        _ => None,
    }
}

/// The longest piece without a hole, or a step back.
fn longest_piece(readings: &[Reading], step: f64) -> &[Reading] {
    let is_one = |before: &Reading, after: &Reading| {
        let pause = after.0 - before.0;
        pause > 0.0 && pause <= HOLE * step
    };
    let pieces = readings.chunk_by(is_one);
    pieces.max_by_key(|piece| piece.len()).unwrap_or_default()
}

fn range(readings: &[Reading]) -> (f64, f64) {
    readings
        .iter()
        .fold((f64::MAX, f64::MIN), |range, (_, value)| {
            (range.0.min(*value), range.1.max(*value))
        })
}

/// The values at even times: as they are where their times are, else means over cells of the grid. A value holds since the one before.
fn even(readings: &[Reading], step: f64) -> Vec<f64> {
    let pauses: Vec<f64> = readings
        .windows(2)
        .map(|pair| pair[1].0 - pair[0].0)
        .collect();
    let usual = mean(&pauses);
    let spread = mean(
        &pauses
            .iter()
            .map(|pause| (pause - usual).powi(2))
            .collect::<Vec<_>>(),
    )
    .sqrt();
    if spread <= UNEVEN * step {
        return readings.iter().map(|(_, value)| *value).collect();
    }
    let begin = readings[0].0;
    let cells = ((readings[readings.len() - 1].0 - begin) / step) as usize;
    let mut sums = vec![0.0; cells];
    for pair in readings.windows(2) {
        let (from, to, value) = (
            (pair[0].0 - begin) / step,
            (pair[1].0 - begin) / step,
            pair[1].1,
        );
        for (cell, sum) in sums
            .iter_mut()
            .enumerate()
            .skip(from as usize)
            .take_while(|(cell, _)| (*cell as f64) < to)
        {
            let (low, high) = (from.max(cell as f64), to.min(cell as f64 + 1.0));
            *sum += value * (high - low).max(0.0);
        }
    }
    sums
}

/// One pattern of several signals: those whose periods are within 5 % of each other vote together, by how clear they are. The rest of
/// the GPUs' that are periodic and disagree come beside it.
pub(super) fn fused(patterns: Vec<Pattern>) -> (Pattern, Vec<Pattern>) {
    let weight = |pattern: &Pattern| pattern.confidence.unwrap_or(0.0);
    let near = |one: &Pattern, other: &Pattern| match (one.period_seconds, other.period_seconds) {
        (Some(one), Some(other)) => (one / other - 1.0).abs() <= 0.05,
        _ => false,
    };
    let votes = |one: &Pattern| -> f64 {
        let agreeing = patterns.iter().filter(|other| near(one, other));
        agreeing.map(weight).sum()
    };
    let is_periodic = |pattern: &&Pattern| pattern.period_seconds.is_some();
    let winner = patterns.iter().filter(is_periodic).max_by(|one, other| {
        (votes(one), weight(one))
            .partial_cmp(&(votes(other), weight(other)))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    // Without a period: what says most.
    let rank = |pattern: &&Pattern| match pattern.kind {
        PatternKind::LowResolution => 3,
        PatternKind::Aperiodic => 2,
        PatternKind::Flat => 1,
        PatternKind::Periodic | PatternKind::Unresolvable => 0,
    };
    let chosen = winner.or_else(|| patterns.iter().max_by_key(rank)).cloned();
    let Some(chosen) = chosen else {
        let why = "neither GPUs nor CPU, reads and writes have readings";
        return (
            Pattern::without_period(PatternKind::Unresolvable, why),
            Vec::new(),
        );
    };
    let disagrees = |pattern: &Pattern| {
        pattern.gpu.is_some() && chosen.period_seconds.is_some() && !near(&chosen, pattern)
    };
    let unlike = patterns.into_iter().filter(disagrees).collect();
    (chosen, unlike)
}
