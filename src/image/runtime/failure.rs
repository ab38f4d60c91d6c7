//! What goes wrong with containers.

use std::io;
use std::path::PathBuf;

use crate::foundation::command::CommandError;

/// Why something about a container cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// There is no runtime.
    #[error("neither {} is found", super::commands().join(" nor "))]
    NoRuntime,
    /// The runtime that was asked for does not exist.
    #[error("the container runtime {} does not exist or is not an executable file", .0.display())]
    RuntimeMissing(PathBuf),
    /// The runtime does not run.
    #[error("{} does not work", .0.display())]
    Runtime(PathBuf, #[source] CommandError),
    /// What the runtime says makes no sense.
    #[error("the answer of {} to `{}` makes no sense", .0.display(), .1)]
    Answer(PathBuf, &'static str),
    /// A file cannot be read.
    #[error("cannot read {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// It is no image that the runtime reads.
    #[error("{} is not an image: {}", .0.display(), .1)]
    NotAnImage(PathBuf, String),
    /// An image that could not be tried, for a reason that is not the image's.
    #[error("{0} cannot be tried here: {1}")]
    NotTried(String, String),
}
