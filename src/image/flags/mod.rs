//! Which flags a container gets: facts of a node in, words of the runtime with their reasons out. Pure.
//!
//! The same rules serve twice: `submit` previews with what it knows, and on the node `dlrun exec` decides with what is
//! there.

mod binds;
mod choose;
mod container;
mod draft;
mod environment;
pub mod fakeroot;
mod fallback;
mod gpu;
mod node;
mod root_fs;
mod variable;

pub use choose::{choose, preview};
pub use container::Container;
pub use draft::Surroundings;
pub use fallback::bare;
pub use node::{GpuFacts, Namespaces, NodeFacts, SubIds};

/// A flag, or a variable of the runtime, and why it is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The flag, such as `--nv`; or what was left out, such as `no --nv`.
    pub flag: String,
    /// Why.
    pub why: String,
}

/// How a command is started in a container.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Invocation {
    /// The runtime's words up to and with the image; the command follows.
    pub argv: Vec<String>,
    /// Variables of the runtime's environment: `APPTAINERENV_X` and its like. They hold values that may be secret, so they
    /// never stand on the command line, which everybody on the node can read.
    pub sets: Vec<(String, String)>,
    /// Variables to take out of the runtime's environment.
    pub removals: Vec<String>,
    /// What was decided, in the order of the words.
    pub reasons: Vec<Reason>,
    /// What the user should know.
    pub warnings: Vec<String>,
    /// Why no GPU works in the container although the job was given some.
    pub gpu_missing: Option<String>,
}

/// A container that must not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// `image.require_gpu`, and there is no usable GPU.
    #[error("`image.require_gpu` is true, but {0}")]
    NoGpu(String),
    /// A bind source that does not exist.
    #[error("the bind source {0} does not exist on this node")]
    NoSource(String),
    /// A variable in a bind source that is not set here.
    #[error("the bind source {0} names ${1}, which is not set on this node")]
    NoVariable(String, String),
    /// What this runtime cannot do, or not here.
    #[error("{0}")]
    Unsupported(String, String),
}

impl Refusal {
    fn unsupported(what: String, remedy: impl Into<String>) -> Self {
        Self::Unsupported(what, remedy.into())
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::NoGpu { .. } => {
                "ask for GPUs (`resources.gpus_per_node`) or for another node, or leave `image.require_gpu` out to run without".to_owned()
            }
            Self::NoSource { .. } => "make it on the node, or take it out of `image.bind`".to_owned(),
            Self::NoVariable(_, variable) => {
                format!("set {variable} in `[run] env`, or name a path that does not depend on it")
            }
            Self::Unsupported(_, remedy) => remedy.clone(),
        }
    }
}
