//! What a line of output says, in the words that all recognisers share.

use std::borrow::Cow;
use std::fmt::Debug;

use serde::Deserialize;

use crate::record::Scope;

/// The longest duration that is believed, in seconds: three years. What is longer is a misprint, or was never a duration.
pub(super) const MAX_SECONDS: f64 = 1e8;

/// Whether a number of seconds can be a duration.
pub(super) fn is_time(seconds: f64) -> bool {
    (0.0..=MAX_SECONDS).contains(&seconds)
}

/// A line as recognisers see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// Its text without line end, escape sequences and control characters other than tabs.
    pub(super) text: &'a str,
    /// True where the cursor went back to its beginning, so that the next line takes its place.
    pub(super) redrawn: bool,
}

/// A rate of training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rate {
    pub(super) value: f64,
    /// `samples/s`, `tokens/s`, `words/s`, `frames/s`, `steps/s`, `it/s`.
    pub(super) unit: &'static str,
    pub(super) scope: Scope,
}

impl Rate {
    /// A rate; `None` where the number can be none.
    pub(super) fn new(value: f64, unit: &'static str, scope: Scope) -> Option<Self> {
        (value.is_finite() && value >= 0.0).then_some(Self { value, unit, scope })
    }

    /// A rate of the whole run; `None` where the number can be none.
    pub(super) fn of_run(value: f64, unit: &'static str) -> Option<Self> {
        Self::new(value, unit, Scope::Global)
    }
}

/// Figures that any line may carry.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Facts<'a> {
    /// Seconds per step.
    pub(super) step_seconds: Option<f64>,
    /// Seconds of them in which the step waited for data.
    pub(super) data_seconds: Option<f64>,
    /// A rate of training.
    pub(super) throughput: Option<Rate>,
    /// True where the program prints either of the two, whichever is above 1, as bars do: the other one, printed
    /// before, is out of date.
    pub(super) one_pace: bool,
    /// Losses and metrics under the names in the output.
    pub(super) metrics: Vec<Metric<'a>>,
    /// Of those that are of one batch the means over the epoch so far, where printed.
    pub(super) means: Vec<Metric<'a>>,
    /// True where the step of the line counts samples.
    pub(super) counts_samples: bool,
}

/// A metric: its name in the output and its value.
pub(super) type Metric<'a> = (Cow<'a, str>, f64);

impl<'a> Facts<'a> {
    pub(super) fn with_metrics(metrics: Vec<Metric<'a>>) -> Self {
        Self {
            metrics,
            ..Self::default()
        }
    }

    pub(super) fn with_rate(throughput: Option<Rate>) -> Self {
        Self {
            throughput,
            ..Self::default()
        }
    }

    pub(super) fn with_step_time(step_seconds: Option<f64>) -> Self {
        Self {
            step_seconds,
            ..Self::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Facts::default()
    }
}

/// A number of an epoch or a step as printed, and how many there will be, where that is printed.
pub(super) type Count = (u64, Option<u64>);

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Says {
    /// How many epochs, or steps of an epoch, there will be.
    Announce,
    /// The training begins at `step` 0, or a bar does that may be its; without `step` nobody saw when it began.
    RunBegin,
    /// An epoch begins.
    EpochStart,
    /// A step of an epoch is done.
    Step,
    /// A step is done, in a line that names no epoch; `of` are the steps of the open epoch, else of the run. Without
    /// `step` only that number is known.
    Iteration,
    /// A step is done whose number, and `of`, count through the whole run; in a line that names an epoch or none.
    RunStep,
    /// Figures from inside an epoch, which no line like it ends.
    Within,
    /// Figures of an epoch: either inside it or its summary, which only the lines after it tell.
    Mention,
    /// An epoch is over; with the seconds that it took and its last step, where printed. Again for the same epoch: a
    /// better version of what was said.
    EpochEnd,
    /// An epoch is over of which no number is printed: the open one, else the next.
    EpochOver,
    /// Validation, or a checkpoint: the epoch that is open is over, and these figures are its.
    Validation,
    /// Figures of whatever is running; no epoch ends by them.
    Figures,
    /// The whole training is over; `seconds` is how long it took, where printed. The open epoch stays open.
    RunEnd,
}

impl Says {
    /// True where the line can hardly come from a program of another kind.
    pub(super) fn is_distinctive(self) -> bool {
        use Says::{EpochEnd, EpochOver, Iteration, RunStep, Step, Within};
        matches!(
            self,
            Step | EpochEnd | Iteration | EpochOver | RunStep | Within
        )
    }

    /// True where lines mean behind it what they meant before.
    pub(super) fn is_passing(self) -> bool {
        use Says::{Figures, Iteration, Mention, RunBegin, RunStep, Step, Within};
        matches!(
            self,
            Step | Iteration | RunBegin | RunStep | Within | Mention | Figures
        )
    }

    /// A word for it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Announce => "announcement",
            Self::RunBegin => "training begins",
            Self::EpochStart => "epoch begins",
            Self::Step | Self::Iteration | Self::RunStep => "step",
            Self::Mention | Self::Within => "figures of an epoch",
            Self::EpochEnd | Self::EpochOver => "epoch ends",
            Self::Validation => "validation",
            Self::Figures => "figures",
            Self::RunEnd => "training ends",
        }
    }
}

/// What a line says, with its numbers as printed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event<'a> {
    pub(super) says: Says,
    pub(super) epoch: Option<u64>,
    /// How many epochs there will be.
    pub(super) epochs: Option<u64>,
    pub(super) step: Option<u64>,
    /// How many steps there will be.
    pub(super) of: Option<u64>,
    /// How long the epoch, or the run, took.
    pub(super) seconds: Option<f64>,
    /// Whether `seconds` were printed with digits behind a point.
    pub(super) has_decimals: bool,
    /// Whether the line is of the evaluation of an epoch: where another line of the epoch came before, `seconds` are of it alone.
    pub(super) evaluates: bool,
    pub(super) facts: Facts<'a>,
}

impl<'a> Event<'a> {
    pub(super) fn new(says: Says, facts: Facts<'a>) -> Self {
        Self {
            says,
            epoch: None,
            epochs: None,
            step: None,
            of: None,
            seconds: None,
            has_decimals: false,
            evaluates: false,
            facts,
        }
    }

    pub(super) fn announce(epochs: Option<u64>, of: Option<u64>) -> Self {
        Self {
            epochs,
            of,
            ..Self::new(Says::Announce, Facts::default())
        }
    }

    /// `is_seen`: whether it begins at this line.
    pub(super) fn run_begin(is_seen: bool) -> Self {
        Self {
            step: is_seen.then_some(0),
            ..Self::new(Says::RunBegin, Facts::default())
        }
    }

    pub(super) fn epoch_start(epoch: u64, epochs: Option<u64>) -> Self {
        Self::new(Says::EpochStart, Facts::default()).in_epoch(Some(epoch), epochs)
    }

    pub(super) fn step((epoch, epochs): Count, step: Count, facts: Facts<'a>) -> Self {
        Self::new(Says::Step, facts)
            .in_epoch(Some(epoch), epochs)
            .counts(step)
    }

    /// A step of an epoch, or its end where the step is `done` as the last one.
    pub(super) fn step_or_end(epoch: Count, step: Count, done: bool, facts: Facts<'a>) -> Self {
        if done {
            Self::epoch_end(epoch, facts).counts(step)
        } else {
            Self::step(epoch, step, facts)
        }
    }

    pub(super) fn iteration(step: Option<u64>, of: Option<u64>, facts: Facts<'a>) -> Self {
        Self {
            step,
            of,
            ..Self::new(Says::Iteration, facts)
        }
    }

    pub(super) fn run_step(step: Count, facts: Facts<'a>) -> Self {
        Self::new(Says::RunStep, facts).counts(step)
    }

    pub(super) fn within((epoch, epochs): Count, facts: Facts<'a>) -> Self {
        Self::new(Says::Within, facts).in_epoch(Some(epoch), epochs)
    }

    pub(super) fn mention((epoch, epochs): Count, facts: Facts<'a>) -> Self {
        Self::new(Says::Mention, facts).in_epoch(Some(epoch), epochs)
    }

    pub(super) fn epoch_end((epoch, epochs): Count, facts: Facts<'a>) -> Self {
        Self::new(Says::EpochEnd, facts).in_epoch(Some(epoch), epochs)
    }

    pub(super) fn epoch_over(facts: Facts<'a>) -> Self {
        Self::new(Says::EpochOver, facts)
    }

    pub(super) fn validation(facts: Facts<'a>) -> Self {
        Self::new(Says::Validation, facts)
    }

    pub(super) fn figures(facts: Facts<'a>) -> Self {
        Self::new(Says::Figures, facts)
    }

    pub(super) fn run_end(seconds: Option<f64>, facts: Facts<'a>) -> Self {
        Self::new(Says::RunEnd, facts).took(seconds)
    }

    pub(super) fn in_epoch(self, epoch: Option<u64>, epochs: Option<u64>) -> Self {
        Self {
            epoch,
            epochs,
            ..self
        }
    }

    pub(super) fn took(self, seconds: Option<f64>) -> Self {
        Self { seconds, ..self }
    }

    /// With its last step, and how many there are.
    pub(super) fn at(self, step: Option<(u64, u64)>) -> Self {
        let (step, of) = step.unzip();
        Self { step, of, ..self }
    }

    fn counts(self, (step, of): Count) -> Self {
        let step = Some(step);
        Self { step, of, ..self }
    }
}

/// How much a recogniser's word weighs where several speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// Bars and counters that any program may draw, also for something else than training.
    Bare,
    /// Lines that people write by hand.
    Plain,
    /// The output of one framework.
    Family,
    /// What the user asked for: the pattern of the job file.
    Asked,
}

/// Reads the lines of one family of programs. It keeps what it needs to know of the lines before.
pub(super) trait Recogniser: Debug + Send {
    /// Its name in [`crate::record::Progress::recogniser`].
    fn name(&self) -> &'static str;

    /// How much its word weighs.
    fn weight(&self) -> Weight {
        Weight::Family
    }

    /// Texts, separated by `¦`, of which a line must have at least one, by the letter, to be of any interest to it. They should be longer
    /// than three bytes and rare in what is no training.
    fn triggers(&self) -> &'static str;

    /// True while every line must be shown to it, such as the rows of a table behind its head.
    fn wants_every_line(&self) -> bool {
        false
    }

    /// Whether the programs of this family count epochs from 0, for an output that does not begin with the first;
    /// `None`: unknown.
    fn counts_from_zero(&self) -> Option<bool> {
        None
    }

    /// Reads a line and says what it says, nothing where it is of no interest.
    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>));

    /// The output is over: says what was held back.
    fn finish(&mut self, say: &mut dyn FnMut(Event<'static>)) {
        let _ = say;
    }
}
