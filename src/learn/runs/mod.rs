//! Recorded runs as the model sees them: each start of a run is an [`Observation`].

mod checked_forecast;
mod observation;
mod observations;
mod observe;
mod tally;

pub use checked_forecast::{CheckedFigure, CheckedForecast};
pub use observation::{Doubts, Length, Observation};
pub use observations::{Counted, Observations};
pub use tally::EpochTally;
