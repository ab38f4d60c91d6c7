//! The integration tests, one binary.

mod monitor;
mod pyenv;
mod timing;
mod records;
mod rundir;
mod store;
