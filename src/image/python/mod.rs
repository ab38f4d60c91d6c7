//! Python virtual environments, made from a requirements file, for jobs that run without a container.
//!
//! An environment is named after what it is made of: the text of the requirements and the interpreter. It is made once,
//! on the submitting side, and found again by its name. Under the root directory lie, for each:
//!
//! ```text
//! 3f2a9c0d11e47b60             symbolic link to the directory below; it appears last
//! 3f2a9c0d11e47b60.5be21a90    the environment, with `dlrun-env.json` in it
//! 3f2a9c0d11e47b60.lock        who is making it
//! 3f2a9c0d11e47b60.log         what venv and pip said
//! ```
//!
//! Each making has a directory of its own and the link is renamed into place, so whatever is interrupted or done twice,
//! what the link names is whole. Not seen: changes of packages that the requirements name by a local path, and of the
//! variables that pip itself reads (`PIP_INDEX_URL` ...).

mod failure;
mod inspect;
mod interpreter;
mod prepare;
mod requirements;

pub use failure::PyenvError;
pub use inspect::{EnvFacts, inspect};
pub use interpreter::interpreter;
pub use prepare::prepare;
