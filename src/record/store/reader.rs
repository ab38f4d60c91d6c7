//! Reading a database that somebody else writes: a node's by a member of its group, a site's, a copy.
//!
//! Nothing is written, neither to the database nor beside it. While its writer runs, readers share its journal; they need no
//! right to write for that. When a node daemon has ended, it has taken its journal along, and SQLite wants to make another, which
//! a member of the group may not.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use rusqlite::{Connection, OpenFlags};

use super::error::{StoreError, StoreFault};
use super::open::{BUSY_TIMEOUT, Store, beside, connect_with};
use super::schema;
use crate::foundation::filesystem::directory;

impl Store {
    /// Opens a database to read it alone. It is neither created nor brought up to date, and may be another user's.
    ///
    /// # Errors
    /// [`StoreFault::Missing`] or [`StoreFault::Denied`] where there is none that the caller may read; [`StoreFault::CannotOpen`] where
    /// a node daemon that ended took its journal along; [`StoreFault::Older`] where its schema is older than this dlrun's; those
    /// of [`Store::open`].
    pub fn open_reader(path: &Path) -> Result<Self, StoreError> {
        let file = open_file(path)?;
        Ok(Self {
            connection: connect(path)?,
            path: path.to_owned(),
            reading: Some(file),
        })
    }

    /// The number of the last change that a power failure cannot take back. Writers do not wait for the disk; here it is waited
    /// for, so that no number is handed out that could come again with another content.
    ///
    /// # Errors
    /// Those of [`Store::list`]; [`StoreFault::Unreadable`] where the disk says that it cannot keep it.
    pub fn durable_change(&mut self) -> Result<u64, StoreError> {
        let last = self.identity()?.last;
        if !self.path.is_file() {
            // An index in memory goes with the process.
            return Ok(last);
        }
        let failed = |source| unreadable(&self.path, source);
        let file = match self.reading.take() {
            Some(file) => file,
            None => File::open(&self.path).map_err(failed)?,
        };
        sync(self.reading.insert(file)).map_err(failed)?;
        if let Ok(journal) = File::open(beside(&self.path, "-wal")) {
            sync(&journal).map_err(failed)?;
        }
        if let Ok(dir) = File::open(directory(&self.path)) {
            sync(&dir).map_err(failed)?;
        }
        Ok(last)
    }
}

/// A file system that cannot be written to has nothing to wait for.
fn sync(file: &File) -> io::Result<()> {
    match file.sync_all() {
        Err(error)
            if matches!(
                error.raw_os_error().map(Errno::from_raw),
                Some(Errno::EROFS | Errno::EINVAL)
            ) =>
        {
            Ok(())
        }
        other => other,
    }
}

/// So that what is missing or forbidden is reported in the system's words, not in SQLite's. A pipe does not hang it.
fn open_file(path: &Path) -> Result<File, StoreError> {
    let failed = |source| unreadable(path, source);
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)
        .map_err(failed)?;
    if file.metadata().map_err(failed)?.is_file() {
        Ok(file)
    } else {
        Err(StoreError::foreign(path))
    }
}

/// The connection, once it is known that the database can be read.
fn connect(path: &Path) -> Result<Connection, StoreError> {
    let failed = |source| StoreError::from_sqlite(path, "open", source);
    let mut connection = connect_with(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    // What somebody else wrote runs none of its functions here.
    connection
        .execute_batch("PRAGMA trusted_schema = OFF; PRAGMA query_only = ON")
        .map_err(failed)?;
    let known = schema::VERSION;
    match schema::inspect(&mut connection).map_err(failed)? {
        schema::Found::Current => Ok(connection),
        schema::Found::Newer(version) => Err(StoreError::newer(path, version, known)),
        schema::Found::Foreign | schema::Found::Older(0) => Err(StoreError::foreign(path)),
        schema::Found::Older(version) => {
            let path = path.display();
            let message = format!(
                "the database `{path}` has version {version}, and this dlrun reads version {known}"
            );
            Err(StoreError::new(StoreFault::Older, message))
        }
    }
}

fn unreadable(path: &Path, source: io::Error) -> StoreError {
    let fault = match source.kind() {
        io::ErrorKind::NotFound => StoreFault::Missing,
        io::ErrorKind::PermissionDenied => StoreFault::Denied,
        _ => StoreFault::Unreadable,
    };
    let message = format!("cannot read the database `{}`", path.display());
    StoreError::caused(fault, message, source)
}
