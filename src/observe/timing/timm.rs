//! timm's `train.py`.
//!
//! ```text
//! Scheduled epochs: 310
//! Train: 0 [   0/1251 (  0%)]  Loss: 6.96 (6.96)  Time: 3.59s, 285.05/s  (3.59s, 285.05/s)  LR: 1.0e-06  Data: 1.4 (1.4)
//! Test: [  48/48]  Time: 0.041 (0.064)  Loss:  0.5951 (0.5882)  Acc@1: 81.2500 (87.5000)  Acc@5: 100.0000 (99.3750)
//! *** Best metric: 79.24 (epoch 297)
//! ```
//!
//! Of an evaluation the last line counts; behind each value is the mean so far.
//!
//! The forms are those of `train_one_epoch` and `validate` in `train.py` (0.3 to 1.0). Steps and epochs count from 0; what
//! stands in parentheses is the mean of the epoch so far, and the rate is that of all processes.

use super::event::{Event, Facts, Line, Rate, Recogniser, Says};
use super::scan::{self, Numbers};

/// How far in a line, in bytes, `Train: ` may begin: a logger's prefix may come before.
const MAX_PREFIX: usize = 100;

/// The recogniser.
#[derive(Debug, Default)]
pub(super) struct Timm {
    /// True for OpenPCDet, which prints how many epochs there are, and counts them from 1.
    from_one: bool,
}

impl Recogniser for Timm {
    fn name(&self) -> &'static str {
        "timm"
    }

    fn triggers(&self) -> &[&'static str] {
        &[
            "Train: ",
            "Scheduled epochs: ",
            "Test: [",
            "Test (EMA): [",
            "*** Best metric: ",
        ]
    }

    fn counts_from_zero(&self) -> Option<bool> {
        Some(!self.from_one)
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some(event) = read_line(line.text) {
            self.from_one |= matches!(
                event,
                Event {
                    says: Says::Step,
                    epochs: Some(_),
                    ..
                } | Event {
                    says: Says::EpochEnd,
                    epochs: Some(_),
                    ..
                }
            );
            say(event);
        }
    }
}

fn read_line(text: &str) -> Option<Event<'_>> {
    let head = text.get(..text.floor_char_boundary(MAX_PREFIX))?;
    if let Some(at) = head.find("Train: ") {
        return read_step(&text[at + "Train: ".len()..]);
    }
    if let Some((_, rest)) = head.split_once("Scheduled epochs: ") {
        return Some(Event::announce(Some(scan::unsigned(rest)?.0), None));
    }
    if let Some((_, rest)) = head
        .split_once("Test: [")
        .or_else(|| head.split_once("Test (EMA): ["))
    {
        let mut facts = Facts::default();
        if let Some((step, Some(of), _)) = scan::counted(rest)
            && step >= of
        {
            let mut means = Facts::default();
            columns(text, &mut means);
            facts.metrics = means
                .means
                .into_iter()
                .map(|(name, mean)| (format!("val_{}", name.to_ascii_lowercase()).into(), mean))
                .collect();
        }
        return Some(Event::validation(facts));
    }
    head.contains("*** Best metric: ")
        .then(|| Event::validation(Facts::default()))
}

/// What follows `Train: `.
fn read_step(text: &str) -> Option<Event<'_>> {
    let (epoch, epochs, rest) = scan::counted(text.trim_start())?;
    // OpenPCDet: `1/3 ( 33%) [`.
    let rest = match epochs {
        Some(_) => rest.split_once(')')?.1,
        None => rest,
    };
    let (step, of, rest) = scan::counted(rest.trim_start().strip_prefix('[')?)?;
    let of = of?;
    let (_, rest) = rest.split_once(']')?;
    let mut facts = Facts::default();
    columns(rest, &mut facts);
    Some(if step + 1 >= of {
        Event::epoch_end((epoch, epochs), facts).at(Some((step, of)))
    } else {
        Event::step((epoch, epochs), (step, Some(of)), facts)
    })
}

/// `Loss: 1.336 (4.00)  Time: 0.934s,    8.57/s  (0.218s,   36.68/s)  LR: 5.000e-04`.
fn columns<'a>(text: &'a str, facts: &mut Facts<'a>) {
    let mut numbers = Numbers::of(text);
    let mut column = "";
    while let Some((between, value, from)) = numbers.next_number() {
        let name = scan::name(between);
        let (_, behind) = scan::number(from).unwrap_or((value, ""));
        if !name.is_empty() && between.trim_end().ends_with(':') {
            column = name;
            if !matches!(
                name,
                "Time" | "Data" | "LR" | "Time cost" | "Data time" | "Forward time" | "Batch time"
            ) && let Some(name) = scan::metric_name(name)
            {
                facts.metrics.push((name, value));
            }
        } else if between.trim() == "("
            && let Some((name, _)) = facts.metrics.last().filter(|(name, _)| name == column)
        {
            facts.means.push((name.clone(), value));
        }
        if column == "Batch time" {
            facts.step_seconds = Some(value);
        }
        if column != "Time" {
            continue;
        }
        if behind.starts_with("/s") {
            facts.throughput = Rate::of_run(value, "samples/s").or(facts.throughput);
        } else if behind.starts_with(['s', ' ', ')']) {
            facts.step_seconds = Some(value);
        }
        numbers.skip_to(behind.trim_start_matches(['/', 's']));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_the_time_and_the_value_the_loss() {
        let text = "Train: 0 [  32/33 (100%)]  Loss: 1.336 (4.00)  Time: 0.934s,    8.57/s  (0.218s,   36.68/s)  LR: 5.000e-04  Data: 0.000 (0.014)";
        let Some(Event {
            says: Says::EpochEnd,
            epoch: Some(0),
            step: Some(32),
            of: Some(33),
            facts,
            ..
        }) = read_line(text)
        else {
            panic!("{:?}", read_line(text))
        };
        assert_eq!(
            (&*facts.metrics, &*facts.means),
            (&[("Loss".into(), 1.336)][..], &[("Loss".into(), 4.0)][..])
        );
        assert_eq!(
            (facts.step_seconds, facts.throughput),
            (Some(0.218), Rate::of_run(36.68, "samples/s"))
        );
    }

    #[test]
    fn the_last_line_of_an_evaluation_has_its_figures() {
        let text = "Test: [  30/30]  Time: 0.044 (0.127)  Loss:   1.462 ( 1.701)  Acc@1:  96.471 ( 94.471)";
        let Some(Event {
            says: Says::Validation,
            facts,
            ..
        }) = read_line(text)
        else {
            panic!()
        };
        assert_eq!(
            facts.metrics,
            [("val_loss".into(), 1.701), ("val_acc@1".into(), 94.471)]
        );
        let first = text.replace("  30/30", "   0/30");
        let Some(Event {
            says: Says::Validation,
            facts,
            ..
        }) = read_line(&first)
        else {
            panic!()
        };
        assert!(facts.is_empty());
    }

    #[test]
    fn other_lines_are_left_alone() {
        for text in [
            "Train: loss 3",
            "Train: 3",
            "Train: 3 [4]",
            "Scheduled epochs: many",
            "Train: 3 [4/",
        ] {
            assert_eq!(read_line(text), None, "{text}");
        }
    }
}
