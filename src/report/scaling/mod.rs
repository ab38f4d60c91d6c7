//! How trainings scale. `pair`: runs side by side in a report. `study`: series of repeated runs by program, framework, device and
//! image, or of published measurements, with what makes them valid.

mod law;
mod notes;
mod pair;
mod published;
mod rows;
mod sample;
mod study;
#[cfg(test)]
mod tests;
mod validity;

pub use pair::Kind;
pub(super) use pair::{Scaling, scaling};
pub use published::read_published;
pub(super) use rows::NO_CLAIM;
pub use sample::{Sample, Target};
pub use study::{Gain, Law, Point, Series, Study};
pub use validity::Validity;
