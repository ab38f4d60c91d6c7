//! How a run is watched: samples of its processes and GPUs, epochs in its output, what follows from both, and the talk with the node daemon.

pub mod activity;
pub mod checkpoint;
pub mod client;
pub mod monitor;
pub mod protocol;
pub mod timing;
