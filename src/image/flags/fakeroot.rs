//! `--fakeroot`: which way the runtime will take, or exactly why there is none.
//!
//! Apptainer since 1.1 tries several ways (v1.4.5: `internal/pkg/runtime/launch/launcher_linux.go` for a run,
//! `cmd/internal/cli/build_linux.go` for a build). Singularity, SingularityCE and Apptainer 1.0 need a range of ids.

use crate::image::flags::draft::Draft;
use crate::image::flags::{NodeFacts, Refusal, SubIds};
use crate::image::runtime::{Feature, Features};

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
}

impl Means {
    /// The runtime's words.
    #[must_use]
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Root => &[],
            Self::Namespace {
                range_ignored: true,
                ..
            } => &["--fakeroot", "--ignore-subuid"],
            Self::Range | Self::Namespace { .. } => &["--fakeroot"],
        }
    }

    /// For people.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Root => "root runs it, and needs no `--fakeroot`",
            Self::Range => "with this user's ids in /etc/subuid and /etc/subgid",
            Self::Namespace { command: true, .. } => {
                "with one id, and the `fakeroot` command for the others"
            }
            Self::Namespace { command: false, .. } => {
                "with one id and no `fakeroot` command: giving a file to another user fails"
            }
        }
    }
}

/// How a user gets user namespaces.
pub(crate) const ASK_NAMESPACES: &str = "ask the administrator for user namespaces: `sysctl user.max_user_namespaces=15000`, on Debian and Ubuntu also \
     `kernel.unprivileged_userns_clone=1` and `kernel.apparmor_restrict_unprivileged_userns=0`";
const ASK_RANGES: &str = "ask the administrator for ids: `usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER`, with \
     numbers that no other user has";

/// Which way `--fakeroot` takes for this user on this node.
///
/// # Errors
/// [`Refusal`]: none is there.
pub fn outcome(node: &NodeFacts, purpose: Purpose) -> Result<Means, Refusal> {
    let features = Features(node.runtime);
    if node.uid == 0 {
        return Ok(Means::Root);
    }

    let range = range(node);
    if let Some(missing) = &node.namespaces.missing {
        return without_namespaces(node, features, missing, purpose, range);
    }
    let command = node.sub_ids.fakeroot_command;
    match range {
        Ok(()) => Ok(Means::Range),
        Err(lack) if !features.has(Feature::FakerootFallback) => Err(lack),
        // The runtime looks into /etc/subuid alone before it decides for the range, and ends where that is too short.
        Err(_) => Ok(Means::Namespace {
            command,
            range_ignored: node.sub_ids.subuid_count > 0,
        }),
    }
}

/// Whether this user's range can be used.
fn range(node: &NodeFacts) -> Result<(), Refusal> {
    let ids = &node.sub_ids;
    if ids.subuid_count.min(ids.subgid_count) < SubIds::LEAST {
        let why = format!(
            "this user needs a range of at least {} ids in each of /etc/subuid and /etc/subgid, and the longest have {} and {}",
            SubIds::LEAST,
            ids.subuid_count,
            ids.subgid_count
        );
        return Err(Refusal::unsupported(why, ASK_RANGES));
    }
    if ids.newuidmap || node.namespaces.setuid_starter {
        return Ok(());
    }
    Err(Refusal::unsupported(
        "this user has ranges in /etc/subuid and /etc/subgid, but newuidmap and newgidmap are not found",
        "ask the administrator for them: the package `uidmap` (Debian, Ubuntu) or `shadow-utils`",
    ))
}

/// The starter makes the namespace as root, unless there are none at all; a build of Apptainer asks beforehand.
fn without_namespaces(
    node: &NodeFacts,
    features: Features,
    missing: &str,
    purpose: Purpose,
    range: Result<(), Refusal>,
) -> Result<Means, Refusal> {
    let falls_back = features.has(Feature::FakerootFallback);
    let is_build = falls_back && purpose == Purpose::Build;
    let has_range = node.sub_ids.subuid_count > 0;
    let none_at_all = has_range && missing.contains("max_user_namespaces");
    if !node.namespaces.setuid_starter || none_at_all || is_build || (falls_back && !has_range) {
        let why = format!("this user gets no user namespace here ({missing})");
        return Err(Refusal::unsupported(why, ASK_NAMESPACES));
    }
    range.map(|()| Means::Range)
}

pub(crate) fn add(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    if !draft.container.fakeroot {
        return Ok(());
    }
    let wanted = "the job file or the image's entry wants it";
    match outcome(draft.node, Purpose::Run) {
        Ok(Means::Root) => draft.reason("no --fakeroot", Means::Root.describe()),
        Ok(_) if draft.assumed => {
            draft.flag("--fakeroot", format!("{wanted}; the node decides how"))
        }
        Ok(means) => {
            for flag in means.flags() {
                let why = match *flag {
                    "--fakeroot" => format!("{wanted}; {}", means.describe()),
                    _ => "the ranges of ids are unusable, and the runtime would insist on them"
                        .to_owned(),
                };
                draft.flag(flag, why);
            }
        }
        Err(Refusal { why, remedy, .. }) => {
            return Err(Refusal::unsupported(
                format!("`--fakeroot` does not work on this node: {why}"),
                remedy,
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::flags::{GpuFacts, Namespaces};
    use crate::image::runtime::Runtime;

    const CLONE: &str = "kernel.unprivileged_userns_clone is 0";
    const MANY: u64 = SubIds::LEAST;
    const FEW: u64 = MANY - 1;
    const ZERO: &str = "user.max_user_namespaces is 0";

    /// Ranges in subuid and subgid, newuidmap, the command.
    fn node(
        said: &str,
        ids: (u64, u64, bool, bool),
        missing: Option<&str>,
        setuid_starter: bool,
    ) -> NodeFacts {
        let (subuid_count, subgid_count, newuidmap, fakeroot_command) = ids;
        NodeFacts {
            command: "/usr/bin/apptainer".into(),
            runtime: Runtime::parse(said),
            uid: 1000,
            gpus: GpuFacts::default(),
            namespaces: Namespaces {
                missing: missing.map(str::to_owned),
                setuid_starter,
            },
            sub_ids: SubIds {
                subuid_count,
                subgid_count,
                newuidmap,
                fakeroot_command,
            },
            squashfuse: true,
            fuse_device: true,
        }
    }

    fn namespace(command: bool, range_ignored: bool) -> Result<Means, &'static str> {
        Ok(Means::Namespace {
            command,
            range_ignored,
        })
    }

    #[test]
    fn each_product_takes_its_own_way_or_says_why_not() {
        use Purpose::{Build, Run};
        let (new, old, ce) = (
            "apptainer version 1.4.5",
            "apptainer version 1.0.3",
            "singularity-ce version 4.1.5",
        );
        let (listed, unlisted) = ((MANY, MANY, true, true), (0, 0, true, true));
        for (said, ids, missing, setuid, purpose, expected) in [
            (new, listed, None, false, Run, Ok(Means::Range)),
            (
                new,
                (MANY, MANY, false, true),
                None,
                true,
                Run,
                Ok(Means::Range),
            ),
            (new, unlisted, None, false, Build, namespace(true, false)),
            (
                new,
                (0, MANY, true, false),
                None,
                false,
                Run,
                namespace(false, false),
            ),
            (
                new,
                (MANY, MANY, false, true),
                None,
                false,
                Build,
                namespace(true, true),
            ),
            (
                new,
                (MANY, 0, true, true),
                None,
                false,
                Run,
                namespace(true, true),
            ),
            (
                new,
                listed,
                Some(CLONE),
                false,
                Build,
                Err("no user namespace here (kernel.unpriv"),
            ),
            (
                new,
                listed,
                Some(CLONE),
                true,
                Build,
                Err("no user namespace"),
            ),
            (new, listed, Some(CLONE), true, Run, Ok(Means::Range)),
            (
                new,
                listed,
                Some(ZERO),
                true,
                Run,
                Err("user.max_user_namespaces is 0"),
            ),
            (
                new,
                unlisted,
                Some(ZERO),
                true,
                Run,
                Err("no user namespace"),
            ),
            (
                new,
                unlisted,
                Some(ZERO),
                true,
                Run,
                Err("no user namespace"),
            ),
            (
                new,
                unlisted,
                Some(ZERO),
                true,
                Build,
                Err("no user namespace"),
            ),
            (
                new,
                (0, 0, true, false),
                Some(ZERO),
                true,
                Build,
                Err("no user namespace"),
            ),
            (
                old,
                unlisted,
                None,
                false,
                Run,
                Err("the longest have 0 and 0"),
            ),
            (
                ce,
                (MANY, 0, true, true),
                None,
                false,
                Run,
                Err("at least 65536 ids"),
            ),
            (
                ce,
                (0, MANY, true, true),
                None,
                false,
                Run,
                Err("at least 65536 ids"),
            ),
            (
                ce,
                (MANY, MANY, false, true),
                None,
                false,
                Build,
                Err("newuidmap and newgidmap are not found"),
            ),
            (
                ce,
                unlisted,
                Some(CLONE),
                true,
                Run,
                Err("at least 65536 ids"),
            ),
            (ce, listed, None, false, Build, Ok(Means::Range)),
            (
                new,
                (FEW, MANY, true, true),
                None,
                false,
                Build,
                namespace(true, true),
            ),
            (
                new,
                (MANY, FEW, true, true),
                None,
                false,
                Run,
                namespace(true, true),
            ),
            (
                ce,
                (FEW, MANY, true, true),
                None,
                false,
                Run,
                Err("the longest have 65535 and"),
            ),
            (
                ce,
                (MANY, FEW, true, true),
                None,
                false,
                Run,
                Err("at least 65536 ids"),
            ),
            (
                new,
                (FEW, FEW, true, true),
                Some(CLONE),
                true,
                Run,
                Err("the longest have 65535 and 65535"),
            ),
            (
                "something 1.0",
                unlisted,
                None,
                false,
                Run,
                Err("at least 65536 ids"),
            ),
        ] {
            let case = format!("{said} {ids:?} {missing:?} {setuid} {purpose:?}");
            match (
                outcome(&node(said, ids, missing, setuid), purpose),
                expected,
            ) {
                (Ok(means), Ok(expected)) => assert_eq!(means, expected, "{case}"),
                (Err(unusable), Err(part)) => {
                    assert!(unusable.why.contains(part), "{case}: {unusable}");
                    assert!(
                        unusable.remedy.starts_with("ask ") || unusable.remedy.starts_with("use "),
                        "{case}"
                    );
                }
                (found, expected) => panic!("{case}: {found:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn root_is_never_given_the_flag() {
        let node = NodeFacts {
            uid: 0,
            ..node(
                "singularity-ce version 4.1.5",
                (0, 0, false, false),
                Some(ZERO),
                false,
            )
        };
        let means = outcome(&node, Purpose::Build).expect("root needs nothing");
        assert_eq!((means, means.flags()), (Means::Root, &[] as &[&str]));
    }
}
