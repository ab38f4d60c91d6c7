//! Plain lines about an epoch, as people write them in their own scripts.
//!
//! ```text
//! epoch 3 2.31 s                               Epoch 3: 2.31s
//! epoch 3/10 took 2.31 s                       [epoch 3] loss=0.3 time=2.31 s
//! Epoch 2/5 - loss: 0.3 - time: 12.5s          Epoch 5 | train loss 0.1 | 3m 20s
//! Epoch [1/5], Step [100/600], Loss: 0.3       INFO:root:Finished epoch 3 in 0.8 min, 512 samples/s
//! ```
//!
//! What stands before the word must be a logger's prefix or say that training is meant; what stands behind the number
//! says a beginning, a step, an end with its time, or figures. A time needs a unit, and must not be called anything
//! but the epoch's: data loading, validation, time to go, time per step are others.

use super::bar;
use super::dict;
use super::epoch_number;
use super::event::{Count, Event, Facts, Says};
use super::names;
use super::plain_figures::{self, STEP_NAMES};
use super::scan;

/// More are numbers of steps.
const MOST_IN_BRACKETS: u64 = 1000;

/// Words behind the number of an epoch that begins, that is over, and whose steps are those of an evaluation.
const BEGUN: &str = "start|begin";
const OVER: &str = "done|finished|completed|complete|ended|average |avg |training ends";
const EVALUATED: &str = "val step|val iter|test step|test iter|eval step";
/// Words before the number of an epoch that is over; without figures behind it only the first do.
const OVER_BEFORE: &str = "end of|finished|completed|after|done with|results";
const OVER_ALONE: &str = "end of|finished|completed";

/// Keys of JSON with the time of an epoch, in seconds.
const EPOCH_TIMES: [&str; 3] = ["epoch_time", "epoch_seconds", "epoch_duration"];

/// Reads a line.
pub(super) fn read(text: &str) -> Option<Event<'_>> {
    let (before, after) = epoch_number::split_at_word(text).or_else(|| abbreviated(text))?;
    let (epoch, epochs, rest) = epoch_number::read_number(after)?;
    let count = (epoch, epochs);
    let step_before = step_of(before);
    let opening = step_before.is_none() && epoch_number::prefix(before)?;
    // A bar of tqdm: the time in it is that so far.
    if rest.contains("%|") {
        return None;
    }
    if rest.contains(bar::RULE) {
        let bar = bar::rich(rest)?;
        let mut facts = bar.facts();
        facts
            .metrics
            .extend(plain_figures::read(bar.label).facts.metrics);
        return Some(bar.event(count, facts));
    }
    let words = rest.trim_matches(|c: char| !c.is_alphanumeric());
    if step_before.is_none() && words.is_empty() && scan::holds_any(before, OVER_ALONE) {
        return Some(Event::epoch_end(count, Facts::default()));
    }
    let begins = opening || words.is_empty() || scan::starts_with_any(words, BEGUN);
    if step_before.is_none() && begins {
        return Some(Event::epoch_start(epoch, epochs));
    }
    // `epoch:[ 3/25 ] val step:0    loss: 2.8`
    if scan::starts_with_any(words, EVALUATED) {
        return None;
    }
    with_figures(count, step_before, before, rest, words)
}

/// `E 1/8 | it 10/47 | loss 2.3`, `E 1/8 done: train 2.3 val 2.2 in 2.3s`.
fn abbreviated(text: &str) -> Option<(&str, &str)> {
    let after = text.strip_prefix("E ")?;
    let (_, _, rest) = scan::counted(after).filter(|(_, of, _)| of.is_some())?;
    (rest.starts_with(" | it") || rest.starts_with(" done:")).then_some(("", after))
}

/// `[  3/12] train loss 2.15 | val acc 0.16 | 2.4s`: the figures of an epoch, by the numbers in brackets alone.
pub(super) fn in_brackets(text: &str) -> Option<Event<'_>> {
    let (epoch, of, rest) = scan::counted(text.trim_start().strip_prefix('[')?)?;
    let rest = rest.strip_prefix("] ")?;
    let read = plain_figures::read(rest);
    let has = |subject: &str| {
        let mut names = read.facts.metrics.iter().map(|(name, _)| name);
        names.any(|name| names::subject(name) == Some(subject))
    };
    // Of a step there is seldom an evaluation, and of so many epochs neither.
    let is_of_both = has("train")
        && read
            .facts
            .metrics
            .iter()
            .any(|(name, _)| names::is_of_evaluation(name));
    let is_few = of.is_some_and(|of| (epoch..=MOST_IN_BRACKETS).contains(&of));
    (is_of_both && is_few && read.step.is_none()).then(|| {
        Event::epoch_end((epoch, of), read.facts).took(read.named_seconds.or(read.idle_seconds))
    })
}

/// A line with figures: a step, an end or a mention.
fn with_figures<'a>(
    epoch: Count,
    step_before: Option<Count>,
    before: &str,
    rest: &'a str,
    words: &str,
) -> Option<Event<'a>> {
    let read = plain_figures::read(rest);
    let mut facts = read.facts;
    // The pace of an evaluation is not that of the training.
    if scan::starts_with_any(words, "val |test |eval ") {
        (facts.throughput, facts.step_seconds) = (None, None);
    }
    // An evaluation comes when the epoch is over.
    let is_evaluated = |name: &str| names::is_of_evaluation(name) && names::is_measure(name);
    let validated = facts.metrics.iter().any(|(name, _)| is_evaluated(name));
    let mut names_here = facts.metrics.iter().map(|(name, _)| name);
    let is_all_of_evaluation = names_here.all(|name| names::is_of_evaluation(name));
    if let Some((step, of)) = step_before.or(read.step) {
        // Steps may be counted from 0; the line after the last then ends the epoch.
        let done = of.is_some_and(|of| step >= of);
        return Some(Event::step_or_end(epoch, (step, of), done, facts));
    }
    let seconds = read.named_seconds.or(read.idle_seconds);
    let over =
        validated || scan::holds_any(before, OVER_BEFORE) || scan::starts_with_any(words, OVER);
    if seconds.is_some() || over {
        let first = words.split(|c: char| !c.is_ascii_alphabetic()).next();
        return Some(Event {
            has_decimals: read.has_decimals,
            evaluates: first.is_some_and(names::is_of_evaluation) && is_all_of_evaluation,
            ..Event::epoch_end(epoch, facts).took(seconds)
        });
    }
    (!facts.metrics.is_empty()).then_some(Event::mention(epoch, facts))
}

/// The epoch whose beginning a line says.
pub(super) fn header(text: &str) -> Option<Count> {
    let event = read(text).filter(|event| event.says == Says::EpochStart)?;
    Some((event.epoch?, event.epochs))
}

/// `{"epoch": 0, "step": 5, "loss": 69.9}`: a line of JSON about a step, else about an epoch.
pub(super) fn json(text: &str) -> Option<Event<'_>> {
    let pairs = text
        .trim_start()
        .starts_with("{\"")
        .then(|| dict::read(text))?;
    let count = |key| dict::get(&pairs, key).and_then(scan::whole);
    // A larger one is a time.
    let epoch = count("epoch").filter(|epoch| *epoch < 1_000_000)?;
    let step = count("step").or_else(|| count("iter"));
    let measures = pairs.iter().filter(|(name, _)| names::is_measure(name));
    let metrics: Vec<_> = measures
        .map(|(name, value)| ((*name).into(), *value))
        .collect();
    let facts = Facts::with_metrics(metrics);
    let seconds = EPOCH_TIMES.iter().find_map(|key| dict::get(&pairs, key));
    let is_inside = ["batch", "iteration"]
        .iter()
        .any(|key| count(key).is_some());
    let mut names = pairs
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| names::is_measure(name));
    let is_of_evaluation = names.all(names::is_of_evaluation);
    let seconds = seconds.filter(|_| !is_inside && !is_of_evaluation);
    // Beside a step it may be the time so far, unless the epoch was evaluated.
    let mut names = pairs.iter().map(|(name, _)| *name);
    let is_evaluated = names.any(|name| names::is_measure(name) && names::is_of_evaluation(name));
    (!facts.is_empty()).then_some(match (step, seconds) {
        (Some(step), Some(_)) if is_evaluated => {
            let event = Event::epoch_end((epoch, None), facts).took(seconds);
            Event {
                step: Some(step),
                ..event
            }
        }
        (Some(step), _) => Event::step((epoch, None), (step, None), facts),
        (None, Some(_)) => Event::epoch_end((epoch, None), facts).took(seconds),
        (None, None) => Event::mention((epoch, None), facts),
    })
}

/// The step before the word: `30/42 of epoch 28/30`, `step: 100, epoch: 1`.
fn step_of(before: &str) -> Option<(u64, Option<u64>)> {
    // `trainer - INFO - [batch 6/152, epoch 8/15]`
    let before = before.rfind("[batch ").map_or(before, |at| &before[at..]);
    let text = before.trim_start_matches(|c: char| !c.is_alphanumeric());
    let name = &text[..text.find(|c: char| !scan::is_word(c)).unwrap_or(text.len())];
    let named = scan::is_any(name, STEP_NAMES);
    let digits = if named {
        text[name.len()..].trim_start_matches([' ', ':', '=', '[', '('])
    } else {
        text
    };
    let (step, of, rest) = scan::counted(digits)?;
    let rest = rest.trim_matches(|c: char| !c.is_alphanumeric());
    (named && rest.is_empty() || of.is_some() && rest == "of").then_some((step, of))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_one(text: &str) -> Option<Event<'_>> {
        read(text)
    }

    #[test]
    fn lines_with_a_time_end_an_epoch() {
        for (text, number, all, time) in [
            ("epoch 3 2.31 s", 3, None, 2.31),
            ("Epoch 3: 2.31s", 3, None, 2.31),
            ("epoch 3/10 took 2.31 s", 3, Some(10), 2.31),
            ("Epoch 2/5 - loss: 0.3 - time: 12.5s", 2, Some(5), 12.5),
            ("[epoch 3] loss=0.3 time=2.31 s", 3, None, 2.31),
            ("Epoch 5 | train loss 0.1 | 3m 20s", 5, None, 200.0),
            ("epoch: 1 loss: 0.2 (4.1 seconds)", 1, None, 4.1),
            ("EPOCH 7 elapsed 350 ms", 7, None, 0.35),
            ("Epoch [2/4], Loss: 0.3, Time: 1.5 min", 2, Some(4), 90.0),
            (
                "Finished Epoch[ 1 of 5]: [Training] ce = 2.3 * 1000; epochTime=0.17275s",
                1,
                Some(5),
                0.17275,
            ),
            (
                "2024-01-01 12:00:00,123 - INFO - my.trainer - Epoch 3 finished in 2.5s",
                3,
                None,
                2.5,
            ),
            ("INFO:root:epoch 12 done, 95.1 s", 12, None, 95.1),
            (
                "--- epoch 004 | eta 3h | lr 1e-3 | took 12s ---",
                4,
                None,
                12.0,
            ),
            (
                "Epoch 1: val loss 0.3, val time 2 s, train time 30 s",
                1,
                None,
                30.0,
            ),
            ("Time taken for epoch 1: 65 secs", 1, None, 65.0),
            ("Epoch 1 time 0:01:05", 1, None, 65.0),
            ("Epoch 1 time 12.5s val_loss 0.3", 1, None, 12.5),
            ("Epoch 1 took 12.5s test acc 0.9", 1, None, 12.5),
            ("Epoch 3 | time: 12.5s eval_loss=0.3", 3, None, 12.5),
            ("Epoch 1: 12.5s data: 0.1s", 1, None, 12.5),
            ("Epoch 3 elapsed 12.5s per GPU mem 3GB", 3, None, 12.5),
            ("Epoch 1, 12.3 samples/s, data 3 s, 40.5 s", 1, None, 40.5),
        ] {
            let event = read_one(text);
            let Some(Event {
                says: Says::EpochEnd,
                epoch: Some(epoch),
                epochs,
                seconds: Some(seconds),
                ..
            }) = event
            else {
                panic!("{text}: {event:?}")
            };
            assert_eq!((epoch, epochs), (number, all), "{text}");
            assert!((seconds - time).abs() < 1e-9, "{text}: {seconds}");
        }
    }

    #[test]
    fn a_time_that_is_named_behind_is_another() {
        for text in [
            "Epoch 1/12 loss 1.000 (22.1s left)",
            "Epoch 1 | train loss 1.0 | val loss 1.0 | 1.00s val",
            "Epoch 1/6 loss 1.000 Time: 2026-11-29 11:10:15",
        ] {
            let event = read_one(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(event.seconds, None, "{text}");
        }
    }

    #[test]
    fn figures_of_the_line_are_kept() {
        let event = read_one(
            "Epoch 2/5 - loss: 0.3 - val acc=97.5% - 512.5 images/sec - 0.35 s/it - time: 12.5s",
        );
        let Some(Event {
            says: Says::EpochEnd,
            facts,
            ..
        }) = event
        else {
            panic!("{event:?}")
        };
        assert_eq!(
            facts.metrics,
            [("loss".into(), 0.3), ("val acc".into(), 97.5)]
        );
        assert_eq!(
            facts.throughput,
            crate::observe::timing::event::Rate::of_run(512.5, "samples/s")
        );
        assert_eq!(facts.step_seconds, Some(0.35));
    }

    #[test]
    fn epochs_without_the_word_are_known_by_their_form() {
        let end = |text| {
            let event = read_one(text).or_else(|| in_brackets(text))?;
            (event.says == Says::EpochEnd).then_some((event.epoch?, event.epochs?, event.seconds))
        };
        let text = "[  3/12] train loss 2.15 | val acc 0.16 | 2.4s";
        assert_eq!(end(text), Some((3, 12, Some(2.4))));
        let text = "E 8/8 done: train 0.855 val 2.389 in 2.4s";
        assert_eq!(end(text), Some((8, 8, Some(2.4))));
        let step = read_one("E 1/8 | it 10/47 | loss 2.324 | 50.0 ms/it | eta 0:00:17");
        let step = step.expect("a step");
        assert_eq!(
            (step.says, step.step, step.facts.step_seconds),
            (Says::Step, Some(10), Some(0.05))
        );
        for text in [
            "[ 500/20000] train loss 2.15 | val loss 2.16",
            "[ 10/100] train loss 2.15 | 0.1s",
            "[3/12] Building C object val/train 2.0",
            "E 3/8 failed",
        ] {
            assert_eq!(end(text), None, "{text}");
        }
    }

    #[test]
    fn parts_of_an_epoch_are_no_epochs() {
        let done = |log: &str| {
            let mut follower = crate::observe::timing::Follower::new(None).expect("no pattern");
            follower.feed(log.as_bytes(), None);
            follower.finish(None);
            let progress = follower.progress();
            let value = progress.last_metrics.get("val_acc").copied();
            (progress.epochs_completed, value)
        };
        let folds =
            "[1/3] train loss .5 | val loss .7 | 3.1s\n[2/3] train loss .5 | val loss .7 | 3.1s\n";
        let named = format!("Epoch 1/2\n{folds}Epoch 1/2 train loss 0.5 time 30.0s\n");
        assert_eq!(done(&named), (1, None));
        assert_eq!(done(folds), (2, None));
        let summary = "Epoch 1/2\nstep 5/20 loss 2.3\ntrain_loss: 2.1  val_acc: 0.61  took 31.5s\n";
        assert_eq!(done(summary), (1, Some(0.61)));
        let part = "Epoch 1/2\nstep 5/20 loss 2.3\ntraining: validation took 3.5s\n";
        assert_eq!(done(part), (0, None));
        let batches = "{\"epoch\": 1, \"batch\": 10, \"loss\": 2.3, \"epoch_time\": 3.0}\n";
        assert_eq!(done(batches), (0, None));
    }

    #[test]
    fn average_of_an_epoch_ends_it() {
        let event =
            read_one("2025-03-02 05:24:38,655 - INFO - Epoch 20 - Average Train Loss: 1.6334");
        assert!(
            matches!(
                event,
                Some(Event {
                    says: Says::EpochEnd,
                    epoch: Some(20),
                    ..
                })
            ),
            "{event:?}"
        );
    }

    #[test]
    fn steps_and_beginnings_are_told_from_ends() {
        let event = read_one("ShadowDet - INFO - [batch 152/152, epoch 15/15]: loss_rmse:0.0516");
        assert!(
            matches!(
                event,
                Some(Event {
                    says: Says::EpochEnd,
                    epoch: Some(15),
                    step: Some(152),
                    of: Some(152),
                    ..
                })
            ),
            "{event:?}"
        );
        for text in [
            "Epoch [1/5], Step [100/600], Loss: 0.3",
            "epoch 1 | iter 100/600 | took 13.25 s",
        ] {
            let event = read_one(text);
            assert!(
                matches!(
                    event,
                    Some(Event {
                        says: Says::Step,
                        epoch: Some(1),
                        step: Some(100),
                        of: Some(600),
                        ..
                    })
                ),
                "{text}: {event:?}"
            );
        }
        assert!(matches!(
            read_one("Epoch [1/5], Step [600/600]"),
            Some(Event {
                says: Says::EpochEnd,
                epoch: Some(1),
                ..
            })
        ));
        for text in [
            "Epoch 1 starts",
            "Epoch 1",
            "=== Epoch 1/5 ===",
            "Starting epoch 1: lr 3 s",
        ] {
            let event = read_one(text);
            assert!(
                matches!(
                    event,
                    Some(Event {
                        says: Says::EpochStart,
                        epoch: Some(1),
                        ..
                    })
                ),
                "{text}: {event:?}"
            );
        }
        assert!(matches!(
            read_one("Epoch 1 training ends, total 99.33s"),
            Some(Event {
                says: Says::EpochEnd,
                seconds: None,
                ..
            })
        ));
        assert!(matches!(
            read_one("epoch:[ 3/25 ] train step:100  loss: 2.5"),
            Some(Event {
                says: Says::Step,
                step: Some(100),
                ..
            })
        ));
        assert!(matches!(
            read_one("Epoch 1 done"),
            Some(Event {
                says: Says::EpochEnd,
                seconds: None,
                ..
            })
        ));
        assert!(matches!(
            read_one("train epoch: 1, loss: 0.2, lr=0.1"),
            Some(Event {
                says: Says::Mention,
                epoch: Some(1),
                ..
            })
        ));
    }

    #[test]
    fn what_is_not_about_an_epochs_end_is_left_alone() {
        for text in [
            "Epoch 00001: val_loss improved from inf to 0.5, saving model to x.h5",
            "Epoch 5: reducing learning rate of group 0 to 1.0000e-04.",
            "Epoch 3, ETA 12 s",
            "Epoch 3: 3.2 samples/s",
            "Epoch 3: loading took 12 s",
            "Epoch 3 validation took 12 s",
            "Validation epoch 3 took 2 s",
            "INFO:0-epoch (99/44660): total loss 11.220771, instance-sup.: 11.393301",
            "epoch:[ 25/25 ] val step:0    loss: 2.69097 top1: 0.32812",
            "Saved checkpoint for epoch 3 in 1.2 s",
            "Best model at epoch 3 after 300 s",
            "WARNING: epoch 3 took 2 s",
            "test epoch: 3, loss: 0.3",
            "UserWarning: the epoch parameter in `scheduler.step()` was deprecated",
            "Epochs: 10 took 3 s",
            "start_epoch: 0, best_acc1: 0",
            "'epoch': 1.0}",
            "\"epoch\": 1, \"train_wall\": \"99\"",
            "epoch 1.5 took 3 s",
            "epoch=0/micro_step=10/global_step=10",
            "Epoch[ 1 of 5]-Minibatch[   1-  10, 100.00%]: time = 0.1718s",
            "BlockRandomizer::StartEpoch: epoch 0: frames [0..1000]",
            "Epoch 0: 100%|####| 100/100 [00:03<00:00, 317.86it/s, loss=0.0671]",
            "Saving checkpoint at 1 epochs",
            "Epoch(train) [1][10/1563]  time: 0.1414",
            "      Epoch    GPU_mem   box_loss",
        ] {
            assert_eq!(read_one(text), None, "{text}");
        }
    }
}
