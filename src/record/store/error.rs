//! What can be wrong with the database.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::foundation::failure::Failure;

/// What callers decide by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreFault {
    /// The database file could not be looked at or created.
    Create,
    /// What lies there is not a file of the caller's own: a link, a directory, another user's.
    NotOurs,
    /// A database of another program.
    Foreign,
    /// A newer dlrun wrote it.
    Newer,
    /// An older dlrun wrote it, and it is only read.
    Older,
    /// It is not a database, or not a whole one: [`Store::set_aside`](super::Store::set_aside) and fill a new one.
    Damaged,
    /// Its tables are not those of its version, as after a development build.
    OtherTables,
    /// Another process has been writing for longer than five seconds.
    Busy,
    /// The file system has no room.
    Full,
    /// Something of a run was brought before the run itself.
    UnknownRun,
    /// A run that somebody else registered.
    OtherUser,
    /// The node's database would lie where its locks and writes cannot be trusted.
    Network,
    /// Another process has the node's database.
    Held,
    /// A database that is only read does not exist.
    Missing,
    /// A database that is only read is not for the caller.
    Denied,
    /// A database that is only read cannot be read.
    Unreadable,
    /// SQLite cannot open it, or not write beside it.
    CannotOpen,
    /// Anything else.
    Query,
}

/// What went wrong with a database. With an index nothing is lost by it: the files are the truth.
pub type StoreError = Failure<StoreFault>;

impl StoreError {
    /// SQLite could not `operation` (`open`, `read`, `write`) it.
    pub(super) fn from_sqlite(
        path: &Path,
        operation: &'static str,
        source: rusqlite::Error,
    ) -> Self {
        let path = path.display();
        // Without the statement, which users do not know.
        let source = match source {
            rusqlite::Error::SqlInputError { error, msg, .. } => {
                rusqlite::Error::SqliteFailure(error, Some(msg))
            }
            source => source,
        };
        let code = match &source {
            // Bytes that make no sense.
            rusqlite::Error::FromSqlConversionFailure(..) => Some(ErrorCode::DatabaseCorrupt),
            other => other.sqlite_error_code(),
        };
        let (fault, message) = match code {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => (
                StoreFault::Damaged,
                format!("the index `{path}` is damaged"),
            ),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
                StoreFault::Busy,
                format!("the index `{path}` is in use by another process"),
            ),
            Some(ErrorCode::DiskFull) => (
                StoreFault::Full,
                format!("no space is left for the index `{path}`"),
            ),
            code => (
                match code {
                    Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly) => StoreFault::CannotOpen,
                    // A statement that does not fit the tables: SQLite's plain SQLITE_ERROR.
                    Some(ErrorCode::Unknown) => StoreFault::OtherTables,
                    _ => StoreFault::Query,
                },
                format!("cannot {operation} the index `{path}`"),
            ),
        };
        Self::caused(fault, message, source)
    }

    pub(super) fn foreign(path: &Path) -> Self {
        let message = format!("`{}` is a database of another program", path.display());
        Self::new(StoreFault::Foreign, message)
    }

    pub(super) fn newer(path: &Path, version: i32, known: i32) -> Self {
        let path = path.display();
        let message =
            format!("the index `{path}` has version {version}, and this dlrun knows up to {known}");
        Self::new(StoreFault::Newer, message)
    }
}
