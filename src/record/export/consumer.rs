//! Each row exactly once: who takes files out of a directory, how far he came, and what is on its way to him.
//!
//! A file is written under a hidden name and made safe on the disk; then the cursor notes it as pending; then it is renamed; then
//! the cursor moves on. Whatever dies in between, the next export finds out: a pending file that still has its hidden name was
//! not delivered, and is now; one that has it no longer was delivered, wherever its consumer has taken it since.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::stat::fstat;
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

use crate::foundation::failure::Failure;
use crate::foundation::lock::{Lock, acquire_now};
use crate::foundation::private::{FileError, FileFault, PrivateDir, if_there};
use crate::record::Table;

/// A cursor of more bytes is none of ours.
const MAX_CURSOR: usize = 64 << 10;
const MAX_NAME: usize = 64;

/// What callers decide by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsumerFault {
    /// The name is not valid, or the rows are not those that the consumer gets.
    Usage,
    /// Another export for the same consumer is running.
    Busy,
    /// The cursor does not fit to what is there now.
    Cursor,
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
            FileFault::Damaged | FileFault::TooLarge | FileFault::Newer => ConsumerFault::Cursor,
            FileFault::Denied => ConsumerFault::Denied,
            _ => ConsumerFault::Write,
        })
    }
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
    _lock: Lock,
}

impl Consumer {
    /// Takes a consumer's turn. `dir` is the directory of the cursors, which is made where it is missing.
    ///
    /// # Errors
    /// Any [`ConsumerFault`] but `Denied`.
    pub fn open(dir: &Path, name: &str) -> Result<Self, ConsumerError> {
        if !is_name(name) {
            let message = format!("`{name}` is not a valid consumer name");
            return Err(ConsumerError::new(ConsumerFault::Usage, message));
        }
        let dir = PrivateDir::create(dir)?;
        let lock = lock(&dir, name)?;
        let file = format!("{name}.json");
        let known = if_there(dir.read_versioned(&file, MAX_CURSOR, FORMAT))?;
        let cursor: Cursor = known.map_or_else(|| Cursor::begin(&dir), Ok)?;
        // They are taken relative to the consumer's directory, and stay in it.
        let leaves =
            |pending: &Pending| pending.file.contains('/') || pending.temporary.contains('/');
        if cursor.pending.as_ref().is_some_and(leaves) {
            let why = "the file on its way has a `/` in its name";
            return Err(dir.damaged(&file, why).into());
        }
        Ok(Self {
            dir,
            name: name.to_owned(),
            cursor,
            _lock: lock,
        })
    }

    /// Settles what was on its way when the last export ended: a file that was not delivered is now. Returns its path.
    ///
    /// # Errors
    /// `Cursor`, `Denied`, `Write`.
    pub fn recover(&mut self) -> Result<Option<PathBuf>, ConsumerError> {
        let Some(pending) = self.cursor.pending.clone() else {
            return Ok(None);
        };
        let dir = if_there(PrivateDir::open_shared(&pending.dir))?;
        let Some(dir) = dir.filter(|dir| inode(dir) == Some(pending.dir_inode)) else {
            let (file, dir) = (&pending.file, pending.dir.display());
            let message = format!(
                "`{dir}` is not the directory that `{file}` was being written to: mount or restore it, then export again"
            );
            return Err(ConsumerError::new(ConsumerFault::Cursor, message));
        };
        let written = match dir.open_file(&pending.temporary) {
            Err(error) if error.is_missing() => {
                self.commit(&pending.table, pending.upto)?;
                return Ok(None);
            }
            other => other.ok().and_then(|file| file.metadata().ok()),
        };
        let is_whole = written.is_some_and(|about| {
            let is_own = about.uid() == geteuid().as_raw();
            about.is_file() && is_own && about.len() == pending.bytes
        });
        if is_whole {
            self.hand_over(&dir, &pending)?;
            return Ok(Some(dir.path().join(&pending.file)));
        }
        // Not what was written. It was not delivered, so its rows come with the next file.
        self.cursor.pending = None;
        self.save()?;
        dir.remove(&pending.temporary)?;
        Ok(None)
    }

    /// Binds the cursor to a database that has changes up to `last`, and to a choice of users; a new one takes them on.
    ///
    /// # Errors
    /// `Usage`, `Cursor`, `Write`.
    pub fn bind(
        &mut self,
        store: &str,
        last: u64,
        user: Option<&str>,
    ) -> Result<(), ConsumerError> {
        if self.cursor.store.is_empty() {
            store.clone_into(&mut self.cursor.store);
            self.cursor.user = user.map(str::to_owned);
            return self.save();
        }
        let (name, before) = (&self.name, &self.cursor.store);
        let reached = self.cursor.reached.values().copied().max().unwrap_or(0);
        let (fault, message) = if before != store {
            let message = format!("`{name}` was exporting database {before}, and this is {store}");
            (ConsumerFault::Cursor, message)
        } else if reached > last {
            let message = format!("`{name}` has changes up to {reached}, the database only {last}");
            (ConsumerFault::Cursor, message)
        } else if self.cursor.user.as_deref() != user {
            let before = self.cursor.user.as_deref().unwrap_or("all users");
            let message = format!("`{name}` was exporting rows of {before}");
            (ConsumerFault::Usage, message)
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

    /// Delivers a file with the rows of a table that changed after [`Consumer::reached`] and up to `upto`: `write` writes them and
    /// returns their number. Returns the path and that number; `None` where there are no rows.
    ///
    /// # Errors
    /// Those of `write`; `Denied`, `Write`. Nothing is lost then, and nothing comes twice: the next export continues from there.
    pub fn export<E: From<ConsumerError>>(
        &mut self,
        to: &PrivateDir,
        table: Table,
        upto: u64,
        extension: &str,
        write: impl FnOnce(&mut File) -> Result<u64, E>,
    ) -> Result<Option<(PathBuf, u64)>, E> {
        let suffix = format!(".{}.tmp", self.cursor.id);
        // What an export that was killed had begun.
        let names = to.names().map_err(ConsumerError::from)?;
        for name in names.iter().filter(|name| name.ends_with(&suffix)) {
            to.remove(name).map_err(ConsumerError::from)?;
        }
        let (name, what) = (&self.name, table.as_str());
        let store: String = self.cursor.store.chars().take(8).collect();
        let from = self.reached(table) + 1;
        let file = format!("{name}-{what}-{store}-{from:012}-{upto:012}.{extension}");
        let temporary = format!(".{file}{suffix}");
        let mut content = to
            .create_for_group(&temporary)
            .map_err(ConsumerError::from)?;
        let rows = match write(&mut content) {
            Ok(rows @ 1..) => rows,
            other => {
                to.remove(&temporary).map_err(ConsumerError::from)?;
                other?;
                self.commit(what, upto)?;
                return Ok(None);
            }
        };
        let synced = content.sync_all().and_then(|()| content.metadata());
        let failed = |source| FileError::cannot("write", to.path().join(&file), source);
        let bytes = synced.map_err(failed).map_err(ConsumerError::from)?.len();
        // A hidden name that a power failure takes away would look delivered.
        to.sync().map_err(ConsumerError::from)?;
        let pending = Pending {
            table: what.to_owned(),
            upto,
            dir: to.path().to_owned(),
            dir_inode: inode(to).unwrap_or_default(),
            file,
            temporary,
            bytes,
        };
        self.cursor.pending = Some(pending.clone());
        self.save()?;
        self.hand_over(to, &pending)?;
        Ok(Some((to.path().join(&pending.file), rows)))
    }

    /// Gives a file its name, unless another consumer of this name left one there.
    fn hand_over(&mut self, to: &PrivateDir, pending: &Pending) -> Result<(), ConsumerError> {
        let path = to.path().join(&pending.file);
        if path.symlink_metadata().is_ok() {
            let message = format!("{} is another consumer's of this name", path.display());
            return Err(ConsumerError::new(ConsumerFault::Usage, message));
        }
        to.rename(&pending.temporary, &pending.file)?;
        to.sync()?;
        self.commit(&pending.table, pending.upto)
    }

    fn commit(&mut self, table: &str, upto: u64) -> Result<(), ConsumerError> {
        self.cursor.reached.insert(table.to_owned(), upto);
        self.cursor.pending = None;
        self.save()
    }

    fn save(&self) -> Result<(), ConsumerError> {
        let file = format!("{}.json", self.name);
        self.dir.write_json(&file, &self.cursor)?;
        Ok(self.dir.sync()?)
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

/// Which directory it is, whatever its name.
fn inode(dir: &PrivateDir) -> Option<u64> {
    Some(fstat(dir.fd()).ok()?.st_ino)
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
fn lock(dir: &PrivateDir, name: &str) -> Result<Lock, ConsumerError> {
    let path = dir.path().join(format!("{name}.lock"));
    let lock = acquire_now(&path).map_err(|source| FileError::cannot("open", &path, source))?;
    lock.map_err(|_| {
        let message = format!("another export for `{name}` is running");
        ConsumerError::new(ConsumerFault::Busy, message)
    })
}
