//! The rules, one after the other.

use super::draft::Draft;
use super::{
    Container, Invocation, NodeFacts, Refusal, binds, environment, fakeroot, gpu, root_fs,
};

/// What the rules ask of the process that starts the container.
pub struct Surroundings<'a> {
    /// The value of a variable of the environment in which the runtime is started.
    pub variables: &'a dyn Fn(&str) -> Option<String>,
    /// The names of all its variables.
    pub names: &'a [String],
    /// Whether a path is there; asked for the sources of binds.
    pub exists: &'a dyn Fn(&str) -> bool,
    /// Whether the image is a directory, no file.
    pub is_sandbox: bool,
}

/// The words by which a command starts in the container on this node, each with its reason. The words begin with the
/// runtime's command, and the job's command is to follow them.
///
/// # Errors
/// [`Refusal`] where the container must not start: it could not run here, or not as the job file wants it.
pub fn choose(
    container: &Container,
    node: &NodeFacts,
    around: &Surroundings<'_>,
) -> Result<Invocation, Refusal> {
    decide(Draft::new(container, node, around))
}

pub(super) fn decide(mut draft: Draft<'_>) -> Result<Invocation, Refusal> {
    gpu::add(&mut draft)?;
    fakeroot::add(&mut draft)?;
    root_fs::add(&mut draft)?;
    environment::add(&mut draft)?;
    binds::add(&mut draft)?;
    let container = draft.container;
    for option in &container.options {
        draft.flag(option, "`image.options`");
    }
    draft.out.argv.push(container.source.clone());
    Ok(draft.out)
}
