//! Where the runtime is.

use std::path::{Path, PathBuf};

use crate::command::find;

/// The runtime's command: the one that was asked for, else the first apptainer of `PATH`, else the first singularity.
#[must_use]
pub fn find_runtime(asked: Option<&Path>) -> Option<PathBuf> {
    match asked {
        Some(asked) => find(asked, &[]),
        None => find("apptainer", &[]).or_else(|| find("singularity", &[])),
    }
}
