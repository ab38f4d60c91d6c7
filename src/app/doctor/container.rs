//! The container runtime, and what this machine lets it do for this user.

use std::path::Path;

use super::Finding;
use crate::foundation::diagnostic::chain;
use crate::image::flags::fakeroot::{self, Means, Purpose};
use crate::image::runtime::{ContainerError, HostView, Node, examine};

const CHECK: &str = "container";
const NAMESPACES: &str = "namespaces";
const FAKEROOT: &str = "fakeroot";
const SIF: &str = "sif images";
const GPU_FILES: &str = "gpu files";

/// `asked`: the runtime of the settings.
pub(super) fn findings(asked: Option<&Path>) -> Vec<Finding> {
    match examine(&HostView::of_this_machine(), asked, true) {
        Ok(node) => node_findings(&node),
        Err(ContainerError::NoRuntime) => vec![Finding::ok(
            CHECK,
            "neither apptainer nor singularity is in PATH; jobs with `[image]` need one on the nodes",
        )],
        Err(error @ ContainerError::RuntimeMissing { .. }) => vec![Finding::warning(
            CHECK,
            error.to_string(),
            "`images.runtime` names it; without it the first apptainer or singularity of PATH is taken",
        )],
        Err(error) => vec![Finding::warning(
            CHECK,
            chain(&error).join(": "),
            "`[image] none = true` runs a job without a container",
        )],
    }
}

fn node_findings(node: &Node) -> Vec<Finding> {
    vec![
        version(node),
        namespaces(node),
        fakeroot(node),
        sif(node),
        gpu_files(node),
    ]
}

fn version(node: &Node) -> Finding {
    let command = &node.facts.command;
    match node.facts.runtime {
        Some(runtime) => Finding::ok(CHECK, format!("{runtime}, {command}")),
        None => Finding::warning(
            CHECK,
            format!(
                "{command} calls itself {:?}, which is not a known runtime",
                node.said
            ),
            "it gets only options that all versions of Apptainer and Singularity know",
        ),
    }
}

fn namespaces(node: &Node) -> Finding {
    match (
        &node.facts.namespaces.missing,
        &node.installation.setuid_starter,
    ) {
        (None, _) => Finding::ok(NAMESPACES, "this user gets user namespaces"),
        (Some(why), Some(starter)) => Finding::ok(
            NAMESPACES,
            format!("{why}; {} is setuid and does without", starter.display()),
        ),
        (Some(why), None) => Finding::warning(
            NAMESPACES,
            format!("this user gets no user namespace, and no container: {why}"),
            "containers need `sysctl` to allow them, or the setuid starter (package apptainer-suid)",
        ),
    }
}

/// What `--fakeroot` would do for a build.
fn fakeroot(node: &Node) -> Finding {
    match fakeroot::outcome(&node.facts, Purpose::Build) {
        Ok(means @ Means::Namespace { command: false, .. }) => Finding::warning(
            FAKEROOT,
            format!("builds run {}", means.describe()),
            "ask the administrator for ranges in /etc/subuid and /etc/subgid, or for the program `fakeroot`",
        ),
        Ok(means) => Finding::ok(FAKEROOT, format!("builds run {}", means.describe())),
        Err(unusable) => Finding::warning(
            FAKEROOT,
            format!("no image can be built here: {unusable}"),
            unusable.remedy,
        ),
    }
}

/// How a SIF file becomes a root directory. Without FUSE it is unpacked at each start.
fn sif(node: &Node) -> Finding {
    if let Some(starter) = &node.installation.setuid_starter {
        return Finding::ok(SIF, format!("{} mounts them", starter.display()));
    }
    match (&node.squashfuse, node.facts.fuse_device) {
        _ if node.facts.uid == 0 => Finding::ok(SIF, "root mounts them with the kernel"),
        (Some(program), true) => Finding::ok(SIF, format!("{} mounts them", program.display())),
        (Some(program), false) => Finding::warning(
            SIF,
            format!(
                "{} cannot mount them, since this user may not open /dev/fuse",
                program.display()
            ),
            "the administrator can open it to all (`chmod 666 /dev/fuse`, module fuse); a directory made with \
             `apptainer build --sandbox` runs without",
        ),
        (None, _) => Finding::warning(
            SIF,
            "they are unpacked at each start, which takes seconds and room in /tmp: squashfuse is not found",
            "the administrator can install it: package squashfuse",
        ),
    }
}

/// What `--nv` needs where there are GPUs.
fn gpu_files(node: &Node) -> Finding {
    let gpus = &node.facts.gpus;
    match &node.installation.nvliblist {
        _ if !gpus.nvidia_device && gpus.nvidia_driver.is_none() => {
            Finding::ok(GPU_FILES, "no NVIDIA driver is loaded here")
        }
        _ if gpus.cuda_library == Some(false) => Finding::warning(
            GPU_FILES,
            "a driver of NVIDIA is loaded, but `ldconfig -p` knows no libcuda.so.1: `--nv` finds no driver",
            "the administrator can install the driver's libraries and run `ldconfig`",
        ),
        Some(list) => Finding::ok(
            GPU_FILES,
            format!("`--nv` takes what {} names", list.display()),
        ),
        None => Finding::problem(
            GPU_FILES,
            "the runtime's configuration has no nvliblist.conf, without which `--nv` binds nothing",
            "the runtime's package has it; reinstall it",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::doctor::Level;
    use crate::image::flags::{GpuFacts, Namespaces, NodeFacts, SubIds};
    use crate::image::runtime::Installation;
    use crate::image::runtime::Runtime;

    /// An ordinary user's node where all is well.
    fn node() -> Node {
        Node {
            facts: NodeFacts {
                command: "/usr/bin/apptainer".into(),
                runtime: Runtime::parse("apptainer version 1.4.5"),
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
            },
            installation: Installation {
                nvliblist: Some("/etc/apptainer/nvliblist.conf".into()),
                ..Installation::default()
            },
            squashfuse: Some("/usr/bin/squashfuse_ll".into()),
            said: "apptainer version 1.4.5".into(),
        }
    }

    /// What is told of a node that was changed, about one thing.
    #[track_caller]
    fn told(check: &str, change: impl FnOnce(&mut Node)) -> (Level, String) {
        let mut node = node();
        change(&mut node);
        let findings = node_findings(&node);
        assert!(
            findings
                .iter()
                .all(|found| found.level == Level::Ok || found.advice.is_some()),
            "{findings:?}"
        );
        let found = findings
            .into_iter()
            .find(|found| found.check == check)
            .expect("it is looked at");
        (
            found.level,
            format!("{} {}", found.text, found.advice.unwrap_or_default()),
        )
    }

    #[test]
    fn a_node_that_is_well_is_told_so() {
        let findings = node_findings(&node());
        assert!(
            findings.iter().all(|found| found.level == Level::Ok),
            "{findings:?}"
        );
        let texts: Vec<&str> = findings.iter().map(|found| found.text.as_str()).collect();
        for part in [
            "apptainer 1.4.5, /usr/bin/apptainer",
            "squashfuse_ll mounts",
            "no NVIDIA driver",
        ] {
            assert!(
                texts.iter().any(|text| text.contains(part)),
                "{part}: {texts:?}"
            );
        }
    }

    #[test]
    fn each_lack_is_told_with_what_to_do() {
        type Lack = (&'static str, fn(&mut Node), Level, &'static str);
        let lacks: [Lack; 10] = [
            (
                CHECK,
                |node| node.facts.runtime = None,
                Level::Warning,
                "not a known runtime",
            ),
            (
                NAMESPACES,
                |node| node.facts.namespaces.missing = Some("user.max_user_namespaces is 0".into()),
                Level::Warning,
                "user.max_user_namespaces is 0 containers need `sysctl`",
            ),
            (
                NAMESPACES,
                |node| {
                    node.facts.namespaces.missing = Some("off".into());
                    node.installation.setuid_starter = Some("/s/starter-suid".into());
                },
                Level::Ok,
                "/s/starter-suid is setuid",
            ),
            (
                FAKEROOT,
                |node| node.facts.sub_ids.newuidmap = false,
                Level::Ok,
                "`fakeroot` command",
            ),
            (
                FAKEROOT,
                |node| node.facts.sub_ids = SubIds::default(),
                Level::Warning,
                "/etc/subuid",
            ),
            (
                FAKEROOT,
                |node| {
                    node.facts.runtime = Runtime::parse("singularity-ce version 4.1.0");
                    node.facts.sub_ids.subgid_count = 0;
                },
                Level::Warning,
                "the longest have 65536 and 0 ask",
            ),
            (
                SIF,
                |node| node.facts.fuse_device = false,
                Level::Warning,
                "chmod 666 /dev/fuse",
            ),
            (
                SIF,
                |node| node.squashfuse = None,
                Level::Warning,
                "package squashfuse",
            ),
            (
                GPU_FILES,
                |node| {
                    node.installation.nvliblist = None;
                    node.facts.gpus.nvidia_device = true;
                },
                Level::Problem,
                "reinstall it",
            ),
            (
                GPU_FILES,
                |node| {
                    node.facts.gpus = GpuFacts {
                        nvidia_device: true,
                        cuda_library: Some(false),
                        ..GpuFacts::default()
                    };
                },
                Level::Warning,
                "libcuda.so.1",
            ),
        ];
        for (check, change, level, part) in lacks {
            let (found, text) = told(check, change);
            assert!(
                found == level && text.contains(part),
                "{check}: {found:?} {text}"
            );
        }
        let (level, text) = told(SIF, |node| {
            node.facts.uid = 0;
            node.squashfuse = None;
        });
        assert!(level == Level::Ok && text.contains("root mounts"), "{text}");
    }

    #[test]
    fn a_runtime_that_is_not_there_is_told_with_the_setting() {
        let found = findings(Some(Path::new("/nonexistent/apptainer")));
        assert_eq!((found.len(), found[0].level), (1, Level::Warning));
        assert!(
            found[0].text.contains("/nonexistent/apptainer"),
            "{found:?}"
        );
    }
}
