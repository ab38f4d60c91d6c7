//! `--fakeroot`: which way the runtime will take, or exactly why there is none.
//!
//! Apptainer since 1.1 tries several ways (v1.4.5: `internal/pkg/runtime/launch/launcher_linux.go` for a run,
//! `cmd/internal/cli/build_linux.go` for a build). Singularity, SingularityCE and Apptainer 1.0 need a range of ids.

use super::draft::Draft;
use super::features::{Feature, Features};
use super::{NodeFacts, Refusal};

/// What `--fakeroot` is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A command in a container.
    Run,
    /// An image from a definition file.
    Build,
}

/// How the root user of a container is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// It is run by root, who needs none: the flag is not given.
    Root,
    /// A range of ids: files may belong to any user of the image.
    Range,
    /// A namespace with one id: all files belong to one user.
    Namespace {
        /// The `fakeroot` program pretends the other users.
        command: bool,
        /// This user has a range, which cannot be used here.
        range_ignored: bool,
    },
    /// The `fakeroot` program alone.
    Command,
}

impl Means {
    /// The runtime's words.
    #[must_use]
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Root => &[],
            Self::Namespace { range_ignored: true, .. } => &["--fakeroot", "--ignore-subuid"],
            Self::Range | Self::Namespace { .. } | Self::Command => &["--fakeroot"],
        }
    }

    /// For people.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Root => "root runs it, and needs no `--fakeroot`",
            Self::Range => "with this user's ids in /etc/subuid and /etc/subgid",
            Self::Namespace { command: true, .. } => "with one id, and the `fakeroot` command for the others",
            Self::Namespace { command: false, .. } => {
                "with one id and no `fakeroot` command: giving a file to another user fails"
            }
            Self::Command => "with the `fakeroot` command alone",
        }
    }
}

/// Why `--fakeroot` does not work here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unusable {
    /// What is missing.
    pub why: String,
    /// What to do about it.
    pub remedy: String,
}

impl Unusable {
    fn new(why: impl Into<String>, remedy: &str) -> Self {
        Self { why: why.into(), remedy: remedy.to_owned() }
    }
}

const ASK_NAMESPACES: &str = "ask the administrator for user namespaces: `sysctl user.max_user_namespaces=15000`, on Debian and Ubuntu also \
     `kernel.unprivileged_userns_clone=1` and `kernel.apparmor_restrict_unprivileged_userns=0`";
const ASK_RANGES: &str = "ask the administrator for ids: `usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER`, with \
     numbers that no other user has";

/// Which way `--fakeroot` takes for this user on this node.
///
/// # Errors
/// [`Unusable`]: none is there.
pub fn outcome(node: &NodeFacts, purpose: Purpose, image_is_sandbox: bool) -> Result<Means, Unusable> {
    let features = Features::of(node.runtime);
    if node.uid == 0 {
        return Ok(Means::Root);
    }
    if !features.has(Feature::Fakeroot) {
        let why = format!("{} does not know it", node.runtime.map(|it| it.to_string()).unwrap_or_default());
        return Err(Unusable::new(why, "use Apptainer, or Singularity 3.3 or later"));
    }
    let range = range(node);
    if let Some(missing) = &node.namespaces.missing {
        return without_namespaces(node, features, missing, purpose, image_is_sandbox, &range);
    }
    let command = node.sub_ids.fakeroot_command;
    match range {
        Ok(()) => Ok(Means::Range),
        Err(lack) if !features.has(Feature::FakerootFallback) => Err(lack),
        // The runtime looks into /etc/subuid alone before it decides for the range.
        Err(_) => Ok(Means::Namespace { command, range_ignored: node.sub_ids.subuid_count > 0 }),
    }
}

/// Whether this user's range can be used.
fn range(node: &NodeFacts) -> Result<(), Unusable> {
    let ids = &node.sub_ids;
    match (ids.subuid_count, ids.subgid_count) {
        (0, 0) => Err(Unusable::new("this user has no range in /etc/subuid and /etc/subgid", ASK_RANGES)),
        (0, _) => {
            Err(Unusable::new("this user has a range in /etc/subgid, but none in /etc/subuid", ASK_RANGES))
        }
        (_, 0) => {
            Err(Unusable::new("this user has a range in /etc/subuid, but none in /etc/subgid", ASK_RANGES))
        }
        _ if ids.newuidmap || node.namespaces.setuid_starter => Ok(()),
        _ => Err(Unusable::new(
            "this user has ranges in /etc/subuid and /etc/subgid, but newuidmap and newgidmap are not found",
            "ask the administrator for them: the package `uidmap` (Debian, Ubuntu) or `shadow-utils`",
        )),
    }
}

fn without_namespaces(
    node: &NodeFacts,
    features: Features,
    missing: &str,
    purpose: Purpose,
    image_is_sandbox: bool,
    range: &Result<(), Unusable>,
) -> Result<Means, Unusable> {
    let none = |rest: &str| {
        let why = format!("this user gets no user namespace here ({missing}){rest}");
        Err(Unusable::new(why, ASK_NAMESPACES))
    };
    let falls_back = features.has(Feature::FakerootFallback);
    if !node.namespaces.setuid_starter {
        return none("");
    }
    if node.sub_ids.subuid_count > 0 {
        // The starter makes the namespace as root, unless there are none at all. A build of Apptainer asks beforehand.
        let none_at_all = missing.contains("max_user_namespaces") || falls_back && purpose == Purpose::Build;
        return if none_at_all { none("") } else { range.clone().map(|()| Means::Range) };
    }
    match (falls_back, node.sub_ids.fakeroot_command, purpose) {
        (false, ..) => range.clone().map(|()| Means::Range),
        (true, false, _) => {
            none(", this user has no range in /etc/subuid, and the `fakeroot` command is not found")
        }
        (true, true, Purpose::Run) if !image_is_sandbox => none(
            ", and the `fakeroot` command alone works with an image that is a directory, not with a file",
        ),
        (true, true, _) => Ok(Means::Command),
    }
}

pub(super) fn add(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    if !draft.container.fakeroot {
        return Ok(());
    }
    let wanted = "the job file or the image's entry wants it";
    match outcome(draft.node, Purpose::Run, draft.around.is_sandbox) {
        Ok(Means::Root) => draft.reason("no --fakeroot", Means::Root.describe()),
        Ok(_) if draft.assumed => draft.flag("--fakeroot", format!("{wanted}; by which way, the node tells")),
        Ok(means) => {
            for flag in means.flags() {
                let why = match *flag {
                    "--fakeroot" => format!("{wanted}; {}", means.describe()),
                    _ => match range(draft.node) {
                        Err(lack) => format!("{}, and the runtime would insist on them", lack.why),
                        Ok(()) => continue,
                    },
                };
                draft.flag(flag, why);
            }
        }
        Err(Unusable { why, remedy }) => {
            return Err(draft.unsupported(format!("`--fakeroot` does not work on this node: {why}"), remedy));
        }
    }
    Ok(())
}

pub(super) const NAMESPACES_REMEDY: &str = ASK_NAMESPACES;
