//! Where the runtime is.

use std::path::{Path, PathBuf};

use super::failure::ContainerError;
use super::surroundings::Surroundings;
use crate::foundation::command::{find, find_in};

/// The runtime's command: the one that was asked for, else the first apptainer of `PATH`, else the first singularity.
#[must_use]
pub fn find_runtime(asked: Option<&Path>) -> Option<PathBuf> {
    match asked {
        Some(asked) => find(asked, &[]),
        None => find("apptainer", &[]).or_else(|| find("singularity", &[])),
    }
}

/// [`find_runtime`] with the `PATH` of `around`; the command is absolute.
pub(super) fn in_surroundings(
    around: &Surroundings<'_>,
    asked: Option<&Path>,
) -> Result<PathBuf, ContainerError> {
    let dirs = around.program_dirs();
    let Some(asked) = asked else {
        let found = find_in("apptainer", &dirs).or_else(|| find_in("singularity", &dirs));
        return found.ok_or(ContainerError::NoRuntime);
    };
    let missing = || ContainerError::RuntimeMissing {
        command: asked.to_owned(),
    };
    let found = find_in(asked, &dirs).ok_or_else(missing)?;
    std::path::absolute(found).map_err(|_| missing())
}
