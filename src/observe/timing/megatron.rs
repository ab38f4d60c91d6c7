//! Megatron-LM and what descends from it: Megatron-DeepSpeed, GPT-NeoX, and their many forks. They count iterations.
//!
//! ```text
//!  iteration       20/    1000 | consumed samples:           80 | elapsed time per iteration (ms): 1572.7 | ...
//!  [2024-04-06 02:59:36] iteration       43/     100 | ... | throughput per GPU (TFLOP/s/GPU): 239.8 | ...
//!  samples/sec: 7.799 | iteration       34/   10000 | elapsed time per iteration (ms): 4103.1 | ...      GPT-NeoX
//!  iteration  10/ 100 | ... | elapsed time per iteration (s): 2.31 | ... | samples per second: 12.3 |    BigScience
//! Training epoch 0, iteration 120/149 | lr: 3e-05 | reduced_train_loss: 1.233 | train_step_timing in s: 0.03146      NeMo 2
//!  validation loss at iteration 1000 | lm loss value: 2.724416E+00 | lm loss PPL: 1.524754E+01 |
//! ```
//!
//! The forms are those of `training_log` in `megatron/training/training.py` (core 0.3 to 0.12) and of its forms in the
//! forks. What is said of FLOP is no rate of samples.

use super::event::{Event, Facts, Line, Rate, Recogniser};
use super::figures;
use super::scan;

/// Columns that are no losses or metrics.
const NOT_METRICS: [&str; 14] = [
    "consumed",
    "global_",
    "timing",
    "elapsed",
    "batch size",
    "number of",
    "flop",
    "memory",
    "mem",
    "time",
    "tokens",
    "iteration",
    "seq",
    "rank",
];

/// The recogniser of such lines.
#[derive(Debug, Default)]
pub(super) struct Megatron;

impl Recogniser for Megatron {
    fn name(&self) -> &'static str {
        "megatron"
    }

    fn triggers(&self) -> &'static [&'static str] {
        &[
            "elapsed time per iteration",
            "Training epoch ",
            "validation loss at ",
            "test loss at ",
        ]
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        let text = line.text;
        let evaluated = ["validation loss at ", "test loss at "]
            .into_iter()
            .any(|head| text.contains(head));
        let event = if evaluated {
            validation(text)
        } else {
            nemo(text).or_else(|| iteration(text))
        };
        if let Some(event) = event {
            say(event);
        }
    }
}

fn iteration(text: &str) -> Option<Event<'_>> {
    let at = text.find("iteration ")?;
    let (step, of, rest) = scan::counted(&text[at + "iteration ".len()..])?;
    let mut facts = columns(rest);
    if !rest.trim_start().starts_with('|') || facts.step_seconds.is_none() {
        return None;
    }
    // GPT-NeoX has its rate before the count.
    let before = columns(&text[..at]);
    facts.throughput = facts.throughput.or(before.throughput);
    Some(Event::Iteration {
        step: Some(step),
        of,
        facts,
    })
}

/// `Training epoch 0, iteration 120/149 | lr: 3e-05 | ...`.
fn nemo(text: &str) -> Option<Event<'_>> {
    let (epoch, rest) = scan::unsigned(text.split_once("Training epoch ")?.1)?;
    let (step, of, rest) = scan::counted(rest.strip_prefix(", iteration ")?)?;
    let facts = columns(rest);
    Some(Event::Step {
        epoch,
        epochs: None,
        step,
        of,
        facts,
    })
}

fn validation(text: &str) -> Option<Event<'_>> {
    let (head, rest) = text.split_once('|')?;
    let facts = columns(rest);
    // Of data kept for the end nothing is said under the names of the validation.
    if head.contains("test") || facts.metrics.is_empty() {
        return None;
    }
    Some(Event::Validation { facts })
}

/// The columns of `name: value | name: value |`.
fn columns(text: &str) -> Facts<'_> {
    let mut facts = Facts::default();
    for column in text.split('|') {
        // The first versions have a blank for the colon.
        let pair = [": ", ":", " "]
            .into_iter()
            .find_map(|between| column.trim().rsplit_once(between));
        let Some((name, value)) = pair else { continue };
        let Some((value, _)) = scan::number(value.trim()) else {
            continue;
        };
        let name = name.rsplit(']').next().unwrap_or(name).trim();
        take(&mut facts, name, value);
    }
    facts
}

fn take<'a>(facts: &mut Facts<'a>, name: &'a str, value: f64) {
    if name.starts_with("elapsed time per iteration") {
        let seconds = if name.contains("(ms)") {
            value / 1000.0
        } else {
            value
        };
        facts.step_seconds = Some(seconds).filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        return;
    }
    if name == "train_step_timing in s" {
        facts.step_seconds = Some(value).filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        return;
    }
    if let Some((unit, device)) = figures::rate_name(name) {
        let rate = if device {
            Rate::of_device(value, unit)
        } else {
            Rate::of_run(value, unit)
        };
        // Samples, where both are printed: what the batch is made of.
        if facts
            .throughput
            .is_none_or(|known| known.unit != "samples/s")
        {
            facts.throughput = rate;
        }
        return;
    }
    let lower = name.to_ascii_lowercase();
    if (lower.contains("loss") || !NOT_METRICS.iter().any(|word| lower.contains(word)))
        && let Some(name) = scan::figure_name(name)
    {
        facts.metrics.push((name, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Event<'_>> {
        let mut said = Vec::new();
        Megatron.read(
            &Line {
                text,
                redrawn: false,
            },
            &mut |event| said.push(event),
        );
        said
    }

    #[test]
    fn iterations_of_all_forks_are_read() {
        let core = " [2024-04-06 02:59:36] iteration       43/     100 | consumed samples:         5504 | elapsed time per \
                    iteration (ms): 5444.9 | throughput per GPU (TFLOP/s/GPU): 239.8 | learning rate: 8.6E-06 | global \
                    batch size:   128 | lm loss: 1.825991E+00 | loss scale: 1.0 | grad norm: 1.426 |";
        let first = " iteration       43/     100 | elapsed time per iteration (ms): 5444.9 | learning rate 1.500E-04 | lm \
                     loss 1.825991E+00 | loss scale 262144.0 |";
        let neox = " samples/sec: 7.799 | iteration       43/     100 | elapsed time per iteration (ms): 5444.9 | lm_loss: \
                    1.825991E+00 | number of nan iterations:   0 |";
        let science = "0: iteration 43/100 | elapsed time per iteration (s): 5.4449 | lm loss: 1.825991E+00 | samples per \
                       second: 7.799 | tokens per gpu per second (tgs): 1234.5 | TFLOPs: 13.1 |";
        for (text, rate) in [
            (core, None),
            (first, None),
            (neox, Some(7.799)),
            (science, Some(7.799)),
        ] {
            let said = read(text);
            let [
                Event::Iteration {
                    step: Some(43),
                    of: Some(100),
                    facts,
                },
            ] = said.as_slice()
            else {
                panic!("{text}: {said:?}")
            };
            assert!(
                facts
                    .step_seconds
                    .is_some_and(|seconds| (seconds - 5.4449).abs() < 1e-9),
                "{text}"
            );
            assert_eq!(
                facts.throughput,
                rate.and_then(|rate| Rate::of_run(rate, "samples/s")),
                "{text}"
            );
            assert!(
                facts
                    .metrics
                    .iter()
                    .any(|(name, value)| name.contains("loss") && *value == 1.825_991),
                "{text}"
            );
        }
    }

    #[test]
    fn validation_is_no_iteration() {
        let said = read(
            " validation loss at iteration 1000 | lm loss value: 2.724416E+00 | lm loss PPL: 1.524754E+01 | ",
        );
        let [Event::Validation { facts }] = said.as_slice() else {
            panic!("{said:?}")
        };
        assert_eq!(
            facts.metrics,
            [
                ("lm loss value".into(), 2.724_416),
                ("lm loss PPL".into(), 15.247_54)
            ]
        );
    }

    #[test]
    fn other_lines_are_left_alone() {
        for text in [
            "time (ms) | forward-compute: 265.42 | optimizer: 82.95",
            "elapsed time per iteration (ms): 3.0",
            "loss at iteration 3 | x: 2",
            "test loss at the end of training | lm loss value: 2.7E+00 |",
        ] {
            assert_eq!(read(text), [], "{text}");
        }
    }
}
