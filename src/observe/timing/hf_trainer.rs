//! The Trainer of Hugging Face Transformers.
//!
//! ```text
//! ***** Running training *****
//!   Num Epochs = 3
//!   Total optimization steps = 1,500
//! {'loss': 2.1, 'grad_norm': 0.9, 'learning_rate': 4.9e-05, 'epoch': 0.33}
//! {'eval_loss': 2.108, 'eval_runtime': 17.0, 'eval_samples_per_second': 60.1, 'epoch': 1.0}
//! {'train_runtime': 190.3, 'train_samples_per_second': 16.1, 'train_loss': 2.1, 'epoch': 3.0}
//!  33%|███▎      | 500/1500 [01:02<02:03,  8.05it/s]                  over the whole run
//! ```
//!
//! The forms are those of `trainer.py`, `trainer_callback.py` and `trainer_pt_utils.py` (3.x to 5.x) and of
//! `examples/pytorch/*_no_trainer.py`. `epoch` is how many epochs are done, with a fraction: 1.0 is the end of the first.
//! Where the last batches of an epoch fill no step, its end is printed as 0.99 or so.

use super::bar::{self, Bar};
use super::bar_label::{self, Subject};
use super::dict;
use super::event::{Event, Facts, Line, Rate, Recogniser};
use super::scan;

/// How far below a whole number an epoch's end may be printed.
const SHORT_OF: f64 = 0.05;

/// Epochs that one line ends at most; beyond it the lines are of something else.
const MAX_AT_ONCE: u64 = 1000;

/// What was read of the training so far.
#[derive(Debug, Default)]
pub(super) struct HfTrainer {
    /// True once the output was seen to be of this family.
    known: bool,
    /// The epoch of the last dictionary.
    last: f64,
    /// Epochs that were over at the last line; `None` where the output does not begin with the training.
    ended: Option<u64>,
    /// Steps of the whole run.
    steps: Option<u64>,
    /// The bar before the output was known.
    held: Option<Event<'static>>,
    /// True where the training is over: what follows is an evaluation.
    over: bool,
    /// Seconds of the training that is over.
    runtime: Option<f64>,
}

impl Recogniser for HfTrainer {
    fn name(&self) -> &'static str {
        "hf-trainer"
    }

    fn triggers(&self) -> &'static str {
        "'epoch':¦\"epoch\":¦Running training¦Num Epochs = ¦Num epochs = ¦\
         otal optimization steps = ¦_runtime¦%|"
    }

    fn counts_from_zero(&self) -> Option<bool> {
        Some(false)
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        let text = line.text.trim();
        if let Some(bar) = bar::read(text) {
            self.read_bar(&bar, say);
        }
        if let Some(begin) = text.find('{')
            && text.contains("poch")
        {
            return self.read_dict(&text[begin..], say);
        }
        self.read_head(text, say);
    }
}

impl HfTrainer {
    /// Reads the lines before the training.
    fn read_head<'a>(&mut self, text: &'a str, say: &mut dyn FnMut(Event<'a>)) {
        if text.ends_with("***** Running training *****") {
            *self = Self {
                known: true,
                ended: Some(0),
                ..Self::default()
            };
            say(Event::run_begin(true));
        } else if let Some((_, number)) = text
            .split_once("Num Epochs = ")
            .or_else(|| text.split_once("Num epochs = "))
        {
            let epochs = scan::grouped(number).and_then(|(count, _)| scan::whole(count));
            self.known |= epochs.is_some();
            say(Event::announce(epochs, None));
        } else if let Some((_, number)) = text.split_once("otal optimization steps = ") {
            self.known = true;
            self.steps = scan::grouped_count(number)
                .map(|(count, _)| count)
                .or(self.steps);
        }
    }

    fn read_dict<'a>(&mut self, text: &'a str, say: &mut dyn FnMut(Event<'a>)) {
        let pairs = dict::read(text);
        let number = |key| dict::get(&pairs, key);
        let epoch = number("epoch").filter(|epoch| (0.0..1e9).contains(epoch));
        // Beside the loss of a step it is the time so far.
        let whole = number("train_runtime").filter(|_| number("loss").is_none());
        let evaluated = pairs.iter().any(|(key, _)| key.starts_with("eval_"));
        // Transformers 2.11 to 3.0 print JSON, with the step.
        let (loss, rate) = (number("loss").is_some(), number("learning_rate").is_some());
        let numbered = number("step").is_some();
        let logged = text.starts_with("{'") && (loss || rate) || loss && rate && numbered;
        let Some(epoch) = epoch.filter(|_| whole.is_some() || evaluated || logged) else {
            return;
        };
        self.know(say);
        let mut facts = Facts::with_metrics(metrics(&pairs));
        if let Some(rate) = number("train_samples_per_second") {
            facts.throughput = Rate::of_run(rate, "samples/s");
        }
        // Another training in the same output, or the same again.
        if epoch + SHORT_OF < self.last && whole.is_none() {
            let done = finished((epoch - SHORT_OF).max(0.0), false);
            (self.over, self.runtime, self.steps, self.ended) = (false, None, None, Some(done));
            say(Event::epoch_start(done + 1, None));
        }
        // What comes first is of a later epoch: the first one ended unseen, or was trained before.
        if self.last == 0.0 && epoch > 1.0 + SHORT_OF {
            say(Event::run_begin(false));
        }
        self.last = epoch;
        // Another training, in a program that has several.
        let is_same = |(one, other): (f64, f64)| (one - other).abs() <= 0.001 * one.max(other);
        if whole.is_some() && self.over && !self.runtime.zip(whole).is_some_and(is_same) {
            self.ended = Some(0);
            say(Event::epoch_start(1, None));
        }
        let done = self.read_epoch(epoch, evaluated || whole.is_some(), say);
        if whole.is_some() {
            (self.over, self.runtime) = (true, whole);
            say(Event::run_end(whole, facts));
        } else if epoch > as_number(done) || done == 0 {
            say(Event::within((done + 1, None), facts));
        } else {
            say(Event::epoch_end((done, None), facts));
        }
    }

    /// Ends the epochs that are over at `epoch`, and returns how many that are; `certain` where the end of one may be
    /// printed as a little less.
    fn read_epoch<'a>(&mut self, epoch: f64, certain: bool, say: &mut dyn FnMut(Event<'a>)) -> u64 {
        let done = finished(epoch, certain);
        let first = match self.ended.filter(|ended| *ended <= done) {
            Some(ended) => ended + 1,
            // An output, or another training, that does not begin with its first epoch.
            None if epoch > as_number(done) => done + 1,
            None => done.max(1),
        };
        if done.saturating_sub(first) <= MAX_AT_ONCE {
            for epoch in first..=done {
                let facts = Facts::default();
                say(Event::epoch_end((epoch, None), facts));
            }
        }
        self.ended = Some(done);
        done
    }

    /// Says what was held back until the output was known.
    fn know<'a>(&mut self, say: &mut dyn FnMut(Event<'a>)) {
        self.known = true;
        if let Some(event) = self.held.take() {
            say(event);
        }
    }

    /// Reads the bar over the whole run; those of evaluations are shorter.
    fn read_bar<'a>(&mut self, bar: &Bar<'_>, say: &mut dyn FnMut(Event<'a>)) {
        if bar_label::subject(bar.label) != Subject::Training || bar.is_of_bytes {
            return;
        }
        let Some(of) = bar
            .of
            .filter(|of| self.steps.is_none_or(|steps| *of >= steps))
        else {
            return;
        };
        if self.over || !self.known && bar.is_full() {
            // It is drawn once more behind the figures of the whole; before them a full one was of the preparation.
            let whole = self
                .runtime
                .zip(bar.elapsed)
                .is_some_and(|(run, bar)| (run - bar).abs() <= 2.0);
            if self.over && (self.steps == Some(of) || self.steps.is_none() && whole) {
                say(Event::run_step(
                    (bar.step, bar.of),
                    Facts::with_step_time(bar.step_seconds),
                ));
            }
            return;
        }
        self.steps = Some(of);
        if bar.step == 0 {
            return say(Event::run_begin(true));
        }
        self.held = Some(Event::run_step((bar.step, bar.of), bar.pace()));
        if self.known {
            self.know(say);
        }
    }
}

/// Epochs that are over at `epoch`.
fn finished(epoch: f64, certain: bool) -> u64 {
    let early = if certain { SHORT_OF } else { 0.0 };
    scan::whole((epoch + early).floor()).unwrap_or(0)
}

/// `done` as a number of epochs with a fraction.
fn as_number(done: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts of epochs are small")]
    let done = done as f64;
    done
}

/// The losses and metrics of a dictionary.
fn metrics<'a>(pairs: &[(&'a str, f64)]) -> Vec<(std::borrow::Cow<'a, str>, f64)> {
    let no_metric = |key: &str| {
        matches!(key, "epoch" | "step" | "total_flos")
            || key.ends_with("_runtime")
            || key.contains("per_second")
    };
    let figures = pairs.iter().filter(|(key, _)| !no_metric(key));
    figures
        .filter_map(|(key, value)| Some((scan::figure_name(key)?, *value)))
        .collect()
}
