//! The integration tests, one binary.

mod monitor;
mod pyenv;
mod records;
mod rundir;
mod store;
mod timing;
