//! DeepSpeed: what its engine says of every few steps, and the loops of DeepSpeed-Chat around it.
//!
//! ```text
//! [INFO] [timer.py:199:stop] epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=265.3, CurrSamplesPerSec=265.4, ...
//! [INFO] [timer.py:189:stop] 0/40, SamplesPerSec=83.48609168106144, MemAllocated=0.26GB          before 0.7
//! [INFO] [logging.py:96:log_dist] [Rank 0] step=20, skipped=10, lr=[4.9e-05], mom=[(0.9, 0.95)]
//! steps: 10 loss: 2.3026 iter time (s): 0.451 samples/sec: 568.133                                pipeline engine
//! Beginning of Epoch 1/1, Total Micro Batches 1840                                               DeepSpeed-Chat
//! Epoch: 0, Step: 12, Rank: 0, loss = 2.3
//! Model Parameters: 1.429 B, Latency: 2.46s, TFLOPs: 12.58, Samples/sec: 19.50, Time/seq 0.05s
//! Epoch 1/1 with loss 0.5754789632299672
//! ***** Evaluating reward, Epoch 1/1 *****
//! chosen_last_scores (higher is better) : 2.24, acc (higher is better) : 0.6994950175285339
//! ```
//!
//! The forms are those of `deepspeed/utils/timer.py`, `runtime/engine.py` and `runtime/pipe/engine.py` (0.3 to 0.16) and
//! of `applications/DeepSpeed-Chat/training/*/main.py` of DeepSpeedExamples. The engine counts epochs from 0 and mostly
//! stays there; where a Chat loop tells of its epochs, from 1, those count. Rates are of all GPUs.

use super::event::{Event, Facts, Line, Rate, Recogniser, Weight};
use super::scan;

/// What was read of the training so far.
#[derive(Debug, Default)]
pub(super) struct DeepSpeed {
    /// The epoch that a loop of DeepSpeed-Chat said it begins, and its steps.
    chat: Option<(u64, Option<u64>)>,
    /// True once the engine spoke: a loss alone may be anybody's.
    known: bool,
}

impl Recogniser for DeepSpeed {
    fn name(&self) -> &'static str {
        "deepspeed"
    }

    /// The engine runs inside other programs, which know better what a step is.
    fn weight(&self) -> Weight {
        if self.chat.is_some() {
            Weight::Family
        } else {
            Weight::Plain
        }
    }

    fn triggers(&self) -> &[&'static str] {
        &[
            "SamplesPerSec=",
            ", skipped=",
            " iter time (s): ",
            "Beginning of Epoch ",
            " with loss ",
            "***** Evaluating ",
            "is better) : ",
            "ppl: ",
            ", Rank: ",
            "Samples/sec: ",
            " PPO Epoch: ",
            "oss: ",
        ]
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        let text = line.text.trim();
        let event = self
            .engine(text)
            .or_else(|| pipeline(text))
            .or_else(|| self.chat(text, say))
            .or_else(|| loss(text).filter(|_| self.known));
        if let Some(event) = event {
            self.known = true;
            say(event);
        }
    }
}

impl DeepSpeed {
    /// Lines of the engine.
    fn engine<'a>(&self, text: &'a str) -> Option<Event<'a>> {
        if let Some(at) = text.find("] step=").filter(|_| text.contains(", skipped=")) {
            let (step, _) = scan::unsigned(&text[at + "] step=".len()..])?;
            let none = Facts::default();
            return self
                .chat
                .is_none()
                .then_some(Event::iteration(Some(step), None, none));
        }
        let (head, _) = text.split_once("SamplesPerSec=")?;
        let rate = ["RunningAvgSamplesPerSec=", "SamplesPerSec="]
            .into_iter()
            .find_map(|name| after(text, name))?;
        let facts = Facts::with_rate(Rate::of_run(rate, "samples/s"));
        if self.chat.is_some() {
            return Some(Event::figures(facts));
        }
        if let Some(at) = head.find("epoch=") {
            let (epoch, rest) = scan::unsigned(&head[at + "epoch=".len()..])?;
            let counted = ["global_step=", "micro_step="]
                .into_iter()
                .find_map(|name| rest.split_once(name))?;
            let (step, _) = scan::unsigned(counted.1)?;
            return Some(Event::step((epoch, None), (step, None), facts));
        }
        // `0/40, `: the first number stands for the epoch but never grows.
        let counts = head.rsplit_once(',')?.0;
        let (_, step, rest) =
            scan::counted(&counts[counts.rfind([' ', ']']).map_or(0, |at| at + 1)..])?;
        let step = step.filter(|_| rest.is_empty());
        Some(Event::iteration(step, None, facts))
    }

    /// Lines of DeepSpeed-Chat.
    fn chat<'a>(&mut self, text: &'a str, say: &mut dyn FnMut(Event<'a>)) -> Option<Event<'a>> {
        if let Some((_, rest)) = text.split_once("Beginning of Epoch ") {
            let (epoch, epochs, rest) = scan::counted(rest)?;
            let (_, steps) = rest.split_once(" Batches ")?;
            let steps = scan::unsigned(steps).map(|(steps, _)| steps);
            if self.chat.is_some_and(|(open, _)| open == epoch) {
                return None;
            }
            self.chat = Some((epoch, steps));
            say(Event::announce(epochs, steps));
            say(Event::epoch_start(epoch, epochs));
            return steps.map(|_| Event::iteration(None, steps, Facts::default()));
        }
        if let Some((_, rest)) = text.split_once("***** Evaluating ") {
            let (epoch, epochs, _) = scan::counted(rest.split_once("Epoch ")?.1)?;
            let ended = self.chat.is_some_and(|(open, _)| open == epoch);
            let none = Facts::default();
            return ended.then_some(Event::epoch_end((epoch, epochs), none));
        }
        if let Some(rest) = text.strip_prefix("Epoch ")
            && let Some((epoch, epochs, rest)) = scan::counted(rest)
        {
            let loss = after(rest, " with loss ")?;
            let facts = Facts::with_metrics(vec![("loss".into(), loss)]);
            return Some(Event::epoch_end((epoch, epochs), facts));
        }
        if let Some(rest) = text.strip_prefix("Epoch: ") {
            return self.step(rest);
        }
        let facts = figures(text)?;
        Some(Event::figures(facts))
    }

    /// What follows in `Epoch: 0, Step: 12, Rank: 0, loss = 2.3` and `Epoch: 0 | Step: 12 | PPO Epoch: 1 | Actor Loss: 0.1`.
    fn step<'a>(&self, text: &'a str) -> Option<Event<'a>> {
        let (epoch, rest) = scan::unsigned(text)?;
        let (_, rest) = rest.split_once("Step: ")?;
        let (step, rest) = scan::unsigned(rest)?;
        if !rest.starts_with(", Rank: ") && !rest.starts_with(" | PPO Epoch: ") {
            return None;
        }
        let mut facts = Facts::default();
        for field in rest.split([',', '|']) {
            let Some((name, value)) = field.split_once(": ").or_else(|| field.split_once(" = "))
            else {
                continue;
            };
            let name = name.trim();
            if let Some((value, _)) = scan::number(value.trim())
                && name.to_ascii_lowercase().contains("loss")
            {
                facts.metrics.push((name.into(), value));
            }
        }
        let (epoch, of) = self.chat.unwrap_or((epoch, None));
        Some(Event::step((epoch, None), (step, of), facts))
    }
}

/// `steps: 10 loss: 2.3026 iter time (s): 0.451 samples/sec: 568.133`.
fn pipeline(text: &str) -> Option<Event<'_>> {
    let at = text.find("steps: ")?;
    let step_seconds = Some(after(text, " iter time (s): ")?);
    let (step, _) = scan::unsigned(&text[at + "steps: ".len()..])?;
    let throughput = after(text, "samples/sec: ").and_then(|rate| Rate::of_run(rate, "samples/s"));
    let mut metrics = scan::metrics(&text[at..], &[]);
    metrics.retain(|(name, _)| name.contains("loss"));
    Some(Event::iteration(
        Some(step),
        None,
        Facts {
            step_seconds,
            throughput,
            metrics,
            ..Facts::default()
        },
    ))
}

/// `Loss: 10.8766` and nothing else behind what a logger writes: the engine leaves the loss to the script.
fn loss(text: &str) -> Option<Event<'_>> {
    let (words, value) = text.rsplit_once(' ')?;
    let (value, _) = scan::number(value).filter(|(_, rest)| rest.is_empty())?;
    let (head, name) = words.split_at_checked(words.len().checked_sub("loss:".len())?)?;
    let alone = head.is_empty() || head.ends_with("] ") || head.ends_with("- ");
    let facts = Facts::with_metrics(vec![("loss".into(), value)]);
    (alone && name.eq_ignore_ascii_case("loss:")).then_some(Event::figures(facts))
}

/// The figures of Chat's lines without a step.
fn figures(text: &str) -> Option<Facts<'_>> {
    let mut facts = Facts::default();
    if text.contains("Latency: ")
        && !text.starts_with("Generation")
        && !text.starts_with("Training")
    {
        facts.step_seconds = after(text, "Latency: ");
        facts.throughput =
            after(text, "Samples/sec: ").and_then(|rate| Rate::of_run(rate, "samples/s"));
        return (!facts.is_empty()).then_some(facts);
    }
    if text.contains("is better) : ") {
        for field in text.split(", ") {
            let Some((name, value)) = field.split_once(" (").zip(after(field, ") : ")) else {
                continue;
            };
            facts.metrics.push((name.0.into(), value));
        }
    } else if text.starts_with("ppl: ") {
        facts.metrics.push(("ppl".into(), after(text, "ppl: ")?));
        facts
            .metrics
            .extend(after(text, ", loss: ").map(|loss| ("eval_loss".into(), loss)));
    }
    (!facts.is_empty()).then_some(facts)
}

/// The number behind a name.
fn after(text: &str, name: &str) -> Option<f64> {
    let (_, rest) = text.split_once(name)?;
    scan::number(rest.trim_start()).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::timing::event::Says;

    fn read<'a>(recogniser: &mut DeepSpeed, text: &'a str) -> Vec<Event<'a>> {
        let mut said = Vec::new();
        recogniser.read(
            &Line {
                text,
                redrawn: false,
            },
            &mut |event| said.push(event),
        );
        said
    }

    fn only(text: &str) -> Vec<Event<'_>> {
        read(&mut DeepSpeed::default(), text)
    }

    #[test]
    fn lines_of_the_engine_are_read() {
        let said = only(
            "[2023] [INFO] [timer.py:199:stop] epoch=0/micro_step=20/global_step=10, RunningAvgSamplesPerSec=265.32, CurrSamplesPerSec=265.43, MemAllocated=4.34GB",
        );
        let [
            Event {
                says: Says::Step,
                epoch: Some(0),
                step: Some(10),
                of: None,
                facts,
                ..
            },
        ] = said.as_slice()
        else {
            panic!("{said:?}")
        };
        assert_eq!(facts.throughput, Rate::of_run(265.32, "samples/s"));
        let said = only(
            "[2022-03-11 02:06:58,985] [INFO] [timer.py:189:stop] 0/40, SamplesPerSec=83.48, MemAllocated=0.26GB",
        );
        let [
            Event {
                says: Says::Iteration,
                step: Some(40),
                facts,
                ..
            },
        ] = said.as_slice()
        else {
            panic!("{said:?}")
        };
        assert_eq!(facts.throughput, Rate::of_run(83.48, "samples/s"));
        let said = only(
            "[2022] [INFO] [logging.py:69:log_dist] [Rank 0] step=40, skipped=2, lr=[5e-05], mom=[[0.9, 0.999]]",
        );
        assert!(
            matches!(
                said[..],
                [Event {
                    says: Says::Iteration,
                    step: Some(40),
                    of: None,
                    ..
                }]
            ),
            "{said:?}"
        );
        let said = only("steps: 10 loss: 2.3026 iter time (s): 0.451 samples/sec: 568.133");
        let [
            Event {
                says: Says::Iteration,
                step: Some(10),
                facts,
                ..
            },
        ] = said.as_slice()
        else {
            panic!("{said:?}")
        };
        assert_eq!((facts.step_seconds, facts.metrics.len()), (Some(0.451), 1));
        let said = only(
            "steps: 130 loss: 5.5 lm loss: 5.25 moe loss: 0.25 iter time (s): 0.239 samples/sec: 535.571",
        );
        let [
            Event {
                says: Says::Iteration,
                facts,
                ..
            },
        ] = said.as_slice()
        else {
            panic!("{said:?}")
        };
        assert_eq!(
            facts.metrics,
            [
                ("loss".into(), 5.5),
                ("lm loss".into(), 5.25),
                ("moe loss".into(), 0.25)
            ]
        );
    }

    #[test]
    fn where_chat_tells_of_epochs_those_of_the_engine_do_not_count() {
        let mut training = DeepSpeed::default();
        assert_eq!(
            read(
                &mut training,
                "***** Evaluating perplexity, Epoch 0/2 *****"
            ),
            []
        );
        let said = read(
            &mut training,
            "Beginning of Epoch 1/2, Total Micro Batches 920",
        );
        assert_eq!(said.len(), 3);
        assert!(matches!(
            said[1],
            Event {
                says: Says::EpochStart,
                epoch: Some(1),
                epochs: Some(2),
                ..
            }
        ));
        assert_eq!(
            read(
                &mut training,
                "Beginning of Epoch 1/2, Total Micro Batches 920"
            ),
            []
        );
        let said = read(
            &mut training,
            "x epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=265.3, CurrSamplesPerSec=1",
        );
        assert!(
            matches!(
                said[..],
                [Event {
                    says: Says::Figures,
                    ..
                }]
            ),
            "{said:?}"
        );
        let said = read(&mut training, "Epoch: 0, Step: 12, Rank: 0, loss = 2.3");
        assert!(
            matches!(
                said[..],
                [Event {
                    says: Says::Step,
                    epoch: Some(1),
                    step: Some(12),
                    of: Some(920),
                    ..
                }]
            ),
            "{said:?}"
        );
        let said = read(
            &mut training,
            "Model Parameters: 1.429 B, Latency: 2.46s, TFLOPs: 12.58, Samples/sec: 19.50, Time/seq 0.05s",
        );
        let [
            Event {
                says: Says::Figures,
                facts,
                ..
            },
        ] = said.as_slice()
        else {
            panic!("{said:?}")
        };
        assert_eq!(
            (facts.step_seconds, facts.throughput),
            (Some(2.46), Rate::of_run(19.5, "samples/s"))
        );
        let said = read(
            &mut training,
            "***** Evaluating perplexity, Epoch 1/2 *****",
        );
        assert!(
            matches!(
                said[..],
                [Event {
                    says: Says::EpochEnd,
                    epoch: Some(1),
                    ..
                }]
            ),
            "{said:?}"
        );
        let said = read(&mut training, "ppl: 5.3, loss: 1.7");
        let [
            Event {
                says: Says::Figures,
                facts,
                ..
            },
        ] = said.as_slice()
        else {
            panic!("{said:?}")
        };
        assert_eq!(
            facts.metrics,
            [("ppl".into(), 5.3), ("eval_loss".into(), 1.7)]
        );
    }

    #[test]
    fn other_lines_are_left_alone() {
        for text in [
            "[INFO] [config.py:967:print]   steps_per_print .............. 10",
            "time (ms) | forward_microstep: 193.65 | step_microstep: 0.92",
            "Epoch 3 with loss of 2",
            "Samples/sec: 3",
            "ended with loss 3",
        ] {
            assert_eq!(only(text), [], "{text}");
        }
    }
}
