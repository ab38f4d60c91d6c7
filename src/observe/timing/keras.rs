//! Keras: `Epoch 1/5`, then a bar or a line per epoch.
//!
//! ```text
//! 60000/60000 [==============================] - 2s - loss: 0.2577 - acc: 0.9245          Keras 2.0, TF 1
//! 782/782 [==============================] - ETA: 0s - loss: 0.34                         TF 2, not over yet
//! 782/782 [==============================] - 1s 1ms/step - loss: 0.34 - val_loss: 0.21    TF 2
//!  - 2s - loss: 0.2577                                                                    verbose=2, TF 1
//! 195/195 - 147s - loss: 0.1119 - 147s/epoch - 753ms/step                                 verbose=2, TF 2.5 to 2.15
//!  907/907 ━━━━━━━━━━━━━━━━━━━━ 8s 6ms/step - loss: 1.1928 - val_loss: 0.6519             Keras 3
//! 46/46 - 3s - 61ms/step - accuracy: 0.52 - loss: 1.91                                    verbose=2, Keras 3
//!   60000/Unknown - 5s 87us/step - loss: 0.32 - val_loss: 0.07                             a generator of unknown length
//! ```
//!
//! The forms are those of `Progbar.update` in `keras/src/utils/progbar.py` (3.x) and `generic_utils.py` (2.x). The bars
//! of `evaluate` and `predict` look the same; they come when no epoch is open, with another number of steps, or without
//! metrics.

use super::event::{Event, Facts, Line, Recogniser, Weight};
use super::scan;

/// What was read of the training so far.
#[derive(Debug, Default)]
pub(super) struct Keras {
    epoch: Option<u64>,
    /// Steps of an epoch.
    steps: Option<u64>,
    /// How the end of the epoch was written; `None` while it is open.
    ended: Option<Ended>,
    /// The full bar of an output that begins in the middle of an epoch: the next head names it.
    headless: Option<Headless>,
    /// The steps of a bar that grew above the first head.
    grown: Option<u64>,
    /// True once a bar was read: `Epoch 1/5` alone is what many print.
    barred: bool,
    /// True of `paddle.Model`, whose lines begin with `step`.
    paddle: bool,
}

/// A full bar above which no epoch was named.
#[derive(Debug, Clone, Copy)]
struct Headless {
    seconds: Option<f64>,
    step: (u64, u64),
    step_seconds: Option<f64>,
    /// True where it has `val_` metrics.
    validated: bool,
}

/// How the end of an epoch was written.
#[derive(Debug, Clone, Copy)]
struct Ended {
    /// True where the same line may come once more with better figures.
    provisional: bool,
    /// True where it has `val_` metrics.
    validated: bool,
}

/// What a bar or a line with figures says.
#[derive(Debug, Default)]
struct Bar<'a> {
    step: Option<u64>,
    of: Option<u64>,
    seconds: Option<f64>,
    /// True where the time is the time to go.
    eta: bool,
    facts: Facts<'a>,
}

impl Recogniser for Keras {
    fn name(&self) -> &'static str {
        if self.paddle { "paddle" } else { "keras" }
    }

    fn weight(&self) -> Weight {
        if self.barred {
            Weight::Family
        } else {
            Weight::Bare
        }
    }

    fn triggers(&self) -> &'static str {
        "Epoch ¦Epoch: ¦/step¦] - ¦s - ¦ETA: "
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some(event) = self.read_line(line, say) {
            say(event);
        }
    }

    /// Keras 3 writes no header where there is one epoch only; no evaluation has figures of the validation.
    fn finish(&mut self, say: &mut dyn FnMut(Event<'static>)) {
        let headless = self.headless.take();
        if let Some(headless) = headless.filter(|headless| headless.validated) {
            let end = Event::epoch_over(Facts::default()).took(headless.seconds);
            say(end.at(Some(headless.step)));
        }
    }
}

impl Keras {
    fn read_line<'a>(
        &mut self,
        line: &Line<'a>,
        say: &mut dyn FnMut(Event<'a>),
    ) -> Option<Event<'a>> {
        let text = line.text.trim();
        match text.as_bytes().first()? {
            b'E' => {
                let (epoch, epochs) = header(text)?;
                if let Some(headless) = self.headless.take()
                    && let Some(epoch) = epoch.checked_sub(1).filter(|epoch| *epoch > 0)
                {
                    let facts = Facts::with_step_time(headless.step_seconds);
                    let end = Event::epoch_end((epoch, Some(epochs)), facts).took(headless.seconds);
                    say(end.at(Some(headless.step)));
                }
                // Another training may have other steps.
                if self.epoch.and_then(|last| last.checked_add(1)) != Some(epoch) {
                    self.steps = None;
                }
                (self.epoch, self.ended) = (Some(epoch), None);
                Some(Event::epoch_start(epoch, Some(epochs)))
            }
            b'0'..=b'9' | b'-' | b's' => {
                self.paddle |= text.starts_with("step ");
                let bar = bar(text)?;
                self.barred = true;
                self.read_bar(bar, line.redrawn, say)
            }
            _ => None,
        }
    }

    fn read_bar<'a>(
        &mut self,
        bar: Bar<'a>,
        redrawn: bool,
        say: &mut dyn FnMut(Event<'a>),
    ) -> Option<Event<'a>> {
        let Some(epoch) = self.epoch else {
            return self.read_headless(bar, say);
        };
        let steps = self.steps.zip(bar.of);
        if bar.facts.metrics.is_empty() || steps.is_some_and(|(steps, of)| of != steps) {
            return None;
        }
        // A full bar may be drawn once more, with the whole time and the figures of the validation.
        let last = bar
            .step
            .zip(bar.of)
            .map_or(!bar.eta, |(step, of)| step >= of);
        let validated = bar.validated();
        let unknown = bar.step.filter(|_| bar.of.is_none());
        if !last || unknown.is_some() && (redrawn || !validated || bar.eta) {
            return self.read_step(epoch, bar);
        }
        // The line of an epoch of unknown length that has the figures of the validation is its last.
        if let Some(step) = unknown {
            say(Event::step((epoch, None), (step, None), Facts::default()));
        }
        // Keras 3 writes the time to go, 0 s, also at the last step; the whole time follows once validation is done.
        let to_go = bar.is_to_go();
        if self
            .ended
            .is_some_and(|ended| !ended.provisional && (ended.validated || !validated))
        {
            return None;
        }
        self.ended = Some(Ended {
            provisional: redrawn || to_go,
            validated,
        });
        self.steps = bar.of.or(self.steps);
        Some(
            Event::epoch_end((epoch, None), bar.facts)
                .took(bar.seconds.filter(|_| !to_go))
                .at(bar.step.zip(bar.of)),
        )
    }

    /// Reads a bar above which no epoch was named. A full one may be that of an evaluation, and of training if it was seen
    /// to grow or has the figures of the validation.
    fn read_headless<'a>(
        &mut self,
        bar: Bar<'a>,
        say: &mut dyn FnMut(Event<'a>),
    ) -> Option<Event<'a>> {
        let (step, of) = bar
            .step
            .zip(bar.of)
            .filter(|_| !bar.facts.metrics.is_empty())?;
        let growing = step < of;
        if !growing {
            let to_go = bar.is_to_go();
            let seconds = bar.seconds.filter(|_| !to_go);
            let step_seconds = bar.facts.step_seconds;
            self.headless = Some(Headless {
                seconds,
                step: (step, of),
                step_seconds,
                validated: bar.validated(),
            });
        }
        if !growing && self.grown != Some(of) && !bar.validated() {
            return None;
        }
        self.grown = Some(of);
        say(Event::announce(None, Some(of)));
        Some(Event::iteration(Some(step), Some(of), bar.facts))
    }

    fn read_step<'a>(&mut self, epoch: u64, bar: Bar<'a>) -> Option<Event<'a>> {
        if let Some(ended) = &mut self.ended {
            // A bar that begins behind the end is that of an evaluation.
            ended.provisional = false;
            ended.validated = true;
            return None;
        }
        self.steps = bar.of.or(self.steps);
        Some(Event::step((epoch, None), (bar.step?, bar.of), bar.facts))
    }
}

/// `Epoch 1/5` and nothing else; those who draw such bars themselves write `Epoch: 1/5` too.
fn header(text: &str) -> Option<(u64, u64)> {
    let number = text
        .strip_prefix("Epoch ")
        .or_else(|| text.strip_prefix("Epoch: "))?;
    let (epoch, rest) = scan::unsigned(number)?;
    let (epochs, rest) = scan::unsigned(rest.strip_prefix('/')?)?;
    rest.is_empty().then_some((epoch, epochs))
}

fn bar(text: &str) -> Option<Bar<'_>> {
    let mut read = Bar::default();
    let (text, timed) = match text.strip_prefix("step ") {
        Some(rest) => (rest.trim_start(), false),
        None => (text, true),
    };
    let figures = if let Some(figures) = text.strip_prefix("- ") {
        figures
    } else {
        let (step, rest) = scan::unsigned(text)?;
        let rest = rest.strip_prefix('/')?;
        let (of, rest) = match rest.strip_prefix("Unknown") {
            Some(rest) => (None, rest),
            None => scan::unsigned(rest).map(|(of, rest)| (Some(of), rest))?,
        };
        (read.step, read.of) = (Some(step), of);
        drawing(rest.trim_start(), of.is_none())?
    };
    for (index, part) in figures.split(" - ").enumerate() {
        read.take(part.trim(), timed && index == 0)?;
    }
    // A line without count is one only by its time.
    (read.step.is_some() || read.seconds.is_some()).then_some(read)
}

/// Takes off what is drawn between the count and the figures.
fn drawing(text: &str, undrawn: bool) -> Option<&str> {
    if let Some(figures) = text.strip_prefix("- ") {
        return Some(figures);
    }
    if let Some(inside) = text.strip_prefix('[') {
        let (inside, figures) = inside.split_once(']')?;
        let drawn = inside
            .bytes()
            .all(|byte| matches!(byte, b'=' | b'>' | b'.' | b'-'));
        return figures.strip_prefix(" - ").filter(|_| drawn);
    }
    let figures = text.trim_start_matches('━');
    (undrawn || figures.len() < text.len()).then_some(figures.trim_start())
}

impl<'a> Bar<'a> {
    /// True where figures of a validation are among its own.
    fn validated(&self) -> bool {
        self.facts
            .metrics
            .iter()
            .any(|(name, _)| name.starts_with("val_"))
    }

    /// True where its time is the time to go.
    fn is_to_go(&self) -> bool {
        self.eta || self.seconds == Some(0.0) && self.whole().is_some_and(|whole| whole >= 1.0)
    }

    /// The seconds of all steps, by the time of one.
    fn whole(&self) -> Option<f64> {
        let steps = u32::try_from(self.of?).map_or(f64::INFINITY, f64::from);
        Some(self.facts.step_seconds? * steps)
    }

    /// Takes one of the parts between ` - `; `None` where the first is not a time.
    fn take(&mut self, part: &'a str, first: bool) -> Option<()> {
        if let Some(name) = part.strip_prefix("ETA:") {
            self.eta = true;
            return (!name.is_empty()).then_some(());
        }
        if let Some((step, _)) = scan::per_step(part) {
            self.facts.step_seconds = Some(step);
            return Some(());
        }
        if let Some((seconds, rest)) = scan::duration(part) {
            // `147s/epoch` repeats the whole seconds of the line's beginning.
            if !rest.starts_with('/') {
                self.seconds = Some(seconds);
                self.facts.step_seconds = scan::per_step(rest.trim_start())
                    .map(|(step, _)| step)
                    .or(self.facts.step_seconds);
            }
            return Some(());
        }
        if let Some((_, rest)) = scan::clock(part) {
            self.eta = true;
            self.facts.step_seconds = scan::per_step(rest.trim_start()).map(|(step, _)| step);
            return Some(());
        }
        if first {
            return None;
        }
        if let Some((name, value)) = part.rsplit_once(':')
            && let Some((value, "")) = scan::number(value.trim())
            && let Some(name) = scan::figure_name(name.trim())
        {
            self.facts.metrics.push((name, value));
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::timing::event::Says;

    /// What the lines say: `S` steps, `E` ends with their seconds, `-` nothing, steps without an epoch `I`, headers left out.
    fn events(lines: &[&str]) -> Vec<String> {
        let mut keras = Keras::default();
        let mut events = Vec::new();
        for text in lines {
            // A line that ends in ^M is drawn over.
            let (text, redrawn) = text
                .strip_suffix("^M")
                .map_or((*text, false), |text| (text, true));
            let before = events.len();
            let mut heads = 0;
            keras.read(&Line { text, redrawn }, &mut |event| match event {
                Event {
                    says: Says::EpochStart,
                    ..
                } => heads += 1,
                Event {
                    says: Says::Step,
                    step: Some(step),
                    ..
                } => events.push(format!("S{step}")),
                Event {
                    says: Says::Iteration,
                    step: Some(step),
                    ..
                } => events.push(format!("I{step}")),
                Event {
                    says: Says::Announce,
                    of: Some(_),
                    ..
                } => {}
                Event {
                    says: Says::EpochEnd,
                    epoch: Some(epoch),
                    seconds,
                    facts,
                    ..
                } => {
                    let Facts {
                        step_seconds,
                        metrics,
                        ..
                    } = facts;
                    events.push(format!(
                        "E{epoch} {seconds:?} {step_seconds:?} {}",
                        metrics.len()
                    ));
                }
                other => panic!("{other:?}"),
            });
            if events.len() == before && heads == 0 {
                events.push("-".to_owned());
            }
        }
        events
    }

    #[test]
    fn all_forms_of_an_epochs_end_are_read() {
        for (line, expected) in [
            (
                "60000/60000 [====] - 2s - loss: 0.2577 - acc: 0.9245     ",
                "E1 Some(2.0) None 2",
            ),
            (
                "60000/60000 [====] - 2s 33us/step - loss: 0.2577",
                "E1 Some(2.0) Some(3.3e-5) 1",
            ),
            (
                "782/782 [====] - 1s 1ms/step - loss: nan - val_loss: 2.1e-05",
                "E1 Some(1.0) Some(0.001) 2",
            ),
            (
                " - 2s - loss: 0.2577 - val_loss: 0.3",
                "E1 Some(2.0) None 2",
            ),
            (
                "195/195 - 147s - loss: 0.1119 - 147s/epoch - 753ms/step",
                "E1 Some(147.0) Some(0.753) 1",
            ),
            (
                " 907/907 ━━━━━ 8s 6ms/step - loss: 1.1928",
                "E1 Some(8.0) Some(0.006) 1",
            ),
            (
                "46/46 - 3s - 61ms/step - accuracy: 0.5 - loss: 1.9",
                "E1 Some(3.0) Some(0.061) 2",
            ),
            ("46/46 - 3s - loss: -1.9 - Acc@1: 2", "E1 Some(3.0) None 2"),
        ] {
            assert_eq!(events(&["Epoch 1/5", line]), [expected], "{line}");
            assert_eq!(events(&["Epoch: 1/5", line]), [expected], "{line}");
            let alone = events(&[line]);
            assert!(
                alone == ["-"] || line.contains("val_") && alone == ["I782"],
                "without an epoch: {line}: {alone:?}"
            );
        }
    }

    #[test]
    fn times_to_go_are_steps_not_ends() {
        let lines = [
            "Epoch 1/5",
            "1/782 [..............] - ETA: 12:30 - loss: 2.3^M",
            "782/782 [====] - ETA: 0s - loss: 0.34^M",
            "782/782 [====] - 1s 1ms/step - loss: 0.34 - val_loss: 0.2",
        ];
        assert_eq!(
            events(&lines),
            ["S1", "E1 None None 1", "E1 Some(1.0) Some(0.001) 2"]
        );
        let lines = [
            "Epoch 2/5",
            "  1/907 ━━━━━ 1:23:45 5s/step - loss: 2.0^M",
            "100/907 ━━━━━ 4s 6ms/step - loss: 1.9^M",
            "907/907 ━━━━━ 0s 6ms/step - loss: 1.5^M",
            "907/907 ━━━━━ 8s 8ms/step - loss: 1.5 - val_loss: 1.6",
        ];
        assert_eq!(
            events(&lines),
            [
                "S1",
                "S100",
                "E2 None Some(0.006) 1",
                "E2 Some(8.0) Some(0.008) 2"
            ]
        );
    }

    #[test]
    fn unknown_lengths_are_steps() {
        let lines = [
            "Epoch 1/5",
            "     10/Unknown - 2s 150ms/step - loss: 2.3^M",
            "     12/Unknown 3s 150ms/step - loss: 2.3^M",
            "13/13 [====] - 2s 150ms/step - loss: 2.3",
        ];
        assert_eq!(events(&lines), ["S10", "S12", "E1 Some(2.0) Some(0.15) 1"]);
    }

    #[test]
    fn a_line_of_unknown_length_with_validation_ends_its_epoch() {
        let lines = [
            "Epoch 1/12",
            "  600/Unknown - 5s 8ms/step - loss: 0.3 - val_loss: 0.1",
        ];
        assert_eq!(events(&lines), ["S600", "E1 Some(5.0) Some(0.008) 2"]);
    }

    #[test]
    fn the_next_head_names_the_epoch_of_a_bar_without_one() {
        let lines = [
            " 13/102 [==>....] - ETA: 7:25 - loss: 0.6",
            "102/102 [====] - 51s 500ms/step - loss: 0.6 - val_loss: 0.5",
            "Epoch 7/9",
        ];
        assert_eq!(events(&lines), ["I13", "I102", "E6 Some(51.0) Some(0.5) 0"]);
        let lines = [
            "79/79 [====] - 0s 1ms/step - loss: 0.1",
            "Epoch 1/9",
            "Epoch 2/9",
        ];
        assert_eq!(events(&lines), ["-"], "an evaluation before the training");
    }

    #[test]
    fn evaluation_and_prediction_are_no_epochs() {
        let lines = [
            "Epoch 5/5",
            "1/782 [>...] - ETA: 2s - loss: 2.3",
            "313/313 [====] - 0s 1ms/step",
            "782/782 [====] - 1s 1ms/step - loss: 0.34",
            "79/79 [====] - 0s 780us/step - loss: 0.1357",
            "782/782 - 0s - loss: 0.1357",
            "1/782 [>...] - ETA: 2s - loss: 2.3",
            "782/782 [====] - 1s 1ms/step - loss: 0.34 - val_loss: 1",
        ];
        let expected = ["S1", "-", "E5 Some(1.0) Some(0.001) 1", "-", "-", "-", "-"];
        assert_eq!(events(&lines), expected);
    }

    #[test]
    fn what_only_looks_like_it_is_left_alone() {
        for text in [
            "Epoch 00001: val_loss improved from inf to 0.5, saving model",
            "Epoch 1/5: loss 3",
            "3/10 files loaded",
            "12/31/2020 - 3s - loss: 1",
            "- loss: 0.3",
            "100/100 [files] - 2s - loss: 2",
            "5/5 ok - loss: 3",
        ] {
            assert_eq!(events(&["Epoch 1/5", text]), ["-"], "{text}");
        }
    }
}
