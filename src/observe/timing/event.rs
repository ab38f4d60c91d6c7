//! What a line of output says, in the words that all recognisers share.

use std::borrow::Cow;
use std::fmt::Debug;

use super::curve::is_of_evaluation;
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
    /// A rate of the whole run; `None` where the number can be none.
    pub(super) fn of_run(value: f64, unit: &'static str) -> Option<Self> {
        (value.is_finite() && value >= 0.0).then_some(Self {
            value,
            unit,
            scope: Scope::Global,
        })
    }

    /// A rate of one GPU, process or rank.
    pub(super) fn of_device(value: f64, unit: &'static str) -> Option<Self> {
        Self::of_run(value, unit).map(|rate| Self {
            scope: Scope::PerDevice,
            ..rate
        })
    }
}

/// Figures that any line may carry.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Facts<'a> {
    /// Seconds per step.
    pub(super) step_seconds: Option<f64>,
    /// A rate of training.
    pub(super) throughput: Option<Rate>,
    /// True where the program prints either of the two, whichever is above 1, as bars do: the other one, printed
    /// before, is out of date.
    pub(super) one_pace: bool,
    /// Losses and metrics under the names in the output.
    pub(super) metrics: Vec<(Cow<'a, str>, f64)>,
    /// Of those that are of one batch the means over the epoch so far, where printed.
    pub(super) means: Vec<(Cow<'a, str>, f64)>,
    /// True where the step of the line counts samples.
    pub(super) counts_samples: bool,
}

impl Facts<'_> {
    pub(super) fn is_empty(&self) -> bool {
        *self == Facts::default()
    }
}

/// What a line says. Numbers are as printed; `epochs` and `of` are how many there will be, where that is printed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event<'a> {
    /// How many epochs, or steps of an epoch, there will be.
    Announce {
        epochs: Option<u64>,
        steps: Option<u64>,
    },
    /// An epoch begins.
    EpochStart { epoch: u64, epochs: Option<u64> },
    /// A step of an epoch is done.
    Step {
        epoch: u64,
        epochs: Option<u64>,
        step: u64,
        of: Option<u64>,
        facts: Facts<'a>,
    },
    /// A step is done, in a line that names no epoch; `of` are the steps of the open epoch, else of the run. Without
    /// `step` only that number is known.
    Iteration {
        step: Option<u64>,
        of: Option<u64>,
        facts: Facts<'a>,
    },
    /// A step is done whose number, and `of`, count through the whole run; in a line that names `epoch` or none.
    RunStep {
        epoch: Option<u64>,
        epochs: Option<u64>,
        step: u64,
        of: Option<u64>,
        facts: Facts<'a>,
    },
    /// Figures from inside an epoch, which no line like it ends.
    Within {
        epoch: u64,
        epochs: Option<u64>,
        facts: Facts<'a>,
    },
    /// Figures of an epoch: either inside it or its summary, which only the lines after it tell.
    Mention {
        epoch: u64,
        epochs: Option<u64>,
        facts: Facts<'a>,
    },
    /// An epoch is over; with the seconds that it took and its last step, where printed. Again for the same epoch: a
    /// better version of what was said.
    EpochEnd {
        epoch: u64,
        epochs: Option<u64>,
        seconds: Option<f64>,
        step: Option<(u64, u64)>,
        facts: Facts<'a>,
    },
    /// An epoch is over of which no number is printed: the open one, else the next.
    EpochOver {
        seconds: Option<f64>,
        step: Option<(u64, u64)>,
        facts: Facts<'a>,
    },
    /// Validation, or a checkpoint: the epoch that is open is over, and these figures are its.
    Validation { facts: Facts<'a> },
    /// Figures of whatever is running; no epoch ends by them.
    Figures { facts: Facts<'a> },
    /// The whole training is over; `seconds` is how long it took, where printed. The open epoch stays open.
    RunEnd {
        seconds: Option<f64>,
        facts: Facts<'a>,
    },
}

impl Event<'_> {
    /// The figures that it carries.
    pub(super) fn facts(&self) -> Option<&Facts<'_>> {
        match self {
            Self::Announce { .. } | Self::EpochStart { .. } => None,
            Self::Step { facts, .. }
            | Self::Iteration { facts, .. }
            | Self::RunStep { facts, .. }
            | Self::Within { facts, .. }
            | Self::Mention { facts, .. }
            | Self::EpochEnd { facts, .. }
            | Self::EpochOver { facts, .. }
            | Self::Validation { facts }
            | Self::Figures { facts }
            | Self::RunEnd { facts, .. } => Some(facts),
        }
    }

    /// True where the line can hardly come from a program of another kind.
    pub(super) fn is_distinctive(&self) -> bool {
        matches!(
            self,
            Self::Step { .. }
                | Self::EpochEnd { .. }
                | Self::Iteration { .. }
                | Self::EpochOver { .. }
                | Self::RunStep { .. }
                | Self::Within { .. }
        )
    }

    /// The step that it is about, and whether their number is known, where it is about a step and nothing else.
    pub(super) fn counted(&self) -> Option<(u64, bool)> {
        match self {
            Self::Step { step, of, .. }
            | Self::RunStep { step, of, .. }
            | Self::Iteration {
                step: Some(step),
                of,
                ..
            } => Some((*step, of.is_some())),
            _ => None,
        }
    }

    /// True where nothing is lost if a later line of the same form is read in the place of this one: of an evaluation
    /// every figure is kept.
    pub(super) fn is_passing(&self) -> bool {
        let evaluated = |facts: &Facts<'_>| {
            let mut names = facts.metrics.iter().map(|(name, _)| name);
            names.any(|name| is_of_evaluation(name))
        };
        !self.facts().is_some_and(evaluated)
            && matches!(
                self,
                Self::Step { .. }
                    | Self::Iteration { .. }
                    | Self::RunStep { .. }
                    | Self::Within { .. }
                    | Self::Mention { .. }
                    | Self::Figures { .. }
            )
    }

    /// A word for what it says.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Announce { .. } => "announcement",
            Self::EpochStart { .. } => "epoch begins",
            Self::Step { .. } | Self::Iteration { .. } | Self::RunStep { .. } => "step",
            Self::Mention { .. } | Self::Within { .. } => "figures of an epoch",
            Self::EpochEnd { .. } | Self::EpochOver { .. } => "epoch ends",
            Self::Validation { .. } => "validation",
            Self::Figures { .. } => "figures",
            Self::RunEnd { .. } => "training ends",
        }
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

    /// Texts of which a line must have at least one, by the letter, to be of any interest to it. They should be longer
    /// than three bytes and rare in what is no training.
    fn triggers(&self) -> &'static [&'static str];

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
