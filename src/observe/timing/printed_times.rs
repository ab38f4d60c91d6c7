//! Which printed times of epochs are what they seem to be.

use super::pace::seconds_between;
use crate::record::Epoch;

/// A printed time of at most so many times an epoch's share of the time between two lines is an epoch's own.
const MOST_OF_ONE: f64 = 1.3;

/// Drops the printed times that are no times of single epochs, and the times by the clock where printed ones are as exact:
/// `has_decimals`: they were printed with digits behind a point, be these zeros.
pub(super) fn judge(epochs: &mut [Epoch], has_decimals: bool) {
    if grow_like_a_sum(epochs) || exceed_the_clock(epochs) || may_be_of_several(epochs) {
        drop_printed(epochs);
    }
    trust_whole_seconds(epochs, has_decimals);
}

/// True where the printed times of epochs are those since the beginning: three or more, each longer than the one before by
/// about the first.
fn grow_like_a_sum(epochs: &[Epoch]) -> bool {
    let printed = epochs.iter().filter_map(|epoch| epoch.printed_seconds);
    let times: Vec<f64> = printed.collect();
    let is_like_first = |pair: &[f64]| (0.5..2.0).contains(&((pair[1] - pair[0]) / times[0]));
    times.len() > 2 && times[0] >= 1.0 && times.windows(2).all(is_like_first)
}

/// True where each printed time may be that of all epochs since the line before: most numbers skip some, and by the clock no epoch took so long, or
/// no clock tells.
fn may_be_of_several(epochs: &[Epoch]) -> bool {
    let pairs = || {
        epochs
            .windows(2)
            .filter(|pair| pair[1].printed_seconds.is_some())
    };
    let gap = |pair: &[Epoch]| pair[1].epoch.saturating_sub(pair[0].epoch);
    let skipping = pairs().filter(|pair| gap(pair) > 1);
    let is_of_one = |pair: &[Epoch]| {
        let ends = pair[0].ended_at_ms.zip(pair[1].ended_at_ms);
        let span = ends.and_then(|(from, to)| clock_between(Some(from), Some(to)));
        #[expect(
            clippy::cast_precision_loss,
            reason = "numbers of epochs stay far below 2^53"
        )]
        let most = span.map(|span| MOST_OF_ONE * span / gap(pair) as f64);
        pair[1]
            .printed_seconds
            .zip(most)
            .is_some_and(|(printed, most)| printed <= most)
    };
    let count = skipping.clone().count();
    count >= 2
        && 2 * count > pairs().count()
        && 2 * skipping.filter(|pair| is_of_one(pair)).count() < count
}

/// True where epochs, as printed, took longer together than there was time: these are times of the day, or those to go. Those that were
/// read with the first are left out, since a buffer held them back, and so is the longest: the lines of one may be late. Of several
/// trainings in one output, whose numbers go back, and where the clock was set back, nothing is known.
fn exceed_the_clock(epochs: &[Epoch]) -> bool {
    let goes_back = |pair: &[Epoch]| {
        pair[1].epoch <= pair[0].epoch || pair[1].ended_at_ms < pair[0].ended_at_ms
    };
    let ends = || epochs.iter().filter_map(|epoch| epoch.ended_at_ms);
    let (Some(first), Some(last)) = (ends().next(), ends().next_back()) else {
        return false;
    };
    if epochs.windows(2).any(goes_back) {
        return false;
    }
    let later = epochs
        .iter()
        .filter(|epoch| epoch.ended_at_ms > Some(first));
    let printed = later.filter_map(|epoch| epoch.printed_seconds);
    let (sum, longest) = printed.fold((0.0, 0.0_f64), |(sum, longest), seconds| {
        (sum + seconds, longest.max(seconds))
    });
    let span = seconds_between(first, last);
    span.is_some_and(|span| sum - longest > 1.1 * span + 1.0)
}

/// Leaves the clock alone to say how long the epochs took, from the end of one to that of the next. Where several were read at one go, it
/// says nothing of them, nor of the one after them.
fn drop_printed(epochs: &mut [Epoch]) {
    let ends: Vec<Option<u64>> = epochs.iter().map(|epoch| epoch.ended_at_ms).collect();
    let numbers: Vec<u64> = epochs.iter().map(|epoch| epoch.epoch).collect();
    for (place, epoch) in epochs.iter_mut().enumerate() {
        let was_printed = epoch.printed_seconds.take().is_some();
        let Some(before) = place.checked_sub(1).filter(|_| was_printed) else {
            continue;
        };
        let is_next = numbers[before].checked_add(1) == Some(epoch.epoch);
        let alone = |at: usize| {
            let same =
                |other: Option<usize>| other.is_some_and(|other| ends.get(other) == ends.get(at));
            !same(at.checked_sub(1)) && !same(Some(at + 1))
        };
        if epoch.clock_seconds.is_none() && is_next && alone(before) && alone(place) {
            epoch.clock_seconds = clock_between(ends[before], ends[place]);
        }
    }
}

/// Whole seconds give way to the clock, since most are rounded. Beside others with decimals (`1.00s` and `1.01s`) they are as exact
/// as those: then no clock is kept for them, or the epochs would have two sources of times. Programs may print short times in
/// another unit, or with more digits, so only times of the same size say so.
fn trust_whole_seconds(epochs: &mut [Epoch], has_decimals: bool) {
    for size in [1.0..10.0, 10.0..60.0, 60.0..100.0] {
        let printed = |epoch: &Epoch| epoch.printed_seconds.filter(|time| size.contains(time));
        let mut times = epochs.iter().filter_map(printed);
        if has_decimals || times.any(|time| time.fract() != 0.0) {
            let whole = |epoch: &&mut Epoch| printed(epoch).is_some_and(|time| time.fract() == 0.0);
            let whole = epochs.iter_mut().filter(whole);
            whole.for_each(|epoch| epoch.clock_seconds = None);
        }
    }
}

/// Lines that were read at one go tell nothing.
fn clock_between(from_ms: Option<u64>, to_ms: Option<u64>) -> Option<f64> {
    let (from, to) = from_ms.zip(to_ms).filter(|(from, to)| from != to)?;
    seconds_between(from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Epochs that ended at these times with these printed seconds, as they are judged to have taken.
    fn judged(ends: impl Iterator<Item = (u64, f64)>) -> Vec<Option<f64>> {
        let epoch = |(epoch, (at_ms, seconds)): (u64, (u64, f64))| Epoch {
            epoch,
            printed_seconds: Some(seconds),
            ended_at_ms: Some(1_000_000 + at_ms),
            ..Epoch::default()
        };
        let mut epochs: Vec<Epoch> = (1..).zip(ends).map(epoch).collect();
        judge(&mut epochs, false);
        epochs.iter().map(Epoch::seconds).collect()
    }

    #[test]
    fn times_beside_each_tenth_epoch_may_be_of_ten() {
        let judged = |seconds: f64, pause_ms: Option<u64>| {
            let epoch = |number: u64| Epoch {
                epoch: 10 * number,
                printed_seconds: Some(seconds),
                ended_at_ms: pause_ms.map(|pause| 1_000_000 + number * pause),
                ..Epoch::default()
            };
            let mut epochs: Vec<Epoch> = (1..5).map(epoch).collect();
            judge(&mut epochs, true);
            epochs.iter().map(Epoch::seconds).collect::<Vec<_>>()
        };
        assert_eq!(judged(3.0, Some(3_100)), [None; 4]);
        assert_eq!(judged(0.3, Some(3_100)), [Some(0.3); 4], "one epoch's own");
        assert_eq!(judged(3.0, None), [None; 4]);
    }

    #[test]
    fn printed_times_that_the_clock_rules_out_give_way_to_it() {
        let times = |printed: &[f64], pause_ms: u64| {
            judged(
                (1..)
                    .zip(printed)
                    .map(|(at, seconds)| (at * pause_ms, *seconds)),
            )
        };
        let clock = |count: usize| [vec![None], vec![Some(2.0); count - 1]].concat();
        // The time of the day, the time to go, and a year.
        let of_day = [39_608.0, 39_610.0, 39_612.0, 39_614.0];
        assert_eq!(times(&of_day, 2000), clock(4));
        let to_go: Vec<f64> = (0..12)
            .rev()
            .map(|left| 2.0 * f64::from(left) + 0.1)
            .collect();
        assert_eq!(times(&to_go, 2000), clock(12));
        assert_eq!(times(&[2026.0, 2026.0, 2026.0], 2000), clock(3));
        // Times without the evaluation behind them are possible, and so is one late line.
        let stated = |printed: &[f64]| printed.iter().map(|time| Some(*time)).collect::<Vec<_>>();
        assert_eq!(times(&[1.5, 1.4, 1.6], 2000), stated(&[1.5, 1.4, 1.6]));
        assert_eq!(times(&[9.5, 9.4, 9.6], 9000), stated(&[9.5, 9.4, 9.6]));
    }

    #[test]
    fn of_epochs_that_a_buffer_held_back_the_clock_knows_nothing() {
        // Times since the start, four epochs of 1 s in each portion.
        let ends = (0..12_u64).map(|at| ((at / 4 + 1) * 4000, at as f64 + 1.02));
        assert_eq!(judged(ends), [None; 12]);
    }

    #[test]
    fn of_two_trainings_in_one_output_and_of_a_clock_that_was_set_nothing_is_dropped() {
        let epoch = |epoch: u64, at_ms: u64| Epoch {
            epoch,
            printed_seconds: Some(1.5),
            ended_at_ms: Some(at_ms),
            ..Epoch::default()
        };
        let two = (1..9).flat_map(|of| [epoch(of + 3, of * 1500), epoch(of, of * 1500 + 700)]);
        let set = (1..60).map(|of| epoch(of, of * 1500 + if of < 50 { 3_600_000 } else { 0 }));
        for mut epochs in [two.collect::<Vec<_>>(), set.collect()] {
            judge(&mut epochs, false);
            assert!(epochs.iter().all(|epoch| epoch.printed_seconds.is_some()));
        }
    }

    /// `1.00s` by chance for all epochs.
    #[test]
    fn whole_seconds_with_printed_zeros_are_exact() {
        let epoch = Epoch {
            printed_seconds: Some(1.0),
            clock_seconds: Some(1.3),
            ..Epoch::default()
        };
        let judged = |has_decimals: bool| {
            let mut epochs = [epoch.clone()];
            judge(&mut epochs, has_decimals);
            epochs[0].seconds()
        };
        assert_eq!([false, true].map(judged), [Some(1.3), Some(1.0)]);
    }

    #[test]
    fn lines_that_a_buffer_held_back_keep_their_printed_times() {
        let ends = [50, 50, 50, 100, 100, 100, 100].map(|at| (at * 1000, 15.5));
        assert_eq!(judged(ends.into_iter()), [Some(15.5); 7]);
    }
}
