//! What recorded runs teach: the performance model, and the matrices of runs that are made to be learned from.

pub mod bench;
pub mod model;
pub mod runs;
pub mod sweep;
