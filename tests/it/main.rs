//! The integration tests, one binary.

mod docs;
mod help;
mod layering;
mod monitor;
mod pyenv;
mod records;
mod rundir;
mod store;
mod support;
mod timing;
