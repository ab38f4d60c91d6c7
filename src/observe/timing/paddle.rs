//! PaddlePaddle: PaddleClas, PaddleDetection, PaddleOCR, PaddleSeg, PaddleNLP, and the bars of `paddle.Model`.
//!
//! ```text
//! [Train][Epoch 1/300][Iter: 100/1252]lr: 0.004, loss: 6.97, batch_cost: 0.94871s, ips: 269.8 images/sec    ppcls 2.2 on
//! [Train][Epoch 1/20][Avg]CELoss: 4.64772, loss: 4.64772
//! Epoch: [0] [ 20/200] learning_rate: 0.01 loss: 1037.6 eta: 10 days, 19:39:33 batch_cost: 6.6231 ips: 4.8315 images/s
//! epoch: [1/500], global_step: 100, lr: 0.001, loss: 69.3, avg_batch_cost: 0.18023 s, ips: 355.1 samples/s    ppocr
//! [TRAIN] epoch: 1, iter: 20/500, loss: 2.0859, batch_cost: 0.5344, ips: 3.7425 samples/sec | ETA 00:04:16    paddleseg
//! global step 10, epoch: 1, batch: 10, loss: 1.2, speed: 5.43 step/s                                          paddlenlp
//! loss: 1.2, learning_rate: 1e-05, global_step: 10, interval_runtime: 5.2, interval_samples_per_second: 12.3    its Trainer
//! [Pass 0, train batch 30]    loss 11.1, acc1 0.0, batch_cost 0.12962 sec, ips 987.52497 images/sec           models, 1.8
//! step 938/938 [====] - loss: 0.0519 - acc: 0.9344 - 15ms/step                                                paddle.Model
//! ```
//!
//! The forms are those of `ppcls/engine/train/utils.py`, `ppdet/engine/callbacks.py`, `tools/program.py` of PaddleOCR,
//! `paddleseg/core/train.py` and `paddle/hapi/progressbar.py`, 2.0 to 3.0. PaddleDetection and passes count from 0.

use super::event::{Event, Facts, Line, Rate, Recogniser};
use super::names::Trained;
use super::scan::{self, Numbers};

/// Figures that are no metrics.
const NOT_METRICS: [&str; 17] = [
    "reader_cost",
    "avg_reader_cost",
    "data_cost",
    "eta",
    "ETA",
    "samples",
    "avg_samples",
    "max_mem_reserved",
    "max_mem_allocated",
    "mem_reserved",
    "mem_allocated",
    "epoch",
    "iter",
    "global_step",
    "batch",
    "rank_id",
    "fps",
];

/// What was read of the training so far.
#[derive(Debug, Default)]
pub(super) struct Paddle {
    /// True once a line of training was read.
    training: bool,
    /// True for PaddleDetection.
    from_zero: bool,
    /// The `Epoch 1/2` of `paddle.Model`, until its first step; Keras has the same line.
    header: Option<(u64, u64)>,
    /// The epoch of `paddle.Model` that runs; `None` while it evaluates.
    model_epoch: Option<u64>,
    trained: Trained,
}

impl Recogniser for Paddle {
    fn name(&self) -> &'static str {
        "paddle"
    }

    fn triggers(&self) -> &'static [&'static str] {
        &[
            "][Epoch ",
            "batch_cost: ",
            "train step:",
            ", train batch ",
            ", trainbatch ",
            "global step ",
            "Epoch ",
            "step ",
            "Eval begin",
            "Eval iter: ",
            "cur metric, ",
            "interval_samples_per_second: ",
            "save model in ",
            "Save checkpoint: ",
        ]
    }

    fn counts_from_zero(&self) -> Option<bool> {
        self.from_zero.then_some(true)
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        let text = line.text.trim();
        if text.starts_with("step ") {
            return self.model_step(text, say);
        }
        if let Some(event) = self.read_line(text) {
            self.training |= event.is_distinctive();
            if let Event::Step { facts, .. }
            | Event::RunStep { facts, .. }
            | Event::EpochEnd { facts, .. } = &event
            {
                self.trained.note(&facts.metrics);
            }
            say(event);
        }
    }
}

impl Paddle {
    fn read_line<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        if let Some(rest) = text.strip_prefix("Epoch ") {
            let (epoch, rest) = scan::unsigned(rest)?;
            let (epochs, rest) = scan::unsigned(rest.strip_prefix('/')?)?;
            self.header = Some((epoch, epochs)).filter(|_| rest.is_empty());
            return None;
        }
        if let Some(rest) = scan::after(text, "[Train][Epoch ") {
            return classification(rest);
        }
        if let Some(rest) = scan::after(text, "[Eval][Epoch ") {
            let (_, figures) = rest.split_once("[Avg]").unwrap_or((rest, ""));
            return Some(self.evaluated(figures));
        }
        if let Some(rest) = scan::after(text, "Epoch: [").filter(|_| text.contains("batch_cost: "))
        {
            let (epoch, rest) = scan::unsigned(rest)?;
            let (step, of, rest) = scan::counted(rest.strip_prefix("] [")?)?;
            self.from_zero = true;
            let facts = figures(rest.strip_prefix(']')?);
            return Some(Event::Step {
                epoch,
                epochs: None,
                step,
                of,
                facts,
            });
        }
        if let Some((_, rest)) = text.split_once("[TRAIN] epoch") {
            return segmentation(rest);
        }
        if let Some(rest) = scan::after(text, "epoch: [").filter(|_| text.contains("batch_cost: "))
        {
            return recognition(rest);
        }
        if let Some(rest) = scan::after(text, "global step ").filter(|_| text.contains("epoch: ")) {
            let (step, rest) = scan::unsigned(rest)?;
            let (epoch, rest) = scan::unsigned(rest.strip_prefix(", epoch: ")?)?;
            return Some(Event::RunStep {
                epoch: Some(epoch),
                epochs: None,
                step,
                of: None,
                facts: figures(rest),
            });
        }
        if text.contains("interval_samples_per_second: ") {
            return trainer(text);
        }
        if let Some((before, rest)) = text.split_once("train step:") {
            let (epoch, _) = scan::unsigned(scan::after(before, "epoch:")?)?;
            let (step, rest) = scan::unsigned(rest)?;
            return Some(Event::Step {
                epoch,
                epochs: None,
                step,
                of: None,
                facts: figures(rest),
            });
        }
        if let Some(event) = pass(text) {
            self.from_zero = true;
            return Some(event);
        }
        if text.contains("Eval begin") {
            return self.model_epoch.take().map(|_| Event::Validation {
                facts: Facts::default(),
            });
        }
        if !self.training {
            return None;
        }
        if let Some(rest) = scan::after(text, "cur metric, ") {
            // PaddleOCR evaluates also in the middle of an epoch.
            let metrics = self
                .trained
                .tell_apart("eval_", scan::metrics(rest, &NOT_METRICS));
            return Some(Event::Figures {
                facts: Facts {
                    metrics,
                    ..Facts::default()
                },
            });
        }
        let over = ["save model in ", "Save checkpoint: ", "Eval iter: "]
            .iter()
            .any(|mark| text.contains(mark));
        over.then(|| Event::Validation {
            facts: Facts::default(),
        })
    }

    fn evaluated<'a>(&self, text: &'a str) -> Event<'a> {
        let metrics = self.trained.tell_apart("eval_", figures(text).metrics);
        Event::Validation {
            facts: Facts {
                metrics,
                ..Facts::default()
            },
        }
    }

    /// A bar of `paddle.Model`; those behind `Eval begin` and without an epoch are not of training.
    fn model_step<'a>(&mut self, text: &'a str, say: &mut dyn FnMut(Event<'a>)) {
        let Some((step, of, facts)) = model_bar(text) else {
            return;
        };
        if let Some((epoch, epochs)) = self.header.take() {
            self.model_epoch = Some(epoch);
            say(Event::EpochStart {
                epoch,
                epochs: Some(epochs),
            });
        }
        let Some(epoch) = self.model_epoch else {
            return;
        };
        say(match of.filter(|of| step >= *of) {
            Some(of) => Event::EpochEnd {
                epoch,
                epochs: None,
                seconds: None,
                step: Some((step, of)),
                facts,
            },
            None => Event::Step {
                epoch,
                epochs: None,
                step,
                of,
                facts,
            },
        });
    }
}

/// `1/300][Iter: 100/1252]lr: 0.004, ...` or `1/20][Avg]CELoss: 4.64`.
fn classification(text: &str) -> Option<Event<'_>> {
    let (epoch, epochs, rest) = scan::counted(text)?;
    if let Some(rest) = rest.strip_prefix("][Avg]") {
        return Some(Event::EpochEnd {
            epoch,
            epochs,
            seconds: None,
            step: None,
            facts: figures(rest),
        });
    }
    let (step, of, rest) = scan::counted(rest.strip_prefix("][Iter:")?)?;
    let facts = figures(rest.strip_prefix(']')?);
    Some(Event::Step {
        epoch,
        epochs,
        step,
        of,
        facts,
    })
}

/// `[Pass 0, train batch 30] \tloss 11.1, acc1 0.0, lr 0.1, batch_cost 0.12 sec, ips 987.5 images/sec`.
fn pass(text: &str) -> Option<Event<'_>> {
    let (epoch, rest) = scan::unsigned(scan::after(text, "Pass ")?)?;
    let rest = rest
        .strip_prefix(", train")?
        .trim_start()
        .strip_prefix("batch ")?;
    let (step, rest) = scan::unsigned(rest)?;
    let mut facts = Facts::default();
    for field in rest.trim_start_matches([']', ',', ' ', '\t']).split(", ") {
        let Some((name, value)) = field.trim().split_once(' ') else {
            continue;
        };
        let Some((value, unit)) = scan::number(value) else {
            continue;
        };
        match name {
            "batch_cost" | "time" => facts.step_seconds = Some(value),
            "ips" => {
                let unit = scan::rate_unit(unit).map_or("samples/s", |(unit, _)| unit);
                facts.throughput = Rate::of_run(value, unit);
            }
            name if NOT_METRICS.contains(&name) => {}
            name => facts
                .metrics
                .extend(scan::metric_name(name).map(|name| (name, value))),
        }
    }
    (!facts.is_empty()).then_some(Event::Step {
        epoch,
        epochs: None,
        step,
        of: None,
        facts,
    })
}

/// `: 1, iter: 20/500, loss: 2.0859, ...` or `=1, iter=20/500, loss=2.0859, ...`; steps count through the run.
fn segmentation(text: &str) -> Option<Event<'_>> {
    let (epoch, rest) = scan::unsigned(text.trim_start_matches([':', '=', ' ']))?;
    let rest = rest
        .strip_prefix(", iter")?
        .trim_start_matches([':', '=', ' ']);
    let (step, of, rest) = scan::counted(rest)?;
    Some(Event::RunStep {
        epoch: Some(epoch),
        epochs: None,
        step,
        of,
        facts: figures(rest),
    })
}

/// `1/500], global_step: 100, lr: 0.001, ...`.
fn recognition(text: &str) -> Option<Event<'_>> {
    let (epoch, epochs, rest) = scan::counted(text)?;
    let rest = rest.strip_prefix("], ")?;
    let rest = rest
        .strip_prefix("global_step: ")
        .or_else(|| rest.strip_prefix("iter: "))?;
    let (step, rest) = scan::unsigned(rest)?;
    Some(Event::RunStep {
        epoch: Some(epoch),
        epochs,
        step,
        of: None,
        facts: figures(rest),
    })
}

/// `loss: 1.2, learning_rate: 1e-05, global_step: 10, interval_runtime: 5.2, interval_samples_per_second: 12.3, ...`.
fn trainer(text: &str) -> Option<Event<'_>> {
    let (step, _) = scan::unsigned(scan::after(text, "global_step: ")?)?;
    let (rate, _) = scan::number(scan::after(text, "interval_samples_per_second: ")?)?;
    let mut metrics = scan::metrics(text, &NOT_METRICS);
    metrics.retain(|(name, _)| !name.starts_with("interval_") && name != "progress_or_epoch");
    let facts = Facts {
        throughput: Rate::of_run(rate, "samples/s"),
        metrics,
        ..Facts::default()
    };
    Some(Event::Iteration {
        step: Some(step),
        of: None,
        facts,
    })
}

/// The figures of a line: `lr: 0.1, loss: 6.9, batch_cost: 0.9s, ips: 269.8 images/sec`.
fn figures(text: &str) -> Facts<'_> {
    let mut facts = Facts::default();
    let mut numbers = Numbers::of(text);
    while let Some((between, value, from)) = numbers.next_number() {
        if !between.trim_end().ends_with([':', '=']) {
            continue;
        }
        match scan::name(between) {
            "batch_cost" | "avg_batch_cost" => facts.step_seconds = Some(value),
            "ips" | "speed" => {
                let unit = scan::number(from).and_then(|(_, rest)| scan::rate_unit(rest));
                facts.throughput = Rate::of_run(value, unit.map_or("samples/s", |(unit, _)| unit));
            }
            name if NOT_METRICS.contains(&name) => {}
            name => facts
                .metrics
                .extend(scan::metric_name(name).map(|name| (name, value))),
        }
    }
    facts
}

/// `step  10/938 [....] - loss: 2.3 - acc: 0.1 - ETA: 20s - 22ms/step`.
fn model_bar(text: &str) -> Option<(u64, Option<u64>, Facts<'_>)> {
    let (step, of, rest) = scan::counted(text.strip_prefix("step ")?)?;
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix('[') {
        Some(drawn) => drawn.split_once(']')?.1.trim_start(),
        None => rest,
    };
    let mut facts = Facts::default();
    for part in rest.strip_prefix("- ")?.split(" - ") {
        if let Some((seconds, _)) = scan::per_step(part.trim()) {
            facts.step_seconds = Some(seconds);
        } else if let Some((name, value)) = part.split_once(": ")
            && name != "ETA"
            && let Some((value, _)) = scan::number(value.trim_start_matches(['[', ' ']))
            && let Some(name) = scan::metric_name(name.trim())
        {
            facts.metrics.push((name, value));
        }
    }
    (!facts.is_empty()).then_some((step, of, facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &[&str]) -> Vec<String> {
        let mut paddle = Paddle::default();
        let mut said = Vec::new();
        for text in lines {
            paddle.read(
                &Line {
                    text,
                    redrawn: false,
                },
                &mut |event| {
                    said.push(match event {
                        Event::Step {
                            epoch,
                            epochs,
                            step,
                            of,
                            facts,
                        } => {
                            format!("S{epoch} {epochs:?} {step} {of:?} {}", told(&facts))
                        }
                        Event::RunStep {
                            epoch,
                            epochs,
                            step,
                            of,
                            facts,
                        } => {
                            format!("R{epoch:?} {epochs:?} {step} {of:?} {}", told(&facts))
                        }
                        Event::EpochEnd { epoch, facts, .. } => {
                            format!("E{epoch} {}", told(&facts))
                        }
                        Event::Validation { facts } | Event::Figures { facts } => {
                            format!("V {:?}", facts.metrics)
                        }
                        Event::EpochStart { epoch, .. } => format!("B{epoch}"),
                        other => panic!("{other:?}"),
                    });
                },
            );
        }
        said
    }

    fn told(facts: &Facts<'_>) -> String {
        format!(
            "{:?} {:?} {}",
            facts.step_seconds,
            facts.throughput.map(|rate| rate.value),
            facts.metrics.len()
        )
    }

    #[test]
    fn all_forms_of_a_step_are_read() {
        for (line, expected) in [
            (
                "[2022/04/30 11:30:30] ppcls INFO: [Train][Epoch 1/300][Iter: 100/1252]lr: 0.004, CELoss: 6.9, loss: 6.9, batch_cost: 0.5s, reader_cost: 0.2, ips: 269.5 images/sec, eta: 4 days, 2:57:18",
                "S1 Some(300) 100 Some(1252) Some(0.5) Some(269.5) 3",
            ),
            (
                "root INFO: [Train][Epoch 1/20][Avg]CELoss: 4.6, loss: 4.6",
                "E1 None None 2",
            ),
            (
                "[07/21 14:43:00] ppdet.engine INFO: Epoch: [0] [ 20/200] learning_rate: 0.01 loss_xy: 7.0 loss: 1037.6 eta: 10 days, 19:39:33 batch_cost: 6.5 data_cost: 6.0 ips: 4.5 images/s",
                "S0 None 20 Some(200) Some(6.5) Some(4.5) 3",
            ),
            (
                "ppocr INFO: epoch: [1/500], global_step: 100, lr: 0.001, loss: 69.5, avg_reader_cost: 0.009 s, avg_batch_cost: 0.25 s, avg_samples: 64.0, ips: 355.5 samples/s, eta: 0:32:33",
                "RSome(1) Some(500) 100 None Some(0.25) Some(355.5) 2",
            ),
            (
                "root INFO: epoch: [0/100], iter: 10, lr: 0.001, loss: 0.5, reader_cost: 6.0 s, batch_cost: 6.5 s, samples: 5632, ips: 89.5",
                "RSome(0) Some(100) 10 None Some(6.5) Some(89.5) 2",
            ),
            (
                "2021-03-30 06:55:57 [INFO]\t[TRAIN] epoch: 1, iter: 20/500, loss: 2.5, lr: 0.01, batch_cost: 0.5, reader_cost: 0.07, ips: 3.5 samples/sec | ETA 00:04:16",
                "RSome(1) None 20 Some(500) Some(0.5) Some(3.5) 2",
            ),
            (
                "INFO:utils.utility:[Pass 0, train batch 30] \tloss 11.5, acc1 0.5, lr 0.1, batch_cost 0.5 sec, reader_cost 0.1 sec, ips 987.5 images/sec",
                "S0 None 30 None Some(0.5) Some(987.5) 3",
            ),
            (
                "global step 10, epoch: 1, batch: 9, loss: 1.5, speed: 5.5 step/s",
                "RSome(1) None 10 None None Some(5.5) 1",
            ),
        ] {
            assert_eq!(said(&[line]), [expected], "{line}");
        }
    }

    #[test]
    fn the_trainers_line_is_read() {
        let text = "[2024-01-01 10:00:00,000] [    INFO] - loss: 1.5, learning_rate: 1e-05, global_step: 10, interval_runtime: 5.2, \
                    interval_samples_per_second: 12.5, interval_steps_per_second: 1.9, progress_or_epoch: 0.25";
        let event = Paddle::default().read_line(text);
        let Some(Event::Iteration {
            step: Some(10),
            facts,
            ..
        }) = event
        else {
            panic!("{event:?}")
        };
        assert_eq!(facts.throughput, Rate::of_run(12.5, "samples/s"));
        assert_eq!(
            facts.metrics,
            [("loss".into(), 1.5), ("learning_rate".into(), 1e-05)]
        );
    }

    #[test]
    fn bars_are_of_training_until_an_evaluation_begins() {
        let lines = [
            "Epoch 1/2",
            "step  10/938 [>....] - loss: 2.3 - acc: 0.1 - ETA: 20s - 22ms/step",
            "step 938/938 [=====] - loss: 0.05 - acc: 0.9 - 15ms/step",
            "Eval begin...",
            "step 157/157 [=====] - loss: 2.3e-04 - acc: 0.98 - 7ms/step",
            "Eval samples: 10000",
        ];
        assert_eq!(
            said(&lines),
            [
                "B1",
                "S1 None 10 Some(938) Some(0.022) None 2",
                "E1 Some(0.015) None 2",
                "V []"
            ]
        );
        assert_eq!(said(&lines[3..]), [""; 0]);
    }

    #[test]
    fn evaluations_and_checkpoints_follow_training() {
        let train = "[Train][Epoch 1/20][Iter: 0/8]loss: 0.5, batch_cost: 0.5s";
        let eval = "[Eval][Epoch 1][Avg]CELoss: 0.5, loss: 0.5, top1: 0.75";
        assert_eq!(
            said(&[train, eval])[1..],
            ["V [(\"CELoss\", 0.5), (\"eval_loss\", 0.5), (\"top1\", 0.75)]"]
        );
        assert_eq!(
            said(&[train, "ppocr INFO: save model in ./output/latest"])[1..],
            ["V []"]
        );
        assert_eq!(
            said(&[
                "save model in ./output/latest",
                "Eval iter: 0",
                "step 3 of the plan"
            ]),
            [""; 0]
        );
    }
}
