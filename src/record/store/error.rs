//! What can be wrong with the database.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::job::RunId;

/// What went wrong with the index. None of it loses anything: the files are the truth.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database file could not be looked at or created.
    #[error("cannot create the index `{path}`")]
    Create {
        /// The database.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The damaged database could not be moved out of the way.
    #[error("cannot move the damaged index `{path}` aside")]
    SetAside {
        /// The database.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What lies there is not a file of the caller's own: a link, a directory, another user's.
    #[error("`{path}` is not a file of user id {user}")]
    NotOurs {
        /// The database.
        path: PathBuf,
        /// Who asks.
        user: u32,
    },
    /// A database of another program.
    #[error("`{path}` is a database of another program")]
    Foreign {
        /// The database.
        path: PathBuf,
    },
    /// A newer dlrun wrote it.
    #[error("the index `{path}` has version {version}, and this dlrun knows up to {known}")]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its version.
        version: i32,
        /// The newest known one.
        known: i32,
    },
    /// It is no database, or no whole one: [`Store::set_aside`](super::Store::set_aside) and fill a new one.
    #[error("the index `{path}` is damaged")]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// Another process has been writing for longer than five seconds.
    #[error("the index `{path}` is in use by another process")]
    Busy {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The file system has no room.
    #[error("no space is left for the index `{path}`")]
    Full {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// Something of a run was brought before the run itself.
    #[error("run `{run_id}` is not in the index `{path}`")]
    UnknownRun {
        /// The database.
        path: PathBuf,
        /// The run.
        run_id: RunId,
    },
    /// The node's database would lie where its locks and writes cannot be trusted.
    #[error(
        "`{path}` would lie on `{file_system}`, which several machines share; set `state_dir` to a local directory"
    )]
    Network {
        /// The database.
        path: PathBuf,
        /// Name of the file system.
        file_system: &'static str,
    },
    /// Another process has the node's database.
    #[error("the database `{path}` is in use by process {}", .holder.as_deref().unwrap_or("unknown"))]
    Held {
        /// The database.
        path: PathBuf,
        /// Its process id, as it wrote it down.
        holder: Option<String>,
    },
    /// A run that somebody else registered.
    #[error("run `{run_id}` is not of user id {user}")]
    OtherUser {
        /// The run.
        run_id: RunId,
        /// Who asks.
        user: u32,
    },
    /// A database that is only read is not there, or is not for the caller.
    #[error("cannot read the database `{path}`")]
    Unreadable {
        /// The database.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An older dlrun wrote it, and it is only read.
    #[error("the database `{path}` has version {version}, and this dlrun reads version {known}")]
    Older {
        /// The database.
        path: PathBuf,
        /// Its version.
        version: i32,
        /// The one that is known.
        known: i32,
    },
    /// It was written to while it was read without locks.
    #[error("the database `{path}` changed while it was read")]
    Changed {
        /// The database.
        path: PathBuf,
    },
    /// Anything else.
    #[error("cannot {operation} the index `{path}`")]
    Query {
        /// The database.
        path: PathBuf,
        /// What was tried: `open`, `read`, `write`.
        operation: &'static str,
        /// What SQLite says.
        source: rusqlite::Error,
    },
}

impl StoreError {
    pub(super) fn of(path: &Path, operation: &'static str, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                Self::Damaged { path, source }
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Busy { path, source }
            }
            Some(ErrorCode::DiskFull) => Self::Full { path, source },
            _ => Self::Query {
                path,
                operation,
                source,
            },
        }
    }
}
