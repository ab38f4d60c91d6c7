//! What a line of output says, in the words that all recognisers share.

use std::borrow::Cow;

/// A line as recognisers see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// Its text without line end, escape sequences and control characters other than tabs.
    pub(super) text: &'a str,
    /// True where the cursor went back to its beginning, so that the next line takes its place.
    pub(super) redrawn: bool,
}

/// Figures that any line may carry.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Facts<'a> {
    /// Seconds per step.
    pub(super) step_seconds: Option<f64>,
    /// A rate and its unit.
    pub(super) throughput: Option<(f64, &'static str)>,
    /// Losses and metrics under the names in the output.
    pub(super) metrics: Vec<(Cow<'a, str>, f64)>,
}

/// What a line says. Numbers are as printed; `epochs` and `of` are how many there will be, where that is printed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event<'a> {
    /// An epoch begins.
    EpochStart { epoch: u64, epochs: Option<u64> },
    /// A step of an epoch is done.
    Step { epoch: u64, epochs: Option<u64>, step: u64, of: Option<u64>, facts: Facts<'a> },
    /// Figures of an epoch: either inside it or its summary, which only the lines after it tell.
    Mention { epoch: u64, epochs: Option<u64>, facts: Facts<'a> },
    /// An epoch is over; with the seconds that it took and its last step, where printed. Again for the same epoch: a
    /// better version of what was said.
    EpochEnd {
        epoch: u64,
        epochs: Option<u64>,
        seconds: Option<f64>,
        step: Option<(u64, u64)>,
        facts: Facts<'a>,
    },
    /// Validation: the epoch that is open is over, and these figures are its.
    Validation { facts: Facts<'a> },
}

impl Event<'_> {
    /// True where the line can hardly come from a program of another kind.
    pub(super) fn is_distinctive(&self) -> bool {
        matches!(self, Self::Step { .. } | Self::EpochEnd { .. })
    }
}
