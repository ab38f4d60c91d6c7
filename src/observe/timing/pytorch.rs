//! The training loops of PyTorch's examples and reference scripts, which many programs copy.
//!
//! ```text
//! Train Epoch: 1 [640/60000 (1%)]  Loss: 1.425025                                     examples/mnist
//! Test set: Average loss: 0.0458, Accuracy: 9840/10000 (98%)
//! Epoch: [0][ 10/782]  Time  0.794 ( 1.044)  Data  0.097 ( 0.104)  Loss 6.0e+00 (6.4e+00)  examples/imagenet
//! Test: [  0/79]  Time  0.9 ( 0.9)
//!  * Acc@1 69.760 Acc@5 89.080
//! Epoch: [0]  [40/60]  eta: 0:00:07  lr: 0.003476  loss: 0.3901 (0.7568)  time: 0.3407   torchvision references
//! Epoch: [0] Total time: 0:00:21 (0.3570 s / it)
//! ```
//!
//! The forms are those of `mnist/main.py` and `imagenet/main.py` of pytorch/examples and of `references/detection` of
//! torchvision 0.15. Only the last prints how long an epoch took. A value in parentheses is the mean so far.

use super::epoch_number;
use super::event::{Event, Facts, Line, Rate, Recogniser, Says};
use super::plain_figures;
use super::scan::{self, Numbers};

/// Where in a line, in bytes, its keyword must stand: a logger's prefix may come before.
const MAX_PREFIX: usize = 100;

/// Columns that are no losses or metrics. `Time` and `time` are the seconds of a step.
const NOT_METRICS: &str = "Data|data|eta|max mem|Time|time|day";

/// Columns of a rate.
const RATES: &str = "img/s|clips/s|Speed|images/s";

/// What was read of the training so far.
#[derive(Debug, Default)]
pub(super) struct PyTorch {
    /// True where steps were seen to be counted from 0, so that the last is one less than their number.
    from_zero: bool,
    /// True for the example whose epochs begin with 1.
    from_one: bool,
    /// True once a step was read: what scripts of any kind print as well is then of this training.
    stepped: bool,
}

impl Recogniser for PyTorch {
    fn name(&self) -> &'static str {
        "pytorch"
    }

    fn triggers(&self) -> &'static str {
        "Epoch: ¦epoch: [¦Test¦* Acc@¦* Prec@¦Training time ¦Acc@1 ¦ epochs¦hroughput"
    }

    fn counts_from_zero(&self) -> Option<bool> {
        Some(!self.from_one)
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some(event) = self.read_line(line) {
            // Of the example's last line the figures stay those without a prefix too.
            if self.stepped
                && let Event {
                    says: Says::Validation,
                    facts,
                    ..
                } = &event
                && facts
                    .metrics
                    .iter()
                    .any(|(name, _)| name.starts_with("val_"))
            {
                let mut facts = facts.clone();
                facts.metrics.retain(|(name, _)| !name.starts_with("val_"));
                say(event);
                return say(Event::figures(facts));
            }
            say(event);
        }
    }
}

impl PyTorch {
    fn read_line<'a>(&mut self, line: &Line<'a>) -> Option<Event<'a>> {
        let text = line.text.trim();
        match text.as_bytes().first()? {
            b'T' if text.starts_with("Test") => return validation(text),
            b'*' => return accuracy(text.strip_prefix("* ")?),
            b'=' => return summary(text),
            _ => {}
        }
        if let Some((before, rest)) = text.split_once("Training time ").filter(|_| self.stepped) {
            let seconds = super::bar::clock(rest)
                .filter(|(_, rest)| rest.is_empty())?
                .0;
            let plain = before.is_empty() || before.ends_with("] ");
            return plain.then_some(Event::run_end(Some(seconds), Facts::default()));
        }
        let head = text
            .get(..text.floor_char_boundary(MAX_PREFIX))
            .unwrap_or(text);
        // Copies of it say what they count: `Train: data epoch: [0]`.
        let Some((before, _)) = head
            .split_once("Epoch: ")
            .or_else(|| head.split_once("epoch: "))
        else {
            return self.said(text);
        };
        let after = &text[before.len() + "Epoch: ".len()..];
        if before.ends_with("Train ") {
            (self.from_one, self.stepped) = (true, true);
            return samples(after);
        }
        let plain = before.is_empty() || before.ends_with([' ', '\t', ']']);
        let tested = scan::holds_any(before, "test|val");
        if plain && !tested {
            self.steps(after.strip_prefix('[')?)
        } else {
            None
        }
    }

    /// What lines without the word say: how many epochs there will be, or a rate.
    fn said<'a>(&self, text: &'a str) -> Option<Event<'a>> {
        if let Some(epochs) = epoch_number::planned(text) {
            return Some(Event::announce(Some(epochs), None));
        }
        let rate = text.split_once("hroughput").filter(|_| self.stepped)?.1;
        let (value, rest) = scan::number(rate.trim_start_matches([' ', ':', '=']))?;
        let throughput = Rate::of_run(value, scan::rate_unit(rest)?.0);
        Some(Event::figures(Facts::with_rate(throughput)))
    }

    /// What follows `Epoch: [`.
    fn steps<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        let (epoch, epochs, rest) = scan::counted(text)?;
        let rest = rest.strip_prefix(']')?.trim_start();
        if let Some(total) = rest.strip_prefix("Total time:") {
            let (seconds, rest) = scan::clock(total.trim_start())?;
            let step_seconds = rest
                .trim_start()
                .strip_prefix('(')
                .and_then(scan::per_step)
                .map(|(step, _)| step);
            let facts = Facts::with_step_time(step_seconds);
            return Some(Event::epoch_end((epoch, epochs), facts).took(Some(seconds)));
        }
        let (step, of, rest) = scan::counted(rest.strip_prefix('[')?)?;
        let of = of?;
        // PaddleDetection writes the same, with figures of its own.
        if rest.contains(" batch_cost: ") {
            return None;
        }
        let facts = columns(rest.trim_start().strip_prefix(']')?);
        self.stepped = true;
        self.from_zero |= step == 0;
        let done = step >= of || self.from_zero && step + 1 >= of;
        Some(Event::step_or_end(
            (epoch, epochs),
            (step, Some(of)),
            done,
            facts,
        ))
    }
}

/// What follows `Train Epoch: `; the counts are of samples.
fn samples(text: &str) -> Option<Event<'_>> {
    let (epoch, epochs, rest) = scan::counted(text)?;
    let (step, of, rest) = scan::counted(rest.trim_start().strip_prefix('[')?)?;
    let of = of?;
    let (share, rest) = rest.split_once(']')?;
    // Samplers for several ranks and last batches leave the count short of the number of samples.
    let done = step >= of || share.contains("(100%");
    let facts = Facts {
        counts_samples: true,
        ..columns(rest)
    };
    Some(Event::step_or_end(
        (epoch, epochs),
        (step, Some(of)),
        done,
        facts,
    ))
}

/// The columns of a line: `Loss 6.0205e+00 (6.3747e+00)` or `loss: 0.3901 (0.7568)`.
fn columns(text: &str) -> Facts<'_> {
    let mut facts = Facts::default();
    let mut numbers = Numbers::of(text);
    let mut column = "";
    while let Some((between, value, _)) = numbers.next_number() {
        if between.trim() == "(" && matches!(column, "Time" | "time") {
            facts.step_seconds = Some(value);
            continue;
        }
        if between.trim() == "(" && scan::is_any(column, RATES) {
            facts.throughput = Rate::of_run(value, "samples/s");
            continue;
        }
        if between.trim() == "("
            && let Some((name, _)) = facts.metrics.last().filter(|(name, _)| name == column)
        {
            facts.means.push((name.clone(), value));
            continue;
        }
        // `Prec@1 05 87.901`: neither of two numbers is known to be the figure.
        if between.trim().is_empty() && facts.metrics.last().is_some_and(|(name, _)| name == column)
        {
            facts.metrics.pop();
            continue;
        }
        column = scan::name(between);
        if scan::is_any(column, RATES) {
            facts.throughput = Rate::of_run(value, "samples/s");
            continue;
        }
        if matches!(column, "Time" | "time") {
            // Other loops print there the time since their start; these have the mean behind it, or `data:`.
            let of_step = text.contains('(') || text.contains("data: ");
            facts.step_seconds = Some(value).filter(|_| of_step);
        } else if !scan::is_any(column, NOT_METRICS)
            && let Some(name) = scan::metric_name(column)
        {
            facts.metrics.push((name, value));
        }
    }
    facts
}

/// `Test set: Average loss: 0.0458, Accuracy: 9840/10000 (98%)` or `Test: [  0/79]`.
fn validation(text: &str) -> Option<Event<'_>> {
    let mut facts = Facts::default();
    if let Some(tested) = plain_figures::tested(text) {
        facts = tested;
    } else {
        let rest = text.strip_prefix("Test:")?.trim_start();
        let rest = rest.strip_prefix("EMA ").unwrap_or(rest);
        if rest.starts_with("Acc@") {
            return accuracy(rest);
        }
        if !rest.starts_with('[') {
            return None;
        }
    }
    Some(Event::validation(facts))
}

/// `====> Epoch: 1 Average loss: 164.17` and `====> Test set loss: 127.4` of examples/vae.
fn summary(text: &str) -> Option<Event<'_>> {
    let rest = text.strip_prefix("====> ")?;
    let mut facts = Facts::default();
    if let Some(rest) = rest.strip_prefix("Epoch: ") {
        let (epoch, rest) = scan::unsigned(rest)?;
        let (loss, _) = scan::number(rest.strip_prefix(" Average loss: ")?)?;
        facts.metrics.push(("Average loss".into(), loss));
        return Some(Event::epoch_end((epoch, None), facts));
    }
    let (loss, _) = scan::number(rest.strip_prefix("Test set loss: ")?)?;
    facts.metrics.push(("test_loss".into(), loss));
    Some(Event::validation(facts))
}

/// `Acc@1 69.760 Acc@5 89.080`; training lines have the same names, so these come under names with `val_` as well.
fn accuracy(text: &str) -> Option<Event<'_>> {
    let text = text.trim_start();
    if !text.starts_with("Acc@") && !text.starts_with("Prec@") {
        return None;
    }
    let mut facts = columns(text);
    let own: Vec<_> = facts
        .metrics
        .iter()
        .map(|(name, value)| (format!("val_{}", name.to_lowercase()).into(), *value))
        .collect();
    facts.metrics.extend(own);
    Some(Event::validation(facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_of_two_numbers_is_no_metric() {
        let facts = columns("Prec@1  05 87.901 Prec@5 05 97.169 Loss 0.5 (0.4)");
        assert_eq!(facts.metrics, [("Loss".into(), 0.5)]);
    }

    fn read(text: &str) -> Option<Event<'_>> {
        PyTorch::default().read_line(&Line {
            text,
            redrawn: false,
        })
    }

    fn metrics<'a>(event: &'a Event<'_>) -> Vec<(&'a str, f64)> {
        let (Event {
            says: Says::Step,
            facts,
            ..
        }
        | Event {
            says: Says::EpochEnd,
            facts,
            ..
        }
        | Event {
            says: Says::Validation,
            facts,
            ..
        }) = event
        else {
            return Vec::new();
        };
        facts
            .metrics
            .iter()
            .map(|(name, value)| (name.as_ref(), *value))
            .collect()
    }

    #[test]
    fn sample_counts_are_steps_and_the_last_is_an_end() {
        let event = read("Train Epoch: 1 [640/60000 (1%)]\tLoss: 1.425025").unwrap();
        assert!(
            matches!(
                event,
                Event {
                    says: Says::Step,
                    epoch: Some(1),
                    step: Some(640),
                    of: Some(60000),
                    ..
                }
            ),
            "{event:?}"
        );
        assert_eq!(metrics(&event), [("Loss", 1.425025)]);
        for text in [
            "Train Epoch: 2 [60000/60000 (100%)]\tLoss: 1",
            "Train Epoch: 2/9 [59904/60000 (100%)] Loss: nan",
        ] {
            assert!(
                matches!(
                    read(text),
                    Some(Event {
                        says: Says::EpochEnd,
                        epoch: Some(2),
                        seconds: None,
                        ..
                    })
                ),
                "{text}"
            );
        }
    }

    #[test]
    fn imagenet_lines_carry_the_mean_time_of_a_step() {
        let text = "2021-05-21 INFO Epoch: [3][ 10/782]\tTime  0.794 ( 1.044)\tData  0.097 ( 0.104)\t\
                    Loss 6.0205e+00 (6.3747e+00)\tAcc@1   3.12 (  1.34)";
        let event = read(text).unwrap();
        let Event {
            says: Says::Step,
            epoch: Some(3),
            step: Some(10),
            of: Some(782),
            facts,
            ..
        } = &event
        else {
            panic!("{event:?}")
        };
        assert_eq!(facts.step_seconds, Some(1.044));
        assert_eq!(metrics(&event), [("Loss", 6.0205), ("Acc@1", 3.12)]);
        assert_eq!(
            facts.means,
            [("Loss".into(), 6.3747), ("Acc@1".into(), 1.34)]
        );
    }

    #[test]
    fn the_last_step_ends_an_epoch_whichever_way_steps_are_counted() {
        let mut training = PyTorch::default();
        let mut ends = |text| {
            matches!(
                training.read_line(&Line {
                    text,
                    redrawn: false
                }),
                Some(Event {
                    says: Says::EpochEnd,
                    epoch: Some(0),
                    ..
                })
            )
        };
        assert!(!ends("Epoch: [0][781/782]\tTime 1.0 (1.0)"));
        assert!(ends("Epoch: [0][782/782]\tTime 1.0 (1.0)"));
        assert!(!ends("Epoch: [0][0/782]\tTime 1.0 (1.0)"));
        assert!(ends("Epoch: [0][781/782]\tTime 1.0 (1.0)"));
    }

    #[test]
    fn torchvision_prints_the_time_of_an_epoch() {
        let event = read("Epoch: [0]  [40/60]  eta: 0:00:07  lr: 0.0035  loss: 0.3901 (0.7568)  time: 0.3407  data: 0.0044  max mem: 5081").unwrap();
        assert_eq!(metrics(&event), [("lr", 0.0035), ("loss", 0.3901)]);
        let event = read("Epoch: [0] Total time: 0:00:21 (0.3570 s / it)").unwrap();
        let Event {
            says: Says::EpochEnd,
            epoch: Some(0),
            seconds: Some(21.0),
            facts,
            ..
        } = event
        else {
            panic!("{event:?}")
        };
        assert_eq!(facts.step_seconds, Some(0.357));
    }

    #[test]
    fn a_word_before_the_epoch_says_what_it_is_of() {
        let event = read("Train: data epoch: [0] Total time: 0:08:05 (0.1620 s / it)").unwrap();
        assert!(
            matches!(
                event,
                Event {
                    says: Says::EpochEnd,
                    epoch: Some(0),
                    seconds: Some(485.0),
                    ..
                }
            ),
            "{event:?}"
        );
        assert_eq!(
            read("Eval: data epoch: [0] Total time: 0:02:16 (0.0808 s / it)"),
            None
        );
    }

    #[test]
    fn validation_lines_are_read() {
        let event = read("Test set: Average loss: 0.0458, Accuracy: 9840/10000 (98%)").unwrap();
        assert_eq!(
            metrics(&event),
            [("test_loss", 0.0458), ("test_accuracy_percent", 98.0)]
        );
        assert!(matches!(
            read("Test: [  0/79]\tTime 0.9"),
            Some(Event {
                says: Says::Validation,
                ..
            })
        ));
        let event = read(" * Acc@1 69.760 Acc@5 89.080").unwrap();
        assert_eq!(
            metrics(&event),
            [
                ("Acc@1", 69.76),
                ("Acc@5", 89.08),
                ("val_acc@1", 69.76),
                ("val_acc@5", 89.08)
            ]
        );
        let event = read("====> Test set loss: 127.4").unwrap();
        assert_eq!(metrics(&event), [("test_loss", 127.4)]);
    }

    #[test]
    fn other_lines_are_left_alone() {
        for text in [
            "=> no workers have checkpoints, starting from epoch 0",
            "Test: Total time: 0:00:04 (0.0828 s / it)",
            "Val Epoch: [0][1/2] Loss 1",
            "Epoch: [0] done",
            "Epoch: 3 loss 2",
            "* item",
            "Train Epoch: x",
            "MyEpoch: [0][1/2]",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
