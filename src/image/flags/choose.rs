//! The rules, one after the other.

use crate::image::flags::draft::{Draft, Surroundings};
use crate::image::flags::{
    Container, Invocation, NodeFacts, Refusal, binds, environment, fakeroot, gpu, root_fs,
};

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

pub(crate) fn decide(mut draft: Draft<'_>) -> Result<Invocation, Refusal> {
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
