//! Opening the database.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::geteuid;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::error::{StoreError, StoreFault};
use super::schema;
use super::writer::Writer;

/// How long to wait for another process that writes. A reindex of 10,000 runs takes less.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// More than there are statements in this module, so that a reindex compiles each once.
const STATEMENTS_KEPT: usize = 64;

/// An open index.
#[derive(Debug)]
pub struct Store {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    /// The database as a file, where it is only read. Held for as long as the connection, and closed after it: to close any descriptor
    /// of a file drops all locks that the process has on it (fcntl(2)), SQLite's too.
    pub(super) reading: Option<File>,
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
    /// [`StoreFault::Damaged`], [`StoreFault::Newer`], [`StoreFault::Foreign`], [`StoreFault::NotOurs`],
    /// [`StoreFault::Busy`], [`StoreFault::Full`], [`StoreFault::Create`], [`StoreFault::Query`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::prepare(connect(path, 0o600)?, path, "OFF")
    }

    /// The path of one that is in no file.
    pub const IN_MEMORY: &str = ":memory:";

    /// An index that ends with the process, for when no file can be had.
    ///
    /// # Errors
    /// [`StoreFault::Query`], for want of memory.
    pub fn in_memory() -> Result<Self, StoreError> {
        let path = Path::new(Self::IN_MEMORY);
        let opened = Connection::open_in_memory();
        Self::prepare(
            opened.map_err(|source| StoreError::from_sqlite(path, "open", source))?,
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
        let failed = |source| StoreError::from_sqlite(path, "open", source);
        connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
        let found = schema::migrate(&mut connection).map_err(failed)?;
        // After the schema is read: the first of these would read it by itself, and lock for that once more.
        let settings = format!(
            "PRAGMA synchronous = {synchronous}; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;"
        );
        connection.execute_batch(&settings).map_err(failed)?;
        match found {
            schema::Found::Current => Ok(Self {
                connection,
                path: path.to_owned(),
                reading: None,
            }),
            schema::Found::Newer(version) => Err(StoreError::newer(path, version, schema::VERSION)),
            _ => Err(StoreError::foreign(path)),
        }
    }

    /// Moves an index that is of no use, with its journal, to `<path>.old-1`, or the next number that is free, and returns that path.
    ///
    /// # Errors
    /// As of the file system: it cannot be moved.
    pub fn set_aside(path: &Path) -> Result<PathBuf, StoreError> {
        let failed = |source| {
            let message = format!("cannot move the index `{}` aside", path.display());
            StoreError::caused(StoreFault::Query, message, source)
        };
        let aside = free_name(path).map_err(failed)?;
        // The journals go first: left behind, they would be put into the new database.
        for journal in ["-journal", "-wal", "-shm"] {
            match fs::rename(beside(path, journal), beside(&aside, journal)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
        fs::rename(path, &aside).map_err(failed)?;
        Ok(aside)
    }

    /// Whether all tables have the columns of this dlrun's.
    ///
    /// # Errors
    /// [`StoreFault::Busy`], [`StoreFault::Damaged`], [`StoreFault::Query`].
    pub fn has_own_columns(&self) -> Result<bool, StoreError> {
        let own = Self::in_memory()?;
        Ok(columns(&self.connection, &self.path)? == columns(&own.connection, &own.path)?)
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
    /// Those of `work`; [`StoreFault::Busy`], [`StoreFault::Full`], [`StoreFault::Damaged`], [`StoreFault::Query`].
    pub fn write<T, E: From<StoreError>>(
        &mut self,
        work: impl FnOnce(&Writer<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let failed = |source| StoreError::from_sqlite(&self.path, "write", source);
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

/// A name beside `path` for what is set aside, claimed by an empty file.
fn free_name(path: &Path) -> io::Result<PathBuf> {
    for number in 1.. {
        let name = beside(path, &format!(".old-{number}"));
        let claimed = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&name);
        match claimed {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            claimed => return claimed.map(|_| name),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// `table.column` of all tables, in order.
fn columns(connection: &Connection, path: &Path) -> Result<Vec<String>, StoreError> {
    let failed = |source| StoreError::from_sqlite(path, "read", source);
    let sql = "SELECT its.name || '.' || had.name FROM sqlite_schema its, pragma_table_info(its.name) had \
               WHERE its.type = 'table' AND its.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY 1";
    let mut statement = connection.prepare(sql).map_err(failed)?;
    let names = statement.query_map([], |row| row.get(0)).map_err(failed)?;
    names.collect::<Result<_, _>>().map_err(failed)
}

/// Opens the file, creating it with `mode`.
pub(super) fn connect(path: &Path, mode: u32) -> Result<Connection, StoreError> {
    create_or_check(path, mode)?;
    connect_with(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
}

pub(super) fn connect_with(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    // SQLite would take a name that begins with `file:` for a URI.
    let name = if path.is_absolute() {
        path.to_owned()
    } else {
        Path::new(".").join(path)
    };
    Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|source| StoreError::from_sqlite(path, "open", source))
}

/// SQLite would create the file for all to read, and follow a link.
fn create_or_check(path: &Path, mode: u32) -> Result<(), StoreError> {
    let failed = |source| cannot_create(path, source);
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
        let message = format!("`{}` is not a file of user id {user}", path.display());
        Err(StoreError::new(StoreFault::NotOurs, message))
    }
}

pub(super) fn cannot_create(path: &Path, source: io::Error) -> StoreError {
    let message = format!("cannot create the index `{}`", path.display());
    StoreError::caused(StoreFault::Create, message, source)
}

/// The path of a file beside the database, by what its name has more.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
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
        assert!(
            matches!(busy, Err(ref error) if error.kind == StoreFault::Busy),
            "{busy:?}"
        );
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
                    .map_err(|source| StoreError::from_sqlite(writer.path, "write", source))
            })
        });
        assert!(
            matches!(full, Err(ref error) if error.kind == StoreFault::Full),
            "{full:?}"
        );
    }

    #[test]
    fn an_error_names_the_file_and_leaves_the_cause_to_the_chain() {
        let path = Path::new("/s/dlrun.db");
        let error = StoreError::from_sqlite(path, "read", rusqlite::Error::InvalidQuery);
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
        assert!(tmp.path().join("dlrun.db.old-1-journal").exists());
    }

    #[test]
    fn what_is_set_aside_replaces_nothing() {
        let tmp = tempfile::tempdir().expect("a directory");
        let path = tmp.path().join("dlrun.db");
        for text in ["first", "second", "third"] {
            fs::write(&path, text).expect("written");
            let aside = Store::set_aside(&path).expect("moved");
            assert_eq!(fs::read_to_string(aside).expect("kept"), text);
        }
        let kept = fs::read_to_string(tmp.path().join("dlrun.db.old-1"));
        assert_eq!(kept.expect("kept"), "first");
    }
}
