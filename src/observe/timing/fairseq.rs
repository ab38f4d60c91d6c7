//! fairseq: `--log-format simple`, `json` and `tqdm`, of today's versions and of the first.
//!
//! ```text
//! 2021-01-05 21:54:56 | INFO | fairseq.trainer | begin training epoch 22
//! ... | INFO | train_inner | epoch 001:    450 / 1891 loss=11.521, ppl=1886.05, wps=52922, num_updates=445, train_wall=75
//! ... | INFO | train_inner | {"epoch": 1, "update": 0.001, "loss": "23.729", "wps": "316.7", "num_updates": "5", "train_wall": "52"}
//! ... | INFO | valid | epoch 001 | valid on 'valid' subset | loss 8.114 | ppl 118.06 | wps 98133 | num_updates 600
//! ... | INFO | fairseq_cli.train | end of epoch 22 (average epoch stats below)
//! ... | INFO | train | epoch 022 | loss 7.3 | wps 2919.9 | num_updates 674 | train_wall 99 | wall 2548
//! ... | INFO | fairseq_cli.train | done training in 2548.3 seconds
//! | epoch 001:    450 / 1891 loss=11.521, wps=52922, num_updates=445, wall=882, train_wall=756      0.6 to 0.8
//! | epoch 010  2000 / 8223 loss=1.27 (1.50), wps=962                                               before
//! | epoch 010 | train loss 1.44 | train ppl 2.72 | s/checkpoint    7747 | words/s    961
//! ```
//!
//! The forms are those of `fairseq/logging/progress_bar.py` and `fairseq_cli/train.py` (0.9 to 0.12), `train.py` and
//! `progress_bar.py` of 0.5 to 0.8. `train_wall` is the time since the line before (that of an update only where no other
//! lies between), and in the summary the epoch's; before 0.9 it is that since the start of the program.

use super::dict::{self, Value};
use super::event::{Event, Facts, Line, Rate, Recogniser};
use super::scan;

/// Names that are no losses or metrics.
const NOT_METRICS: &str = "epoch|update|wps|ups|wpb|bsz|num_updates|train_wall|wall|gb_free|\
    ntokens|nsentences|oom|words/s|words/batch";

/// What was read of the training so far.
#[derive(Debug, Default)]
pub(super) struct FairSeq {
    /// Updates at the last line that said so.
    updates: Option<u64>,
    /// `train_wall` of the last summary of a version in which it only grows.
    wall: Option<f64>,
    /// The last step of the open epoch, how many there are, and how far it is from the one before.
    last: Option<(u64, u64, u64)>,
}

/// Figures of a line by their names.
type Pairs<'a> = Vec<(&'a str, Value<'a>)>;

impl Recogniser for FairSeq {
    fn name(&self) -> &'static str {
        "fairseq"
    }

    fn triggers(&self) -> &'static str {
        "| epoch ¦num_updates¦begin training epoch ¦end of epoch ¦done training in ¦wps="
    }

    fn counts_from_zero(&self) -> Option<bool> {
        Some(false)
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some(event) = self.read_line(line.text.trim()) {
            say(event);
        }
    }
}

impl FairSeq {
    fn read_line<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        if let Some((_, rest)) = text.split_once("| done training in ") {
            let (seconds, _) = scan::duration(rest)?;
            return Some(Event::run_end(Some(seconds), Facts::default()));
        }
        if let Some((_, rest)) = text.split_once("| begin training epoch ") {
            self.last = None;
            return Some(Event::epoch_start(scan::unsigned(rest)?.0, None));
        }
        if let Some((_, rest)) = text.split_once("| end of epoch ") {
            let epoch = scan::unsigned(rest)?.0;
            let none = Facts::default();
            return Some(Event::epoch_end((epoch, None), none));
        }
        // The logger's name, where there is one: `train_inner`, `train`, `valid`, `test`.
        let logger = text
            .split_once("| INFO | ")
            .map(|(_, rest)| rest.split(" |").next().unwrap_or_default().trim());
        if let Some(at) = text.find("| {").filter(|_| text.contains("num_updates")) {
            return self.json(logger.unwrap_or_default(), &text[at..]);
        }
        let (head, rest) = text.split_once("epoch ")?;
        if !(head.is_empty() || head.trim_end().ends_with('|')) {
            return None;
        }
        let (epoch, rest) = scan::unsigned(rest)?;
        match rest.trim_start().as_bytes().first()? {
            b'|' => self.summary(epoch, logger, rest),
            b':' => self.inner(epoch, rest.trim_start()[1..].trim_start()),
            _ => self.inner(epoch, rest.trim_start()),
        }
    }

    /// `450 / 1891 loss=11.521, ppl=1886.05`, or a bar of tqdm with such a postfix.
    fn inner<'a>(&mut self, epoch: u64, text: &'a str) -> Option<Event<'a>> {
        let text = match text.find("%|") {
            Some(_) => {
                let bar = text.rfind('|')?;
                text[bar + 1..].trim_start()
            }
            None => text,
        };
        let (step, of, rest) = scan::counted(text)?;
        let of = of?;
        let begin = rest
            .find(['='])
            .map(|at| rest[..at].rfind([' ', ',', '[']).map_or(0, |at| at + 1))?;
        let pairs = equations(&rest[begin..]);
        dict::get(&pairs, "wps")?;
        let stride = self
            .last
            .map_or(step, |(last, _, _)| step.saturating_sub(last));
        self.last = Some((step, of, stride));
        let facts = self.facts(&pairs, "");
        Some(Event::step((epoch, None), (step, Some(of)), facts))
    }

    fn json<'a>(&mut self, logger: &str, text: &'a str) -> Option<Event<'a>> {
        let pairs = dict::read(text);
        let epoch = dict::get(&pairs, "epoch").and_then(Value::count)?;
        match logger {
            "train_inner" => {
                let step = dict::get(&pairs, "num_updates").and_then(Value::count)?;
                let facts = self.facts(&pairs, "");
                Some(Event::step((epoch, None), (step, None), facts))
            }
            "train" => {
                let seconds = dict::get(&pairs, "train_train_wall").and_then(Value::number);
                let facts = self.facts(&pairs, "train_");
                Some(Event::epoch_end((epoch, None), facts).took(seconds))
            }
            _ => Some(self.validation(&pairs, "")),
        }
    }

    /// `| loss 7.3 | wps 2919.9 | num_updates 674`, behind the epoch.
    fn summary<'a>(
        &mut self,
        epoch: u64,
        logger: Option<&str>,
        text: &'a str,
    ) -> Option<Event<'a>> {
        let mut pairs = Pairs::new();
        for field in text.split('|') {
            let field = field.trim();
            // Names of the first versions have blanks in them.
            if let Some(at) = field.rfind(' ')
                && let Some((value, "" | "%")) = scan::number(&field[at + 1..])
            {
                pairs.push((field[..at].trim_end(), Value::Number(value)));
            }
        }
        if text.contains(" on '") {
            return Some(self.validation(&pairs, if logger.is_some() { "valid_" } else { "" }));
        }
        let number = |name| dict::get(&pairs, name).and_then(Value::number);
        let known = number("wps").or(number("words/s")).is_some();
        if !known || logger.is_some_and(|logger| logger != "train") {
            return None;
        }
        let wall = number("train_wall");
        let seconds = match logger {
            Some(_) => wall,
            None => number("s/checkpoint").or_else(|| self.since_last(epoch, wall)),
        };
        let facts = self.facts(&pairs, "");
        self.last = None;
        Some(Event::epoch_end((epoch, None), facts).took(seconds))
    }

    /// The time of an epoch as the difference of what only grows.
    fn since_last(&mut self, epoch: u64, wall: Option<f64>) -> Option<f64> {
        let before = std::mem::replace(&mut self.wall, wall);
        let from = before.or((epoch == 1).then_some(0.0))?;
        wall.map(|wall| wall - from)
            .filter(|seconds| *seconds >= 0.0)
    }

    /// Validation may come within an epoch; then no epoch ends by it.
    fn validation<'a>(&self, pairs: &Pairs<'a>, prefix: &str) -> Event<'a> {
        let mut facts = Facts::default();
        for (name, value) in pairs {
            let plain = name.trim_start_matches("valid_");
            if let Some(value) = value.number().filter(|_| !scan::is_any(plain, NOT_METRICS)) {
                let known = name.starts_with("valid") || prefix.is_empty();
                let name = if known {
                    (*name).into()
                } else {
                    format!("{prefix}{name}").into()
                };
                facts.metrics.push((name, value));
            }
        }
        match self.last {
            Some((step, of, stride)) if of - step.min(of) < stride.max(2) => {
                Event::validation(facts)
            }
            _ => Event::figures(facts),
        }
    }

    /// Figures of training whose names may have a prefix.
    fn facts<'a>(&mut self, pairs: &Pairs<'a>, prefix: &str) -> Facts<'a> {
        let mut facts = Facts::default();
        let mut wall = None;
        let before = self.updates;
        for (name, value) in pairs {
            let plain = name.strip_prefix(prefix).unwrap_or(name);
            let number = value.number();
            match plain {
                "wps" | "words/s" => {
                    facts.throughput = number.and_then(|rate| Rate::of_run(rate, "words/s"))
                }
                "num_updates" => self.updates = value.count().or(self.updates),
                "train_wall" => wall = number,
                _ => {}
            }
            if let Some(number) = number.filter(|_| !scan::is_any(plain, NOT_METRICS)) {
                facts.metrics.push(((*name).into(), number));
            }
        }
        let single = self
            .updates
            .is_some_and(|updates| before.map_or(1, |before| before + 1) == updates);
        // The whole seconds of an update; before 0.9 those of the run, which have `wall` before them.
        let summed = pairs.iter().position(|(name, _)| *name == "wall")
            < pairs.iter().position(|(name, _)| *name == "train_wall");
        let growing = pairs.iter().any(|(name, _)| *name == "wall") && summed;
        facts.step_seconds = wall.filter(|_| single && prefix.is_empty() && !growing);
        facts
    }
}

/// The pairs of `loss=11.521, ppl=1886.05, clip=0%]`.
fn equations(text: &str) -> Pairs<'_> {
    let mut pairs = Pairs::new();
    for field in text.split(',') {
        let Some((name, value)) = field.split_once('=') else {
            continue;
        };
        if let Some((value, _)) = scan::number(value.trim()) {
            pairs.push((name.trim(), Value::Number(value)));
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::timing::event::Says;

    fn read<'a>(recogniser: &mut FairSeq, text: &'a str) -> Option<Event<'a>> {
        recogniser.read_line(text)
    }

    #[test]
    fn steps_of_all_versions_are_read() {
        for (text, epoch, number, all) in [
            (
                "2021 | INFO | train_inner | epoch 001:    450 / 1891 loss=11.5, nll_loss=10.8, wps=52922, ups=0.5, num_updates=445, train_wall=75",
                1,
                450,
                Some(1891),
            ),
            (
                "| epoch 001:    450 / 1891 loss=11.5, wps=52922, num_updates=445, clip=0%, wall=882, train_wall=756",
                1,
                450,
                Some(1891),
            ),
            (
                "| epoch 010  2000 / 8223 loss=1.27 (1.50), wps=962, wpb=908, clip=100%",
                10,
                2000,
                Some(8223),
            ),
            (
                "epoch 003:  45%|████▌     | 100/222 [00:50<01:00,  2.01it/s, loss=11.5, ppl=1886, wps=52922, num_updates=544]",
                3,
                100,
                Some(222),
            ),
            (
                "2021 | INFO | train_inner | {\"epoch\": 2, \"update\": 1.5, \"loss\": \"23.7\", \"wps\": \"316.7\", \"num_updates\": \"900\", \"train_wall\": \"52\"}",
                2,
                900,
                None,
            ),
        ] {
            let event = read(&mut FairSeq::default(), text);
            let Some(Event {
                says: Says::Step,
                epoch: Some(found),
                step: Some(step),
                of,
                facts,
                ..
            }) = &event
            else {
                panic!("{text}: {event:?}")
            };
            assert_eq!((*found, *step, *of), (epoch, number, all), "{text}");
            assert_eq!(facts.metrics[0].0, "loss", "{text}");
            assert!(
                facts.throughput.is_some() && facts.step_seconds.is_none(),
                "{text}: {facts:?}"
            );
        }
    }

    #[test]
    fn the_time_of_a_lone_update_is_that_of_a_step() {
        let line = |updates: u32| {
            format!(
                "2021 | INFO | train_inner | {{\"epoch\": 1, \"loss\": \"9\", \"wps\": \"3\", \"num_updates\": \"{updates}\", \"train_wall\": \"52\", \"wall\": \"403\"}}"
            )
        };
        let mut training = FairSeq::default();
        for (updates, seconds) in [(4, None), (5, Some(52.0)), (7, None)] {
            let text = line(updates);
            let Some(Event {
                says: Says::Step,
                facts,
                ..
            }) = read(&mut training, &text)
            else {
                panic!("{text}")
            };
            assert_eq!(facts.step_seconds, seconds, "{text}");
        }
    }

    #[test]
    fn summaries_end_an_epoch() {
        let mut training = FairSeq::default();
        for (text, number, time) in [
            (
                "2021 | INFO | train | epoch 022 | loss 7.3 | ppl 157 | wps 2919.9 | num_updates 674 | train_wall 99 | wall 2548",
                22,
                Some(99.0),
            ),
            (
                "2021 | INFO | train | {\"epoch\": 22, \"train_loss\": \"788.1\", \"train_wps\": \"2919.9\", \"train_num_updates\": \"674\", \"train_train_wall\": \"99\"}",
                22,
                Some(99.0),
            ),
            (
                "| epoch 010 | train loss 1.44 | train ppl 2.72 | s/checkpoint    7747 | words/s    961 | clip 100%",
                10,
                Some(7747.0),
            ),
            (
                "| epoch 001 | loss 9.4 | nll_loss 8.5 | wps 53000 | num_updates 1891 | wall 1900 | train_wall 1600",
                1,
                Some(1600.0),
            ),
            (
                "| epoch 002 | loss 7.4 | nll_loss 6.5 | wps 53000 | num_updates 3782 | wall 3800 | train_wall 3210",
                2,
                Some(1610.0),
            ),
        ] {
            let event = read(&mut training, text);
            let Some(Event {
                says: Says::EpochEnd,
                epoch: Some(epoch),
                seconds,
                facts,
                ..
            }) = &event
            else {
                panic!("{text}: {event:?}")
            };
            assert_eq!((*epoch, *seconds), (number, time), "{text}");
            assert!(facts.throughput.is_some(), "{text}");
        }
    }

    #[test]
    fn validation_ends_an_epoch_only_behind_its_last_step() {
        let mut training = FairSeq::default();
        let step =
            |step| format!("| epoch 001:    {step} / 1891 loss=11.5, wps=52922, num_updates=445");
        let valid = "2020 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 8.114 | wps 98133 | num_updates 600";
        for (at, ended) in [(500, false), (600, false), (700, false), (1890, true)] {
            read(&mut training, &step(at));
            let event = read(&mut training, valid);
            assert_eq!(
                matches!(
                    event,
                    Some(Event {
                        says: Says::Validation,
                        ..
                    })
                ),
                ended,
                "{at}: {event:?}"
            );
            let Some(
                Event {
                    says: Says::Validation,
                    facts,
                    ..
                }
                | Event {
                    says: Says::Figures,
                    facts,
                    ..
                },
            ) = event
            else {
                panic!()
            };
            assert_eq!(facts.metrics, [("valid_loss".into(), 8.114)]);
        }
    }

    #[test]
    fn other_lines_are_left_alone() {
        for text in [
            "2021 | INFO | fairseq.trainer | NOTE: gradient overflow detected, setting loss scale to: 2.0",
            "2021 | INFO | fairseq.checkpoint_utils | saved checkpoint x.pt (epoch 1 @ 600 updates, score 8.1)",
            "| epoch 3 | time: 3.2s | valid loss 4.3",
            "epoch 1: loss=3",
            "epoch 3",
        ] {
            assert_eq!(read(&mut FairSeq::default(), text), None, "{text}");
        }
    }
}
