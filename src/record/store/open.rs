//! Opening the database, and what can be wrong with it.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::geteuid;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::ingest::Writer;
use super::reader::Reading;
use super::schema;
use crate::job::RunId;

/// How long to wait for another process that writes. A reindex of 10,000 runs takes less.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// More than there are statements in this module, so that a reindex compiles each once.
const STATEMENTS_KEPT: usize = 64;

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
    /// It is no database, or no whole one: [`Store::set_aside`] and fill a new one.
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

/// An open index.
#[derive(Debug)]
pub struct Store {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    /// After the connection, so that it is closed later.
    pub(super) reading: Option<Reading>,
}

impl Store {
    /// Opens the index, creating it (mode 0600) or bringing its schema up to date first. Its directory must exist and be
    /// closed to others.
    ///
    /// The journal is a rollback journal: write-ahead logging needs memory shared by all who read. `synchronous` is off:
    /// killed processes lose nothing by that, and what a power failure may damage can be filled again from files, while
    /// waiting for the disk three times would be the slowest part of a submission.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], [`StoreError::Newer`], [`StoreError::Foreign`], [`StoreError::NotOurs`],
    /// [`StoreError::Busy`], [`StoreError::Full`], [`StoreError::Create`], [`StoreError::Query`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::prepare(connect(path, 0o600)?, path, "OFF")
    }

    /// An index that ends with the process, for when no file can be had.
    ///
    /// # Errors
    /// [`StoreError::Query`], for want of memory.
    pub fn in_memory() -> Result<Self, StoreError> {
        let path = Path::new(":memory:");
        let opened = Connection::open_in_memory();
        Self::prepare(
            opened.map_err(|source| StoreError::of(path, "open", source))?,
            path,
            "OFF",
        )
    }

    /// Brings the schema up to date; `synchronous` is for what comes after.
    pub(super) fn prepare(
        mut connection: Connection,
        path: &Path,
        synchronous: &str,
    ) -> Result<Self, StoreError> {
        let failed = |source| StoreError::of(path, "open", source);
        connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
        let found = schema::migrate(&mut connection).map_err(failed)?;
        // After the schema is read: the first of these would read it by itself, and lock for that once more.
        let settings = format!(
            "PRAGMA synchronous = {synchronous}; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;"
        );
        connection.execute_batch(&settings).map_err(failed)?;
        let path = path.to_owned();
        match found {
            schema::Found::Current => Ok(Self {
                connection,
                path,
                reading: None,
            }),
            schema::Found::Foreign => Err(StoreError::Foreign { path }),
            schema::Found::Newer { version } => Err(StoreError::Newer {
                path,
                version,
                known: schema::version(),
            }),
        }
    }

    /// Moves a damaged index, with its journal, to `<path>.damaged`, in place of an earlier one, and returns that path.
    ///
    /// # Errors
    /// [`StoreError::SetAside`].
    pub fn set_aside(path: &Path) -> Result<PathBuf, StoreError> {
        let beside = |suffix: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        let failed = |source| StoreError::SetAside {
            path: path.to_owned(),
            source,
        };
        // The journals go first: left behind, they would be put into the new database.
        for journal in ["-journal", "-wal", "-shm"] {
            match fs::rename(beside(journal), beside(&format!(".damaged{journal}"))) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
        let aside = beside(".damaged");
        fs::rename(path, &aside).map_err(failed)?;
        Ok(aside)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `work` in one transaction: all it writes is there afterwards, or nothing where it fails. Many runs belong in
    /// one call, since the transaction costs more than its rows.
    ///
    /// # Errors
    /// Those of `work`; [`StoreError::Busy`], [`StoreError::Full`], [`StoreError::Damaged`], [`StoreError::Query`].
    pub fn write<T, E: From<StoreError>>(
        &mut self,
        work: impl FnOnce(&Writer<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let failed = |source| StoreError::of(&self.path, "write", source);
        let begun = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begun.map_err(failed)?;
        let done = work(&Writer {
            transaction: &transaction,
            path: &self.path,
        })?;
        transaction.commit().map_err(failed)?;
        Ok(done)
    }
}

/// Opens the file, creating it with `mode`.
pub(super) fn connect(path: &Path, mode: u32) -> Result<Connection, StoreError> {
    create_or_check(path, mode)?;
    // SQLite would take a name that begins with `file:` for a URI.
    let name = if path.is_absolute() {
        path.to_owned()
    } else {
        Path::new(".").join(path)
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(name, flags).map_err(|source| StoreError::of(path, "open", source))
}

/// SQLite would create the file for all to read, and follow a link.
fn create_or_check(path: &Path, mode: u32) -> Result<(), StoreError> {
    let failed = |source| StoreError::Create {
        path: path.to_owned(),
        source,
    };
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Without `O_EXCL` the close could drop the locks of another connection in this process.
            let created = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(mode)
                .open(path);
            // A umask may take rights from the owner too.
            return match created.and_then(|file| file.set_permissions(Permissions::from_mode(mode)))
            {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(error)),
                _ => Ok(()),
            };
        }
        Err(error) => return Err(failed(error)),
    };
    let user = geteuid().as_raw();
    if found.is_file() && found.uid() == user {
        Ok(())
    } else {
        Err(StoreError::NotOurs {
            path: path.to_owned(),
            user,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened() -> (tempfile::TempDir, Store) {
        let tmp = tempfile::tempdir().expect("a directory");
        let store = Store::open(&tmp.path().join("dlrun.db")).expect("opened");
        (tmp, store)
    }

    #[test]
    fn an_index_in_use_is_told_from_a_full_disk() {
        let (_tmp, mut store) = opened();
        let other = Connection::open(store.path()).expect("opened");
        other.execute_batch("BEGIN IMMEDIATE").expect("locked");
        store.connection.busy_timeout(Duration::ZERO).expect("set");
        let busy = store.write(|writer| writer.clear());
        assert!(matches!(busy, Err(StoreError::Busy { .. })), "{busy:?}");
        other.execute_batch("ROLLBACK").expect("unlocked");
        store
            .connection
            .execute_batch("PRAGMA max_page_count = 1")
            .expect("set");
        let full = store.write(|writer| {
            (0..1000_u16).try_for_each(|number| {
                let target = format!("INSERT INTO target (fingerprint) VALUES ('{number:0>200}')");
                let done = writer.transaction.execute(&target, []);
                done.map(drop)
                    .map_err(|source| StoreError::of(writer.path, "write", source))
            })
        });
        assert!(matches!(full, Err(StoreError::Full { .. })), "{full:?}");
    }

    #[test]
    fn an_error_names_the_file_and_leaves_the_cause_to_the_chain() {
        let path = Path::new("/s/dlrun.db");
        let error = StoreError::of(path, "read", rusqlite::Error::InvalidQuery);
        assert_eq!(error.to_string(), "cannot read the index `/s/dlrun.db`");
        assert!(std::error::Error::source(&error).is_some());
    }

    #[test]
    fn a_journal_goes_aside_with_its_database() {
        let (tmp, store) = opened();
        let journal = tmp.path().join("dlrun.db-journal");
        fs::write(&journal, "old").expect("written");
        Store::set_aside(store.path()).expect("moved");
        assert!(!journal.exists() && !store.path().exists());
        assert!(tmp.path().join("dlrun.db.damaged-journal").exists());
    }
}
