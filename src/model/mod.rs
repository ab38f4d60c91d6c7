//! What recorded runs say about runs to come: an epoch's time, a run's time and memory, with how sure that is.
//!
//! An [`Observation`] is one run as the model sees it, a [`Situation`] what decides how long a training takes, as far as it is
//! known before it starts; a [`crate::record::Forecast`] is the answer. `docs/model.md` has the mathematics.

mod observation;
mod priors;
mod situation;

pub use observation::{Doubts, Length, Observation};
pub use priors::{Effect, Priors};
pub use situation::{Hardware, Situation};
