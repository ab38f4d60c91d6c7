//! The way to the node daemon: a connection that never waits longer than it may.
//!
//! [`Daemon::connect`] greets, [`Daemon::ask`] sends one request and reads its answer. `docs/protocol.md` says what can be
//! asked. A daemon that hangs, answers byte by byte or writes nonsense costs its caller the given patience, and nothing
//! else.

mod connection;
mod failure;

pub use connection::Daemon;
pub use failure::ClientError;
