//! Matrices of trainings while they run: their state on disk, the jobs at work, and what is told of them.

mod conduct;
mod dir;
mod told;

pub(crate) use conduct::{Conductor, End, Source, load_cell};
pub(crate) use dir::{BenchDir, Former, Order};
pub(crate) use told::{Told, may_write_into, tell};
