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
    /// In nanoseconds: whole numbers come to the same sum in any order.
    training_nanoseconds: u128,
    last_ended_at_ms: Option<u64>,
}

impl EpochTally {
    /// Takes an epoch in; `place` is its number in the order in which they ended, from 0. Evaluation and checkpoints are no
    /// part of its time.
    pub fn add(&mut self, place: u64, epoch: &Epoch) {
        self.ended = self.ended.saturating_add(1);
        self.has_warmup |= epoch.warmup;
        self.last_ended_at_ms = self.last_ended_at_ms.max(epoch.ended_at_ms);
        let Some((seconds, source)) = epoch.training_time() else {
            self.passed_over = self.passed_over.saturating_add(1);
            return;
        };
        self.training_nanoseconds = self
            .training_nanoseconds
            .saturating_add(nanoseconds(seconds));
        if place == 0 {
            self.first = Some((seconds, source, epoch.warmup));
        } else if !epoch.warmup {
            self.steady.push((seconds, source));
        }
    }

    /// What they come to.
    #[must_use]
    pub fn figures(mut self) -> EpochFigures {
        let mut warm = None;
        if let Some((seconds, source, is_warmup)) = self.first {
            // Records of before warm-up was noted: the first epoch is it.
            match is_warmup || !self.has_warmup {
                true => warm = Some(seconds),
                false => self.steady.push((seconds, source)),
            }
        }
        let steady = of_commonest_source(self.steady).map_or_else(Vec::new, |(_, steady)| steady);
        let count = u32::try_from(steady.len()).unwrap_or(u32::MAX);
        let steady_seconds = median(steady);
        let training = self.training_nanoseconds as f64 / 1e9;
        EpochFigures {
            steady_seconds,
            steady: count,
            first_extra_seconds: warm
                .zip(steady_seconds)
                .map(|(first, steady)| first - steady),
            only_seconds: self
                .first
                .filter(|_| self.ended == 1)
                .map(|(seconds, ..)| seconds),
            likely_seconds: steady_seconds
                .map(|steady| training + f64::from(self.passed_over) * steady),
            training_seconds: (self.passed_over == 0 && self.ended > 0).then_some(training),
            ended: self.ended,
            passed_over: self.passed_over,
            last_ended_at_ms: self.last_ended_at_ms,
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive, and saturating"
)]
fn nanoseconds(seconds: f64) -> u128 {
    (seconds * 1e9).round() as u128
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::learn::model) fn stated(seconds: f64) -> Epoch {
        Epoch {
            printed_seconds: Some(seconds),
            ..Epoch::default()
        }
    }

    pub(in crate::learn::model) fn figures(epochs: &[Epoch]) -> EpochFigures {
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
        assert_eq!(
            (of.first_extra_seconds, of.training_seconds),
            (Some(7.75), Some(20.5))
        );
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
        assert_eq!(
            (of.steady_seconds, of.steady, of.first_extra_seconds),
            (Some(2.25), 3, Some(6.75))
        );
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
            (
                of.steady_seconds,
                of.steady,
                of.passed_over,
                of.training_seconds
            ),
            (Some(2.0), 1, 4, None)
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
    fn the_sum_of_the_times_does_not_hang_on_their_order() {
        let mut epochs: Vec<Epoch> = (1..40).map(|at| stated(0.1 * f64::from(at))).collect();
        let forwards = figures(&epochs).training_seconds;
        epochs.reverse();
        assert_eq!(
            figures(&epochs).training_seconds.map(f64::to_bits),
            forwards.map(f64::to_bits)
        );
    }
}
