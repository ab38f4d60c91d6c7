//! The words of a container, by rule, runtime and node. Nothing is started here.

mod properties;
mod rules;

use dlrun::image::flags::{
    Container, GpuFacts, Invocation, Namespaces, NodeFacts, Refusal, SubIds, Surroundings, choose,
};
use dlrun::image::runtime::Runtime;
use dlrun::job::Bind;

/// One of each family, by what it says of itself.
const RUNTIMES: [&str; 9] = [
    "singularity version 3.5.3",
    "singularity version 3.8.7",
    "singularity-ce version 3.9.9",
    "singularity-ce version 3.11.5",
    "singularity-ce version 4.1.5",
    "apptainer version 1.0.3",
    "apptainer version 1.1.9",
    "apptainer version 1.3.6",
    "apptainer version 1.4.5",
];

fn runtime(said: &str) -> Option<Runtime> {
    Runtime::parse(said)
}

/// A node where everything works, without GPUs.
fn node(runtime: Option<Runtime>) -> NodeFacts {
    NodeFacts {
        command: "/usr/bin/RUNTIME".into(),
        runtime,
        uid: 1000,
        gpus: GpuFacts::default(),
        namespaces: Namespaces::default(),
        sub_ids: SubIds {
            subuid_count: 65536,
            subgid_count: 65536,
            newuidmap: true,
            fakeroot_command: true,
        },
        squashfuse: true,
        fuse_device: true,
    }
}

fn container() -> Container {
    Container {
        source: "/images/a.sif".into(),
        workdir: "/home/alice/train".into(),
        ..Container::default()
    }
}

fn bind(source: &str, target: &str) -> Bind {
    Bind {
        source: source.into(),
        target: target.into(),
        read_only: false,
    }
}

/// What is decided, in an environment of these variables, where every path is there.
fn chosen(
    container: &Container,
    node: &NodeFacts,
    variables: &[(&str, &str)],
    is_sandbox: bool,
) -> Result<Invocation, Refusal> {
    let names: Vec<String> = variables
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    let value = |wanted: &str| {
        variables
            .iter()
            .find(|(name, _)| *name == wanted)
            .map(|(_, value)| (*value).to_owned())
    };
    choose(
        container,
        node,
        &Surroundings {
            variables: &value,
            names: &names,
            exists: &|path| !path.contains("missing"),
            is_sandbox,
        },
    )
}
