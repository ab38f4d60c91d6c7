//! The epochs of one node in few figures.

use crate::record::{Epoch, EpochFigures, TimeSource, median, of_commonest_source};

/// Epochs of one node, taken in one by one in any order.
#[derive(Debug, Clone, Default)]
pub struct EpochTally {
    /// Steady ones, in seconds.
    steady: Vec<(f64, TimeSource)>,
    has_warmup: bool,
    /// The epoch at place 0, with its seconds, and whether it is noted as warm-up.
    first: Option<(f64, TimeSource, bool)>,
    ended: u32,
    passed_over: u32,
    /// Place and end of the first and of the last that ended by the clock, in Unix milliseconds UTC.
    ends: Option<[(u64, u64); 2]>,
    clock_set: bool,
}

impl EpochTally {
    /// Takes an epoch in; `place` is its number in the order in which they ended, from 0. Evaluation and checkpoints are no
    /// part of its time.
    pub fn add(&mut self, place: u64, epoch: &Epoch) {
        self.ended = self.ended.saturating_add(1);
        self.has_warmup |= epoch.warmup;
        self.clock_set |= epoch.clock_set;
        if let Some(at_ms) = epoch.ended_at_ms {
            let [first, last] = self.ends.unwrap_or([(place, at_ms); 2]);
            self.ends = Some([first.min((place, at_ms)), last.max((place, at_ms))]);
        }
        let Some((seconds, source)) = epoch.training_time() else {
            self.passed_over = self.passed_over.saturating_add(1);
            return;
        };
        if place == 0 {
            self.first = Some((seconds, source, epoch.warmup));
        } else if !epoch.warmup {
            self.steady.push((seconds, source));
        }
    }

    /// What they come to.
    #[must_use]
    pub fn figures(mut self) -> EpochFigures {
        // Records of before warm-up was noted: the first epoch is it.
        if let Some((seconds, source, false)) = self.first.filter(|_| self.has_warmup) {
            self.steady.push((seconds, source));
        }
        let steady = of_commonest_source(self.steady).map_or_else(Vec::new, |(_, steady)| steady);
        let count = u32::try_from(steady.len()).unwrap_or(u32::MAX);
        let only = self.first.filter(|_| self.ended == 1);
        EpochFigures {
            steady_seconds: median(steady),
            steady: count,
            cycle_seconds: self.ends.filter(|_| !self.clock_set).and_then(cycle),
            only_seconds: only.map(|(seconds, ..)| seconds),
            ended: self.ended,
            passed_over: self.passed_over,
            last_ended_at_ms: self.ends.map(|[_, (_, at_ms)]| at_ms),
        }
    }
}

/// The mean seconds from one end to the next.
fn cycle([(first, began_ms), (last, ended_ms)]: [(u64, u64); 2]) -> Option<f64> {
    let passed_ms = ended_ms.checked_sub(began_ms)?;
    (last > first).then(|| passed_ms as f64 / 1e3 / (last - first) as f64)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::learn::runs) fn stated(seconds: f64) -> Epoch {
        Epoch {
            printed_seconds: Some(seconds),
            ..Epoch::default()
        }
    }

    pub(in crate::learn::runs) fn figures(epochs: &[Epoch]) -> EpochFigures {
        let mut tally = EpochTally::default();
        (0..)
            .zip(epochs)
            .for_each(|(place, epoch)| tally.add(place, epoch));
        tally.figures()
    }

    #[test]
    fn the_first_epoch_and_what_is_no_training_stand_apart() {
        let mut second = stated(5.0);
        second.evaluation_seconds = Some(0.5);
        second.checkpoint_seconds = Some(0.25);
        let of = figures(&[stated(12.0), second, stated(4.25)]);
        assert_eq!((of.steady_seconds, of.steady, of.ended), (Some(4.25), 2, 3));
        let alone = figures(&[stated(3.0)]);
        assert_eq!(
            (alone.steady_seconds, alone.only_seconds),
            (None, Some(3.0)),
            "one epoch is no steady one"
        );
        assert_eq!(of.only_seconds, None);
        assert_eq!(figures(&[]), EpochFigures::default());
    }

    #[test]
    fn each_start_of_the_program_warms_up() {
        let warm = |seconds| Epoch {
            warmup: true,
            ..stated(seconds)
        };
        let of = figures(&[warm(9.0), stated(2.0), warm(8.0), stated(2.5), stated(2.25)]);
        assert_eq!((of.steady_seconds, of.steady), (Some(2.25), 3));
        // Where warm-up is noted and the first is none, it is as good as the others.
        assert_eq!(
            figures(&[stated(2.0), warm(8.0), stated(3.0)]).steady_seconds,
            Some(2.5)
        );
    }

    #[test]
    fn epochs_without_a_usable_time_are_counted_and_passed_over() {
        let of = figures(&[
            stated(9.0),
            stated(f64::NAN),
            stated(0.0),
            stated(-3.0),
            stated(f64::INFINITY),
            stated(2.0),
        ]);
        assert_eq!(
            (of.steady_seconds, of.steady, of.passed_over),
            (Some(2.0), 1, 4)
        );
        let unknown = Epoch::default();
        assert_eq!(figures(&[unknown.clone(), unknown]).passed_over, 2);
    }

    #[test]
    fn the_source_with_most_epochs_counts() {
        let clock = |seconds| Epoch {
            clock_seconds: Some(seconds),
            ..Epoch::default()
        };
        let of = figures(&[clock(9.0), clock(4.0), stated(3.5), stated(3.5)]);
        assert_eq!((of.steady_seconds, of.steady), (Some(3.5), 2));
    }

    #[test]
    fn figures_do_not_depend_on_the_order_of_epochs() {
        let many: Vec<(u64, Epoch)> = (0..1000_u32)
            .map(|at| (u64::from(at), stated(f64::from(at % 7) + 1.0)))
            .collect();
        let mut forwards = EpochTally::default();
        many.iter()
            .for_each(|(place, epoch)| forwards.add(*place, epoch));
        let mut backwards = EpochTally::default();
        many.iter()
            .rev()
            .for_each(|(place, epoch)| backwards.add(*place, epoch));
        let (forwards, backwards) = (forwards.figures(), backwards.figures());
        assert_eq!(forwards.steady_seconds, backwards.steady_seconds);
        assert_eq!((forwards.steady, backwards.steady), (999, 999));
        assert_eq!(forwards.steady_seconds, Some(4.0));
    }

    #[test]
    fn cycle_is_mean_time_between_ends_and_unknown_when_clock_was_set() {
        let at = |ended_at_ms, clock_set| Epoch {
            ended_at_ms,
            clock_set,
            ..stated(1.0)
        };
        let ends = [Some(9_000), Some(10_100), None, Some(12_600)];
        let epochs = ends.map(|ms| at(ms, false));
        assert_eq!(figures(&epochs).cycle_seconds, Some(1.2));
        assert_eq!(figures(&epochs[..1]).cycle_seconds, None);
        let set = [at(Some(9_000), false), at(Some(5_000), true)];
        assert_eq!(figures(&set).cycle_seconds, None);
    }
}
