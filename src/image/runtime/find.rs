//! Where the runtime is.

use std::path::{Path, PathBuf};

use crate::foundation::command::find_in;
use crate::image::runtime::failure::ContainerError;
use crate::image::runtime::host_view::HostView;
use crate::image::runtime::kinds::commands;

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
