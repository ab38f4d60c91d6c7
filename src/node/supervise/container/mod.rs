//! The command's container: how it is entered on this node, and whether the command ever ran in it.

mod enter;
mod judge;

pub(super) use enter::enter;
pub use enter::{Closed, Entry, NoEntry};
pub(super) use judge::Judge;
