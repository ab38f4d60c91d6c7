//! The rules, one after the other: on the node, and before as they are expected.

use crate::image::flags::draft::{Draft, Surroundings};
use crate::image::flags::{
    Container, GpuFacts, Invocation, Namespaces, NodeFacts, Refusal, SubIds, binds, environment,
    fakeroot, gpu, root_fs,
};
use crate::image::runtime::Runtime;

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

fn decide(mut draft: Draft<'_>) -> Result<Invocation, Refusal> {
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

/// What [`choose`] will give on a node that has what the job asks for. `runtime` is that of this site;
/// where it is not known, only words that all know are shown. The words begin with `command`.
///
/// The values of variables are known on the node only: `sets` stays empty, and binds whose source holds a variable are
/// not among the words, but among the reasons.
///
/// # Errors
/// [`Refusal`] where this version can never do what the job wants.
pub fn preview(
    container: &Container,
    runtime: Option<Runtime>,
    command: &str,
) -> Result<Invocation, Refusal> {
    let later = |bind: &crate::job::Bind| bind.has_variable();
    let mut known = container.clone();
    known.binds.retain(|bind| !later(bind));
    let node = expected(container, runtime, command);
    let around = Surroundings {
        variables: &|name| {
            container
                .variables
                .iter()
                .any(|known| known == name)
                .then(|| "x".to_owned())
        },
        names: &[],
        exists: &|_| true,
        is_sandbox: false,
    };
    let mut draft = Draft::new(&known, &node, &around);
    draft.assumed = true;
    for bind in container.binds.iter().filter(|bind| later(bind)) {
        draft.reason(
            &format!("--bind {}:{}", bind.source, bind.target),
            "`image.bind`; its source is known on the node",
        );
    }
    let mut invocation = decide(draft)?;
    invocation.sets.clear();
    Ok(invocation)
}

/// A node that lets this user do everything, with the GPUs that the job asks for.
fn expected(container: &Container, runtime: Option<Runtime>, command: &str) -> NodeFacts {
    let gpus = container.gpus_asked;
    NodeFacts {
        command: command.to_owned(),
        runtime,
        uid: u32::MAX,
        gpus: GpuFacts {
            nvidia_device: gpus && !container.rocm,
            amd_device: gpus && container.rocm,
            ..GpuFacts::default()
        },
        namespaces: Namespaces::default(),
        sub_ids: SubIds {
            subuid_count: SubIds::LEAST,
            subgid_count: SubIds::LEAST,
            newuidmap: true,
            fakeroot_command: true,
        },
        squashfuse: true,
        fuse_device: true,
    }
}
