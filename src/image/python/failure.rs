//! Why there is no environment.

use std::io;
use std::path::PathBuf;

use crate::foundation::command::CommandError;

/// Why an environment cannot be described or made.
#[derive(Debug, thiserror::Error)]
pub enum PyenvError {
    /// No interpreter was found.
    #[error("cannot find the Python interpreter `{asked}`")]
    NoInterpreter {
        /// Its name or path.
        asked: String,
    },
    /// The interpreter does not run.
    #[error("cannot run the Python interpreter `{}`", .path.display())]
    Interpreter {
        /// The interpreter.
        path: PathBuf,
        /// Why.
        #[source]
        source: CommandError,
    },
    /// The interpreter cannot be used.
    #[error("`{}` is Python {version}; 3.6 or newer is needed", .path.display())]
    TooOld {
        /// The interpreter.
        path: PathBuf,
        /// What it said of itself.
        version: String,
    },
    /// A requirements file, or one that it includes, cannot be read.
    #[error("cannot read the requirements `{}`", .path.display())]
    Requirements {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// What should be a requirements file is a directory, a device or a pipe.
    #[error("the requirements `{}` are not a regular file", .path.display())]
    NotAFile {
        /// What it is.
        path: PathBuf,
    },
    /// The requirements are larger than any list of packages.
    #[error("the requirements `{}` and what they include are larger than {limit_bytes} bytes", .path.display())]
    TooLarge {
        /// The file at which the limit was reached.
        path: PathBuf,
        /// The limit, in bytes.
        limit_bytes: u64,
    },
    /// The requirements were changed between [`crate::image::python::inspect`] and the end of [`crate::image::python::prepare`].
    #[error("the requirements `{}` were changed while they were being installed", .path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The interpreter comes without the modules that make environments; Debian has them in a package of their own.
    #[error("`{}` cannot make virtual environments: its modules venv and ensurepip are missing", .interpreter.display())]
    NoVenv {
        /// The interpreter.
        interpreter: PathBuf,
        /// What it said.
        #[source]
        source: CommandError,
    },
    /// Making the empty environment failed.
    #[error("cannot make a virtual environment in `{}`", .dir.display())]
    Create {
        /// Where.
        dir: PathBuf,
        /// Why.
        #[source]
        source: CommandError,
    },
    /// pip failed.
    #[error("cannot install `{}`; all that pip said is in `{}`", .requirements.display(), .log.display())]
    Install {
        /// The requirements.
        requirements: PathBuf,
        /// The whole of pip's output.
        log: PathBuf,
        /// Its end.
        #[source]
        source: CommandError,
    },
    /// The disk or the quota is full.
    #[error("no space is left for the virtual environment in `{}`", .dir.display())]
    NoSpace {
        /// Where.
        dir: PathBuf,
        /// What venv or pip said.
        #[source]
        source: CommandError,
    },
    /// A file of ours cannot be written.
    #[error("cannot write `{}`", .path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl PyenvError {
    /// Wraps a failure to write `path`.
    pub(crate) fn write(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Write { path, source }
    }
}
