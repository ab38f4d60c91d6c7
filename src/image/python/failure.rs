//! Why there is no environment.

use std::io;
use std::path::PathBuf;

use crate::foundation::command::CommandError;

/// Why an environment cannot be described or made.
#[derive(Debug, thiserror::Error)]
pub enum PyenvError {
    /// No interpreter was found.
    #[error("cannot find the Python interpreter `{0}`")]
    NoInterpreter(String),
    /// The interpreter does not run.
    #[error("cannot run the Python interpreter `{}`", .0.display())]
    Interpreter(PathBuf, #[source] CommandError),
    /// The interpreter cannot be used.
    #[error("`{}` is Python {}; 3.6 or newer is needed", .0.display(), .1)]
    TooOld(PathBuf, String),
    /// A requirements file, or one that it includes, cannot be read.
    #[error("cannot read the requirements `{}`", .0.display())]
    Requirements(PathBuf, #[source] io::Error),

    /// The requirements were changed between [`crate::image::python::inspect`] and the end of [`crate::image::python::prepare`].
    #[error("the requirements `{}` were changed while they were being installed", .0.display())]
    Changed(PathBuf),
    /// The interpreter comes without the modules that make environments; Debian has them in a package of their own.
    #[error("`{}` cannot make virtual environments: its modules venv and ensurepip are missing", .0.display())]
    NoVenv(PathBuf, #[source] CommandError),
    /// Making the empty environment failed.
    #[error("cannot make a virtual environment in `{}`", .0.display())]
    Create(PathBuf, #[source] CommandError),
    /// pip failed.
    #[error("cannot install `{}`; all that pip said is in `{}`", .0.display(), .1.display())]
    Install(PathBuf, PathBuf, #[source] CommandError),
    /// The disk or the quota is full.
    #[error("no space is left for the virtual environment in `{}`", .0.display())]
    NoSpace(PathBuf, #[source] CommandError),
    /// A file of ours cannot be written.
    #[error("cannot write `{}`", .0.display())]
    Write(PathBuf, #[source] io::Error),
}

impl PyenvError {
    /// Wraps a failure to write `path`.
    pub(crate) fn write(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Write(path, source)
    }
}
