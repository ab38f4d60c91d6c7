//! MLPerf's compliance log: `:::MLLOG` with JSON (0.7 and later; `:::MLL` at first) and `:::MLPv0.5` (0.5 and 0.6).
//!
//! ```text
//! :::MLLOG {"namespace": "", "time_ms": 1671571839205, "event_type": "INTERVAL_END", "key": "epoch_stop", "value": null, "metadata": {"file": "x.py", "lineno": 1673, "epoch_num": 1}}
//! :::MLL 1582583021.430 epoch_start: {"value": null, "metadata": {"file": "x.py", "lineno": 3, "epoch_num": 1}}
//! :::MLPv0.5.0 resnet 1541710020.123 (file.py:123) train_epoch: 1
//! :::MLPv0.6.0 ssd 1560 (train.py:12) eval_accuracy: {"epoch": 43, "value": 0.212}
//! ```
//!
//! The form is that of `mlperf_logging/mllog/mllog.py` of mlcommons/logging 1.0 to 4.1, the keys those of its
//! `constants.py`. What time its lines were written says nothing of the duration of an epoch. Programs that count samples
//! put those where the number of the epoch belongs; such numbers are none.

use super::dict::{self, Value};
use super::event::{Event, Facts, Line, Rate, Recogniser};
use super::scan;

/// Epochs that nobody trains: a number above counts samples or steps.
const MAX_EPOCHS: u64 = 10_000;

/// What was read of the training so far.
#[derive(Debug, Default)]
pub(super) struct MlPerf {
    /// The number of the epoch that began last, where it has one.
    open: Option<u64>,
    /// True once an epoch ended that has no number.
    over: bool,
    /// The last epoch that ended, and when that was written.
    ended: Option<(u64, f64)>,
    /// True once epochs were told one by one: blocks of them say nothing new.
    epochs: bool,
}

impl Recogniser for MlPerf {
    fn name(&self) -> &'static str {
        "mlperf"
    }

    fn triggers(&self) -> &'static str {
        ":::MLL¦:::MLPv"
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        let Some(entry) = line
            .text
            .find(":::ML")
            .and_then(|at| entry(&line.text[at..]))
        else {
            return;
        };
        if let Some(event) = self.event(&entry) {
            say(event);
        }
    }
}

/// One line of the log.
#[derive(Debug)]
struct Entry<'a> {
    key: &'a str,
    /// When it was written, in milliseconds.
    time: Option<f64>,
    value: Option<Value<'a>>,
    /// The metadata, or the value where that is a dictionary.
    more: Vec<(&'a str, Value<'a>)>,
}

impl Entry<'_> {
    fn epoch(&self) -> Option<u64> {
        let named = ["epoch_num", "epoch", "first_epoch_num"]
            .into_iter()
            .find_map(|name| dict::get(&self.more, name));
        named
            .and_then(Value::count)
            .filter(|epoch| *epoch <= MAX_EPOCHS)
    }

    fn number(&self) -> Option<f64> {
        self.value
            .and_then(Value::number)
            .or_else(|| dict::get(&self.more, "value").and_then(Value::number))
    }
}

fn entry(text: &str) -> Option<Entry<'_>> {
    if let Some(json) = text.strip_prefix(":::MLLOG") {
        let pairs = dict::read(json);
        let Some(Value::Text(key)) = dict::get(&pairs, "key") else {
            return None;
        };
        let value = dict::get(&pairs, "value");
        let time = dict::get(&pairs, "time_ms").and_then(Value::number);
        return Some(Entry {
            key,
            time,
            value,
            more: more(&pairs),
        });
    }
    if let Some(rest) = text.strip_prefix(":::MLL ") {
        let (seconds, rest) = scan::number(rest)?;
        let (key, json) = rest.trim_start().split_once(": ")?;
        let pairs = dict::read(json);
        return Some(Entry {
            key,
            time: Some(seconds * 1000.0),
            value: dict::get(&pairs, "value"),
            more: more(&pairs),
        });
    }
    // `:::MLPv0.5.0 resnet 1541710020.123 (file.py:123) train_epoch: 1`
    let (_, rest) = text.split_once(") ")?;
    let (key, value) = rest
        .split_once(':')
        .map_or((rest.trim(), ""), |(key, value)| (key.trim(), value.trim()));
    let more = dict::read(value);
    let number = scan::number(value).map(|(value, _)| Value::Number(value));
    Some(Entry {
        key,
        time: None,
        value: number,
        more,
    })
}

/// The pairs of the metadata, and of the value where that is a dictionary.
fn more<'a>(pairs: &[(&'a str, Value<'a>)]) -> Vec<(&'a str, Value<'a>)> {
    let nested =
        ["metadata", "value"]
            .into_iter()
            .filter_map(|name| match dict::get(pairs, name) {
                Some(Value::Nested(nested)) => Some(dict::read(nested)),
                _ => None,
            });
    nested.flatten().collect()
}

impl MlPerf {
    fn event<'a>(&mut self, entry: &Entry<'a>) -> Option<Event<'a>> {
        match entry.key {
            "epoch_start" | "train_epoch" => {
                self.epochs = true;
                let epoch = entry.epoch().or_else(|| entry.value.and_then(Value::count));
                // A rank whose lines come late began it before another ended it.
                let late = |(ended, at): (u64, f64)| {
                    epoch == Some(ended) && entry.time.is_some_and(|time| time <= at)
                };
                if self.ended.is_some_and(late) {
                    return None;
                }
                (self.open, self.over) = (epoch, false);
                Some(Event::epoch_start(epoch?, None))
            }
            "epoch_stop" => {
                self.epochs = true;
                self.end(entry)
            }
            "block_stop" if !self.epochs => {
                let one = dict::get(&entry.more, "epoch_count").and_then(Value::count) == Some(1);
                if one { self.end(entry) } else { None }
            }
            "eval_accuracy" | "eval_error" => Some(Event::figures(evaluated(entry))),
            "run_stop" | "run_final" | "run_duration" => {
                let stated =
                    dict::get(&entry.more, "duration").filter(|_| entry.key != "run_duration");
                let seconds = match stated.or(entry.value) {
                    Some(Value::Number(seconds)) if entry.key == "run_duration" => Some(seconds),
                    Some(Value::Text(text)) => seconds(text),
                    _ => None,
                };
                Some(Event::run_end(seconds, samples(entry)))
            }
            "tracked_stats" | "throughput" | "overall_throughput" | "training_throughput" => {
                let rate = dict::get(&entry.more, "throughput")
                    .and_then(Value::number)
                    .or(entry.number());
                let facts = Facts {
                    throughput: Rate::of_run(rate?, "samples/s"),
                    ..tracked(entry)
                };
                Some(Event::figures(facts))
            }
            "train_loss" => {
                let metrics = vec![("train_loss".into(), entry.number()?)];
                Some(Event::figures(Facts::with_metrics(metrics)))
            }
            _ => None,
        }
    }

    fn end<'a>(&mut self, entry: &Entry<'a>) -> Option<Event<'a>> {
        let facts = samples(entry);
        self.ended = self.open.or(entry.epoch()).zip(entry.time).or(self.ended);
        match self.open.or(entry.epoch()) {
            Some(epoch) => Some(Event::epoch_end((epoch, None), facts)),
            // Every rank may say so.
            None if self.over => None,
            None => {
                self.over = true;
                Some(Event::epoch_over(facts))
            }
        }
    }
}

fn evaluated<'a>(entry: &Entry<'a>) -> Facts<'a> {
    let mut facts = samples(entry);
    facts
        .metrics
        .extend(entry.number().map(|value| (entry.key.into(), value)));
    facts
}

/// How many samples training has gone through.
fn samples<'a>(entry: &Entry<'a>) -> Facts<'a> {
    let count = dict::get(&entry.more, "samples_count").and_then(Value::number);
    Facts::with_metrics(
        count
            .map(|count| ("samples_count".into(), count))
            .into_iter()
            .collect(),
    )
}

/// The losses among what is tracked.
fn tracked<'a>(entry: &Entry<'a>) -> Facts<'a> {
    let losses = entry
        .more
        .iter()
        .filter(|(name, _)| name.contains("loss") || name.contains("accuracy"));
    let metrics = losses
        .filter_map(|(name, value)| Some(((*name).into(), value.number()?)))
        .collect();
    Facts::with_metrics(metrics)
}

/// Seconds of `5178.13s -> 86.3 minutes` or `5754.04 sec -> 95.9 minutes`.
fn seconds(text: &str) -> Option<f64> {
    let (stated, _) = text.split_once("->").unwrap_or((text, ""));
    scan::duration(stated.trim()).map(|(seconds, _)| seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::timing::event::Says;

    fn read<'a>(recogniser: &mut MlPerf, text: &'a str) -> Vec<Event<'a>> {
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

    #[test]
    fn epochs_begin_and_end() {
        let mut run = MlPerf::default();
        let said = read(
            &mut run,
            r#"0: :::MLLOG {"key": "epoch_start", "value": null, "metadata": {"lineno": 3, "epoch_num": 1}}"#,
        );
        assert!(
            matches!(
                said[..],
                [Event {
                    says: Says::EpochStart,
                    epoch: Some(1),
                    ..
                }]
            ),
            "{said:?}"
        );
        let said = read(
            &mut run,
            r#":::MLLOG {"key": "epoch_stop", "value": null, "metadata": {"epoch_num": 799502}}"#,
        );
        assert!(
            matches!(
                said[..],
                [Event {
                    says: Says::EpochEnd,
                    epoch: Some(1),
                    seconds: None,
                    ..
                }]
            ),
            "{said:?}"
        );
        let said = read(
            &mut MlPerf::default(),
            r#":::MLLOG {"key": "epoch_stop", "metadata": {"samples_count": 331776}}"#,
        );
        assert!(
            matches!(
                said[..],
                [Event {
                    says: Says::EpochOver,
                    ..
                }]
            ),
            "{said:?}"
        );
        let said = read(
            &mut MlPerf::default(),
            ":::MLPv0.5.0 resnet 1541710020.123 (file.py:123) train_epoch: 1",
        );
        assert!(
            matches!(
                said[..],
                [Event {
                    says: Says::EpochStart,
                    epoch: Some(1),
                    ..
                }]
            ),
            "{said:?}"
        );
    }

    #[test]
    fn figures_and_the_whole_time_are_read() {
        let mut run = MlPerf::default();
        let said = read(
            &mut run,
            r#":::MLPv0.6.0 ssd 1560 (train.py:12) eval_accuracy: {"epoch": 43, "value": 0.212}"#,
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
        assert_eq!(facts.metrics, [("eval_accuracy".into(), 0.212)]);
        for (value, expected) in [
            ("32857.5", 32857.5),
            ("\"5178.13s -> 86.3 minutes\"", 5178.13),
        ] {
            let text = format!(
                r#":::MLLOG {{"key": "run_duration", "value": {value}, "metadata": {{}}}}"#
            );
            let said = read(&mut run, &text);
            let [
                Event {
                    says: Says::RunEnd,
                    seconds,
                    ..
                },
            ] = said.as_slice()
            else {
                panic!("{said:?}")
            };
            assert_eq!(*seconds, Some(expected));
        }
        let said = read(
            &mut run,
            r#":::MLLOG {"key": "tracked_stats", "value": {"throughput": 12792.2, "epoch_num": 4}, "metadata": {"step": 1}}"#,
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
        assert_eq!(facts.throughput, Rate::of_run(12792.2, "samples/s"));
    }

    #[test]
    fn other_entries_say_nothing() {
        for text in [
            r#":::MLLOG {"key": "global_batch_size", "value": 448, "metadata": {}}"#,
            r#":::MLLOG {"key": "init_start", "value": null}"#,
            ":::MLLOG {",
            ":::MLPv0.5.0 resnet 154",
        ] {
            assert_eq!(read(&mut MlPerf::default(), text), [], "{text}");
        }
    }
}
