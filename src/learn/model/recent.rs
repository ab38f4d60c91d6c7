//! Time passes: code, data, drivers and machines change, and a configuration's runs move to another level.

use super::gather::Target;
use crate::record::{Shift, median};

/// A run weighs half of one that is so many runs newer.
const HALF: f32 = 24.0;
/// So many runs in a row are a shift where each lies so many standard deviations beyond those before, on one side. By chance each of
/// these happens once in some hundred million runs.
const SHIFTS: [(usize, f64); 3] = [(2, 4.0), (4, 2.5), (8, 1.6)];
/// Runs before a shift: at least, and at most so many are looked at.
const BEFORE: (usize, usize) = (3, 32);
/// Less than this, as a logarithm, is no shift: machines and schedulers differ by as much from hour to hour.
const LEAST: f64 = 0.07;
/// After so many runs a shift is no news.
const NEWS: u64 = 20;
/// How far a run was from the level of those before it, and how many these were.
pub(super) type Ahead = (f64, f64);

/// Puts values into the order of time, leaves out those of before the last shift, and weighs newer ones more; `sd` is what runs are
/// believed to scatter by. Returns the shift, and how well each run, those left out too, followed from those before it.
pub(super) fn recent(targets: &mut Vec<Target>, sd: f64) -> (Option<Shift>, Vec<Ahead>) {
    if targets.len() == 1 {
        return (None, Vec::new());
    }
    // Sums of floats depend on their order, which must not depend on that of the runs.
    targets.sort_unstable_by_key(|it| (it.at_ms, it.censored, it.doubtful, it.y.to_bits()));
    let sure = targets.iter().filter(|target| target.is_sure());
    let sure: Vec<(u64, f64)> = sure.map(|target| (target.at_ms, target.y)).collect();
    let (levels, ahead) = walked(&sure, sd);
    let [.., before, last] = levels[..] else {
        weigh(targets);
        return (None, ahead);
    };
    targets.retain(|target| target.at_ms >= sure[last].0);
    weigh(targets);
    let shift = Shift {
        runs: (sure.len() - last) as u64,
        before: (last - before) as u64,
        time_ratio: (level(&sure[last..]) - level(&sure[before..last])).exp(),
        between_ms: [sure[last - 1].0, sure[last].0],
    };
    (Some(shift).filter(|shift| shift.runs <= NEWS), ahead)
}

/// Notes how much each value weighs by the number of newer ones.
fn weigh(targets: &mut [Target]) {
    let (mut newer, mut at_ms) = (0.0_f32, u64::MAX);
    for at in (0..targets.len()).rev() {
        if targets[at].at_ms < at_ms {
            (newer, at_ms) = ((targets.len() - 1 - at) as f32, targets[at].at_ms);
        }
        targets[at].recency = (-newer / HALF).exp2();
    }
}

/// Where levels begin among values in the order of time, the first at 0, and how well each value followed from those before.
fn walked(values: &[(u64, f64)], sd: f64) -> (Vec<usize>, Vec<Ahead>) {
    let (mut levels, mut ahead) = (vec![0], Vec::new());
    // The first of the values of the same moment, which say nothing of each other.
    let mut moment = 0;
    for (at, (at_ms, y)) in values.iter().enumerate() {
        let begin = *levels.last().unwrap_or(&0);
        moment = if *at_ms > values[moment].0 {
            at
        } else {
            moment
        };
        let before = &values[begin.max(moment.saturating_sub(BEFORE.1)).min(moment)..moment];
        if !before.is_empty() {
            ahead.push((y - level(before), before.len() as f64));
        }
        let begins = |(runs, times): &(usize, f64)| {
            let first = (at + 1).checked_sub(*runs)?;
            let before = values.get(begin.max(first.saturating_sub(BEFORE.1))..first)?;
            let is_later = before.last()?.0 < values[first].0;
            let is_enough = first >= begin + BEFORE.0;
            (is_later && is_enough && is_beyond(&values[first..=at], before, sd, *times))
                .then_some(first)
        };
        levels.extend(SHIFTS.iter().find_map(begins));
    }
    (levels, ahead)
}

/// Whether all of some values lie so many standard deviations beyond others, on one side.
fn is_beyond(last: &[(u64, f64)], before: &[(u64, f64)], sd: f64, times: f64) -> bool {
    let level = level(before);
    let least = |sd: f64| f64::max(LEAST, times * sd);
    let beyond = |limit: f64| {
        let is_above = |(_, y): &(u64, f64)| y - level > limit;
        let is_below = |(_, y): &(u64, f64)| level - y > limit;
        last.iter().all(is_above) || last.iter().all(is_below)
    };
    // Most runs lie where those before did.
    if !beyond(least(sd)) {
        return false;
    }
    // Of a normal distribution the standard deviation is 1.4826 times that of the middle one.
    let scatter = 1.4826 * middle(before.iter().map(|(_, y)| (y - level).abs()));
    beyond(least(sd.max(scatter)))
}

fn level(values: &[(u64, f64)]) -> f64 {
    middle(values.iter().map(|(_, y)| *y))
}

fn middle(values: impl Iterator<Item = f64>) -> f64 {
    median(values.collect()).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a second apart; scattered by 2 %.
    fn after(levels: &[(usize, f64)]) -> (Vec<Target>, Option<Shift>) {
        let seconds = levels
            .iter()
            .flat_map(|(runs, level)| std::iter::repeat_n(*level, *runs));
        let mut targets: Vec<Target> = (0_u32..)
            .zip(seconds)
            .map(|(at, seconds)| Target {
                y: (seconds * (0.98 + 0.01 * f64::from(at * 3 % 5))).ln(),
                at_ms: 1000 * u64::from(at),
                ..Target::default()
            })
            .collect();
        targets.reverse();
        let (shift, _) = recent(&mut targets, 0.05);
        (targets, shift)
    }

    #[test]
    fn runs_before_last_shift_are_left_out() {
        for (levels, runs, before, ratio) in [
            (&[(20, 60.0), (3, 90.0)][..], 3, 20, 1.5),
            (&[(20, 60.0), (12, 90.0), (2, 60.0)], 2, 12, 2.0 / 3.0),
            (&[(20, 60.0), (8, 68.0)], 8, 20, 1.13),
        ] {
            let (left, shift) = after(levels);
            let shift = shift.expect("there was one");
            assert_eq!(
                (left.len() as u64, shift.runs, shift.before),
                (runs, runs, before)
            );
            assert!((shift.time_ratio / ratio - 1.0).abs() < 0.03, "{shift:?}");
        }
    }

    #[test]
    fn single_outliers_and_noise_are_no_shift() {
        for levels in [
            &[(20, 60.0), (1, 90.0)][..],
            &[(20, 60.0), (1, 90.0), (1, 60.0), (1, 90.0)],
            &[(2, 60.0), (2, 90.0)],
            &[(20, 60.0), (20, 62.0)],
        ] {
            let (left, shift) = after(levels);
            let all: usize = levels.iter().map(|(runs, _)| runs).sum();
            assert_eq!((left.len(), shift), (all, None), "{levels:?}");
        }
    }

    #[test]
    fn runs_of_one_moment_have_no_order() {
        let mut targets: Vec<Target> = [60.0_f64, 90.0]
            .iter()
            .flat_map(|seconds| {
                let target = Target {
                    y: seconds.ln(),
                    ..Target::default()
                };
                std::iter::repeat_n(target, 10)
            })
            .collect();
        assert_eq!(recent(&mut targets, 0.05), (None, Vec::new()));
        assert!(targets.len() == 20 && targets.iter().all(|its| its.recency == 1.0));
    }

    #[test]
    fn runs_in_doubt_show_no_shift() {
        let moved = |in_doubt: bool| {
            let target = |at: u64| Target {
                y: if at < 6 { 0.2_f64.ln() } else { 0.3_f64.ln() },
                at_ms: at,
                doubtful: in_doubt && at >= 6,
                ..Target::default()
            };
            let mut targets: Vec<Target> = (0..9).map(target).collect();
            recent(&mut targets, 0.05).0.map(|shift| shift.runs)
        };
        assert_eq!([moved(false), moved(true)], [Some(3), None]);
    }

    #[test]
    fn newer_runs_weigh_more() {
        let (left, _) = after(&[(49, 60.0)]);
        let weights: Vec<f32> = left.iter().map(|target| target.recency).collect();
        assert!(weights.is_sorted(), "{weights:?}");
        assert_eq!((weights[0], weights[24], weights[48]), (0.25, 0.5, 1.0));
    }
}
