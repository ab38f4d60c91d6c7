//! The integration tests, one binary.

mod monitor;
