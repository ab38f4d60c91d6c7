//! NVIDIA's DLLogger, as the programs of DeepLearningExamples use it.
//!
//! ```text
//! DLL 2021-06-30 10:58:05.828323 - epoch    1 | iter   1/24 | d loss  7.966 |  3092.31 frames/s | took 13.25 s      speech
//! DLL 2021-06-30 10:58:45.828323 - epoch    1 | avg train loss 16.99 | 142370.52 frames/s | took 45.10 s
//! DLL 2020-09-15 14:28:53.498443 - Epoch: 0 Iteration: 20  train.loss : 6.98 train.total_ips : 2500.5 img/s        images
//! DLL 2020-09-15 14:58:53.498443 - Summary: train.loss : 2.1 train.total_ips : 2500.5 img/s
//! DLL 2022-04-05 05:10:36.324733 - Training Epoch: 0 Training Iteration: 651  step_loss : 2.05                       BERT
//! DLL 2020-12-07 20:04:34.092791 - Iteration: 16  throughput_train : 145.221 seq/s mlm_loss : 10.4521
//! DLL 2020-05-28 03:32:56.502714 - (6001, 129) train_items_per_sec : 17340.7                                         Tacotron 2
//! DLL 2020-05-28 03:32:56.700340 - (6001,) train_epoch_time : 436.61
//! DLLL {"timestamp": "1600.1", "type": "LOG", "step": [0, 20], "data": {"train.loss": 6.98}}
//! ```
//!
//! The forms are those of `dllogger/logger.py` of NVIDIA/dllogger 0.1 to 1.0 and of the functions that format steps and
//! metrics in `PyTorch/*/` of NVIDIA/DeepLearningExamples. Rates are of all GPUs.

use super::dict::{self, Value};
use super::event::{Event, Facts, Line, Rate, Recogniser};
use super::figures;
use super::scan;

/// What was read of the training so far.
#[derive(Debug, Default)]
pub(super) struct DlLogger {
    /// Steps of an epoch, where a line said so.
    of: Option<u64>,
    /// True of the programs that count epochs from 1.
    from_one: bool,
}

/// To what an entry belongs.
#[derive(Debug, Default, PartialEq)]
struct Step {
    epoch: Option<u64>,
    iteration: Option<u64>,
    validation: bool,
}

/// What an entry says.
#[derive(Debug, Default)]
struct Data<'a> {
    facts: Facts<'a>,
    epoch_seconds: Option<f64>,
    run_seconds: Option<f64>,
    of: Option<u64>,
    /// Whether anything of training, and of validation, is in it.
    trained: bool,
    validated: bool,
}

impl Recogniser for DlLogger {
    fn name(&self) -> &'static str {
        "dllogger"
    }

    fn triggers(&self) -> &'static [&'static str] {
        &["DLL 2", "DLLL {"]
    }

    fn counts_from_zero(&self) -> Option<bool> {
        Some(!self.from_one)
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some(event) = self.read_line(line.text) {
            say(event);
        }
    }
}

impl DlLogger {
    fn read_line<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        if let Some(at) = text.find("DLLL {") {
            let (step, data) = json(&text[at..])?;
            return self.event(&step, data);
        }
        let (_, body) = text[text.find("DLL 2")?..].split_once(" - ")?;
        let body = body.trim();
        if body.starts_with("PARAMETER") {
            return None;
        }
        if let Some(rest) = body.strip_prefix("epoch ")
            && rest.contains(" | ")
        {
            self.from_one = true;
            return table(rest);
        }
        let (step, rest) = step(body)?;
        let mut data = Data::default();
        for (name, value) in pairs(rest) {
            data.take(name, value);
        }
        self.event(&step, data)
    }

    fn event<'a>(&mut self, step: &Step, data: Data<'a>) -> Option<Event<'a>> {
        self.of = data.of.or(self.of);
        let Data {
            facts,
            epoch_seconds,
            run_seconds,
            trained,
            validated,
            ..
        } = data;
        match *step {
            _ if step.validation => None,
            Step {
                epoch: Some(epoch),
                iteration: Some(step),
                ..
            } if trained => Some(Event::Step {
                epoch,
                epochs: None,
                step,
                of: self.of,
                facts,
            }),
            Step {
                epoch: Some(epoch),
                iteration: None,
                ..
            } if trained => {
                // `train_time` of an epoch is its own.
                let seconds = epoch_seconds.or(run_seconds);
                Some(Event::EpochEnd {
                    epoch,
                    epochs: None,
                    seconds,
                    step: None,
                    facts,
                })
            }
            Step { epoch: Some(_), .. } => validated.then_some(Event::Validation { facts }),
            Step {
                iteration: Some(step),
                ..
            } if trained => Some(Event::Iteration {
                step: Some(step),
                of: None,
                facts,
            }),
            Step {
                epoch: None,
                iteration: None,
                ..
            } if trained || run_seconds.is_some() => Some(Event::RunEnd {
                seconds: run_seconds,
                facts,
            }),
            _ => None,
        }
    }
}

/// The words before the metrics: `Epoch: 0 Iteration: 20 `, `(0, 120) `, `Summary:`, `Iteration: 16`, `120`, or none.
fn step(body: &str) -> Option<(Step, &str)> {
    let mut read = Step::default();
    if let Some((inside, rest)) = body
        .strip_prefix('(')
        .or_else(|| body.strip_prefix('['))
        .and_then(|rest| rest.split_once([')', ']']))
    {
        return Some((numbered(inside), rest));
    }
    let mut rest = body;
    loop {
        rest = rest.trim_start();
        let Some((word, after)) = rest.split_once(": ") else {
            break;
        };
        let number = scan::unsigned(after.trim_start());
        match (
            word.trim_start_matches("Training ")
                .trim_start_matches("Train "),
            number,
        ) {
            ("Epoch" | "epoch", Some((number, after))) => {
                (read.epoch, rest) = (Some(number), after)
            }
            ("Iteration" | "iteration" | "Step" | "step" | "Batch", Some((number, after))) => {
                (read.iteration, rest) = (Some(number), after);
            }
            ("Validation Iteration" | "Validation Epoch", Some((_, after))) => {
                (read.validation, rest) = (true, after)
            }
            _ => break,
        }
    }
    if let Some(after) = rest.strip_prefix("Summary:") {
        return Some((Step::default(), after));
    }
    if read == Step::default()
        && let Some((number, after)) = scan::unsigned(rest)
        && after.starts_with(' ')
    {
        (read.iteration, rest) = (Some(number), after);
    }
    Some((read, rest))
}

/// A step as a tuple: epoch, iteration, iteration of the validation.
fn numbered(inside: &str) -> Step {
    let mut numbers = inside.split(',').map(|number| number.trim().parse().ok());
    let (epoch, iteration) = (numbers.next().flatten(), numbers.next().flatten());
    Step {
        epoch,
        iteration,
        validation: numbers.next().flatten().is_some_and(|_: u64| true),
    }
}

/// The pairs of `train.loss : 6.98 None train.total_ips : 2500.5 img/s`: each value with what stands behind it.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut chunks = text.split(" : ").peekable();
    let mut name = chunks
        .next()
        .unwrap_or_default()
        .rsplit(' ')
        .next()
        .unwrap_or_default();
    std::iter::from_fn(move || {
        let chunk = chunks.next()?;
        let end = if chunks.peek().is_some() {
            chunk.trim_end().rfind(' ').unwrap_or(chunk.len())
        } else {
            chunk.len()
        };
        let pair = (name, chunk[..end].trim());
        name = chunk[end..].trim();
        Some(pair)
    })
}

/// `1 | iter   1/24 | d loss  7.966 |  3092.31 frames/s | took 13.25 s`, behind the word `epoch`.
fn table(text: &str) -> Option<Event<'_>> {
    let (epoch, epochs, rest) = scan::counted(text)?;
    let mut data = Data::default();
    let mut step = None;
    let mut seconds = None;
    for field in rest.split('|').map(str::trim) {
        if let Some(count) = field.strip_prefix("iter ") {
            step = scan::counted(count).map(|(step, of, _)| (step, of));
        } else if let Some(time) = field
            .strip_prefix("took ")
            .or_else(|| field.strip_prefix("elapsed "))
        {
            seconds = scan::duration(time).map(|(seconds, _)| seconds);
        } else if let Some((rate, Some(unit))) =
            scan::number(field).map(|(rate, unit)| (rate, unit_of(unit)))
        {
            data.facts.throughput = Rate::of_run(rate, unit);
        } else if let Some(at) = field.rfind(' ').filter(|_| !field.contains("->")) {
            let Some((value, "")) = scan::number(&field[at + 1..]) else {
                continue;
            };
            let name = field[..at].trim();
            data.validated |= name.contains("val ");
            data.facts.metrics.push((name.into(), value));
        }
    }
    let mut facts = data.facts;
    if let Some((step, of)) = step {
        facts.step_seconds = seconds;
        return Some(Event::Step {
            epoch,
            epochs,
            step,
            of,
            facts,
        });
    }
    if data.validated {
        facts.throughput = None;
        return Some(Event::Validation { facts });
    }
    Some(Event::EpochEnd {
        epoch,
        epochs,
        seconds,
        step: None,
        facts,
    })
}

/// The unit of a rate: `frames/s`, `items/s`, `img/s`.
fn unit_of(text: &str) -> Option<&'static str> {
    let text = text.trim();
    match scan::rate_unit(text) {
        Some((unit, "")) => Some(unit),
        _ => matches!(text, "items/s" | "utts/s" | "utterances/s").then_some("samples/s"),
    }
}

impl<'a> Data<'a> {
    /// Takes a metric with what stands behind its name.
    fn take(&mut self, name: &'a str, value: &'a str) {
        let Some((number, rest)) = scan::number(value) else {
            return;
        };
        if name.contains("iters_per_epoch") {
            self.of = rest
                .strip_prefix('/')
                .and_then(scan::unsigned)
                .map(|(of, _)| of);
            self.trained |= self.of.is_some();
            return;
        }
        self.take_number(name, number, rest);
    }

    fn take_number(&mut self, name: &'a str, value: f64, unit: &str) {
        let validated = ["val", "eval", "test", "infer"].iter().any(|word| {
            name.split(['.', '_', ' ', '/'])
                .any(|part| part.starts_with(word))
                || name.starts_with(word)
        });
        self.validated |= validated;
        self.trained |= !validated;
        let seconds = Some(value).filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        let last = name.rsplit('.').next().unwrap_or(name);
        if let Some(unit) = unit_of(unit).or_else(|| rate(last)) {
            // The rate of the computing alone is not that of the training.
            if !validated && !last.contains("compute") {
                self.facts.throughput = Rate::of_run(value, unit);
            }
        } else if last.ends_with("epoch_time") {
            self.epoch_seconds = seconds.filter(|_| !validated).or(self.epoch_seconds);
        } else if ["iter_time", "step_time", "batch_time"]
            .iter()
            .any(|end| last.ends_with(end))
        {
            self.facts.step_seconds = seconds.filter(|_| !validated).or(self.facts.step_seconds);
        } else if [
            "e2e_train_time",
            "total_train_time",
            "total_time",
            "train_time",
            "run_time",
        ]
        .contains(&last)
        {
            self.run_seconds = seconds.or(self.run_seconds);
        } else if !last.contains("time") && !last.contains("latency") && !name.is_empty() {
            self.facts.metrics.push((name.into(), value));
        }
    }
}

/// The unit of a rate that only its name tells.
fn rate(name: &str) -> Option<&'static str> {
    let named = figures::rate_name(name).map(|(unit, _)| unit);
    let general =
        name.starts_with("throughput") || name.ends_with("throughput") || name.ends_with("ips");
    named.or_else(|| general.then_some("samples/s"))
}

/// An entry of the stream in JSON.
fn json(text: &str) -> Option<(Step, Data<'_>)> {
    let pairs = dict::read(text);
    let step = match dict::get(&pairs, "step")? {
        Value::Nested(list) => numbered(list.trim_matches(['[', ']'])),
        step @ Value::Number(_) => Step {
            iteration: step.count(),
            ..Step::default()
        },
        Value::Text(_) => return None,
    };
    let Some(Value::Nested(nested)) = dict::get(&pairs, "data") else {
        return None;
    };
    let mut data = Data::default();
    for (name, value) in dict::read(nested) {
        match value {
            Value::Number(value) => data.take_number(name, value, ""),
            Value::Text(text) => data.take(name, text),
            Value::Nested(_) => {}
        }
    }
    Some((step, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Event<'_>> {
        DlLogger::default().read_line(text)
    }

    #[test]
    fn steps_of_all_programs_are_read() {
        for (body, epoch, number, all, rate, loss) in [
            (
                "epoch    1 | iter   3/24 | loss  7.9 |  3092.31 frames/s | took 13.25 s | lr 1E-01 -> 3E-06",
                1,
                3,
                Some(24),
                Rate::of_run(3092.31, "frames/s"),
                "loss",
            ),
            (
                "epoch    1 | iter   3/24 | loss  7.9 |  142370.5 items/s | elapsed 13.25 s",
                1,
                3,
                Some(24),
                Rate::of_run(142_370.5, "samples/s"),
                "loss",
            ),
            (
                "Epoch: 1 Iteration: 3  train.loss : 7.9 None train.compute_ips : 9.1 img/s train.total_ips : 2500.5 img/s",
                1,
                3,
                None,
                Rate::of_run(2500.5, "samples/s"),
                "train.loss",
            ),
            (
                "Training Epoch: 1 Training Iteration: 3  step_loss : 7.9  learning_rate : 2.9e-05",
                1,
                3,
                None,
                None,
                "step_loss",
            ),
            ("(1, 3) train_loss : 7.9", 1, 3, None, None, "train_loss"),
        ] {
            let text = format!("x DLL 2021-06-30 10:58:05.828323 - {body}");
            let event = read(&text);
            let Some(Event::Step {
                epoch: found,
                step,
                of,
                facts,
                ..
            }) = &event
            else {
                panic!("{text}: {event:?}")
            };
            assert_eq!((*found, *step, *of), (epoch, number, all), "{text}");
            assert_eq!(facts.throughput, rate, "{text}");
            assert_eq!(facts.metrics[0], (loss.into(), 7.9), "{text}");
        }
        let event = read(
            "DLLL {\"timestamp\": \"1.2\", \"type\": \"LOG\", \"step\": [1, 3], \"data\": {\"train.loss\": 7.9, \"train.total_ips\": 2.5}}",
        );
        let Some(Event::Step {
            epoch: 1,
            step: 3,
            facts,
            ..
        }) = &event
        else {
            panic!("{event:?}")
        };
        assert_eq!(facts.throughput, Rate::of_run(2.5, "samples/s"));
        let event = read(
            "DLL 2020-12-07 20:04:34.1 - Iteration: 16  throughput_train : 145.2 seq/s mlm_loss : 10.4 nsp_loss : 0.67",
        );
        let Some(Event::Iteration {
            step: Some(16),
            facts,
            ..
        }) = &event
        else {
            panic!("{event:?}")
        };
        assert_eq!(facts.throughput, Rate::of_run(145.2, "samples/s"));
    }

    #[test]
    fn the_number_of_steps_may_have_a_line_of_its_own() {
        let mut training = DlLogger::default();
        training.read_line(
            "DLL 2020-05-28 03:32:53.1 - (6001, 129) glob_iter/iters_per_epoch : 129/130",
        );
        let event =
            training.read_line("DLL 2020-05-28 03:32:53.1 - (6001, 129) train_iter_time : 3.3");
        let Some(Event::Step {
            of: Some(130),
            facts,
            ..
        }) = &event
        else {
            panic!("{event:?}")
        };
        assert_eq!(facts.step_seconds, Some(3.3));
        let event =
            training.read_line("DLL 2020-05-28 03:32:53.1 - (6001,) train_epoch_time : 436.6");
        assert!(
            matches!(
                event,
                Some(Event::EpochEnd {
                    epoch: 6001,
                    seconds: Some(436.6),
                    ..
                })
            ),
            "{event:?}"
        );
        assert_eq!(
            training.read_line(
                "DLL 2020-05-28 03:32:53.1 - (6001, 130, 0) val_items_per_sec : 49397.7"
            ),
            None
        );
    }

    #[test]
    fn summaries_of_epochs_and_runs_are_read() {
        for (body, seconds) in [
            (
                "epoch    1 | avg train loss 16.99 | 142370.52 frames/s | took 45.10 s",
                Some(45.1),
            ),
            (
                "Epoch: 1  train.loss : 6.98 train.total_ips : 2500.5 img/s val.top1 : 3.2",
                None,
            ),
            (
                "(1,) train_time : 9.5  eval_time : 0.6  hr@10 : 0.95  ndcg : 0.74",
                Some(9.5),
            ),
        ] {
            let text = format!("DLL 2021-06-30 10:58:05.828323 - {body}");
            let event = read(&text);
            assert!(
                matches!(event, Some(Event::EpochEnd { epoch: 1, seconds: found, .. }) if found == seconds),
                "{event:?}"
            );
        }
        let event = read(
            "DLL 2021-06-30 10:58:05.8 - Summary: train.loss : 2.1 train.total_ips : 2500.5 img/s",
        );
        let Some(Event::RunEnd {
            seconds: None,
            facts,
        }) = &event
        else {
            panic!("{event:?}")
        };
        assert_eq!(facts.throughput, Rate::of_run(2500.5, "samples/s"));
        let event = read("DLL 2020-05-28 03:32:59.714030 - () run_time : 442.85");
        assert!(
            matches!(
                event,
                Some(Event::RunEnd {
                    seconds: Some(442.85),
                    ..
                })
            ),
            "{event:?}"
        );
        let event = read(
            "DLL 2021-06-30 10:58:05.8 -  e2e_train_time : 1234.5 s training_sequences_per_second : 250.1 sequences/s final_loss : 1.2",
        );
        let Some(Event::RunEnd {
            seconds: Some(1234.5),
            facts,
        }) = &event
        else {
            panic!("{event:?}")
        };
        assert_eq!(facts.throughput, Rate::of_run(250.1, "samples/s"));
    }

    #[test]
    fn validation_is_no_training() {
        for body in [
            "epoch    1 | avg val loss 16.99 | 142370.52 frames/s | took 45.10 s",
            "Epoch: 7  val.ips : 9252.5 val.latency_avg : 0.05",
        ] {
            let text = format!("DLL 2021-06-30 10:58:05.828323 - {body}");
            let event = read(&text);
            assert!(
                matches!(&event, Some(Event::Validation { facts }) if facts.throughput.is_none()),
                "{event:?}"
            );
        }
        for text in [
            "DLL 2021-06-30 10:58:05.8 - PARAMETER epochs : 3 lr : 0.1",
            "DLL 2021-06-30 10:58:05.8 - Summary: val.ips : 9252.5",
            "DLL 2021-06-30 10:58:05.8 -",
            "DLLL {\"type\": \"LOG\", \"step\": \"PARAMETER\", \"data\": {\"lr\": 3}}",
            "ntdll.DLL 2020-04-20 22:44:38 Disabled",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
