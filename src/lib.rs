//! dlrun plans, submits, watches and records neural-network training runs.
//!
//! A job file becomes a [`job::JobSpec`], together with settings and the facts of the site a plan, which is rendered as
//! a batch script and handed to the scheduler. Inside the job a supervisor starts the command and a watcher measures it;
//! what was measured is kept in files under the state directory, over which SQLite keeps an index.
//!
//! The rooms below are in order: each imports only those above it. `docs/architecture.md` has the map and
//! `tests/it/layering.rs` enforces it.

pub mod foundation;

// Data and pure functions.
pub mod job;

pub mod config;

pub mod record;

pub mod observe;

pub mod image;

pub mod launch;

pub mod learn;

// What touches the outside.
pub mod scheduler;

pub mod plan;

pub mod report;

pub mod node;

pub mod app;

pub mod cli;
