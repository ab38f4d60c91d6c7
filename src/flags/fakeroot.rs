//! `--fakeroot`: which way the product will take, or exactly why there is none.
//!
//! Apptainer since 1.1 tries several ways in order (`internal/pkg/fakeroot`, `cmd/internal/cli/actions_linux.go`);
//! Singularity, SingularityCE and Apptainer 1.0 know ranges in `/etc/subuid` and `/etc/subgid` alone.

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
    /// It is root already: the flag is not given.
    Root,
    /// A range of ids of this user's: all owners of files can be told apart.
    Range,
    /// A namespace with one id, and the `fakeroot` program beside it.
    NamespaceAndCommand,
    /// A namespace with one id alone: files have one owner.
    Namespace,
    /// The `fakeroot` program alone.
    Command,
}

impl Means {
    /// For people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Root => "it is run by root",
            Self::Range => "ids from /etc/subuid and /etc/subgid",
            Self::NamespaceAndCommand => "a namespace with one id, and the `fakeroot` command",
            Self::Namespace => "a namespace with one id; files cannot be given to other users",
            Self::Command => "the `fakeroot` command alone",
        }
    }
}

/// Why `--fakeroot` does not work here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// What is missing.
    pub why: String,
    /// What to do about it.
    pub remedy: String,
}

/// Which way `--fakeroot` takes for this user on this node.
///
/// # Errors
/// [`Unusable`]: none is there.
pub fn outcome(node: &NodeFacts, purpose: Purpose, image_is_sandbox: bool) -> Result<Means, Unusable> {
    let features = Features::of(node.runtime);
    let ids = &node.sub_ids;
    let _ = purpose;
    if node.uid == 0 {
        return Ok(Means::Root);
    }
    let has_range = ids.subuid_count > 0 && ids.subgid_count > 0;
    let maps = ids.newuidmap || node.namespaces.setuid_starter;
    match &node.namespaces.missing {
        None if has_range && maps => Ok(Means::Range),
        None if has_range => Err(Unusable {
            why: "this user has a range in /etc/subuid, and newuidmap is not found".to_owned(),
            remedy: "ask for the package `uidmap` (shadow-utils)".to_owned(),
        }),
        None if !features.has(Feature::FakerootFallback) => Err(no_range(node)),
        None if ids.fakeroot_command => Ok(Means::NamespaceAndCommand),
        None => Ok(Means::Namespace),
        Some(_) if image_is_sandbox && ids.fakeroot_command && features.has(Feature::FakerootFallback) => {
            Ok(Means::Command)
        }
        Some(missing) => Err(Unusable {
            why: format!("this user gets no user namespace here: {missing}"),
            remedy: "ask for user namespaces".to_owned(),
        }),
    }
}

fn no_range(node: &NodeFacts) -> Unusable {
    let file = if node.sub_ids.subuid_count == 0 { "/etc/subuid" } else { "/etc/subgid" };
    Unusable {
        why: format!("this user has no range in {file}"),
        remedy: "ask for ranges: `usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER`"
            .to_owned(),
    }
}

pub(super) fn add(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    if !draft.container.fakeroot {
        return Ok(());
    }
    match outcome(draft.node, Purpose::Run, draft.around.is_sandbox) {
        Ok(Means::Root) => draft.reason("no --fakeroot", "root runs it, and needs none"),
        Ok(means) => draft
            .flag("--fakeroot", format!("the image's entry or the job file wants it; by {}", means.as_str())),
        Err(Unusable { why, remedy }) => {
            return Err(draft.unsupported(format!("`--fakeroot` does not work on this node: {why}"), remedy));
        }
    }
    Ok(())
}
