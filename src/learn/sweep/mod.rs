//! A sweep: a job file with parameters that are searched. Which trial comes next ([`Sampler`]), which one is not worth going on
//! with ([`Stopping`]), and what is known of all ([`Study`]), which follows from a journal alone. Pure; `docs/sweep.md` has the keys.

mod document;
mod front;
mod importance;
mod parzen;
mod sampler;
mod space;
mod stopping;
mod study;

pub use document::{Metric, SamplerKind, StopRule, Sweep, parse};
pub use front::front;
pub use importance::{importance, importance_text};
pub use sampler::Sampler;
pub use space::{Kind, Parameter, Values};
pub use stopping::Stopping;
pub use study::{Note, Outcome, Study, Trial, value_at};

/// Parameters at most.
const MOST_PARAMETERS: usize = 64;
/// Trials at most: as many as the Sobol sequence has points.
pub const MOST_TRIALS: u32 = 60_000;
