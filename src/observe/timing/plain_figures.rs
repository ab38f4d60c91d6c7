//! The figures of a plain line: steps, times, rates, losses and metrics, whatever they stand behind.

use std::borrow::Cow;

use super::event::{Facts, Rate};
use super::names;
use super::scan::{self, Numbers};

/// Parts of the name of a time that is not the epoch's.
const OTHER_TIMES: &str = "eta|remain|left|data|load|val|test|infer|step|batch|iter|total|avg|\
    average|per|sav|checkpoint|ckpt|forward|backward|since|wait|start|compil| at|expected";

/// Names of the time in which a step waited for data.
const DATA_TIMES: &str = "data|data time|data_time|data wait|data_wait|data loading";

/// What may stand alone behind such a time: `22.1s left)`, `1.00s val`.
const OTHERS_BEHIND: [&str; 8] = [
    "left",
    "remaining",
    "to go",
    "val",
    "validation",
    "test",
    "eval",
    "ago",
];

/// Names of a time that may also be missing.
const IDLE_NAMES: &str = "|done|finished|completed|complete|ended|after|train|training";

/// Names of a number that counts steps.
pub(super) const STEP_NAMES: &str = "step|iter|iteration|batch|it|minibatch|iters|steps|batches|\
    iterations|i|itr|batch_idx|global_step|mini-batch|global step";

/// Parts of names of figures that are of a machine, not of a training.
const OF_MACHINES: &str = "mem_|memory|cuda|gpu";

/// What a line's figures say.
#[derive(Debug, Default)]
pub(super) struct Read<'a> {
    pub(super) step: Option<(u64, Option<u64>)>,
    /// The epoch's time where it is called a time, and where it is not called anything.
    pub(super) named_seconds: Option<f64>,
    pub(super) idle_seconds: Option<f64>,
    /// Whether that time was printed with digits behind a point.
    pub(super) has_decimals: bool,
    data_seconds: Option<f64>,
    pub(super) facts: Facts<'a>,
    /// For each metric the part of the line that begins right before its name.
    heads: Vec<Option<&'static str>>,
}

/// Reads the figures of a text, such as what stands behind an epoch's number.
pub(super) fn read(text: &str) -> Read<'_> {
    let mut figures = Read::default();
    let mut numbers = Numbers::new(text);
    while let Some((between, value, from)) = numbers.next_number() {
        // Right behind the epoch, or named only afterwards: `[100/938]`, `| 200/2983 batches`.
        if figures.step.is_none()
            && between.len() + from.len() == text.len()
            && scan::name(between).is_empty()
            && let Some((step, Some(of), after)) = scan::counted(from)
        {
            figures.step = Some((step, Some(of)));
            numbers.skip_to(after);
            continue;
        }
        if let Some(after) = figures.take(between, value, from) {
            numbers.skip_to(after);
        }
    }
    let step_seconds = figures.facts.step_seconds;
    let data = figures.data_seconds.zip(step_seconds);
    let waited = data.filter(|(data, step)| data <= step);
    figures.facts.data_seconds = waited.map(|(data, _)| data);
    let first = text
        .split(|c: char| !c.is_ascii_alphabetic())
        .find(|word| !word.is_empty());
    let begins = first.and_then(names::subject).is_some();
    name_by_subject(&mut figures.facts.metrics, &figures.heads, begins);
    figures
}

/// Tells apart the figures of the parts of a line. Behind `Val - loss: 0.4`, in a line that begins so (`begins`), and where
/// a name comes again they are the evaluation's; of `loss: 0.5, val loss: 0.4, acc: 0.8` nobody knows whose the last is.
fn name_by_subject(
    metrics: &mut Vec<(Cow<'_, str>, f64)>,
    heads: &[Option<&'static str>],
    begins: bool,
) {
    let mut part: Option<(&str, bool)> = None;
    let mut named: Vec<(Cow<'_, str>, f64)> = Vec::with_capacity(metrics.len());
    let lower: Vec<String> = metrics
        .iter()
        .map(|(name, _)| name.to_ascii_lowercase())
        .collect();
    for (at, (name, value)) in metrics.drain(..).enumerate() {
        if let Some(own) = names::subject(&name) {
            part = Some((own, begins && at == 0));
        } else if let Some(head) = heads[at] {
            part = Some((head, true));
        }
        let other = part.filter(|(part, _)| *part != "train" && names::subject(&name).is_none());
        match other {
            None => named.push((name, value)),
            Some((part, head)) if head || lower[..at].contains(&lower[at]) => {
                named.push((format!("{part} {name}").into(), value));
            }
            Some(_) if !names::is_measure(&name) => named.push((name, value)),
            Some(_) => {}
        }
    }
    *metrics = named;
}

impl<'a> Read<'a> {
    /// Takes one number with what stands before it; returns where to go on if that is not right behind the number.
    fn take(&mut self, between: &'a str, value: f64, from: &'a str) -> Option<&'a str> {
        let name = scan::name(between);
        let name = name
            .strip_prefix("train ")
            .filter(|step| STEP_NAMES.contains(step))
            .unwrap_or(name);
        if scan::is_any(name, STEP_NAMES)
            && let Some(after) = self.take_step(name.ends_with('s'), from)
        {
            return Some(after);
        }
        if let Some((step_seconds, after)) = scan::per_step(from) {
            self.facts.step_seconds = Some(step_seconds);
            return Some(after);
        }
        // `took 4,6 s` beside points: nobody knows what the comma is.
        let is_whole = scan::unsigned(from).is_some_and(|(_, rest)| !rest.starts_with('.'));
        let is_cut = between == "," && is_whole;
        if let Some((seconds, after)) = scan::duration(from).filter(|_| !is_cut) {
            let known = (self.named_seconds, self.idle_seconds);
            self.take_time(name, seconds, after);
            if known != (self.named_seconds, self.idle_seconds) {
                self.has_decimals = from[..from.len() - after.len()].contains('.');
            }
            return Some(after);
        }
        if let Some((seconds, after)) = scan::clock(from) {
            if !name.is_empty() && !scan::is_any(name, IDLE_NAMES) {
                self.take_time(name, seconds, after);
            }
            return Some(after);
        }
        let (_, after) = scan::number(from)?;
        // `2026-11-29` is a date, `0.284-0.341` a range.
        let behind = after.strip_prefix('-');
        if behind.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
            return None;
        }
        // The mean stands behind the time of a step.
        if name.eq_ignore_ascii_case("time")
            && let Some((mean, behind)) =
                after.trim_start().strip_prefix('(').and_then(scan::number)
        {
            self.facts.step_seconds = Some(mean);
            return Some(behind);
        }
        // `tok/sec: 528,029`
        let (grouped, behind) = scan::grouped(from).unwrap_or((value, after));
        if self.take_named(between, grouped) {
            return Some(behind);
        }
        // `1,579 img/s`
        if let Some((unit, after)) = scan::rate_unit(behind) {
            self.facts.throughput = Rate::of_run(grouped, unit);
            return Some(after);
        }
        let (factor, unit) = scan::magnitude(after).unwrap_or((1.0, after));
        if let Some((unit, after)) = scan::rate_unit(unit) {
            self.facts.throughput = Rate::of_run(value * factor, unit);
            return Some(after);
        }
        // A rounded number is no figure; one with commas is a count, or has a decimal comma.
        if unit.len() < after.len() || behind.len() < after.len() {
            return Some(if unit.len() < after.len() {
                unit
            } else {
                behind
            });
        }
        let is_named = between.trim_end().ends_with([':', '=']) || is_loss(name);
        // `316/1014` is no figure by itself.
        let is_part = after
            .strip_prefix('/')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let has_comma = after.strip_prefix(',');
        let has_comma =
            has_comma.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        // `Train loss 79 0.4016`, `loss (79): 0.4016`: the number of a step, and then the loss.
        let written = &from[..from.len() - after.len()];
        let behind = after.trim_start_matches([')', ']', ':', ' ', '\t']);
        let decimals = behind.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_step = written.bytes().all(|byte| byte.is_ascii_digit())
            && behind.len() < after.len()
            && decimals.len() < behind.len()
            && decimals.starts_with('.')
            && scan::duration(behind).is_none();
        if is_named
            && !is_step
            && !has_comma
            && !is_part
            && !name.to_ascii_lowercase().contains("time")
            && !after.starts_with(scan::is_word)
            && !scan::holds_any(name, OF_MACHINES)
            && let Some(name) = scan::metric_name(behind_the_end(name))
        {
            self.facts.metrics.push((name, value));
            self.heads.push(names::subject(between));
        }
        None
    }

    /// Takes the number of a step, or the time of one: `step 3/10`, `step 1,200`, `batch 0.182s`.
    fn take_step(&mut self, is_of_several: bool, from: &'a str) -> Option<&'a str> {
        if let Some((seconds, after)) = scan::duration(from)
            && (scan::unsigned(from)?.1).starts_with(|c: char| c == '.' || c.is_alphabetic())
        {
            // `500 steps 12.5s` is the time of all.
            self.facts.step_seconds = (!is_of_several)
                .then_some(seconds)
                .or(self.facts.step_seconds);
            return Some(after);
        }
        if let Some((step, after)) = scan::grouped_count(from)
            && after.len() + 4 < from.len()
            && from.contains(',')
            && scan::unsigned(from).is_some_and(|(_, rest)| rest.len() > after.len())
        {
            self.step = Some((step, None));
            return Some(after);
        }
        // `1K` is a rounded count, not the number of a step.
        let (step, of, after) = scan::counted(from)?;
        scan::magnitude(after).is_none().then(|| {
            self.step = Some((step, of));
            after
        })
    }

    /// Takes a number whose unit is in its name: `ms/batch 12.3`, `Time(s): 12.3`, `images/sec: 512`.
    fn take_named(&mut self, between: &str, value: f64) -> bool {
        let name = between.trim_end_matches([' ', '\t', ':', '=']);
        let last = name
            .rsplit([' ', '\t', '|', ',', '('])
            .next()
            .unwrap_or_default();
        if let Some((unit, "")) = scan::rate_unit(last) {
            self.facts.throughput = Rate::of_run(value, unit);
            return true;
        }
        if let Some((time, step)) = last.split_once('/')
            && matches!(step, "batch" | "step" | "it" | "iter" | "iteration")
            && let "ms" | "s" | "sec" = time
        {
            self.facts.step_seconds = Some(if time == "ms" { value / 1e3 } else { value });
            return true;
        }
        let Some(scale) = unit_in_name(between) else {
            let bare = name
                .rsplit([',', '|', ';', '\t', '-'])
                .next()
                .unwrap_or_default()
                .trim();
            let time = "time|epoch time|epoch_time|elapsed|train time|train_time";
            if self.step.is_none() && value >= 0.0 && scan::is_any(bare, time) {
                self.idle_seconds = self.idle_seconds.or(Some(value));
                return true;
            }
            return false;
        };
        let named = name.rsplit_once(['(', '[']).map_or(name, |(name, _)| name);
        self.take_time(scan::name(named), value * scale, "");
        true
    }

    fn take_time(&mut self, name: &str, seconds: f64, after: &str) {
        let name = name.to_ascii_lowercase();
        let of_step = "btime|iter_time|iter time|batch_time|batch time|step_time|step time|\
             time per step|time/step";
        if scan::is_any(&name, of_step) {
            self.facts.step_seconds = Some(seconds);
            return;
        }
        if scan::is_any(&name, DATA_TIMES) && !after.starts_with('/') {
            self.data_seconds = Some(seconds);
            return;
        }
        if after.starts_with('/') || scan::holds_any(&name, OTHER_TIMES) {
            return;
        }
        let last = name.rsplit(' ').next().unwrap_or_default();
        if "time|taken|took|takes|elapsed|duration|runtime"
            .split('|')
            .any(|word| last.ends_with(word))
            || last == "in"
        {
            self.named_seconds = self.named_seconds.or(Some(seconds));
        } else if (last == "dt" || scan::is_any(&name, IDLE_NAMES)) && !is_named_behind(after) {
            self.idle_seconds = self.idle_seconds.or(Some(seconds));
        }
    }
}

/// Whether a word behind a time says that it is no step's: another, or that of all steps so far.
pub(super) fn is_no_step(after: &str) -> bool {
    is_named_behind(after) || is_behind(after, &["elapsed", "total", "in total", "so far"])
}

/// Whether a word behind a time says that it is another, and is not the name of the next figure.
fn is_named_behind(after: &str) -> bool {
    is_behind(after, &OTHERS_BEHIND)
}

fn is_behind(after: &str, words: &[&str]) -> bool {
    let rest = after.trim_start().to_ascii_lowercase();
    words.iter().any(|word| {
        let behind = rest.strip_prefix(word).map(str::trim_start);
        behind.is_some_and(|behind| {
            behind.is_empty() || behind.starts_with([')', ']', ',', '|', ';'])
        })
    })
}

/// Seconds of one of the unit that a name ends with: `Time(s)`, `time (sec):`, `Time [ms] =`.
pub(super) fn unit_in_name(between: &str) -> Option<f64> {
    let name = between
        .trim_end_matches([' ', '\t', ':', '='])
        .strip_suffix([')', ']'])?;
    let (named, unit) = name.rsplit_once(['(', '['])?;
    let scale = match unit.trim().trim_start_matches("in ") {
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "ms" => 1e-3,
        "min" | "mins" | "minutes" => 60.0,
        "h" | "hours" => 3600.0,
        _ => return None,
    };
    scan::holds_any(named, "time|elapsed|duration|took").then_some(scale)
}

/// True for names that need no `:` or `=` before their value.
fn is_loss(name: &str) -> bool {
    let last = name
        .rsplit(' ')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    "loss|acc|accuracy|perplexity|ppl|mse|mae|f1"
        .split('|')
        .any(|word| last.ends_with(word))
}

/// The name of a figure without the sentence before it: `finished. Loss` is `Loss`.
fn behind_the_end(name: &str) -> &str {
    let sentence = name
        .split_once(". ")
        .filter(|(sentence, _)| scan::is_any(sentence, "done|finished|completed|complete|ended"));
    sentence.map_or(name, |(_, name)| name)
}

/// `Test set: Average loss: 0.0458, Accuracy: 9840/10000 (98%)`, which scripts with a bar of their own print as well.
pub(super) fn tested(text: &str) -> Option<Facts<'_>> {
    let rest = text.trim().strip_prefix("Test set:")?;
    let mut facts = Facts::default();
    if let Some((_, rest)) = rest.split_once("Average loss: ")
        && let Some((loss, _)) = scan::number(rest)
    {
        facts.metrics.push(("test_loss".into(), loss));
    }
    if let Some((_, rest)) = rest.split_once('(')
        && let Some((percent, "%)")) = scan::number(rest)
    {
        facts
            .metrics
            .push(("test_accuracy_percent".into(), percent));
    }
    Some(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_commas_between_their_thousands() {
        let rate = read(" | loss: 8.2 | tok/sec: 528,029 | mfu: 73.87")
            .facts
            .throughput;
        assert_eq!(rate, Rate::of_run(528_029.0, "tokens/s"));
        assert_eq!(
            read(" | 37.2k tok/s").facts.throughput,
            Rate::of_run(37_200.0, "tokens/s")
        );
    }

    #[test]
    fn name_that_comes_again_is_of_the_part_before_it() {
        let metrics = read(" | Train Loss: 0.5 Acc: 0.8 | Val Loss: 0.7 Acc: 0.6")
            .facts
            .metrics;
        let names: Vec<_> = metrics.iter().map(|(name, _)| name.as_ref()).collect();
        assert_eq!(names, ["Train Loss", "Acc", "Val Loss", "val Acc"]);
    }

    #[test]
    fn parts_of_numbers_and_figures_of_machines_are_no_metrics() {
        for text in [
            "total_tokens=193,986,560",
            "Accuracy: 316/1014=0.3116",
            "[95% CI: 0.284-0.341]",
            "smpl:13K ep:40K",
            "mem_usage:cuda:0 67.8GB",
        ] {
            assert_eq!(read(text).facts.metrics, [], "{text}");
        }
        assert_eq!(read("x step:1K loss:0.5").step, None);
    }

    #[test]
    fn time_of_a_batch_is_not_its_number() {
        let read = read(" [10/40] loss 0.167 data 0.131s batch 0.182s");
        assert_eq!(read.step, Some((10, Some(40))));
        let facts = read.facts;
        assert_eq!(
            (facts.step_seconds, facts.data_seconds),
            (Some(0.182), Some(0.131))
        );
        for text in [
            " [10/40] loss 0.1 batch 1.0s",
            " [10/40] loss 0.1 batch 182ms",
        ] {
            let read = super::read(text);
            assert_eq!(read.step, Some((10, Some(40))), "{text}");
            assert!(read.facts.step_seconds.is_some(), "{text}");
        }
        let of_all = super::read(" | 500 steps 12.5s | loss 0.5").facts;
        assert_eq!(of_all.step_seconds, None);
    }
}
