//! dlrun plans, submits, watches and records neural-network training runs.
//!
//! A job file becomes a [`job::JobSpec`], together with settings and the facts of the site a plan, which is rendered as
//! a batch script and handed over. Inside the job a supervisor starts the command and a watcher measures it; what was
//! measured lies in files under the state directory, over which SQLite keeps an index.
//!
//! Modules lie in levels; a module imports lower levels only. `docs/architecture.md` has the map and
//! `tests/it/layering.rs` enforces it.

// Level 0: nothing of ours.
pub mod clock;
pub mod command;
pub mod diagnostic;
pub mod filesystem;
pub mod lock;
pub mod logging;
pub mod private;
pub mod units;

// Level 1: plain data and pure functions.
pub mod bench;
pub mod catalogue;
pub mod config;
pub mod convert;
pub mod flags;
pub mod insight;
pub mod job;
pub mod launch;
pub mod model;
pub mod plan;
pub mod protocol;
pub mod recipe;
pub mod record;
pub mod report;
pub mod site;
pub mod timing;

// Level 2: one outside thing each.
pub mod client;
pub mod container;
pub mod export;
pub mod monitor;
pub mod nodebench;
pub mod pyenv;
pub mod rundir;
pub mod scheduler;
pub mod store;

// Level 3: programs.
pub mod cli;
pub mod daemon;
pub mod supervise;
