//! TensorFlow's session loops: `tf.estimator`, the hooks of `MonitoredSession`, and `slim`.
//!
//! ```text
//! INFO:tensorflow:loss = 0.9899531, step = 101 (0.366 sec)               tf.estimator
//! INFO:tensorflow:global_step/sec: 274.514
//! INFO:tensorflow:examples/sec: 4392.2                                   TPUEstimator
//! INFO:tensorflow:Saving dict for global step 1000: accuracy = 0.96, global_step = 1000, loss = 0.12
//! INFO:tensorflow:Loss for final step: 0.012475038.
//! INFO:tensorflow:global step 2940: loss = 5.5220 (0.898 sec/step)       slim
//! ```
//!
//! The forms are those of `basic_session_run_hooks.py` and `estimator.py` (TF 1.x, tf-estimator 2.x), `tpu_estimator.py`
//! and `slim/learning.py`. The time behind a step is that since the line before, which names how many steps that were.

use super::event::{Event, Facts, Line, Rate, Recogniser};
use super::names::Trained;
use super::scan;

/// What was read of the training so far.
#[derive(Debug, Default)]
pub(super) struct TfEstimator {
    /// The last step that was named.
    step: Option<u64>,
    /// The steps between two lines.
    interval: Option<u64>,
    /// The last rate, in steps per second.
    rate: Option<f64>,
    trained: Trained,
}

impl Recogniser for TfEstimator {
    fn name(&self) -> &'static str {
        "tf-estimator"
    }

    fn triggers(&self) -> &'static [&'static str] {
        &[
            "global_step/sec: ",
            "examples/sec: ",
            "step = ",
            " sec/step)",
            " sec)",
            "or final step: ",
            "Saving dict for",
            "Saving evaluation summary for",
        ]
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some(event) = self.read_line(line.text) {
            // The time of a step hangs on the line before: none may be left out for a later one of the same form.
            if line.text.ends_with(" sec)") {
                say(Event::Announce {
                    epochs: None,
                    steps: None,
                });
            }
            say(event);
        }
    }
}

impl TfEstimator {
    fn read_line<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        let message = scan::message(text);
        for (name, unit) in [
            ("global_step/sec: ", "steps/s"),
            ("examples/sec: ", "samples/s"),
        ] {
            if let Some(rest) = message.strip_prefix(name) {
                let value = scan::number(rest)?.0;
                if unit == "steps/s" {
                    self.rate = Some(value);
                }
                let throughput = Rate::of_run(value, unit);
                return Some(Event::Figures {
                    facts: Facts {
                        throughput,
                        ..Facts::default()
                    },
                });
            }
        }
        if let Some(rest) = message.strip_prefix("Loss for final step: ") {
            let metrics = vec![("loss".into(), scan::number(rest)?.0)];
            return Some(Event::RunEnd {
                seconds: None,
                facts: Facts {
                    metrics,
                    ..Facts::default()
                },
            });
        }
        let saved = [
            "Saving dict for global step ",
            "Saving evaluation summary for step ",
        ];
        if let Some(rest) = saved.iter().find_map(|words| message.strip_prefix(words)) {
            let (_, figures) = rest.split_once(": ")?;
            let metrics = scan::metrics(figures, &["global_step"]);
            let metrics = self.trained.tell_apart("eval_", metrics);
            return Some(Event::Validation {
                facts: Facts {
                    metrics,
                    ..Facts::default()
                },
            });
        }
        if let Some(rest) = message.strip_prefix("global step ") {
            return self.slim(rest);
        }
        self.tensors(message, message.len() < text.trim().len())
    }

    /// `2940: loss = 5.5220 (0.898 sec/step)`.
    fn slim<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        let (step, rest) = scan::unsigned(text)?;
        let (figures, time) = rest.strip_prefix(": ")?.split_once(" (")?;
        let (seconds, _) = scan::number(time).filter(|(_, rest)| rest.starts_with(" sec/step)"))?;
        let metrics = scan::metrics(figures, &[]);
        self.step = Some(step);
        let facts = Facts {
            step_seconds: Some(seconds),
            metrics,
            ..Facts::default()
        };
        Some(Event::Iteration {
            step: Some(step),
            of: None,
            facts,
        })
    }

    /// `loss = 0.98, step = 101 (0.366 sec)`: any tensors, in any order. Without a step it must come from the logger.
    fn tensors<'a>(&mut self, text: &'a str, logged: bool) -> Option<Event<'a>> {
        let (figures, seconds) = match text.rsplit_once(" (") {
            Some((figures, time)) => (
                figures,
                Some(scan::number(time).filter(|(_, rest)| *rest == " sec)")?.0),
            ),
            None => (text, None),
        };
        let mut step = None;
        let mut metrics = Vec::new();
        for part in figures.split(", ") {
            let (name, value) = part.split_once(" = ")?;
            let name = name.trim();
            if matches!(name, "step" | "global_step") {
                step = scan::unsigned(value.trim())
                    .filter(|(_, rest)| rest.is_empty())
                    .map(|(step, _)| step);
            } else if let Some((value, "")) = scan::number(value.trim())
                && let Some(name) = scan::metric_name(name)
            {
                metrics.push((name, value));
            }
        }
        if metrics.is_empty() {
            return None;
        }
        self.trained.note(&metrics);
        let Some(step) = step else {
            let facts = Facts {
                metrics,
                ..Facts::default()
            };
            return (logged && seconds.is_some()).then_some(Event::Figures { facts });
        };
        if !logged && !metrics.iter().any(|(name, _)| name.contains("loss")) {
            return None;
        }
        let step_seconds = seconds
            .zip(self.steps_since(step, seconds))
            .map(|(seconds, steps)| seconds / steps);
        self.step = Some(step);
        Some(Event::Iteration {
            step: Some(step),
            of: None,
            facts: Facts {
                step_seconds,
                metrics,
                ..Facts::default()
            },
        })
    }
}

impl TfEstimator {
    /// How many steps the `seconds` behind `step` are of.
    fn steps_since(&mut self, step: u64, seconds: Option<f64>) -> Option<f64> {
        let Some(last) = self.step else {
            // Nothing came before: the rate, printed with every time, tells.
            return self
                .rate
                .zip(seconds)
                .map(|(rate, seconds)| (rate * seconds).round())
                .filter(|s| *s >= 1.0);
        };
        let apart = step.checked_sub(last).filter(|steps| *steps > 0)?;
        // Where lines were cut out, the time is still that of the usual number of steps.
        let steps = self
            .interval
            .filter(|usual| apart > *usual && apart % usual == 0)
            .unwrap_or(apart);
        self.interval = Some(steps);
        u32::try_from(steps).ok().map(f64::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_step_is_that_since_the_line_before() {
        let mut estimator = TfEstimator::default();
        let mut step = |text| match estimator.read_line(text) {
            Some(Event::Iteration {
                step: Some(step),
                facts,
                ..
            }) => (step, facts.step_seconds, facts.metrics.len()),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(step("INFO:tensorflow:loss = 1.5, step = 1"), (1, None, 1));
        assert_eq!(
            step("INFO:tensorflow:loss = 1.2, step = 101 (0.5 sec)"),
            (101, Some(0.005), 1)
        );
        let twice =
            "I0920 12:00:00.1 140 basic_session_run_hooks.py:260] loss = 1.2, step = 101 (0.5 sec)";
        assert_eq!(step(twice), (101, None, 1));
        assert_eq!(
            step("2021-06-30 INFO:tensorflow: step = 111, loss = nan, acc = 0.5 (1.0 sec)"),
            (111, Some(0.1), 2)
        );
        assert_eq!(
            step("INFO:tensorflow:global step 120: loss = 5.5 (0.898 sec/step)"),
            (120, Some(0.898), 1)
        );
    }

    #[test]
    fn cut_lines_do_not_stretch_the_interval() {
        let mut estimator = TfEstimator::default();
        let mut seconds = |text| match estimator.read_line(text) {
            Some(Event::Iteration { facts, .. }) => facts.step_seconds,
            _ => None,
        };
        assert_eq!(seconds("global_step/sec: 139.711"), None);
        assert_eq!(
            seconds("loss = 0.5, step = 9900 (0.75 sec)"),
            Some(0.75 / 105.0)
        );
        assert_eq!(seconds("loss = 0.5, step = 10000 (0.5 sec)"), Some(0.005));
        assert_eq!(seconds("loss = 0.5, step = 10700 (0.25 sec)"), Some(0.0025));
        assert_eq!(seconds("loss = 0.5, step = 10750 (0.25 sec)"), Some(0.005));
    }

    #[test]
    fn rates_and_ends_are_read() {
        let mut estimator = TfEstimator::default();
        let rate = estimator.read_line("INFO:tensorflow:examples/sec: 12.5");
        assert!(
            matches!(rate, Some(Event::Figures { facts }) if facts.throughput == Rate::of_run(12.5, "samples/s"))
        );
        let end = estimator.read_line("INFO:tensorflow:Loss for final step: 0.0125.");
        assert!(
            matches!(end, Some(Event::RunEnd { facts, .. }) if facts.metrics == [("loss".into(), 0.0125)])
        );
        let eval = "INFO:tensorflow:Saving dict for global step 9: accuracy = 0.5, global_step = 9, loss = 2.0";
        let Some(Event::Validation { facts }) = estimator.read_line(eval) else {
            panic!()
        };
        assert_eq!(
            facts.metrics,
            [("accuracy".into(), 0.5), ("eval_loss".into(), 2.0)]
        );
    }

    #[test]
    fn other_assignments_are_left_alone() {
        for text in [
            "step = 3",
            "x = 3, step = 4",
            "for step = 1, 2 (3 sec)",
            "took (3 sec)",
            "a = b, step = 2",
        ] {
            assert_eq!(TfEstimator::default().read_line(text), None, "{text}");
        }
    }
}
