//! All that the flags' rules must know of this node.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::unistd::geteuid;

use crate::foundation::clock::now_ms;
use crate::foundation::command::{CommandError, Tool, find_in};
use crate::foundation::diagnostic::chain;
use crate::foundation::private::PrivateDir;
use crate::image::flags::{Namespaces, NodeFacts, SubIds};
use crate::image::runtime::Runtime;
use crate::image::runtime::apptainer::installation::{Installation, Places};
use crate::image::runtime::apptainer::namespaces::{self, Switches};
use crate::image::runtime::apptainer::subids;
use crate::image::runtime::failure::ContainerError;
use crate::image::runtime::find;
use crate::image::runtime::gpus;
use crate::image::runtime::host_view::HostView;
use crate::image::runtime::probe_cache::{self, Key, Probed};

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

/// Looks at this node, for the runtime that was `asked` for, else the first of `PATH`. What was found out within a day is
/// taken from `/var/tmp/dlrun-UID`.
///
/// `gpus_wanted`: whether to ask the linker's cache for CUDA's library too, a few milliseconds.
///
/// # Errors
/// There is no runtime, or it does not run. What else cannot be found out is a fact that is missing.
pub fn node_facts(asked: Option<&Path>, gpus_wanted: bool) -> Result<NodeFacts, ContainerError> {
    let variable = |name: &str| std::env::var_os(name);
    let shared_tmp = Some(Path::new("/var/tmp"));
    let around = HostView {
        root: Path::new("/"),
        variable: &variable,
        shared_tmp,
    };
    Ok(examine_in(&around, asked, gpus_wanted)?.facts)
}

/// [`node_facts`] with where things lie. Everything is found out again, and nothing is kept.
///
/// # Errors
/// As [`node_facts`].
pub fn examine(asked: Option<&Path>, gpus_wanted: bool) -> Result<Node, ContainerError> {
    let variable = |name: &str| std::env::var_os(name);
    let around = HostView {
        root: Path::new("/"),
        variable: &variable,
        shared_tmp: None,
    };
    examine_in(&around, asked, gpus_wanted)
}

/// [`node_facts`] and [`examine`] of the machine as `around` shows it.
///
/// # Errors
/// As [`node_facts`].
pub fn examine_in(
    around: &HostView<'_>,
    asked: Option<&Path>,
    gpus_wanted: bool,
) -> Result<Node, ContainerError> {
    let command = find::in_view(around, asked)?;
    let uid = geteuid().as_raw();
    let Probed {
        said,
        places,
        namespaces_missing,
        ranges,
    } = probed(around, &command, uid)?;
    let installation = Installation::of(places);
    let dirs = around.helper_dirs(installation.libexec.as_deref());
    let has = |program: &str| find_in(program, &dirs).is_some();
    let squashfuse = ["squashfuse_ll", "squashfuse"]
        .iter()
        .find_map(|name| find_in(name, &dirs));
    let facts = NodeFacts {
        command: text_of(&command)?,
        runtime: Runtime::parse(&said),
        uid,
        gpus: gpus::look(around, gpus_wanted),
        namespaces: Namespaces {
            missing: namespaces_missing,
            setuid_starter: installation.setuid_starter.is_some(),
        },
        sub_ids: SubIds {
            subuid_count: ranges.uids,
            subgid_count: ranges.gids,
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

/// What was kept, as long as it still holds, else what is found out now and then kept.
fn probed(around: &HostView<'_>, command: &Path, uid: u32) -> Result<Probed, ContainerError> {
    let switches = Switches::read(around);
    let missing = || namespaces::missing(around, &switches, namespaces::attempt);
    let dir = around
        .shared_tmp
        .and_then(|shared| match PrivateDir::of_user(shared) {
            Ok(dir) => Some(dir),
            Err(error) => {
                tracing::debug!(
                    why = chain(&error).join(": "),
                    "the node's facts are not kept"
                );
                None
            }
        });
    let key = Key::of(around, command, uid, &switches);
    if let Some(mut kept) = dir
        .as_ref()
        .and_then(|dir| probe_cache::read(dir, &key, now_ms()))
    {
        // There is a limit to their number, so one moment may have none and the next one.
        if kept.namespaces_missing.is_some() {
            kept.namespaces_missing = missing();
        }
        return Ok(kept);
    }
    let (said, has_answered) = version(command)?;
    let (ranges, is_settled) = subids::look(around, uid);
    let places = Places::look(around, command);
    let probed = Probed {
        said,
        places,
        namespaces_missing: missing(),
        ranges,
    };
    if let Some(dir) = dir.filter(|_| has_answered && is_settled) {
        probe_cache::write(&dir, &key, &probed, now_ms());
    }
    Ok(probed)
}

/// What `--version` says, in one line. A runtime that is slow is none that does not work: then nothing is said.
fn version(command: &Path) -> Result<(String, bool), ContainerError> {
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
            Ok((line.unwrap_or_default().trim().to_owned(), true))
        }
        Err(error @ CommandError::TimedOut { .. }) => {
            tracing::warn!(%error, "the container runtime does not say which it is");
            Ok((String::new(), false))
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
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::image::runtime::{Product, Version};

    /// A node with a runtime that notes how often it is called.
    struct Fake {
        root: tempfile::TempDir,
        /// Apart from the root, which everybody may read.
        shared_tmp: tempfile::TempDir,
    }

    impl Fake {
        fn new(says: &str) -> Self {
            let (root, shared_tmp) = (
                tempfile::tempdir().expect("a root"),
                tempfile::tempdir().expect("a place"),
            );
            let fake = Self { root, shared_tmp };
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
            let calls = self.root.path().join("calls");
            self.put(
                "bin/apptainer",
                &format!("#!/bin/sh\necho $1 >> {}\n{says}\n", calls.display()),
            )
        }

        fn look(&self) -> Result<Node, ContainerError> {
            let path = self.root.path().join("bin").into_os_string();
            let variable = |name: &str| (name == "PATH").then(|| path.clone());
            let around = HostView {
                root: self.root.path(),
                variable: &variable,
                shared_tmp: Some(self.shared_tmp.path()),
            };
            examine_in(&around, None, false)
        }

        fn calls(&self) -> usize {
            fs::read_to_string(self.root.path().join("calls"))
                .unwrap_or_default()
                .lines()
                .count()
        }
    }

    const SAYS: &str = "[ $1 = --version ] && echo apptainer version 1.4.5";

    #[test]
    fn the_runtime_is_asked_once_until_something_changes() {
        let fake = Fake::new(SAYS);
        let first = fake.look().expect("it answers");
        let runtime = Runtime {
            product: Product::Apptainer,
            version: Version(1, 4, 5),
        };
        assert_eq!(first.facts.runtime, Some(runtime));
        assert_eq!(
            first.facts.command,
            fake.root.path().join("bin/apptainer").to_string_lossy()
        );
        let calls = fake.calls();
        assert!(calls >= 1, "it was asked");
        assert_eq!(fake.look().expect("it was kept"), first);
        assert_eq!(fake.calls(), calls, "nobody was asked again");
        // Another file under the same name.
        fake.runtime("[ $1 = --version ] && echo singularity-ce version 4.1.0");
        let other = fake
            .look()
            .expect("it answers")
            .facts
            .runtime
            .expect("it says so");
        assert_eq!(
            (other.product, fake.calls()),
            (Product::SingularityCe, 2 * calls)
        );
        let line = format!("{}:100000:65536\n", geteuid());
        fake.put("etc/subuid", &line);
        assert_eq!(
            fake.look().expect("it answers").facts.sub_ids.subuid_count,
            65536
        );
        assert_eq!(fake.calls(), 3 * calls);
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
        let calls = fake.calls();
        let facts = fake.look().expect("it was kept").facts;
        assert!(facts.squashfuse && facts.fuse_device, "{facts:?}");
        assert!(
            facts.sub_ids.newuidmap && facts.sub_ids.fakeroot_command,
            "{facts:?}"
        );
        assert_eq!(fake.calls(), calls);
    }

    #[test]
    fn where_nothing_can_be_kept_it_works_all_the_same() {
        let fake = Fake::new(SAYS);
        let first = fake.look().expect("it answers");
        let calls = fake.calls();
        let private = fake.shared_tmp.path().join(format!("dlrun-{}", geteuid()));
        fs::remove_dir_all(&private).expect("it was made");
        // What somebody else put in its place is not followed.
        let elsewhere = tempfile::tempdir().expect("a place");
        symlink(elsewhere.path(), &private).expect("ours");
        assert_eq!(fake.look().expect("it answers"), first);
        assert_eq!(fake.calls(), 2 * calls);
        assert_eq!(
            fs::read_dir(elsewhere.path()).expect("it is there").count(),
            0
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
            shared_tmp: None,
        };
        let error =
            examine_in(&around, Some(Path::new("/no/such/runtime")), false).expect_err("none");
        assert!(error.to_string().contains("/no/such/runtime"), "{error}");
        // One that says nothing that is known runs all the same.
        fake.runtime("echo what");
        assert_eq!(fake.look().expect("it answers").facts.runtime, None);
    }
}
