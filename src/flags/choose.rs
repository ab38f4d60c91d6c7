//! The rules, one after the other.

use super::draft::Draft;
use super::{Container, Invocation, NodeFacts, Refusal, binds, environment, fakeroot, gpu, root_fs};

/// What the rules ask of the process that starts the container.
pub struct Surroundings<'a> {
    /// The value of a variable of the environment.
    pub variables: &'a dyn Fn(&str) -> Option<String>,
    /// Names of all variables of the environment.
    pub names: &'a [String],
    /// Whether a path is there.
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
    let mut draft = Draft::new(container, node, around);
    gpu::add(&mut draft)?;
    fakeroot::add(&mut draft)?;
    root_fs::add(&mut draft)?;
    environment::add(&mut draft)?;
    binds::add(&mut draft)?;
    draft.out.argv.extend(container.options.iter().cloned());
    draft.out.argv.push(container.source.clone());
    Ok(draft.out)
}
