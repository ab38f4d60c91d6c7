//! Torque through its commands.

mod directives;

pub use directives::directives;
