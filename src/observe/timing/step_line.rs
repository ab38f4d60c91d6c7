//! Plain lines that name no epoch: steps, figures and totals, as people write them in their own scripts.
//!
//! ```text
//! [1,  2000] loss: 2.196                         [0/25][100/782]  Loss_D: 0.5  Loss_G: 3.2
//! Iteration 100/1000: loss 0.52                  step 100 | loss 0.52 | 0.35 s/it
//! loss: 2.301498  [   64/60000]                  Episode 10  Last reward: 26.00
//! val Loss: 0.31 Acc: 0.89                       Training complete in 1m 46s
//! ```
//!
//! The first two forms are those of the CIFAR-10 tutorial and of `dcgan/main.py` of PyTorch.

use super::epoch_number;
use super::event::{Event, Facts, Rate};
use super::names::is_measure;
use super::plain_figures;
use super::scan;

/// How far in a line, in bytes, a word of steps may begin.
const MAX_PREFIX: usize = 100;

/// Words for steps, each of which a number must follow.
const STEP_WORDS: &str = "iteration|iters|iter|global step|global_step|step|batch|it|episode";

/// Parts of words before a total that say that it is to come, or that of something else than the training.
const OTHER_TOTALS: &str = "remain|estimated|parsed|profiling|epoch|test|eval|valid";

/// Phrases of lines that say that the training is over, with its time where there is one.
const TOTALS: &str = "training complete|training finished|finished training|training done|\
    training took|training time|training duration|total time|total training time|total elapsed|\
    total run time|total runtime|training ended|end of training|optimization finished|\
    training has finished|training was completed|trained in|finish training|total train time|\
    completed training|training of experiment is done";

/// Parts of names of settings of a loss.
const SETTINGS: &str = "weight|coef|scale|lambda|smooth";

/// What lines of figures begin with that name no subject.
const FIGURES: &str =
    "loss|avg loss|average loss|avg. loss|total loss|throughput|speed|training speed";
/// First words of lines of figures: of training, and of an evaluation.
const TRAINED: &str = "train|training";
const EVALUATED: &str = "val|valid|validation|test|dev|eval|evaluation";

/// Reads two bracketed counts: `[1, 2000]` is a step of an epoch, `[0/25][100/782]` as well, counted from 0. The second
/// value is true for the latter.
pub(super) fn bracketed(text: &str) -> Option<(Event<'_>, bool)> {
    // Swin Transformer and what follows it have a word before.
    let rest = text.split_once("Train: [").map_or_else(
        || text.trim_start().strip_prefix('['),
        |(_, rest)| Some(rest),
    )?;
    let (epoch, epochs, rest) = scan::counted(rest)?;
    let rest = rest.trim_start();
    let (step, of, rest, zero) = match rest.strip_prefix(',') {
        Some(rest) if epochs.is_none() => {
            let (step, of, rest) = scan::counted(rest)?;
            (step, of, rest.trim_start().strip_prefix(']')?, false)
        }
        _ => {
            let rest = rest
                .strip_prefix(']')
                .filter(|_| epochs.is_some())?
                .trim_start();
            let (step, of, rest) = scan::counted(rest.strip_prefix('[')?)?;
            (step, Some(of?), rest.trim_start().strip_prefix(']')?, true)
        }
    };
    let facts = plain_figures::read(rest).facts;
    if !facts.metrics.iter().any(|(name, _)| is_measure(name)) {
        return None;
    }
    let done = of.is_some_and(|of| step >= of || zero && step + 1 >= of);
    let event = Event::step_or_end((epoch, epochs), (step, of), done, facts);
    Some((event, zero))
}

/// Reads `Iteration 100/1000: loss 0.52`.
pub(super) fn counted(text: &str) -> Option<Event<'_>> {
    let (step, of, rest) = numbered(text)?;
    // A bar is read by those who know whose it is; Caffe counts the batches of its test runs so.
    if rest.trim_start().starts_with("[=") || rest.contains("=]") || text.contains("caffe.cpp:") {
        return None;
    }
    let plain_figures::Read { facts, .. } = plain_figures::read(rest);
    let has_figures = facts.step_seconds.is_some()
        || facts.throughput.is_some()
        || facts.metrics.iter().any(|(name, _)| is_measure(name));
    has_figures.then_some(Event::iteration(step, of, facts))
}

/// The step that a word of a line counts, where it is not rounded, and what follows its number.
fn numbered(text: &str) -> Option<(Option<u64>, Option<u64>, &str)> {
    let head = &text[..text.floor_char_boundary(MAX_PREFIX)];
    let mut begin = 0;
    // The first word that a number follows.
    for (at, _) in head.char_indices().filter(|(_, c)| c.is_ascii_alphabetic()) {
        if at < begin || head[..at].ends_with(|c: char| scan::is_word(c) || c == '/') {
            continue;
        }
        let word = STEP_WORDS.split('|').find(|word| {
            text.get(at..at + word.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(word))
                && !text[at + word.len()..].starts_with(scan::is_word)
        });
        let Some(word) = word else { continue };
        begin = at + word.len();
        let rest = text[begin..].trim_start_matches([' ', '\t', ':', '=', '#', '[', '(']);
        let Some((step, of, rest)) = scan::counted(rest) else {
            continue;
        };
        let rest = rest.trim_start_matches([']', ')']);
        let (step, rest) =
            scan::magnitude(rest).map_or((Some(step), rest), |(_, rest)| (None, rest));
        let fraction = rest
            .strip_prefix('.')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let ends = !fraction && !rest.starts_with(|c: char| scan::is_word(c) || c == '%');
        return (ends && epoch_number::prefix(&text[..at]).is_some()).then_some((step, of, rest));
    }
    None
}

/// Reads `loss: 2.301498  [   64/60000]`.
pub(super) fn trailing(text: &str) -> Option<Event<'_>> {
    let text = text.trim();
    let (figures, counts) = text.strip_suffix(']')?.rsplit_once('[')?;
    let (step, of, rest) = scan::counted(counts)?;
    let of = of.filter(|_| rest.trim().is_empty())?;
    let facts = Facts {
        counts_samples: true,
        ..plain_figures::read(figures).facts
    };
    let has_loss =
        scan::starts_with_any(figures, "loss|train loss|avg loss") && !facts.metrics.is_empty();
    has_loss.then_some(Event::iteration(Some(step), Some(of), facts))
}

/// Reads what says that a training is over, and how long it took.
///
/// `known`: whether the output is of a training; until then a total that does not name one may be of anything.
pub(super) fn total(text: &str, known: bool) -> Option<Event<'_>> {
    let bare = text.trim_matches(|c: char| matches!(c, '-' | '=' | '*' | ' ' | '#'));
    // `--- 12.3 seconds ---`, the very words of many scripts.
    if bare.len() + 6 <= text.trim().len()
        && let Some((seconds, "")) = scan::duration(bare)
        && bare.ends_with("seconds")
    {
        return Some(Event::run_end(Some(seconds), Facts::default()));
    }
    let phrase = TOTALS
        .split('|')
        .find_map(|phrase| scan::position(text, phrase).map(|at| (at, at + phrase.len())))?;
    if scan::holds_any(&text[..phrase.0], OTHER_TOTALS) {
        return None;
    }
    let rest = &text[phrase.1..];
    let seconds = first_time(&text[phrase.0..]);
    if seconds.is_none() && rest.trim().len() > 40 {
        return None;
    }
    // Without a time the line may say something else about the training; a total of an output that was of no training yet
    // is not that of one.
    let named = !text[phrase.0..phrase.1]
        .to_ascii_lowercase()
        .starts_with("total")
        || scan::holds(text, "train");
    let throughput = plain_figures::read(rest)
        .facts
        .throughput
        .filter(|_| seconds.is_some());
    Some(if seconds.is_some() && (known || named) {
        Event::run_end(seconds, Facts::with_rate(throughput))
    } else {
        Event::validation(Facts::default())
    })
}

/// The first time of a text, which only a unit or the form of a clock makes one.
pub(super) fn first_time(text: &str) -> Option<f64> {
    let mut numbers = scan::Numbers::new(text);
    while let Some((between, value, from)) = numbers.next_number() {
        if let Some((seconds, rest)) = scan::duration(from) {
            return (!rest.starts_with('/')).then_some(seconds);
        }
        if let Some((seconds, rest)) = scan::clock(from) {
            // `finished at Sat Oct 25 02:20:47 2025` is a time of day.
            let before = text[..text.len() - from.len()].trim_end_matches([' ', 'T', ',']);
            if before.ends_with(" at") || before.ends_with(|c: char| c.is_ascii_digit()) {
                numbers.skip_to(rest);
                continue;
            }
            return Some(seconds);
        }
        if let Some(scale) = plain_figures::unit_in_name(between) {
            return Some(value * scale);
        }
    }
    None
}

/// Reads a line of figures of the epoch before: `train Loss: 0.5 Acc: 0.7`, `Val. Loss: 0.4 | Val. Acc: 81%`.
pub(super) fn figures(text: &str) -> Option<Event<'_>> {
    let text = scan::behind_level(text.trim());
    if let Some(facts) = plain_figures::tested(text) {
        return Some(Event::validation(facts));
    }
    // Sessions of TensorFlow 1 say it of the loop that prints the steps.
    if let Some((_, rate)) = text.split_once("global_step/sec: ")
        && let Some((value, "")) = scan::number(rate)
    {
        let facts = Facts::with_rate(Rate::of_run(value, "steps/s"));
        return Some(Event::figures(facts));
    }
    let word = &text[..text
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(text.len())];
    let (trained, evaluated) = (scan::is_any(word, TRAINED), scan::is_any(word, EVALUATED));
    if !trained && !evaluated {
        // `loss_weights: {'dice': 1}` are settings.
        let name = text.split([':', '=']).next().unwrap_or_default();
        if scan::holds_any(name, SETTINGS) {
            return None;
        }
        let is_known = scan::starts_with_any(text, FIGURES);
        // What the quickstart of PyTorch prints of a test.
        let is_known = is_known
            || scan::starts_with_any(text, "accuracy:") && scan::holds(text, ", avg loss:");
        let facts = plain_figures::read(text).facts;
        // Requests are what an inference serves.
        let has_figures = (!facts.metrics.is_empty() || facts.throughput.is_some())
            && !text.contains("requests/s");
        return (is_known && has_figures).then_some(Event::figures(facts));
    }
    if evaluated && scan::starts_with_any(text, "test error:") {
        return Some(Event::validation(Facts::default()));
    }
    // Its own subject: `train: Loss: 0.5`, `Validation - loss: 0.4`, `val Loss: 0.3 Acc: 0.8`.
    let mut facts = plain_figures::read(text).facts;
    facts.metrics.retain(|(name, _)| is_measure(name));
    if facts.metrics.is_empty() {
        return None;
    }
    let subject = match () {
        () if trained => "train",
        () if word.to_ascii_lowercase().starts_with("val") => "val",
        () => word,
    };
    let is_named = |name: &str| scan::holds_any(name, TRAINED) || scan::holds_any(name, EVALUATED);
    let subject = subject.to_ascii_lowercase();
    let unnamed = facts.metrics.iter().filter(|(name, _)| !is_named(name));
    let more: Vec<_> = unnamed
        .map(|(name, value)| (format!("{subject} {name}").into(), *value))
        .collect();
    // The names without the subject stay those of the training.
    facts
        .metrics
        .retain(|(name, _)| !evaluated || is_named(name));
    facts.metrics.extend(more);
    Some(if evaluated {
        Event::validation(facts)
    } else {
        Event::figures(facts)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::timing::event::Says;

    #[test]
    fn steps_without_the_word_epoch_are_read() {
        let Some((
            Event {
                says: Says::Step,
                epoch: Some(1),
                step: Some(2000),
                of: None,
                facts,
                ..
            },
            false,
        )) = bracketed("[1,  2000] loss: 2.196")
        else {
            panic!()
        };
        assert_eq!(facts.metrics, [("loss".into(), 2.196)]);
        let Some((
            Event {
                says: Says::Step,
                epoch: Some(0),
                epochs: Some(25),
                step: Some(100),
                of: Some(782),
                ..
            },
            true,
        )) = bracketed("[0/25][100/782]\tLoss_D: 0.5\tLoss_G: 3.2 D(x): 0.8 D(G(z)): 0.1 / 0.05")
        else {
            panic!()
        };
        for (text, number, all) in [
            ("Iteration 100/1000: loss 0.52", 100, Some(1000)),
            ("step 100: loss=0.52", 100, None),
            ("[Step 100/1000] loss: 0.52", 100, Some(1000)),
            (
                "2024-01-01 12:00:00 INFO trainer.py:12 Iter 100, loss 0.5",
                100,
                None,
            ),
            (
                "Episode 100\tLast reward: 26.00\tAverage reward: 16.00",
                100,
                None,
            ),
        ] {
            let Some(Event {
                says: Says::Iteration,
                step: Some(step),
                of,
                ..
            }) = counted(text)
            else {
                panic!("{text}")
            };
            assert_eq!((step, of), (number, all), "{text}");
        }
        assert!(matches!(
            trailing("loss: 2.301498  [   64/60000]"),
            Some(Event {
                says: Says::Iteration,
                step: Some(64),
                of: Some(60_000),
                ..
            })
        ));
    }

    #[test]
    fn time_of_day_behind_a_date_is_no_duration() {
        for text in [
            "Training complete (2026-03-08 23:06:17)",
            "Training finished 03/08/2026 23:06:17",
        ] {
            assert!(
                !matches!(
                    total(text, true),
                    Some(Event {
                        says: Says::RunEnd,
                        seconds: Some(_),
                        ..
                    })
                ),
                "{text}"
            );
        }
    }

    #[test]
    fn totals_are_read() {
        for (text, time) in [
            ("Training complete in 1m 46s", 106.0),
            ("Training time 0:10:23", 623.0),
            ("Total time elapsed: 5.1234s", 5.1234),
            ("Training duration (s) :  28.15", 28.15),
            ("INFO: Total training time: 1.5 hours", 5400.0),
            ("--- 12.25 seconds ---", 12.25),
            ("Finished training, took 90 sec.", 90.0),
            (
                "Training finished at Sat Oct 25 02:20:47 2025 | Elapsed time: 19408.62 s",
                19408.62,
            ),
        ] {
            let Some(Event {
                says: Says::RunEnd,
                seconds: Some(seconds),
                ..
            }) = total(text, true)
            else {
                panic!("{text}")
            };
            assert!((seconds - time).abs() < 1e-9, "{text}: {seconds}");
        }
        let text =
            "Training finished with 25600000 samples in 71.5 seconds, 358417.0 samples/second.";
        let Some(Event {
            says: Says::RunEnd,
            seconds: Some(71.5),
            facts,
            ..
        }) = total(text, true)
        else {
            panic!()
        };
        assert_eq!(
            facts.throughput.map(|rate| (rate.value, rate.unit)),
            Some((358_417.0, "samples/s"))
        );
        let Some(Event {
            says: Says::Figures,
            facts,
            ..
        }) = figures("Total loss is  26.5 ETA is  6:49:22.9")
        else {
            panic!()
        };
        assert_eq!(facts.metrics, [("Total loss".into(), 26.5)]);
        assert!(matches!(
            total("Finished Training", true),
            Some(Event {
                says: Says::Validation,
                ..
            })
        ));
        assert_eq!(
            total("Test: Total time: 0:00:04 (0.0828 s / it)", true),
            None
        );
    }

    #[test]
    fn the_rate_of_a_server_is_none_of_training() {
        assert!(figures("Throughput: 5.21 requests/s, 2012.44 tokens/s").is_none());
        assert!(figures("Throughput: 2012.44 tokens/s").is_some());
    }

    #[test]
    fn settings_of_a_loss_are_no_figures() {
        for text in [
            "loss_weights: {'bce': 1, 'dice': 1}",
            "Loss scale: 65536.0",
            "loss_smooth = 0.1",
        ] {
            assert!(figures(text).is_none(), "{text}");
        }
    }

    #[test]
    fn other_lines_are_left_alone() {
        for text in [
            "[1, 2]",
            "[3/4][5/6] done",
            "step size: 3, loss 2",
            "Iteration 3",
            "val step 3 loss 2",
            "batch_size 3 loss 4",
            "it 3.5 loss",
            "caffe.cpp:304] Batch 1, accuracy = 0.69",
            "step 157/157 [======] - loss: 3.9e-04 - acc: 0.9693 - 6ms/step",
        ] {
            assert!(
                bracketed(text).is_none() && counted(text).is_none() && total(text, true).is_none(),
                "{text}"
            );
        }
    }
}
