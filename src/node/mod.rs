//! The programs that run on the nodes of a job: the supervisor and its watcher, the daemon, and a node's own benchmark.

pub mod bench;
pub mod check;
pub mod daemon;
pub mod supervise;
