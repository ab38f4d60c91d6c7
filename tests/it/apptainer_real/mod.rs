//! dlrun with a real Apptainer or Singularity: what a stand-in for it would only repeat.
//!
//! `tests/apptainer up` installs the runtime, makes the users and the base image that these tests need, and
//! `tests/apptainer env` tells where they are ([`place`]).

pub(crate) mod auto_build;
mod base;
mod build;
mod check;
mod driver;
mod exec;
mod flags;
mod mnist;
mod node;
mod nvidia;
pub(crate) mod place;
