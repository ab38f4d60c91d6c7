//! The TensorFlow Model Garden and what grew out of it.
//!
//! ```text
//! TimeHistory: 75.00 seconds, 42.66 examples/second between steps 400 and 500        keras_utils.py, TF 2
//! BenchmarkMetric: {'global step':100, 'time_taken': 16.55,'examples_per_second': 773.2}   the same, 2019
//! BenchmarkMetric: {'epoch':0, 'time_taken': 43.452109}
//! train | step:    100 | steps/sec:    1.2 | output: {'training_loss': 6.9}          orbit/controller.py
//! eval | step:    100 | eval time:   12.3 sec | output: {'accuracy': 0.5}
//! Step 100 per-step time 0.813s loss=1.396                                           object_detection, TF 2
//! Train Step: 83/90  / loss = 10.21 / time = 0.143 sec                               model_training_utils.py
//! ```
//!
//! Dictionaries may go on over further lines, as `pprint` writes them.

use super::dict;
use super::event::{Event, Facts, Line, Rate, Recogniser};
use super::names::Trained;
use super::scan;

/// Lines of a dictionary at most. Ours: models have a few dozen losses.
const MAX_DICT_LINES: u32 = 64;

/// What was read of the training so far.
#[derive(Debug, Default)]
pub(super) struct TfOfficial {
    /// The last step that was named.
    step: Option<u64>,
    /// Lines that the dictionary whose end has not come may still have, and whether it is an evaluation's.
    open: Option<(u32, bool)>,
    trained: Trained,
    /// True once a rate of samples was printed, which says more than one of steps.
    samples: bool,
}

impl Recogniser for TfOfficial {
    fn name(&self) -> &'static str {
        "tf-official"
    }

    fn triggers(&self) -> &'static [&'static str] {
        &[
            "TimeHistory: ",
            "BenchmarkMetric: ",
            "train | step:",
            "eval | step:",
            " per-step time ",
            "Train Step: ",
            "] Perf ",
            "'avg_exp_per_second': ",
            "tensorflow:{'",
        ]
    }

    fn wants_every_line(&self) -> bool {
        self.open.is_some()
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some((lines, evaluated)) = self.open {
            self.open = if lines == 0 || line.text.contains('}') {
                None
            } else {
                Some((lines - 1, evaluated))
            };
            let metrics = quoted(line.text);
            if !metrics.is_empty() {
                return say(Event::Figures {
                    facts: self.told(metrics, evaluated),
                });
            }
        }
        if let Some(event) = self.read_line(line.text) {
            // The time of a step hangs on the line before: none may be left out for a later one of the same form.
            if line.text.contains("BenchmarkMetric: ") {
                say(Event::Announce {
                    epochs: None,
                    steps: None,
                });
            }
            say(event);
        }
    }
}

impl TfOfficial {
    fn read_line<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        if let Some(rest) = scan::after(text, "TimeHistory: ") {
            return self.time_history(rest);
        }
        if let Some(rest) = scan::after(text, "BenchmarkMetric: ") {
            return self.benchmark_metric(rest);
        }
        if let Some(rest) = scan::after(text, "train | step:") {
            return self.orbit(rest, false);
        }
        if let Some(rest) = scan::after(text, "eval | step:") {
            return self.orbit(rest, true);
        }
        if let Some(rest) = scan::after(text, "'avg_exp_per_second': ") {
            let facts = rate(scan::number(rest)?.0, "samples/s");
            return Some(Event::RunEnd {
                seconds: None,
                facts,
            });
        }
        let message = scan::message(text);
        if let Some(rest) = message.strip_prefix("Step ") {
            return self.detection(rest);
        }
        if let Some(rest) = message.strip_prefix("Train Step: ") {
            return self.language(rest);
        }
        if let Some(rest) = message
            .strip_prefix("Perf ")
            .filter(|_| text.contains("model_training_utils"))
        {
            let (value, _) = scan::number(rest).filter(|(_, rest)| rest.trim().is_empty())?;
            return Some(Event::Figures {
                facts: rate(value, "samples/s"),
            });
        }
        if message.starts_with("{'Loss/") {
            let metrics = self.dictionary(message, false);
            return Some(Event::Figures {
                facts: self.told(metrics, false),
            });
        }
        None
    }

    /// `75.00 seconds, 42.66 examples/second between steps 400 and 500`.
    fn time_history<'a>(&mut self, text: &str) -> Option<Event<'a>> {
        let (seconds, rest) = scan::duration(text)?;
        let (value, rest) = scan::number(rest.strip_prefix(", ")?)?;
        let (unit, rest) = scan::rate_unit(rest)?;
        let (from, rest) = scan::unsigned(rest.strip_prefix(" between steps ")?)?;
        let (to, _) = scan::unsigned(rest.strip_prefix(" and ")?)?;
        (self.step, self.samples) = (Some(to), true);
        let step_seconds = divided(seconds, to.checked_sub(from)?);
        let facts = Facts {
            step_seconds,
            ..rate(value, unit)
        };
        Some(Event::RunStep {
            epoch: None,
            epochs: None,
            step: to,
            of: None,
            facts,
        })
    }

    fn benchmark_metric<'a>(&mut self, text: &str) -> Option<Event<'a>> {
        let pairs = dict::read(text);
        let seconds = dict::get(&pairs, "time_taken").and_then(dict::Value::number);
        if let Some(epoch) = dict::get(&pairs, "epoch").and_then(dict::Value::count) {
            let facts = Facts::default();
            return Some(Event::EpochEnd {
                epoch,
                epochs: None,
                seconds,
                step: None,
                facts,
            });
        }
        let step = dict::get(&pairs, "global step").and_then(dict::Value::count)?;
        let value = dict::get(&pairs, "examples_per_second").and_then(dict::Value::number)?;
        let steps = self.step.and_then(|last| step.checked_sub(last));
        let step_seconds = seconds
            .zip(steps)
            .and_then(|(seconds, steps)| divided(seconds, steps));
        self.step = Some(step);
        let facts = Facts {
            step_seconds,
            ..rate(value, "samples/s")
        };
        Some(Event::RunStep {
            epoch: None,
            epochs: None,
            step,
            of: None,
            facts,
        })
    }

    /// `    100 | steps/sec:    1.2 | output: {...}`; lines without output say what comes next.
    fn orbit<'a>(&mut self, text: &'a str, evaluated: bool) -> Option<Event<'a>> {
        let (step, rest) = scan::unsigned(text.trim_start())?;
        let (head, output) = rest.split_once("output:")?;
        let metrics = self.dictionary(output, evaluated);
        let told = self.told(metrics, evaluated);
        if evaluated {
            return Some(Event::Validation { facts: told });
        }
        let throughput = scan::after(head, "steps/sec:")
            .and_then(|value| scan::number(value.trim_start()))
            .and_then(|(value, _)| Rate::of_run(value, "steps/s"))
            .filter(|_| !self.samples);
        let facts = Facts { throughput, ..told };
        Some(Event::RunStep {
            epoch: None,
            epochs: None,
            step,
            of: None,
            facts,
        })
    }

    /// `100 per-step time 0.813s loss=1.396`.
    fn detection<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        let (step, rest) = scan::unsigned(text)?;
        let (seconds, rest) = scan::duration(rest.strip_prefix(" per-step time ")?)?;
        let facts = Facts {
            step_seconds: Some(seconds),
            metrics: scan::metrics(rest, &[]),
            ..Facts::default()
        };
        Some(Event::RunStep {
            epoch: None,
            epochs: None,
            step,
            of: None,
            facts,
        })
    }

    /// `83/90  / loss = 10.21 / time = 0.143 sec`.
    fn language<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        let (step, of, rest) = scan::counted(text)?;
        let (figures, time) = rest.split_once("time = ").unwrap_or((rest, ""));
        let step_seconds = scan::duration(time).map(|(seconds, _)| seconds);
        let mut metrics = Vec::new();
        for part in figures.split(" / ") {
            if let Some((name, value)) = part.split_once(" = ")
                && let Some((value, _)) = scan::number(value.trim())
                && let Some(name) = scan::metric_name(name.trim())
            {
                metrics.push((name, value));
            }
        }
        let facts = Facts {
            step_seconds,
            metrics,
            ..Facts::default()
        };
        Some(Event::RunStep {
            epoch: None,
            epochs: None,
            step,
            of: Some(of?),
            facts,
        })
    }

    /// The metrics of a dictionary, which may go on in the next lines.
    fn dictionary<'a>(
        &mut self,
        text: &'a str,
        evaluated: bool,
    ) -> Vec<(std::borrow::Cow<'a, str>, f64)> {
        self.open = (!text.contains('}')).then_some((MAX_DICT_LINES, evaluated));
        quoted(text)
    }

    fn told<'a>(
        &mut self,
        metrics: Vec<(std::borrow::Cow<'a, str>, f64)>,
        evaluated: bool,
    ) -> Facts<'a> {
        let metrics = if evaluated {
            self.trained.tell_apart("eval_", metrics)
        } else {
            self.trained.note(&metrics);
            metrics
        };
        Facts {
            metrics,
            ..Facts::default()
        }
    }
}

fn rate<'a>(value: f64, unit: &'static str) -> Facts<'a> {
    Facts {
        throughput: Rate::of_run(value, unit),
        ..Facts::default()
    }
}

/// Seconds of each of `steps` steps.
fn divided(seconds: f64, steps: u64) -> Option<f64> {
    u32::try_from(steps)
        .ok()
        .filter(|steps| *steps > 0)
        .map(|steps| seconds / f64::from(steps))
}

/// The pairs `'name': number` of a line, which may be one of the middle of a dictionary.
fn quoted(text: &str) -> Vec<(std::borrow::Cow<'_, str>, f64)> {
    let mut metrics = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('\'') {
        let Some((name, after)) = after.split_once('\'') else {
            break;
        };
        rest = after;
        let Some(value) = after.strip_prefix(':') else {
            continue;
        };
        let value = value.trim_start();
        // `array(0.5, dtype=float32)`, `<tf.Tensor ... numpy=0.5>`, `np.float32(0.5)`.
        let value = ["numpy=", "array(", "np.float32(", "np.float64("]
            .iter()
            .find_map(|mark| scan::after(value.split('\'').next().unwrap_or(value), mark))
            .unwrap_or(value);
        if let Some((value, _)) = scan::number(value)
            && let Some(name) = scan::metric_name(name)
        {
            metrics.push((name, value));
        }
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &[&str]) -> Vec<String> {
        let mut official = TfOfficial::default();
        let mut said = Vec::new();
        for text in lines {
            official.read(
                &Line {
                    text,
                    redrawn: false,
                },
                &mut |event| {
                    said.push(match event {
                        Event::RunStep {
                            step, of, facts, ..
                        } => format!(
                            "S{step} {of:?} {:?} {:?} {}",
                            facts.step_seconds,
                            facts.throughput.map(|rate| rate.value),
                            facts.metrics.len()
                        ),
                        Event::EpochEnd { epoch, seconds, .. } => format!("E{epoch} {seconds:?}"),
                        Event::Announce { .. } => return,
                        Event::Validation { facts }
                        | Event::Figures { facts }
                        | Event::RunEnd { facts, .. } => {
                            format!(
                                "F {:?} {:?}",
                                facts.throughput.map(|rate| rate.value),
                                facts.metrics
                            )
                        }
                        other => panic!("{other:?}"),
                    });
                },
            );
        }
        said
    }

    #[test]
    fn all_forms_of_a_step_are_read() {
        for (line, expected) in [
            (
                "I1105 140 keras_utils.py:148] TimeHistory: 75.00 seconds, 42.66 examples/second between steps 400 and 500",
                "S500 None Some(0.75) Some(42.66) 0",
            ),
            (
                "I1 9 controller.py:466] train | step:    100 | steps/sec:    1.2 | output: {'training_loss': 6.9, 'lr': 1e-3}",
                "S100 None None Some(1.2) 2",
            ),
            (
                "INFO:tensorflow:Step 100 per-step time 0.813s loss=1.396",
                "S100 None Some(0.813) None 1",
            ),
            (
                "I0302 02:18:34.1 1 model_training_utils.py:539] Train Step: 83/90  / loss = 10.2 / time = 0.143 sec",
                "S83 Some(90) Some(0.143) None 1",
            ),
            (
                "BenchmarkMetric: {'epoch':0, 'time_taken': 43.452109}",
                "E0 Some(43.452109)",
            ),
            (
                "I0302 1 model_training_utils.py:540] Perf 7.35",
                "F Some(7.35) []",
            ),
            (
                "{'loss': 0.1, 'avg_exp_per_second': 4725.5}",
                "F Some(4725.5) []",
            ),
        ] {
            assert_eq!(said(&[line]), [expected], "{line}");
        }
    }

    #[test]
    fn dictionaries_go_on_over_lines() {
        let lines = [
            "train | step:    200 | steps/sec:   10.0 | output: ",
            "    {'accuracy': 0.5,",
            "     'loss': 0.25}",
            "'other': 3",
            "eval | step:    200 | running complete evaluation...",
            "eval | step:    200 | eval time: 3.0 sec | output: {'accuracy': 0.75, 'top5': 0.9}",
        ];
        assert_eq!(
            said(&lines),
            [
                "S200 None None Some(10.0) 0",
                "F None [(\"accuracy\", 0.5)]",
                "F None [(\"loss\", 0.25)]",
                "F None [(\"eval_accuracy\", 0.75), (\"top5\", 0.9)]",
            ]
        );
    }
}
