//! Where the runtime, its users and the base image are, as `tests/apptainer env` tells.

use std::path::PathBuf;

use crate::slurm_real::cluster::{User, wanted};

fn file(variable: &str) -> PathBuf {
    let path = PathBuf::from(wanted(variable));
    assert!(
        path.exists(),
        "{variable}: {} is not there (tests/apptainer up)",
        path.display()
    );
    path
}

/// The container runtime.
pub(crate) fn runtime() -> PathBuf {
    file("DLRUN_TEST_APPTAINER")
}

/// A Debian with python3, pip and venv, as a SIF. Not all of its files are root's.
pub(crate) fn base_sif() -> PathBuf {
    file("DLRUN_TEST_IMAGE_BASE")
}

/// The same as a directory.
pub(crate) fn base_sandbox() -> PathBuf {
    file("DLRUN_TEST_SANDBOX_BASE")
}

/// The ordinary user, who has a range in `/etc/subuid` and `/etc/subgid`. What this user submits runs here.
pub(crate) fn listed() -> User {
    User::without_cluster(&wanted("DLRUN_TEST_USER"))
}

/// An ordinary user without such a range.
pub(crate) fn unlisted() -> User {
    User::without_cluster(&wanted("DLRUN_TEST_USER_UNLISTED"))
}
