//! How a run is watched: samples of its processes and GPUs, epochs in its output, and the talk with the node daemon.

pub mod checkpoint;
pub mod client;
pub mod monitor;
pub mod protocol;
pub mod timing;
