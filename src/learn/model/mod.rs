//! What recorded runs say about runs to come: an epoch's time, a run's time and memory, with how sure that is.
//!
//! An [`Observation`] is one run as the model sees it, a [`Situation`] what decides how long a training takes, as far as it is
//! known before it starts; a [`crate::record::Forecast`] is the answer. `docs/model-mathematics.md` has the mathematics.
//!
//! From observations to a forecast: `gather` reads the runs once, `facts` makes numbers of a situation and `block` terms of those;
//! `design` makes equations of them for each `response`, of the runs that `recent` leaves; `solve` solves them, `fit` does so again
//! and again until weights and variances agree, `calibrate` checks the intervals; `fitted` does all that, and `file` keeps it as
//! bytes. `solution` and `experience` answer what `forecast` asks, `mixture` where the hardware is not known yet. `evaluate` holds
//! parts of the runs back and judges the forecasts of them.

mod accelerators;
mod block;
mod calibrate;
mod design;
mod evaluate;
mod experience;
mod explanation;
mod facts;
mod file;
mod fit;
mod fitted;
mod forecast;
mod gather;
mod hardware_met;
mod head;
mod mixture;
mod priors;
mod recent;
mod response;
mod solution;
mod solve;

pub use super::runs::{
    CheckedFigure, CheckedForecast, Counted, Doubts, EpochTally, Length, Observation, Observations,
};
pub use crate::record::{Hardware, Situation, Start, Submitted};
pub use evaluate::{
    EVALUATED, Errors, Evaluation, FEWEST, Fit, HoldOut, Judged, Left, LeftErrors, Sample, View,
    evaluate,
};
pub use explanation::{Explanation, LearnedEffect, RatioInterval};
pub use fitted::Model;
pub use forecast::Likely;
pub use hardware_met::{Kind, Met};
pub use head::{Counts, Head, MODEL_FORMAT, Unfit, Unreadable};
pub use priors::{Effect, Priors};

#[cfg(test)]
mod tests;
