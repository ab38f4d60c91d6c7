//! Matrices and sweeps while they run: their state on disk, what each lets run next, and the jobs at work.

mod conduct;
mod detach;
mod dir;
mod matrix;
mod optuna;
mod seats;
mod sweep;

pub(crate) use conduct::{Conductor, Source};
pub(crate) use detach::{Detached, may_detach};
pub(crate) use dir::{BenchDir, StudyDir};
pub(crate) use matrix::{MatrixWork, begin_matrix, load_cell};
pub(crate) use optuna::Optuna;
pub(crate) use seats::{Seats, check_packable, packed_resources};
pub(crate) use sweep::{SweepWork, begin_sweep, load_trial};
