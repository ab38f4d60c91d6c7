//! What goes wrong with the files of the state directory.

use std::io;
use std::path::PathBuf;

use crate::private::PrivateError;

/// What went wrong with a file or directory of the state directory.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// A file or directory could not be opened.
    #[error("cannot open `{path}`")]
    Open {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file or directory could not be created.
    #[error("cannot create `{path}`")]
    Create {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file could not be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file could not be written; what stood there before still does.
    #[error("cannot write `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory could not be listed.
    #[error("cannot list `{path}`")]
    List {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A run could not be removed, or not wholly.
    #[error("cannot remove `{path}`")]
    Remove {
        /// The run's directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory of ours belongs to somebody else.
    #[error("`{path}` belongs to user id {owner}, not to {user}")]
    ForeignOwner {
        /// The directory.
        path: PathBuf,
        /// Who owns it.
        owner: u32,
        /// Who asks.
        user: u32,
    },
    /// Others may write to a directory of ours.
    #[error("`{path}` can be written by others (mode {mode:03o})")]
    Exposed {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A file is larger than anything dlrun writes there.
    #[error("`{path}` is larger than {limit} bytes")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit, in bytes.
        limit: usize,
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
        match self {
            Self::Open { source, .. } | Self::Read { source, .. } | Self::List { source, .. } => {
                source.kind() == io::ErrorKind::NotFound
            }
            _ => false,
        }
    }
}

impl From<PrivateError> for RunDirError {
    fn from(error: PrivateError) -> Self {
        match error {
            PrivateError::Open { path, source } => Self::Open { path, source },
            PrivateError::Create { path, source } => Self::Create { path, source },
            PrivateError::Read { path, source } => Self::Read { path, source },
            PrivateError::Write { path, source } => Self::Write { path, source },
            PrivateError::List { path, source } => Self::List { path, source },
            PrivateError::ForeignOwner { path, owner, user } => Self::ForeignOwner { path, owner, user },
            PrivateError::Exposed { path, mode } => Self::Exposed { path, mode },
            PrivateError::TooLarge { path, limit } => Self::TooLarge { path, limit },
        }
    }
}
