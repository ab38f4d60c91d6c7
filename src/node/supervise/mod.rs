//! `dlrun exec`: what runs inside the job, as two processes.
//!
//! The *supervisor* ([`exec`]) only starts the command, passes signals on and waits. The *watcher* ([`watch`]) samples,
//! follows the output and records. The supervisor touches no file of the state directory, so one that hangs or is full
//! never holds up the training; a watcher that is killed is restarted and the hole in the series is noted.
//!
//! Where a node daemon runs and takes the run, the watcher stops sampling (`daemon`): it sends the daemon what it read
//! from the output, and takes figures and samples from it for the record. Without the daemon, and whenever that is lost, it samples
//! itself.

mod account;
mod activity;
mod annotate;
mod ask_to_stop;
mod check;
mod conditions;
mod container;
mod context;
mod daemon;
mod events;
mod exec;
mod follow;
mod gpus;
mod handover;
mod held;
mod limit;
mod link;
mod looks;
mod memory;
mod mint;
mod output;
mod prepare;
mod quiet;
mod ranks;
mod sampling;
mod scale;
mod signals;
mod stacks;
mod step;
mod time_limit;
mod trial;
mod watch;
mod writer;

pub use container::{Closed, Entry, NoEntry};
pub use context::Context;
pub use exec::exec;
pub use limit::Answer;
pub use mint::{MintError, mint};
pub use prepare::{NotPrepared, Prepared, prepare, prepare_rank};
pub use ranks::run as run_ranks;
pub use trial::try_ways;
pub use watch::watch;
