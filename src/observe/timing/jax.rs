//! JAX: Flax's and JAX's examples, the metric writers of CLU, and MaxText.
//!
//! ```text
//! train epoch: 1, loss: 0.2029, accuracy: 93.87                                        flax, mnist and imagenet, to 0.4
//! epoch:  9, train_loss: 0.0120, train_accuracy: 99.64, test_loss: 0.0278              flax, examples/mnist
//! [1000] steps_per_second=1.76, train_accuracy=0.0067, train_loss=6.52                 clu/metric_writers/logging_writer.py
//! Setting work unit notes: 7.1 steps/s, 1.6% (100/6255), ETA: 14m                      clu/periodic_actions.py
//! completed step: 9, seconds: 5.667, TFLOP/s/device: 134.9, Tokens/s/device: 8672.758, loss: 10.374   MaxText
//! Epoch 0 in 10.51 sec                                                                 jax, examples/mnist_classifier.py
//! Training set accuracy 0.8714
//! ```

use std::borrow::Cow;

use super::event::{Event, Facts, Line, Rate, Recogniser};
use super::scan::{self, Numbers};

/// What was read of the training so far.
#[derive(Debug, Default)]
pub(super) struct Jax {
    /// Steps of the run.
    of: Option<u64>,
}

impl Recogniser for Jax {
    fn name(&self) -> &'static str {
        "jax"
    }

    fn triggers(&self) -> &'static [&'static str] {
        &[
            "train epoch: ",
            "eval epoch: ",
            "test epoch: ",
            ", train_loss: ",
            "logging_writer.py:",
            "] steps_per_sec",
            "] train_loss=",
            "Setting work unit notes: ",
            "completed step: ",
            "eval metrics after step: ",
            "num_train_steps=",
            "g set accuracy ",
            "Test set accuracy ",
            " sec",
        ]
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some(event) = self.read_line(line.text.trim()) {
            say(event);
        }
    }
}

impl Jax {
    fn read_line<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        for (mark, prefix) in [
            ("train epoch: ", ""),
            ("eval epoch: ", "eval_"),
            ("test epoch: ", "test_"),
        ] {
            if let Some(rest) = scan::after(text, mark) {
                return summary(rest, prefix);
            }
        }
        if let Some(rest) = scan::after(text, "completed step: ") {
            return self.maxtext(rest);
        }
        if let Some(rest) = scan::after(text, "eval metrics after step: ") {
            let metrics = prefixed("eval_", scan::metrics(rest, &["total_weights"]));
            return Some(Event::Figures {
                facts: Facts {
                    metrics,
                    ..Facts::default()
                },
            });
        }
        if let Some(rest) = scan::after(text, "Setting work unit notes: ") {
            return self.notes(rest);
        }
        if let Some(rest) = scan::after(text, "num_train_steps=") {
            let (steps, rest) = scan::unsigned(rest)?;
            self.of = Some(steps);
            let (steps, _) = scan::unsigned(scan::after(rest, "steps_per_epoch=")?)?;
            return Some(Event::Announce {
                epochs: None,
                steps: Some(steps),
            });
        }
        if let Some((before, _)) = text.split_once(", train_loss: ") {
            let (_, epoch) = before.rsplit_once("epoch:")?;
            let (epoch, rest) = scan::unsigned(epoch.trim_start())?;
            let facts = Facts {
                metrics: scan::metrics(&text[before.len()..], &[]),
                ..Facts::default()
            };
            let end = Event::EpochEnd {
                epoch,
                epochs: None,
                seconds: None,
                step: None,
                facts,
            };
            return rest.is_empty().then_some(end);
        }
        let message = scan::message(text);
        if let Some(rest) = message.strip_prefix("Epoch ") {
            let (epoch, rest) = scan::unsigned(rest)?;
            let (seconds, _) =
                scan::duration(rest.strip_prefix(" in ")?).filter(|(_, rest)| rest.is_empty())?;
            let facts = Facts::default();
            return Some(Event::EpochEnd {
                epoch,
                epochs: None,
                seconds: Some(seconds),
                step: None,
                facts,
            });
        }
        for name in ["Training set accuracy", "Test set accuracy"] {
            if let Some(rest) = message.strip_prefix(name) {
                let (value, _) =
                    scan::number(rest.trim_start()).filter(|(_, rest)| rest.is_empty())?;
                let facts = Facts {
                    metrics: vec![(name.into(), value)],
                    ..Facts::default()
                };
                return Some(Event::Figures { facts });
            }
        }
        self.writer(message)
    }

    /// `9, seconds: 5.667, TFLOP/s/device: 134.924, Tokens/s/device: 8672.758, loss: 10.374`.
    fn maxtext<'a>(&self, text: &'a str) -> Option<Event<'a>> {
        let (step, rest) = scan::unsigned(text)?;
        let mut facts = Facts::default();
        let mut numbers = Numbers::of(rest);
        while let Some((between, value, _)) = numbers.next_number() {
            let rate = |unit| Rate::of_device(value, unit);
            match between
                .trim_start_matches([',', ' '])
                .trim_end_matches([':', ' '])
            {
                "seconds" => facts.step_seconds = Some(value),
                "Tokens/s/device" => facts.throughput = rate("tokens/s"),
                "Samples/s/device" => {
                    facts.throughput = facts.throughput.or_else(|| rate("samples/s"))
                }
                "total_weights" => {}
                name if name.contains("/s/") || name.contains("TFLOP/s") => {}
                name => facts
                    .metrics
                    .extend(scan::metric_name(name).map(|name| (name, value))),
            }
        }
        Some(Event::RunStep {
            epoch: None,
            epochs: None,
            step,
            of: self.of,
            facts,
        })
    }

    /// `7.1 steps/s, 1.6% (100/6255), ETA: 14m`.
    fn notes<'a>(&mut self, text: &str) -> Option<Event<'a>> {
        let (value, rest) = scan::number(text)?;
        let (unit, rest) = scan::rate_unit(rest)?;
        let (step, of, _) = scan::counted(scan::after(rest, "(")?)?;
        self.of = of;
        let facts = Facts {
            throughput: Rate::of_run(value, unit),
            ..Facts::default()
        };
        Some(Event::RunStep {
            epoch: None,
            epochs: None,
            step,
            of,
            facts,
        })
    }

    /// `[1000] steps_per_second=1.76, train_loss=6.52`; figures of an evaluation are no step.
    fn writer<'a>(&self, text: &'a str) -> Option<Event<'a>> {
        let (step, rest) = scan::unsigned(text.strip_prefix('[')?)?;
        let rest = rest.strip_prefix("] ")?;
        let (collection, rest) = match rest.strip_prefix("collection=") {
            Some(rest) => rest.split_once(' ')?,
            None => ("train", rest),
        };
        let mut facts = Facts {
            metrics: scan::metrics(rest, &["uptime"]),
            ..Facts::default()
        };
        if facts.metrics.is_empty() {
            return None;
        }
        facts.metrics.retain(|(name, value)| {
            let rate = name.ends_with("steps_per_second") || name.ends_with("steps_per_sec");
            if rate {
                facts.throughput = Rate::of_run(*value, "steps/s");
            }
            !rate && !name.starts_with("timing/")
        });
        let of_evaluation = |name: &str| {
            ["eval", "test", "val"]
                .iter()
                .any(|start| name.starts_with(start))
        };
        let evaluated = !collection.starts_with("train")
            || facts.throughput.is_none()
                && facts.metrics.iter().all(|(name, _)| of_evaluation(name));
        Some(if evaluated {
            Event::Figures { facts }
        } else {
            Event::RunStep {
                epoch: None,
                epochs: None,
                step,
                of: self.of,
                facts,
            }
        })
    }
}

/// `1, loss: 0.2029, accuracy: 93.87`, of training or of an evaluation.
fn summary<'a>(text: &'a str, prefix: &str) -> Option<Event<'a>> {
    let (epoch, rest) = scan::unsigned(text.trim_start())?;
    let mut metrics = scan::metrics(rest.strip_prefix(',')?, &[]);
    if prefix.is_empty() {
        let facts = Facts {
            metrics,
            ..Facts::default()
        };
        return Some(Event::EpochEnd {
            epoch,
            epochs: None,
            seconds: None,
            step: None,
            facts,
        });
    }
    metrics = prefixed(prefix, metrics);
    let percent = metrics
        .iter()
        .find(|(name, value)| name.ends_with("accuracy") && *value > 1.0)
        .cloned();
    metrics.extend(percent.map(|(name, value)| (format!("{name}_percent").into(), value)));
    Some(Event::Validation {
        facts: Facts {
            metrics,
            ..Facts::default()
        },
    })
}

fn prefixed<'a>(prefix: &str, mut metrics: Vec<(Cow<'a, str>, f64)>) -> Vec<(Cow<'a, str>, f64)> {
    metrics
        .iter_mut()
        .for_each(|(name, _)| *name = format!("{prefix}{name}").into());
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        match Jax::default().read_line(text) {
            Some(Event::EpochEnd {
                epoch,
                seconds,
                facts,
                ..
            }) => {
                format!("E{epoch} {seconds:?} {}", facts.metrics.len())
            }
            Some(Event::RunStep {
                step, of, facts, ..
            }) => format!(
                "S{step} {of:?} {:?} {:?} {:?}",
                facts.step_seconds,
                facts.throughput.map(|rate| (rate.value, rate.unit)),
                facts
                    .metrics
                    .iter()
                    .map(|(name, _)| name)
                    .collect::<Vec<_>>()
            ),
            Some(Event::Validation { facts } | Event::Figures { facts }) => {
                format!("{:?}", facts.metrics)
            }
            Some(Event::Announce { steps, .. }) => format!("A{steps:?}"),
            Some(other) => panic!("{other:?}"),
            None => "-".to_owned(),
        }
    }

    #[test]
    fn all_forms_are_read() {
        for (text, expected) in [
            ("train epoch: 1, loss: 0.2029, accuracy: 93.87", "E1 None 2"),
            (
                "I1002 21:43:14.8 140 train.py:415] eval epoch: 2, loss: 6.5, accuracy: 0.5",
                "[(\"eval_loss\", 6.5), (\"eval_accuracy\", 0.5)]",
            ),
            (
                "test epoch: 1, loss: 0.5, accuracy: 97.5",
                "[(\"test_loss\", 0.5), (\"test_accuracy\", 97.5), (\"test_accuracy_percent\", 97.5)]",
            ),
            (
                "(mnist pid=1) I0823 07:49:25.4 139 train.py:146] epoch:  9, train_loss: 0.01, train_accuracy: 99.6, test_loss: 0.02",
                "E9 None 3",
            ),
            (
                "I1002 21:43:51.4 140 logging_writer.py:35] [1000] steps_per_second=1.5, train_accuracy=0.25, train_loss=6.5",
                "S1000 None None Some((1.5, \"steps/s\")) [\"train_accuracy\", \"train_loss\"]",
            ),
            (
                "I1002 21:43:14.8 139 logging_writer.py:35] [936] eval_accuracy=0.25, eval_loss=6.5",
                "[(\"eval_accuracy\", 0.25), (\"eval_loss\", 6.5)]",
            ),
            (
                "I0709 1 logging_writer.py:48] [10] collection=train timing/steps_per_second=2.5, loss=0.5",
                "S10 None None Some((2.5, \"steps/s\")) [\"loss\"]",
            ),
            (
                "I1 2 local.py:41] Setting work unit notes: 7.5 steps/s, 1.6% (100/6255), ETA: 14m",
                "S100 Some(6255) None Some((7.5, \"steps/s\")) []",
            ),
            (
                "completed step: 9, seconds: 5.5, TFLOP/s/device: 134.9, Tokens/s/device: 8672.5, total_weights: 196608, loss: 10.5",
                "S9 None Some(5.5) Some((8672.5, \"tokens/s\")) [\"loss\"]",
            ),
            (
                "completed step: 7, seconds: 2.5, TFLOP/s: 36.7, loss: 2.1",
                "S7 None Some(2.5) None [\"loss\"]",
            ),
            (
                "I0817 1 train.py:309] num_train_steps=22500, steps_per_epoch=1875",
                "ASome(1875)",
            ),
            ("Epoch 0 in 10.51 sec", "E0 Some(10.51) 0"),
            (
                "Training set accuracy 0.5",
                "[(\"Training set accuracy\", 0.5)]",
            ),
            ("[Hyperparameters] {'seed': 42}", "-"),
            ("[2024] x", "-"),
            ("Epoch 3 validated in 10 sec", "-"),
        ] {
            assert_eq!(said(text), expected, "{text}");
        }
    }
}
