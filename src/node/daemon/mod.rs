//! `dlrund`: watches all runs of this node, so that they need not watch themselves.
//!
//! One thread runs everything but three things that may hang: the database (`recorder`), the GPU driver
//! ([`crate::observe::monitor::GpuWatch`]) and writing the metrics' text file. All state of the node has one owner (`node`);
//! connections send it their requests and get their answers through channels, nothing is shared but the backlog of
//! samples that the database has yet to take.
//!
//! ```text
//! listener ──> connection ──Asked──> node ──jobs──> recorder ──> dlrun.db
//!                  ^                  │ ^               │
//!                  └────Response──────┘ └───notices─────┘
//! tick, signals, watchdog ──────────> node
//! ```

mod admit;
mod budget;
mod check;
mod connection;
mod metrics;
mod node;
mod peer;
mod recorder;
mod scrape;
mod serve;
mod start;
mod ticks;
mod turns;
mod watched;

pub use start::start;
