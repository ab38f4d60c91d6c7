//! MXNet: `Module.fit`, the Gluon scripts, GluonCV and GluonNLP.
//!
//! ```text
//! Epoch[0] Batch [20]  Speed: 84.39 samples/sec  accuracy=0.159970           callback.py, `[0-20]` from 1.4 on
//! Epoch[0] Train-accuracy=0.363281                                            base_module.py
//! Epoch[0] Time cost=190.507
//! Epoch[0] Validation-accuracy=0.808193
//! [Epoch 0] training: accuracy=0.248027                                       GluonCV
//! [Epoch 0] speed: 91 samples/sec  time cost: 7.728239
//! [Epoch 0] validation: err-top1=0.425 err-top5=0.1
//! [Epoch 0][Batch 99], Speed: 100.0 samples/sec, CrossEntropy=4.0             GluonCV's detectors
//! [Epoch 0] Training cost: 150.2, CrossEntropy=3.2
//! [Epoch 0 Batch 200/1000] loss 5.60, ppl 270.43, throughput 1200.1 samples/s   GluonNLP
//! Epoch: 1, Batch: 3900/8164, Loss=0.95, Throughput=52.94 samples/s
//! ```
//!
//! Epochs count from 0, in R from 1.

use std::borrow::Cow;

use super::event::{Event, Facts, Line, Rate, Recogniser};
use super::scan::{self, Numbers};

/// Figures that are no metrics.
const NOT_METRICS: [&str; 9] = [
    "Speed",
    "speed",
    "Time cost",
    "time cost",
    "time",
    "Throughput",
    "Thoughput",
    "throughput",
    "ETA",
];

/// What was read of the training so far.
#[derive(Debug, Default)]
pub(super) struct MxNet {
    /// The epoch of the last line.
    epoch: Option<u64>,
    /// True for R, which counts from 1.
    from_one: bool,
    /// True where the totals of the training come next.
    finishing: bool,
}

impl Recogniser for MxNet {
    fn name(&self) -> &'static str {
        "mxnet"
    }

    fn triggers(&self) -> &'static [&'static str] {
        &[
            "Epoch[",
            "[Epoch ",
            "Batch [",
            "] Train-",
            "] Validation-",
            "hroughput=",
            "Thoughput=",
            "Finish training step",
            "Total training throughput ",
        ]
    }

    fn counts_from_zero(&self) -> Option<bool> {
        Some(!self.from_one)
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some(event) = self.read_line(line.text.trim()) {
            say(event);
        }
    }
}

impl MxNet {
    fn read_line<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        if let Some(rest) = scan::after(text, "Epoch[") {
            let (epoch, rest) = scan::unsigned(rest)?;
            return self.module(epoch, rest.strip_prefix("] ")?.trim_start());
        }
        if let Some(rest) = scan::after(text, "[Epoch ") {
            return self.gluon(rest);
        }
        if let Some(event) = self.of_r(text) {
            return Some(event);
        }
        if text.contains("Finish training step") {
            self.finishing = true;
            return None;
        }
        let throughput = rate(text)?;
        if text.contains("Total training throughput ") {
            let facts = Facts {
                throughput: Some(throughput),
                ..Facts::default()
            };
            return Some(Event::RunEnd {
                seconds: None,
                facts,
            });
        }
        if let Some(rest) = scan::after(text, "Time cost=").filter(|_| self.finishing) {
            self.finishing = false;
            let (seconds, _) = scan::duration(rest)?;
            return Some(Event::RunEnd {
                seconds: Some(seconds),
                facts: Facts {
                    throughput: Some(throughput),
                    ..Facts::default()
                },
            });
        }
        let facts = Facts {
            throughput: Some(throughput),
            metrics: metrics(text),
            ..Facts::default()
        };
        if let Some(rest) = scan::after(text, "[step ") {
            let (step, rest) = scan::unsigned(rest)?;
            let facts = Facts {
                metrics: metrics(rest.strip_prefix(']')?),
                ..facts
            };
            return Some(Event::RunStep {
                epoch: None,
                epochs: None,
                step,
                of: None,
                facts,
            });
        }
        let (step, of, rest) = scan::counted(scan::after(text, "Batch: ")?)?;
        let facts = Facts {
            metrics: metrics(rest),
            ..facts
        };
        let epoch = scan::after(text, "Epoch: ")
            .and_then(scan::unsigned)
            .map(|(epoch, _)| epoch);
        Some(match epoch {
            Some(epoch) => Event::Step {
                epoch,
                epochs: None,
                step,
                of,
                facts,
            },
            None => Event::Iteration {
                step: Some(step),
                of,
                facts,
            },
        })
    }

    /// `Batch [50] Speed: 26130.01 samples/sec Train-accuracy=0.11` and, at the end of an epoch, `[1] Train-accuracy=0.70`.
    fn of_r<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        if let Some(rest) = text.strip_prefix("Batch [") {
            let (step, rest) = scan::unsigned(rest)?;
            let facts = Facts {
                throughput: rate(rest),
                metrics: metrics(rest),
                ..Facts::default()
            };
            return facts.throughput.is_some().then_some(Event::Iteration {
                step: Some(step),
                of: None,
                facts,
            });
        }
        let (epoch, rest) = scan::unsigned(text.strip_prefix('[')?)?;
        let rest = rest.strip_prefix("] ").filter(|rest| {
            ["Train-", "Validation-"]
                .iter()
                .any(|name| rest.starts_with(name))
        })?;
        self.from_one = true;
        self.module(epoch, rest)
    }

    /// What follows `Epoch[0] `.
    fn module<'a>(&mut self, epoch: u64, text: &'a str) -> Option<Event<'a>> {
        if let Some(rest) = text.strip_prefix("Batch") {
            let (first, rest) = scan::unsigned(rest.trim_start().strip_prefix('[')?)?;
            let (step, rest) = rest
                .strip_prefix('-')
                .and_then(scan::unsigned)
                .unwrap_or((first, rest));
            self.epoch = Some(epoch);
            return step_of(epoch, step, None, rest.strip_prefix(']')?);
        }
        if let Some(rest) = text.strip_prefix("Time cost=") {
            self.epoch = Some(epoch);
            return Some(end(epoch, Some(scan::number(rest)?.0), Facts::default()));
        }
        let facts = Facts {
            metrics: metrics(text),
            ..Facts::default()
        };
        if text.starts_with("Validation-") && !facts.metrics.is_empty() {
            return Some(self.validation(epoch, facts));
        }
        self.epoch = Some(epoch);
        (text.starts_with("Train-") && !facts.metrics.is_empty()).then(|| end(epoch, None, facts))
    }

    /// What follows `[Epoch `.
    fn gluon<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        let (epoch, rest) = scan::unsigned(text)?;
        let batch = rest
            .strip_prefix("][Batch ")
            .or_else(|| rest.strip_prefix(" Batch "));
        if let Some(batch) = batch {
            let (step, of, rest) = scan::counted(batch)?;
            self.epoch = Some(epoch);
            return step_of(epoch, step, of, rest.strip_prefix(']')?);
        }
        let rest = rest.strip_prefix(']')?.trim_start();
        let begins = |word: &str| {
            rest.get(..word.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(word))
        };
        let mut facts = Facts {
            throughput: rate(rest),
            metrics: metrics(rest),
            ..Facts::default()
        };
        if begins("validation:") {
            facts.metrics = prefixed("validation_", metrics(&rest["validation:".len()..]));
            return Some(self.validation(epoch, facts));
        }
        if begins("valid ") || begins("test ") {
            return Some(self.validation(epoch, facts));
        }
        let mut seconds = None;
        if begins("training cost:") {
            seconds = Some(scan::number(rest["training cost:".len()..].trim_start())?.0);
            facts.metrics.retain(|(name, _)| name != "Training cost");
        } else if begins("training:") {
            let trained = metrics(&rest["training:".len()..]);
            facts.metrics = prefixed("train_", trained.clone());
            facts.metrics.extend(trained);
        } else if let Some(cost) =
            scan::after(rest, "time cost").or_else(|| scan::after(rest, "Time cost"))
        {
            seconds = Some(scan::number(cost.trim_start_matches([':', '=', ' ']))?.0);
        } else if rest.starts_with("train=") {
            seconds = scan::after(rest, "time: ")
                .and_then(scan::number)
                .map(|(seconds, _)| seconds);
        } else if facts.throughput.is_none() {
            return None;
        }
        self.epoch = Some(epoch);
        Some(end(epoch, seconds, facts))
    }

    /// A validation, which ends its epoch unless that lies before the output.
    fn validation<'a>(&mut self, epoch: u64, facts: Facts<'a>) -> Event<'a> {
        if self.epoch == Some(epoch) {
            end(epoch, None, facts)
        } else {
            Event::Validation { facts }
        }
    }
}

fn end(epoch: u64, seconds: Option<f64>, facts: Facts<'_>) -> Event<'_> {
    Event::EpochEnd {
        epoch,
        epochs: None,
        seconds,
        step: None,
        facts,
    }
}

/// A step with the figures behind it; a line without any is another program's.
fn step_of(epoch: u64, step: u64, of: Option<u64>, text: &str) -> Option<Event<'_>> {
    let facts = Facts {
        throughput: rate(text),
        metrics: metrics(text),
        ..Facts::default()
    };
    (!facts.is_empty()).then_some(Event::Step {
        epoch,
        epochs: None,
        step,
        of,
        facts,
    })
}

/// The first rate of a text: `Speed: 84.39 samples/sec`, `throughput=41.79K wps`, `throughput 1200.1 samples/s`.
fn rate(text: &str) -> Option<Rate> {
    let mut numbers = Numbers::of(text);
    while let Some((between, value, from)) = numbers.next_number() {
        let name = scan::name(between).to_ascii_lowercase();
        if !["speed", "throughput", "thoughput"]
            .iter()
            .any(|rate| name.ends_with(rate))
        {
            continue;
        }
        let (_, unit) = scan::number(from)?;
        let (value, unit) = unit
            .strip_prefix('K')
            .map_or((value, unit), |unit| (value * 1000.0, unit));
        let words = unit.trim_start();
        if words.starts_with("wps") {
            return Rate::of_run(value, "words/s");
        }
        if words.starts_with("tks/s") {
            return Rate::of_run(value, "tokens/s");
        }
        return scan::rate_unit(unit).and_then(|(unit, _)| Rate::of_run(value, unit));
    }
    None
}

/// The metrics of a text: `Train-accuracy=0.1`, `loss 5.60, ppl 270.43`.
fn metrics(text: &str) -> Vec<(Cow<'_, str>, f64)> {
    let mut metrics = scan::metrics(text, &NOT_METRICS);
    if metrics.is_empty() {
        for part in text.split(", ") {
            if let Some((name, value)) = part.trim().rsplit_once(' ')
                && let Some((value, "")) = scan::number(value)
                && !name.contains([':', '=', '\t'])
                && !NOT_METRICS.contains(&name)
                && let Some(name) = scan::figure_name(name)
            {
                metrics.push((name, value));
            }
        }
    }
    for (name, _) in &mut metrics {
        // Blanks where the program wrote a tab leave the unit of the rate before the name.
        if let Some((_, rest)) = name
            .rsplit_once("/sec")
            .filter(|(_, rest)| !rest.trim().is_empty())
        {
            *name = rest.trim_start().to_owned().into();
        }
        for (written, ours) in [("Train-", "train_"), ("Validation-", "validation_")] {
            if let Some(rest) = name.strip_prefix(written) {
                *name = format!("{ours}{rest}").into();
                break;
            }
        }
    }
    metrics
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
        match (MxNet {
            epoch: Some(0),
            finishing: true,
            from_one: false,
        })
        .read_line(text)
        {
            Some(Event::Step {
                epoch,
                step,
                of,
                facts,
                ..
            }) => {
                format!(
                    "S{epoch} {step} {of:?} {:?} {}",
                    facts.throughput.map(|rate| rate.value),
                    facts.metrics.len()
                )
            }
            Some(Event::EpochEnd {
                epoch,
                seconds,
                facts,
                ..
            }) => {
                format!(
                    "E{epoch} {seconds:?} {:?}",
                    facts
                        .metrics
                        .iter()
                        .map(|(name, _)| name)
                        .collect::<Vec<_>>()
                )
            }
            Some(Event::RunStep { step, facts, .. }) => {
                format!("R{step} {:?} {}", facts.throughput, facts.metrics.len())
            }
            Some(other) => other.kind().to_owned(),
            None => "-".to_owned(),
        }
    }

    #[test]
    fn all_forms_are_read() {
        for (text, expected) in [
            (
                "INFO:root:Epoch[0] Batch [20]\tSpeed: 84.39 samples/sec\taccuracy=0.15",
                "S0 20 None Some(84.39) 1",
            ),
            (
                "Node[0] Epoch[1] Batch [0-40]\tSpeed: 48.5 samples/sec\tTrain-accuracy=0.1",
                "S1 40 None Some(48.5) 1",
            ),
            (
                "INFO:root:Epoch[0] Train-accuracy=0.363281",
                "E0 None [\"train_accuracy\"]",
            ),
            (
                "INFO:root:Epoch[0] Time cost=190.507",
                "E0 Some(190.507) []",
            ),
            (
                "INFO:root:Epoch[0] Validation-accuracy=0.8",
                "E0 None [\"validation_accuracy\"]",
            ),
            ("INFO:root:Epoch[7] Validation-accuracy=0.8", "validation"),
            (
                "[Epoch 0] training: accuracy=0.24",
                "E0 None [\"train_accuracy\", \"accuracy\"]",
            ),
            (
                "[Epoch 0] speed: 91 samples/sec\ttime cost: 7.7",
                "E0 Some(7.7) []",
            ),
            (
                "[Epoch 0] time cost 31.39s, valid loss 5.2, valid ppl 180.1",
                "E0 Some(31.39) [\"valid loss\", \"valid ppl\"]",
            ),
            (
                "[Epoch 0] Validation: accuracy=0.8",
                "E0 None [\"validation_accuracy\"]",
            ),
            (
                "[Epoch 0] Training cost: 150.2, CrossEntropy=3.2",
                "E0 Some(150.2) [\"CrossEntropy\"]",
            ),
            (
                "[Epoch 3] train=0.4 val=0.5 loss=1.2 time: 33.5",
                "E3 Some(33.5) [\"train\", \"val\", \"loss\"]",
            ),
            (
                "[Epoch 0][Batch 99], Speed: 100.0 samples/sec, CrossEntropy=4.0, SmoothL1=2.0",
                "S0 99 None Some(100.0) 2",
            ),
            (
                "[Epoch 0 Batch 200/1000] loss 5.60, ppl 270.43, throughput 12.5 samples/s",
                "S0 200 Some(1000) Some(12.5) 2",
            ),
            (
                "INFO:gluonnlp:21:31:07 Time cost=17408.26 s, Thoughput=15.15 samples/s",
                "training ends",
            ),
        ] {
            assert_eq!(said(text), expected, "{text}");
        }
        let mut training = MxNet::default();
        let step = training.read_line(
            "INFO:gluonnlp:21:26 Epoch: 1, Batch: 39/81, Loss=0.9 Time cost=1.4 Thoughput=14.89 samples/s",
        );
        assert!(
            matches!(
                step,
                Some(Event::Step {
                    epoch: 1,
                    step: 39,
                    of: Some(81),
                    ..
                })
            ),
            "{step:?}"
        );
    }

    #[test]
    fn other_brackets_are_left_alone() {
        for text in [
            "Finished Epoch[1]: [Training] loss = 1.6 * 10",
            " Epoch[ 1 of 5]-Minibatch[   1-  10]: ce = 2.3 * 1000",
            "[Epoch 3] loss=0.3 time=2.31 s",
            "[Epoch 3] starting",
            "Epoch[0] Resetting Data Iterator",
        ] {
            assert_eq!(said(text), "-", "{text}");
        }
    }
}
