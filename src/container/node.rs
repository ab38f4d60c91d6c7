//! All that the flags' rules must know of this node.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

use super::failure::ContainerError;
use super::installation::Installation;
use super::namespaces::{self, Switches};
use super::surroundings::Surroundings;
use super::{find, gpus, subids};
use crate::command::{CommandError, Tool, find_in};
use crate::flags::{Namespaces, NodeFacts, Runtime, SubIds};

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

/// What costs processes to find out and stays as it is: it may be kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Probed {
    pub(super) said: String,
    pub(super) namespaces_missing: Option<String>,
    pub(super) sub_ids: SubIds,
    pub(super) squashfuse: Option<PathBuf>,
    pub(super) installation: Installation,
}

/// Under load 22 (2 CPUs) `--version` took 2 s.
const PATIENCE: Duration = Duration::from_secs(20);

/// Looks at this node, for the runtime that was `asked` for, else the first of `PATH`.
///
/// `gpus_wanted`: whether to ask the linker's cache for CUDA's library too.
///
/// # Errors
/// There is no runtime, or it does not run. What else cannot be found out is a fact that is missing.
pub fn node_facts(asked: Option<&Path>, gpus_wanted: bool) -> Result<NodeFacts, ContainerError> {
    Ok(examine(asked, gpus_wanted)?.facts)
}

/// [`node_facts`] with where things lie.
///
/// # Errors
/// As [`node_facts`].
pub fn examine(asked: Option<&Path>, gpus_wanted: bool) -> Result<Node, ContainerError> {
    let variable = |name: &str| std::env::var_os(name);
    let around =
        Surroundings { root: Path::new("/"), variable: &variable, shared_tmp: Some(Path::new("/var/tmp")) };
    examine_in(&around, asked, gpus_wanted)
}

/// [`examine`] of the machine as `around` shows it.
///
/// # Errors
/// As [`node_facts`].
pub fn examine_in(
    around: &Surroundings<'_>,
    asked: Option<&Path>,
    gpus_wanted: bool,
) -> Result<Node, ContainerError> {
    let command = find::in_surroundings(around, asked)?;
    let uid = geteuid().as_raw();
    let switches = Switches::read(around);
    let probed = probe(around, &command, uid, &switches)?.0;
    let facts = NodeFacts {
        command: text_of(&command)?,
        runtime: Runtime::parse(&probed.said),
        uid,
        gpus: gpus::look(around, gpus_wanted),
        namespaces: Namespaces {
            missing: probed.namespaces_missing,
            setuid_starter: probed.installation.setuid_starter.is_some(),
        },
        sub_ids: probed.sub_ids,
        squashfuse: probed.squashfuse.is_some(),
        fuse_device: opens(&around.path("dev/fuse")),
    };
    Ok(Node { facts, installation: probed.installation, squashfuse: probed.squashfuse, said: probed.said })
}

/// Finds everything out anew. The flag says whether all who were asked gave an answer.
fn probe(
    around: &Surroundings<'_>,
    command: &Path,
    uid: u32,
    switches: &Switches,
) -> Result<(Probed, bool), ContainerError> {
    let (said, has_answered) = version(command)?;
    let installation = Installation::look(around, command);
    let libexec = installation.libexec.as_deref();
    let (sub_ids, is_settled) = subids::look(around, uid, libexec);
    let dirs = around.helper_dirs(libexec);
    let squashfuse = ["squashfuse_ll", "squashfuse"].iter().find_map(|name| find_in(name, &dirs));
    let namespaces_missing = namespaces::missing(around, switches, namespaces::attempt);
    let probed = Probed { said, namespaces_missing, sub_ids, squashfuse, installation };
    Ok((probed, has_answered && is_settled))
}

/// What `--version` says, in one line. A runtime that is slow is none that does not work: then nothing is said.
fn version(command: &Path) -> Result<(String, bool), ContainerError> {
    let failed = |source| ContainerError::Runtime { command: command.to_owned(), source };
    let tool = Tool::new(command).arg("--version").timeout(PATIENCE).output_limit(64 << 10);
    match tool.run() {
        Ok(output) => {
            let said = output.require_success(&tool.program()).map_err(failed)?.stdout;
            let line =
                said.lines().find(|line| Runtime::parse(line).is_some()).or_else(|| said.lines().next());
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
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(device).is_ok()
}

/// The rules deal in text, and so do the plan and the record.
fn text_of(command: &Path) -> Result<String, ContainerError> {
    let text = OsString::from(command).into_string();
    text.map_err(|_| ContainerError::RuntimeMissing { command: command.to_owned() })
}
