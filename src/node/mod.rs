//! The programs that run on the nodes of a job: the supervisor and its watcher, the daemon, a node's own benchmark, and
//! whether it is fit for a start.

pub mod bench;
pub mod check;
pub mod daemon;
pub mod supervise;
