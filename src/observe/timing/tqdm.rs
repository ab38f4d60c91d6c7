//! Bars of tqdm that no framework draws: around the loader of an own training loop, around its epochs, or both.
//!
//! ```text
//!  12%|█▎        | 1/8 [01:53<13:12, 113.21s/it]
//! Epoch 3/10: 100%|██████████| 469/469 [00:12<00:00, 38.21it/s, loss=0.12]
//! Epoch:  33%|███▎      | 1/3 [01:00<02:00, 60.10s/it]       around bars of steps
//! ```
//!
//! Many bars have nothing to do with training: their labels or their units tell. One that is full ends an epoch, of which
//! the time so far is the duration; the number of the epoch is in the label or in a line before, if anywhere.

use super::bar::{self, Bar};
use super::bar_label::{Subject, keeps_header, subject};
use super::epoch_line;
use super::event::{Event, Facts, Line, Recogniser, Weight};
use super::names;
use super::plain_figures;
use super::scan;

/// The recogniser.
#[derive(Debug, Default)]
pub(super) struct Tqdm {
    /// The epoch of which a line between the bars spoke, and whether a bar of it was full.
    header: Option<(u64, Option<u64>)>,
    header_done: bool,
    /// The bar of steps that is drawn.
    drawn: Option<Drawn>,
    /// Epochs done by the bar that counts them, and its time then.
    outer: Option<(u64, Option<f64>)>,
    /// The first bar whose step is the number of the epoch in its label: that epoch, the step and its time.
    named: Option<(u64, u64, Option<f64>)>,
    /// How long the last full bar of steps took.
    inner_seconds: Option<f64>,
}

/// The last state of a bar.
#[derive(Debug, Clone, Copy)]
struct Drawn {
    epoch: Option<u64>,
    step: u64,
    of: Option<u64>,
    elapsed: f64,
}

impl Recogniser for Tqdm {
    fn name(&self) -> &'static str {
        "tqdm"
    }

    fn weight(&self) -> Weight {
        Weight::Bare
    }

    fn triggers(&self) -> &'static str {
        "%|¦it/s¦s/it¦poch¦Test set: "
    }

    fn wants_every_line(&self) -> bool {
        self.header.is_some()
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        match bar::read(line.text) {
            Some(bar) => self.read_bar(&bar, say),
            None => {
                if let Some(facts) =
                    plain_figures::tested(line.text).filter(|_| self.drawn.is_some())
                {
                    return say(Event::validation(facts));
                }
                let header = epoch_line::header(line.text);
                if header.is_some() || !keeps_header(line.text) {
                    (self.header, self.header_done) = (header, false);
                }
            }
        }
    }
}

impl Tqdm {
    fn read_bar<'a>(&mut self, bar: &Bar<'a>, say: &mut dyn FnMut(Event<'a>)) {
        let counts_bytes = bar.is_of_bytes
            || bar.per_second.is_some_and(|(_, unit)| {
                matches!(unit.trim(), "B" | "iB" | "kB" | "MB" | "KB" | "GB")
            });
        if counts_bytes {
            return;
        }
        match subject(bar.label) {
            _ if bar.is_of_epochs => self.read_outer(bar, say),
            Subject::Other => {}
            Subject::Evaluation => say(Event::validation(Facts::default())),
            Subject::Epochs => self.read_outer(bar, say),
            // A bar around the epochs may name the one that runs.
            Subject::Epoch(epoch, None) if !bar.is_full() && self.names_its_step(bar, epoch) => {
                let first = self.named.filter(|(named, ..)| *named < epoch);
                if self.named.is_none() || self.outer.is_none() && first.is_none() {
                    self.named = Some((epoch, bar.step, bar.elapsed));
                } else {
                    if let Some((_, step, elapsed)) = first.filter(|_| self.outer.is_none()) {
                        self.read_outer(
                            &Bar {
                                step,
                                elapsed,
                                of: bar.of,
                                ..Bar::default()
                            },
                            say,
                        );
                    }
                    self.read_outer(bar, say);
                }
            }
            Subject::Epoch(epoch, epochs) => self.read_steps(bar, Some((epoch, epochs)), say),
            Subject::Training if self.header_done && !self.is_same(bar) => {}
            Subject::Training => self.read_steps(bar, self.header, say),
        }
    }

    /// True where the step of `bar` is the number of the epoch in its label.
    fn names_its_step(&self, bar: &Bar<'_>, epoch: u64) -> bool {
        let further = self.drawn.is_none_or(|drawn| drawn.epoch != Some(epoch));
        further && (bar.step == epoch || bar.step.checked_sub(1) == Some(epoch))
    }

    /// True where `bar` is the one drawn last, a little further.
    fn is_same(&self, bar: &Bar<'_>) -> bool {
        self.drawn.is_some_and(|drawn| {
            let is_restarted = bar.step < drawn.step
                && (bar.step <= drawn.step / 2
                    || bar.elapsed.unwrap_or_default() + 1.0 < drawn.elapsed);
            drawn.of == bar.of && !is_restarted
        })
    }

    fn read_steps<'a>(
        &mut self,
        bar: &Bar<'a>,
        epoch: Option<(u64, Option<u64>)>,
        say: &mut dyn FnMut(Event<'a>),
    ) {
        let number = epoch.map(|(epoch, _)| epoch);
        let mut facts = bar.facts();
        // `loss=0.15 batch_id=468: 100%|`, set by `set_description`.
        bar::postfix(bar.label, scan::metric_name, &mut facts);
        // Nothing says what a bar without a name and without figures is of.
        if number.is_none()
            && bar.label.is_empty()
            && !facts
                .metrics
                .iter()
                .any(|(name, _)| names::is_measure(name))
        {
            return;
        }
        let same = self.is_same(bar) && self.drawn.is_some_and(|drawn| drawn.epoch == number);
        let was_full = self
            .drawn
            .is_some_and(|drawn| drawn.of == Some(drawn.step) && drawn.epoch == number);
        // A bar of another length between those of the training is an evaluation's; an old label stays until the next
        // epoch's comes.
        let other = self.drawn.is_some_and(|drawn| drawn.of != bar.of);
        if !same && (number.is_none() && other || number.is_some() && was_full) {
            return;
        }
        self.drawn = Some(Drawn {
            epoch: number,
            step: bar.step,
            of: bar.of,
            elapsed: bar.elapsed.unwrap_or_default(),
        });
        if bar.is_full() {
            self.inner_seconds = bar.elapsed;
            self.header_done = self.header.is_some();
        }
        match epoch {
            Some(epoch) => say(bar.event(epoch, facts)),
            None => {
                if self.outer.is_some() {
                    say(Event::announce(None, bar.of));
                }
                say(Event::iteration(Some(bar.step), bar.of, facts));
            }
        }
    }

    /// A bar around the epochs: its time is that of all so far.
    fn read_outer<'a>(&mut self, bar: &Bar<'a>, say: &mut dyn FnMut(Event<'a>)) {
        let (done, since) = match self.outer {
            Some((done, since)) if done <= bar.step => (done, since),
            _ => (0, Some(0.0)),
        };
        self.outer = Some((bar.step, if bar.step > done { bar.elapsed } else { since }));
        say(Event::announce(bar.of, None));
        let mut facts = Facts::default();
        bar::postfix(bar.postfix, scan::metric_name, &mut facts);
        if bar.step == done {
            say(Event::figures(facts));
            return;
        }
        let each = bar.step - done;
        let between = since
            .zip(bar.elapsed)
            .map(|(from, to)| to - from)
            .filter(|_| each == 1);
        let seconds = self.inner_seconds.take().filter(|_| each == 1).or(between);
        // A bar may be drawn seldom; more would be another thing than epochs.
        for _ in 1..each.min(1000) {
            say(Event::epoch_over(Facts::default()));
        }
        say(Event::epoch_over(facts).took(seconds));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::timing::event::Says;

    #[test]
    fn label_that_does_not_speak_of_training_is_of_other_work() {
        for label in [
            "Running multistart_greedy",
            "Tokenizing train dataset",
            "Rollout",
        ] {
            assert_eq!(subject(label), Subject::Other, "{label}");
        }
        for label in ["", "Training Progress", "loss=0.5", "Fine-tuning"] {
            assert_eq!(subject(label), Subject::Training, "{label}");
        }
    }

    #[test]
    fn bar_around_epochs_that_names_the_running_one_counts_epochs() {
        let mut tqdm = Tqdm::default();
        let (mut over, mut announced) = (0, None);
        for text in [
            "Epoch 0, train loss: 0.5:   0%|  | 1/500 [00:04<33:16,  4.00s/it]",
            "Epoch 99, train loss: 0.5:  20%|# | 100/500 [06:00<24:00,  3.62s/it]",
        ] {
            tqdm.read(
                &Line {
                    text,
                    redrawn: false,
                },
                &mut |event| match event {
                    Event {
                        says: Says::EpochOver,
                        ..
                    } => over += 1,
                    Event {
                        says: Says::Announce,
                        epochs,
                        ..
                    } => announced = epochs,
                    _ => {}
                },
            );
        }
        assert_eq!((over, announced), (100, Some(500)));
    }

    #[test]
    fn bar_without_a_name_and_figures_says_nothing_but_below_the_line_of_its_epoch() {
        let bar = "100%|##########| 100/100 [00:07<00:00, 14.32it/s]";
        let ends = |lines: &[&str]| {
            let (mut tqdm, mut ends) = (Tqdm::default(), 0);
            for text in lines {
                tqdm.read(
                    &Line {
                        text,
                        redrawn: false,
                    },
                    &mut |event| match event {
                        Event {
                            says: Says::EpochEnd,
                            epoch: Some(3),
                            ..
                        } => ends += 1,
                        other => panic!("{other:?}"),
                    },
                );
            }
            ends
        };
        assert_eq!(ends(&[bar, bar]), 0);
        let evaluation = "100%|##########| 20/20 [00:02<00:00, 10.32it/s]";
        assert_eq!(ends(&["Epoch 3/10", "----------", bar, evaluation]), 1);
        assert_eq!(ends(&["Epoch 3/10", "Extracting features", bar]), 0);
    }
}
