//! What samples say over time: each figure with its unit and its columns, taken sample by sample to few points or bins.

mod figure;
mod thin;
mod track;

pub(crate) use figure::is_needed;
pub(crate) use thin::Thinner;
pub(crate) use track::Axis;

pub(super) use figure::{Figure, binned_of_gpu, binned_of_run, is_source};
pub(super) use thin::Tracks;
pub(super) use track::{Cell, Track};
