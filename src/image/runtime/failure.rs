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
    /// The runtime that was asked for is not there.
    #[error("the container runtime {} is not there, or is not an executable file", .command.display())]
    RuntimeMissing {
        /// As it was asked for.
        command: PathBuf,
    },
    /// The runtime does not run.
    #[error("{} does not work", .command.display())]
    Runtime {
        /// Its command.
        command: PathBuf,
        /// Why.
        #[source]
        source: CommandError,
    },
    /// What the runtime says makes no sense.
    #[error("the answer of {} to `{question}` makes no sense", .command.display())]
    Answer {
        /// Its command.
        command: PathBuf,
        /// What it was asked.
        question: &'static str,
    },
    /// A file cannot be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is no image that the runtime reads.
    #[error("{} is no image: {why}", .path.display())]
    NotAnImage {
        /// The file.
        path: PathBuf,
        /// What it lacks.
        why: String,
    },
    /// An image that could not be tried, for a reason that is not the image's.
    #[error("{image} cannot be tried here: {why}")]
    NotTried {
        /// Path or URI.
        image: String,
        /// What stands in the way.
        why: String,
    },
}
