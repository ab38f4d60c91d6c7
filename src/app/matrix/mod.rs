//! Matrices of trainings while they run: their state on disk, and the jobs at work.

mod conduct;
mod dir;

pub(crate) use conduct::{Conductor, Source, load_cell};
pub(crate) use dir::{BenchDir, Order};
