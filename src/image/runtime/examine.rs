//! All that the flags' rules must know of this node.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::unistd::geteuid;

use crate::foundation::command::{CommandError, Tool, find_in};
use crate::image::flags::{Namespaces, NodeFacts, SubIds};
use crate::image::runtime::Runtime;
use crate::image::runtime::apptainer::installation::Installation;
use crate::image::runtime::apptainer::namespaces;
use crate::image::runtime::apptainer::subids;
use crate::image::runtime::failure::ContainerError;
use crate::image::runtime::gpus;
use crate::image::runtime::host_view::HostView;
use crate::image::runtime::kinds::commands;

/// A node with its runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What the rules need.
    pub facts: NodeFacts,
    /// Where the runtime's files lie.
    pub installation: Installation,
    /// The program that mounts SIF images.
    pub squashfuse: Option<PathBuf>,
    /// What `--version` said, in one line.
    pub said: String,
}

/// Under load 22 (2 CPUs) `--version` took 2 s.
const PATIENCE: Duration = Duration::from_secs(20);

/// Looks at the machine that `around` shows, for the runtime that was `asked` for, else the first of `PATH`.
///
/// `gpus_wanted`: whether to ask the linker's cache for CUDA's library too, a few milliseconds.
///
/// # Errors
/// There is no runtime, or it does not run. What else cannot be found out is a fact that is missing.
pub fn examine(
    around: &HostView<'_>,
    asked: Option<&Path>,
    gpus_wanted: bool,
) -> Result<Node, ContainerError> {
    let command = find_runtime(around, asked)?;
    let uid = geteuid().as_raw();
    let said = version(&command)?;
    let (subuid_count, subgid_count) = subids::longest_ranges(around, uid);
    let installation = Installation::find(around, &command);
    let dirs = around.helper_dirs(installation.libexec.as_deref());
    let has = |program: &str| find_in(program, &dirs).is_some();
    let squashfuse = ["squashfuse_ll", "squashfuse"]
        .iter()
        .find_map(|name| find_in(name, &dirs));
    let facts = NodeFacts {
        command: text_of(&command)?,
        runtime: Runtime::parse(&said),
        uid,
        gpus: gpus::gpu_facts(around, gpus_wanted),
        namespaces: Namespaces {
            missing: namespaces::missing(around, namespaces::attempt),
            setuid_starter: installation.setuid_starter.is_some(),
        },
        sub_ids: SubIds {
            subuid_count,
            subgid_count,
            newuidmap: has("newuidmap") && has("newgidmap"),
            fakeroot_command: has("fakeroot"),
        },
        squashfuse: squashfuse.is_some(),
        fuse_device: opens(&around.path("dev/fuse")),
    };
    Ok(Node {
        facts,
        installation,
        squashfuse,
        said,
    })
}

/// The runtime's command, absolute: the one that was asked for, else the first apptainer of `PATH`, else the first
/// singularity.
///
/// # Errors
/// [`ContainerError::NoRuntime`], [`ContainerError::RuntimeMissing`].
pub fn find_runtime(
    around: &HostView<'_>,
    asked: Option<&Path>,
) -> Result<PathBuf, ContainerError> {
    let dirs = around.program_dirs();
    let Some(asked) = asked else {
        let mut commands = commands().into_iter();
        let found = commands.find_map(|command| find_in(command, &dirs));
        return found.ok_or(ContainerError::NoRuntime);
    };
    let missing = || ContainerError::RuntimeMissing(asked.to_owned());
    let found = find_in(asked, &dirs).ok_or_else(missing)?;
    std::path::absolute(found).map_err(|_| missing())
}

/// What `--version` says, in one line. A runtime that is slow is none that does not work: then nothing is said.
fn version(command: &Path) -> Result<String, ContainerError> {
    let failed = |source| ContainerError::Runtime(command.to_owned(), source);
    let tool = Tool::new(command)
        .arg("--version")
        .timeout(PATIENCE)
        .output_limit(64 << 10);
    match tool.run() {
        Ok(output) => {
            let said = output
                .require_success(&tool.program())
                .map_err(failed)?
                .stdout;
            let line = said
                .lines()
                .find(|line| Runtime::parse(line).is_some())
                .or_else(|| said.lines().next());
            Ok(line.unwrap_or_default().trim().to_owned())
        }
        Err(error @ CommandError::TimedOut { .. }) => {
            tracing::warn!(%error, "the container runtime does not say which it is");
            Ok(String::new())
        }
        Err(source) => Err(failed(source)),
    }
}

/// Whether it can be opened, for which the device's group and a cgroup's rules count too.
fn opens(device: &Path) -> bool {
    let flags = (OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).bits();
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(device)
        .is_ok()
}

/// The rules deal in text, and so do the plan and the record.
fn text_of(command: &Path) -> Result<String, ContainerError> {
    let text = OsString::from(command).into_string();
    text.map_err(|_| ContainerError::RuntimeMissing(command.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::foundation::diagnostic::chain;
    use crate::image::runtime::{Product, Version};

    /// A node with a runtime.
    struct Fake {
        root: tempfile::TempDir,
    }

    impl Fake {
        fn new(says: &str) -> Self {
            let fake = Self {
                root: tempfile::tempdir().expect("a root"),
            };
            fake.put("etc/subuid", "");
            fake.runtime(says);
            fake
        }

        fn put(&self, name: &str, text: &str) -> PathBuf {
            let path = self.root.path().join(name);
            fs::create_dir_all(path.parent().expect("it has one")).expect("ours");
            // Beside it and renamed: a file that somebody has open for writing cannot be run.
            let new = path.with_extension("new");
            fs::write(&new, text).expect("ours");
            fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).expect("ours");
            fs::rename(&new, &path).expect("ours");
            path
        }

        fn runtime(&self, says: &str) -> PathBuf {
            self.put("bin/apptainer", &format!("#!/bin/sh\n{says}\n"))
        }

        fn look(&self) -> Result<Node, ContainerError> {
            let path = self.root.path().join("bin").into_os_string();
            let variable = |name: &str| (name == "PATH").then(|| path.clone());
            let around = HostView {
                root: self.root.path(),
                variable: &variable,
            };
            examine(&around, None, false)
        }
    }

    const SAYS: &str = "[ $1 = --version ] && echo apptainer version 1.4.5";

    #[test]
    fn the_runtime_and_the_ranges_are_read() {
        let fake = Fake::new(SAYS);
        let line = format!("{}:100000:65536\n", geteuid());
        fake.put("etc/subuid", &line);
        let facts = fake.look().expect("it answers").facts;
        let runtime = Runtime {
            product: Product::Apptainer,
            version: Version(1, 4, 5),
        };
        assert_eq!(facts.runtime, Some(runtime));
        let command = fake.root.path().join("bin/apptainer");
        assert_eq!(facts.command, command.to_string_lossy());
        assert_eq!(facts.sub_ids.subuid_count, 65536);
    }

    #[test]
    fn programs_and_devices_are_looked_for_each_time() {
        let fake = Fake::new(SAYS);
        let bare = fake.look().expect("it answers").facts;
        assert!(!bare.squashfuse && !bare.fuse_device && !bare.sub_ids.newuidmap);
        for program in [
            "bin/squashfuse",
            "usr/bin/newuidmap",
            "bin/newgidmap",
            "bin/fakeroot",
            "dev/fuse",
        ] {
            fake.put(program, "#!/bin/sh\n");
        }
        let facts = fake.look().expect("it answers").facts;
        assert!(facts.squashfuse && facts.fuse_device, "{facts:?}");
        assert!(
            facts.sub_ids.newuidmap && facts.sub_ids.fakeroot_command,
            "{facts:?}"
        );
    }

    #[test]
    fn a_runtime_that_is_not_there_or_does_not_run_is_told() {
        let fake = Fake::new("echo 'cannot open shared object file' >&2; exit 127");
        let error = fake.look().expect_err("it fails");
        assert!(matches!(error, ContainerError::Runtime { .. }), "{error}");
        assert!(
            chain(&error).join(": ").contains("shared object"),
            "{error:?}"
        );
        fs::remove_file(fake.root.path().join("bin/apptainer")).expect("ours");
        assert!(matches!(fake.look(), Err(ContainerError::NoRuntime)));
        let around = HostView {
            root: fake.root.path(),
            variable: &|_| None,
        };
        let error = examine(&around, Some(Path::new("/no/such/runtime")), false).expect_err("none");
        assert!(error.to_string().contains("/no/such/runtime"), "{error}");
        // One that says nothing that is known runs all the same.
        fake.runtime("echo what");
        assert_eq!(fake.look().expect("it answers").facts.runtime, None);
    }
}
