//! What goes wrong with the files of the state directory.

use std::io;
use std::path::PathBuf;

use crate::foundation::private::PrivateError;

/// What went wrong with a file or directory of the state directory.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// Opening, creating, reading, writing or listing failed, or others could have written there.
    #[error(transparent)]
    Private(#[from] PrivateError),
    /// A run could not be removed, or not wholly.
    #[error("cannot remove `{path}`")]
    Remove {
        /// The run's directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file's content is not what its name promises.
    #[error("`{path}` is damaged")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the content ends to make sense.
        source: serde_json::Error,
    },
    /// A file comes from a newer dlrun.
    #[error("`{path}` has format {format}, and this dlrun knows up to {known}")]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u32,
        /// The newest known one.
        known: u32,
    },
    /// A file speaks of another run, attempt or node than the directory it lies in.
    #[error("`{path}` lies in the wrong directory: it belongs to {belongs_to}")]
    Misplaced {
        /// The file.
        path: PathBuf,
        /// Whose it says it is.
        belongs_to: String,
    },
    /// Text that cannot name a node, as it becomes part of a path.
    #[error("{node:?} cannot name a node: it {why}")]
    NodeName {
        /// The text.
        node: String,
        /// Why not.
        why: String,
    },
}

impl RunDirError {
    /// True when what was asked for is simply not there.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Private(error) if error.is_missing())
    }
}
