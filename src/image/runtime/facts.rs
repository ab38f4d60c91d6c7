//! How container runtimes differ: their versions, features, and how they read variables.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What dlrun must know of a kind of container runtime.
#[derive(Debug)]
pub(crate) struct Facts {
    /// Its name in records and messages.
    pub(crate) name: &'static str,
    /// Its names in `--version`, in small letters.
    pub(crate) version_names: &'static [&'static str],
    /// Its command.
    pub(crate) command: &'static str,
    /// What its own variables begin with.
    pub(crate) prefix: &'static str,
    /// What the variables begin with that it obeys, the stronger first.
    pub(crate) obeyed_prefixes: &'static [&'static str],
    /// What it knows that not every runtime does, and from which version on.
    pub(crate) features: &'static [(Feature, Version)],
    /// How it reads the values of variables where it has no `--no-eval`.
    pub(crate) evaluation: fn(Version) -> Evaluation,
}

/// Major, minor, patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version(
    /// Major.
    pub u32,
    /// Minor.
    pub u32,
    /// Patch.
    pub u32,
);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// Something that not every runtime knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feature {
    /// `--mount type=bind,..`, fields as in CSV.
    Mount,
    /// `--no-eval`: the container's shell does not read values and arguments.
    NoEval,
    /// `--cwd`; the others know it as `--pwd`.
    Cwd,
    /// `--unsquash`: a SIF becomes a directory before it runs.
    Unsquash,
    /// `--tmp-sandbox`: SingularityCE's word for the same.
    TmpSandbox,
    /// `--fakeroot` has ways without a range in `/etc/subuid`.
    FakerootFallback,
}

/// How a runtime reads the value of `APPTAINERENV_X` and `SINGULARITYENV_X`, with `--no-eval` where it knows that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evaluation {
    /// As it stands.
    None,
    /// A shell reads it between single quotes (`--no-eval`).
    SingleQuotes,
    /// A shell reads it between double quotes. Those in it are escaped by the runtime, but for `LD_LIBRARY_PATH`.
    DoubleQuotes,
    /// A shell reads it between double quotes, and what it takes in them cannot be written, or nobody knows how.
    Plain,
}
