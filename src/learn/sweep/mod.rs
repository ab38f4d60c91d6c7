//! A sweep: a job file with parameters that are searched. Which trial comes next ([`Sampler`]), which one is not worth going on
//! with ([`Stopping`]), and what is known of all ([`Study`]), which follows from a journal alone. Pure; `docs/sweep.md` has the keys.

mod document;
mod front;
mod importance;
mod optuna;
mod outcome;
mod parzen;
mod promotion;
mod promotion_needs;
mod sampler;
mod space;
mod speed_up;
mod start;
mod stopping;
mod study;
mod trial;
mod tune;
mod tune_file;

pub use document::{Metric, SamplerKind, StopRule, Sweep, parse};
pub use front::front;
pub use importance::{importance, importance_text};
pub use optuna::{answer, request};
pub use outcome::{Outcome, measured_value, value_at};
pub use sampler::Sampler;
pub use space::{Kind, Parameter, Values};
pub use speed_up::SpeedUp;
pub use start::{Promotion, first_start};
pub use stopping::Stopping;
pub use study::{Asked, Note, Study};
pub use trial::{Later, Spent, Trial};
pub use tune::{Tune, trial_of};
pub use tune_file::{not_searched, parse_kept, parse_tune};

/// Parameters at most.
const MOST_PARAMETERS: usize = 64;
/// Trials at most: as many as the Sobol sequence has points.
pub const MOST_TRIALS: u32 = 60_000;
