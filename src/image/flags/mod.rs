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
pub(crate) use variable::is_name;

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

/// Why a container must not be started, or a flag cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Refusal {
    /// What is wrong.
    pub why: String,
    /// What to do about it.
    pub remedy: String,
    /// Something is missing on this node; else its runtime cannot do it.
    pub is_missing: bool,
}

impl Refusal {
    fn unsupported(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            remedy: remedy.into(),
            is_missing: false,
        }
    }

    fn missing(why: String, remedy: &str) -> Self {
        Self {
            is_missing: true,
            ..Self::unsupported(why, remedy)
        }
    }

    fn no_gpu(why: &str) -> Self {
        Self::missing(
            format!("`image.require_gpu` is true, but {why}"),
            "ask for GPUs (`resources.gpus_per_node`) or for another node, or leave `image.require_gpu` out to run without",
        )
    }
}
