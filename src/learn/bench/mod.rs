//! A matrix of trainings: a job file with axes becomes cells, each its own job file, and what the runs of the cells
//! measured is kept in a journal. Pure; `docs/bench.md` has the keys. What follows from the measurements is in
//! [`crate::report`].

mod axis;
mod cell;
mod conductor;
mod document;
mod fill;
mod journal;
mod matrix;
mod measured;
mod order;
mod pick;

pub use axis::{Axis, AxisValue};
pub(super) use axis::{VARS, path_of, plain};
pub use cell::Cell;
pub use conductor::{ConductorJob, PACKED_LEAD, PackedResources};
pub(super) use document::{Document, shown};
pub use journal::{Entry, Header, Journal, Lines, Settled, Try};
pub use matrix::{Matrix, parse};
pub(super) use matrix::{base_name, gather, named};
pub use measured::{Machine, Measured};
pub use order::{Slot, order};
pub use pick::Compare;

/// Cells of a matrix at most.
pub const MOST_CELLS: usize = 10_000;
/// Combinations that are looked at before some are excluded.
const MOST_COMBINATIONS: usize = 100_000;
/// Repeats at most.
pub const MOST_REPEATS: u32 = 1_000;
/// Runs at most: cells times repeats.
pub const MOST_RUNS: usize = 100_000;
/// Jobs at a time at most.
pub const MOST_JOBS: u32 = 1_000;
/// Axes at most.
const MOST_AXES: usize = 16;
/// Repeats without which an interval says little: what is measured when nobody says how often.
pub const USUAL_REPEATS: u32 = 5;
