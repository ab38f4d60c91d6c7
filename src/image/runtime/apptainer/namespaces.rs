//! Whether this user gets a user namespace here, which a runtime needs that is not setuid.

use std::io;

use nix::errno::Errno;
use nix::sched::CloneFlags;

use crate::foundation::command::try_unshare;
use crate::image::runtime::host_view::{HostView, bounded_text};
use crate::image::runtime::kinds::facts_of;

const USER: &[CloneFlags] = &[CloneFlags::CLONE_NEWUSER];
const USER_AND_MOUNT: &[CloneFlags] = &[CloneFlags::CLONE_NEWUSER, CloneFlags::CLONE_NEWNS];

/// Switches of kernels, of Debian's and of Ubuntu's, with the value that forbids them.
const SWITCHES: [(&str, &str); 3] = [
    ("user/max_user_namespaces", "0"),
    ("kernel/unprivileged_userns_clone", "0"),
    (APPARMOR, "1"),
];
const APPARMOR: &str = "kernel/apparmor_restrict_unprivileged_userns";

/// Tries it: a user namespace, and in it a mount namespace.
pub(crate) fn attempt() -> io::Result<()> {
    try_unshare(USER)?;
    try_unshare(USER_AND_MOUNT)
}

/// Why there are none; `None`: they work. What the kernel does counts; its switches only explain it.
pub(crate) fn missing(
    around: &HostView<'_>,
    attempt: impl FnOnce() -> io::Result<()>,
) -> Option<String> {
    let error = attempt().err()?;
    let is_closed = |(name, closed): &&(&str, &str)| {
        let text = around.text(&format!("/proc/sys/{name}"));
        text.is_ok_and(|text| text.trim() == *closed)
    };
    let closed = SWITCHES.iter().find(is_closed);
    if closed.is_some_and(|(name, _)| *name == APPARMOR) && has_apparmor_profile(around) {
        return None;
    }
    Some(match (closed, error.raw_os_error().map(Errno::from_raw)) {
        (Some((name, value)), _) => format!("{} is {value}", name.replace('/', ".")),
        // `unshare(2)`: ENOSPC, of this user or of one of the namespaces around us.
        (None, Some(Errno::ENOSPC)) => "the limit user.max_user_namespaces is reached".to_owned(),
        (None, _) => format!("the kernel refuses them: {error}"),
    })
}

/// Apptainer's packages bring a profile that lets its starter make them while others may not (Apptainer 1.4,
/// `dist/debian/apparmor-userns`). It holds for the starter and not for us, whose attempt therefore fails.
fn has_apparmor_profile(around: &HostView<'_>) -> bool {
    facts_of(None).iter().any(|facts| {
        let text =
            bounded_text(&around.path("etc/apparmor.d").join(facts.name)).unwrap_or_default();
        text.lines()
            .any(|line| matches!(line.trim(), "userns," | "userns create,"))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn judged(files: &[(&str, &str)], failure: Option<Errno>) -> Option<String> {
        let root = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("it has one")).expect("ours");
            fs::write(path, text).expect("ours");
        }
        let around = HostView {
            root: root.path(),
            variable: &|_| None,
        };
        missing(&around, || {
            failure.map_or(Ok(()), |errno| Err(errno.into()))
        })
    }

    #[test]
    fn what_the_kernel_does_counts_and_its_switches_explain_it() {
        assert_eq!(judged(&[], None), None);
        // Root may, whatever is switched off for others.
        assert_eq!(
            judged(
                &[("proc/sys/kernel/unprivileged_userns_clone", "0\n")],
                None
            ),
            None
        );
        for (name, value) in [
            ("user/max_user_namespaces", "0\n"),
            ("kernel/unprivileged_userns_clone", "0\n"),
            ("kernel/apparmor_restrict_unprivileged_userns", "1\n"),
        ] {
            let why = judged(&[(&format!("proc/sys/{name}"), value)], Some(Errno::EPERM));
            assert!(
                why.as_ref()
                    .is_some_and(|why| why.contains(&name.replace('/', "."))),
                "{why:?}"
            );
        }
        let open = [("proc/sys/user/max_user_namespaces", "15000\n")];
        for (errno, part) in [
            (Errno::ENOSPC, "is reached"),
            (Errno::EPERM, "the kernel refuses them"),
        ] {
            let why = judged(&open, Some(errno));
            assert!(
                why.as_ref().is_some_and(|why| why.contains(part)),
                "{errno}: {why:?}"
            );
        }
    }

    #[test]
    fn a_profile_for_the_starter_makes_up_for_apparmors_switch() {
        let switch = (
            "proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            "1\n",
        );
        let profile = "profile apptainer /usr/libexec/apptainer/bin/starter{,-suid} flags=(unconfined) {\n  userns,\n}\n";
        let profile = ("etc/apparmor.d/apptainer", profile);
        let placeholder = ("etc/apparmor.d/apptainer", "profile apptainer {\n}\n");
        assert_eq!(judged(&[switch, profile], Some(Errno::EPERM)), None);
        assert!(judged(&[switch, placeholder], Some(Errno::EPERM)).is_some());
        assert!(
            judged(&[profile], Some(Errno::EPERM)).is_some(),
            "the switch is not what forbids it"
        );
    }
}
