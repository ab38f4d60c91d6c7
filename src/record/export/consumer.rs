//! Each row exactly once: who takes files out of a directory, how far he came, and what is on its way to him.
//!
//! A file is written under a hidden name and made safe on the disk; then the cursor notes it as pending; then it is renamed; then
//! the cursor moves on. Whatever dies in between, the next export finds out: a pending file that still has its hidden name was
//! not delivered, and is now; one that has it no longer was delivered, wherever its consumer has taken it since.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::output::OutputDir;
use crate::foundation::failure::Failure;
use crate::foundation::private::{FileError, FileFault, PrivateDir};
use crate::record::Table;

/// A cursor of more bytes is none of ours.
const MAX_CURSOR: usize = 64 << 10;
const MAX_NAME: usize = 64;

/// What callers decide by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsumerFault {
    /// Not a name.
    Name,
    /// Another export for the same consumer is running.
    Busy,
    /// The cursor cannot be read or written.
    Cursor,
    /// The cursor makes no sense.
    Damaged,
    /// A newer dlrun wrote the cursor.
    Newer,
    /// The cursor counts the changes of another database.
    OtherStore,
    /// The database is older than what was exported from it.
    SetBack,
    /// The cursor counts the rows of another user.
    OtherUser,
    /// The directory of a pending file is gone or another one.
    DirGone,
    /// Somebody else's file has the name.
    Taken,
    /// Writing a file is not permitted.
    Denied,
    /// A file could not be written.
    Write,
}

/// Why a consumer gets no rows.
pub type ConsumerError = Failure<ConsumerFault>;

impl From<FileError> for ConsumerError {
    fn from(error: FileError) -> Self {
        error.map_kind(|fault| match fault {
            FileFault::Damaged | FileFault::TooLarge => ConsumerFault::Damaged,
            FileFault::Newer => ConsumerFault::Newer,
            _ => ConsumerFault::Cursor,
        })
    }
}

fn cannot_write(path: &Path, source: io::Error) -> ConsumerError {
    let fault = match source.kind() {
        io::ErrorKind::PermissionDenied => ConsumerFault::Denied,
        _ => ConsumerFault::Write,
    };
    ConsumerError::caused(fault, format!("cannot write `{}`", path.display()), source)
}

/// The file `exports/NAME.json` of the state directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Cursor {
    /// Version of this form, 1.
    format: u32,
    /// Ends the hidden names of this consumer's files, so that nobody's else are taken for his.
    id: String,
    /// The database, by its random name; empty before the first export.
    store: String,
    /// Whose rows; `None`: everybody's.
    user: Option<String>,
    /// The last change that was delivered, by table.
    reached: BTreeMap<String, u64>,
    /// What is on its way.
    pending: Option<Pending>,
}

const FORMAT: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Pending {
    table: String,
    upto: u64,
    dir: PathBuf,
    dir_inode: u64,
    file: String,
    temporary: String,
    bytes: u64,
}

/// A consumer whose turn it is.
#[derive(Debug)]
pub struct Consumer {
    dir: PrivateDir,
    name: String,
    cursor: Cursor,
    /// Held until the export is over.
    _lock: File,
}

/// A file on its way.
#[derive(Debug)]
pub struct Delivery<'a> {
    to: &'a OutputDir,
    pending: Pending,
    /// The hidden file.
    pub content: File,
    /// It is to stay where it is.
    noted: bool,
}

impl Drop for Delivery<'_> {
    fn drop(&mut self) {
        if !self.noted {
            self.to.remove(&self.pending.temporary);
        }
    }
}

impl Consumer {
    /// Takes a consumer's turn. `dir` is the directory of the cursors, which is made where it is missing.
    ///
    /// # Errors
    /// [`ConsumerFault::Name`], [`ConsumerFault::Busy`], [`ConsumerFault::Cursor`], [`ConsumerFault::Damaged`],
    /// [`ConsumerFault::Newer`].
    pub fn open(dir: &Path, name: &str) -> Result<Self, ConsumerError> {
        let mut consumer = Self::locked(dir, name)?;
        match consumer
            .dir
            .read_versioned(&consumer.file(), MAX_CURSOR, FORMAT)
        {
            Err(error) if error.is_missing() => {}
            cursor => consumer.cursor = cursor?,
        }
        // They are taken relative to the consumer's directory, and stay in it.
        let leaves =
            |pending: &Pending| pending.file.contains('/') || pending.temporary.contains('/');
        if consumer.cursor.pending.as_ref().is_some_and(leaves) {
            let why = "the file on its way has a `/` in its name";
            return Err(consumer.dir.damaged(&consumer.file(), why).into());
        }
        Ok(consumer)
    }

    /// Takes a consumer's turn, with a cursor that has reached nothing.
    fn locked(dir: &Path, name: &str) -> Result<Self, ConsumerError> {
        if !is_name(name) {
            let message = format!("`{name}` cannot be a consumer's name");
            return Err(ConsumerError::new(ConsumerFault::Name, message));
        }
        let dir = PrivateDir::create(dir)?;
        Ok(Self {
            _lock: lock(&dir, name)?,
            cursor: Cursor::begin(&dir)?,
            dir,
            name: name.to_owned(),
        })
    }

    fn file(&self) -> String {
        format!("{}.json", self.name)
    }

    /// Takes a consumer's turn and forgets how far it came: all rows come again. A cursor that is damaged is no obstacle.
    ///
    /// # Errors
    /// [`ConsumerFault::Name`], [`ConsumerFault::Busy`], [`ConsumerFault::Cursor`], [`ConsumerFault::Newer`].
    pub fn open_anew(dir: &Path, name: &str) -> Result<Self, ConsumerError> {
        let consumer = match Self::open(dir, name) {
            Ok(mut consumer) => {
                // Hidden files keep the ending by which they are known.
                let id = std::mem::take(&mut consumer.cursor.id);
                consumer.cursor = Cursor {
                    id,
                    ..Cursor::begin(&consumer.dir)?
                };
                consumer
            }
            // What cannot be read keeps nothing that could be lost.
            Err(error) if matches!(error.kind, ConsumerFault::Damaged | ConsumerFault::Cursor) => {
                Self::locked(dir, name)?
            }
            Err(error) => return Err(error),
        };
        consumer.save()?;
        Ok(consumer)
    }

    /// Settles what was on its way when the last export ended: a file that was not delivered is now. Returns its path.
    ///
    /// # Errors
    /// [`ConsumerFault::DirGone`], [`ConsumerFault::Taken`], [`ConsumerFault::Write`], [`ConsumerFault::Cursor`].
    pub fn recover(&mut self) -> Result<Option<PathBuf>, ConsumerError> {
        let Some(pending) = self.cursor.pending.clone() else {
            return Ok(None);
        };
        let dir = match OutputDir::open(&pending.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            other => Some(other.map_err(|source| cannot_write(&pending.dir, source))?),
        };
        let Some(dir) = dir.filter(|dir| dir.inode() == pending.dir_inode) else {
            let (file, dir) = (&pending.temporary, pending.dir.display());
            let message =
                format!("`{file}` was on its way to `{dir}`, which is not the directory it was");
            return Err(ConsumerError::new(ConsumerFault::DirGone, message));
        };
        let failed = |source| cannot_write(&dir.path().join(&pending.file), source);
        match dir.own_length(&pending.temporary).map_err(failed)? {
            None => {
                self.commit(&pending.table, pending.upto)?;
                Ok(None)
            }
            Some(length) if length == Some(pending.bytes) => {
                self.hand_over(&dir, &pending)?;
                self.commit(&pending.table, pending.upto)?;
                Ok(Some(dir.path().join(&pending.file)))
            }
            // Not what was written. It was not delivered, so its rows come with the next file.
            Some(_) => {
                self.cursor.pending = None;
                self.save()?;
                dir.remove(&pending.temporary);
                Ok(None)
            }
        }
    }

    /// Binds the cursor to a database that has changes up to `last`, and to a choice of users; a new one takes them on.
    ///
    /// # Errors
    /// [`ConsumerFault::OtherStore`], [`ConsumerFault::SetBack`], [`ConsumerFault::OtherUser`], [`ConsumerFault::Cursor`].
    pub fn bind(
        &mut self,
        store: &str,
        last: u64,
        user: Option<&str>,
    ) -> Result<(), ConsumerError> {
        let name = &self.name;
        if self.cursor.store.is_empty() {
            store.clone_into(&mut self.cursor.store);
            self.cursor.user = user.map(str::to_owned);
            return self.save();
        }
        let before = &self.cursor.store;
        let reached = self.cursor.reached.values().copied().max().unwrap_or(0);
        let (fault, message) = if before != store {
            let message = format!("`{name}` was exporting database {before}, and this is {store}");
            (ConsumerFault::OtherStore, message)
        } else if reached > last {
            let message = format!(
                "`{name}` was given changes up to {reached}, and the database has only {last}"
            );
            (ConsumerFault::SetBack, message)
        } else if self.cursor.user.as_deref() != user {
            let shown = |user: Option<&str>| {
                user.map_or("all users".to_owned(), |user| format!("user `{user}`"))
            };
            let (before, now) = (shown(self.cursor.user.as_deref()), shown(user));
            let message =
                format!("`{name}` was exporting rows of {before}, and now {now} are asked for");
            (ConsumerFault::OtherUser, message)
        } else {
            return Ok(());
        };
        Err(ConsumerError::new(fault, message))
    }

    /// The last change of a table that was delivered.
    #[must_use]
    pub fn reached(&self, table: Table) -> u64 {
        self.cursor
            .reached
            .get(table.as_str())
            .copied()
            .unwrap_or(0)
    }

    /// Begins a file with the rows of a table that changed after [`Consumer::reached`] and up to `upto`. Dropped, it is gone.
    ///
    /// # Errors
    /// [`ConsumerFault::Write`].
    pub fn begin<'a>(
        &self,
        to: &'a OutputDir,
        table: Table,
        upto: u64,
        extension: &str,
    ) -> Result<Delivery<'a>, ConsumerError> {
        let failed = |source| cannot_write(to.path(), source);
        let suffix = self.suffix();
        // What an export that was killed had begun.
        for name in to.names_ending(&suffix).map_err(failed)? {
            to.remove(&name);
        }
        let store: String = self.cursor.store.chars().take(8).collect();
        let from = self.reached(table) + 1;
        let file = format!(
            "{}-{}-{store}-{from:012}-{upto:012}.{extension}",
            self.name,
            table.as_str()
        );
        let temporary = format!(".{file}{suffix}");
        let content = to
            .create(&temporary)
            .map_err(|source| cannot_write(&to.path().join(&temporary), source))?;
        let pending = Pending {
            table: table.as_str().to_owned(),
            upto,
            dir: to.path().to_owned(),
            dir_inode: to.inode(),
            file,
            temporary,
            bytes: 0,
        };
        Ok(Delivery {
            to,
            pending,
            content,
            noted: false,
        })
    }

    /// Delivers a file that is written; returns its path.
    ///
    /// # Errors
    /// [`ConsumerFault::Write`], [`ConsumerFault::Taken`], [`ConsumerFault::Cursor`]. Nothing is lost then, and nothing comes
    /// twice: the next export continues from there.
    pub fn deliver(&mut self, mut delivery: Delivery<'_>) -> Result<PathBuf, ConsumerError> {
        let mut pending = delivery.pending.clone();
        let path = delivery.to.path().join(&pending.file);
        let failed = |source| cannot_write(&path, source);
        let content = &delivery.content;
        let synced = content.sync_all().and_then(|()| content.metadata());
        pending.bytes = synced.map_err(failed)?.len();
        // A hidden name that a power failure takes away would look delivered.
        delivery.to.sync().map_err(failed)?;
        self.cursor.pending = Some(pending.clone());
        // From here on the file is the next export's too, also where the cursor could not be written for sure.
        delivery.noted = true;
        self.save()?;
        self.hand_over(delivery.to, &pending)?;
        self.commit(&pending.table, pending.upto)?;
        Ok(path)
    }

    /// Notes that a table has no rows up to `upto`.
    ///
    /// # Errors
    /// [`ConsumerFault::Cursor`].
    pub fn pass(&mut self, table: Table, upto: u64) -> Result<(), ConsumerError> {
        if self.reached(table) == upto {
            Ok(())
        } else {
            self.commit(table.as_str(), upto)
        }
    }

    fn hand_over(&mut self, to: &OutputDir, pending: &Pending) -> Result<(), ConsumerError> {
        let path = to.path().join(&pending.file);
        match to.deliver(&pending.temporary, &pending.file) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let message = format!("`{}` is there already", path.display());
                Err(ConsumerError::new(ConsumerFault::Taken, message))
            }
            other => other.map_err(|source| cannot_write(&path, source)),
        }
    }

    fn commit(&mut self, table: &str, upto: u64) -> Result<(), ConsumerError> {
        self.cursor.reached.insert(table.to_owned(), upto);
        self.cursor.pending = None;
        self.save()
    }

    fn save(&self) -> Result<(), ConsumerError> {
        self.dir.write_json(&self.file(), &self.cursor)?;
        Ok(self.dir.sync()?)
    }

    fn suffix(&self) -> String {
        format!(".{}.tmp", self.cursor.id)
    }
}

impl Cursor {
    fn begin(dir: &PrivateDir) -> Result<Self, ConsumerError> {
        let random = getrandom::u64()
            .map_err(|error| FileError::cannot("create", dir.path(), io::Error::other(error)))?;
        Ok(Self {
            format: FORMAT,
            id: format!("{random:016x}"),
            store: String::new(),
            user: None,
            reached: BTreeMap::new(),
            pending: None,
        })
    }
}

/// It is part of file names: letters, digits and `._-`, and no dot or dash first.
fn is_name(name: &str) -> bool {
    let first = name
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphanumeric());
    let rest = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    first && rest && name.len() <= MAX_NAME
}

/// The kernel ends the lock with the process, however that dies.
fn lock(dir: &PrivateDir, name: &str) -> Result<File, ConsumerError> {
    let path = dir.path().join(format!("{name}.lock"));
    let failed = |source| FileError::cannot("open", &path, source);
    let file = dir
        .open_or_create(&format!("{name}.lock"))
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let message = format!("another export for `{name}` is running");
            Err(ConsumerError::new(ConsumerFault::Busy, message))
        }
        Err(TryLockError::Error(source)) => Err(failed(source).into()),
    }
}
