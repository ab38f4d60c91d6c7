//! Each row exactly once: who takes files out of a directory, how far he came, and what is on its way to him.
//!
//! A file is written under a hidden name and made safe on the disk; then the cursor notes it as pending; then it is renamed; then
//! the cursor moves on. Whatever dies in between, the next export finds out: a pending file that still has its hidden name was
//! not delivered, and is now; one that has it no longer was delivered, wherever its consumer has taken it since.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Serialize};

use super::output::OutputDir;
use crate::foundation::private::{PrivateDir, PrivateError};
use crate::record::Table;

/// A cursor of more bytes is none of ours.
const MAX_CURSOR: usize = 64 << 10;
const MAX_NAME: usize = 64;

/// What stands between a consumer and his rows.
#[derive(Debug, thiserror::Error)]
pub enum ConsumerError {
    /// Not a name.
    #[error("`{name}` cannot be a consumer's name")]
    Name {
        /// What was given.
        name: String,
    },
    /// Another export for the same consumer goes on.
    #[error("another export for `{name}` goes on")]
    Busy {
        /// The consumer.
        name: String,
    },
    /// The cursor cannot be read or written.
    #[error(transparent)]
    Private(#[from] PrivateError),
    /// The cursor makes no sense.
    #[error("the cursor `{path}` is damaged")]
    Damaged {
        /// The cursor.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A newer dlrun wrote the cursor.
    #[error("the cursor `{path}` has format {format}, and this dlrun knows {known}")]
    Newer {
        /// The cursor.
        path: PathBuf,
        /// Its format.
        format: u32,
        /// The known one.
        known: u32,
    },
    /// The cursor counts the changes of another database.
    #[error("`{name}` was exporting database {before}, and this is {now}")]
    OtherStore {
        /// The consumer.
        name: String,
        /// The database of the cursor.
        before: String,
        /// The database at hand.
        now: String,
    },
    /// The database is older than what was exported from it.
    #[error("`{name}` was given changes up to {reached}, and the database has only {last}")]
    SetBack {
        /// The consumer.
        name: String,
        /// Of the cursor.
        reached: u64,
        /// Of the database.
        last: u64,
    },
    /// The cursor counts the rows of another user.
    #[error("`{name}` was exporting rows of {before}, and now {now} are asked for")]
    OtherUser {
        /// The consumer.
        name: String,
        /// In the cursor.
        before: String,
        /// Now.
        now: String,
    },
    /// A file was on its way when the last export ended, and its directory is gone or another one.
    #[error("`{file}` was on its way to `{dir}`, which is not the directory it was")]
    DirGone {
        /// The directory.
        dir: PathBuf,
        /// The hidden name of the file.
        file: String,
    },
    /// Somebody else's file has the name.
    #[error("`{path}` is there already")]
    Taken {
        /// The file.
        path: PathBuf,
    },
    /// A file could not be written.
    #[error("cannot write `{path}`")]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
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
    table: Table,
    upto: u64,
    file: String,
    temporary: String,
    /// The hidden file.
    pub content: File,
    /// It is to stay where it is.
    noted: bool,
}

impl Drop for Delivery<'_> {
    fn drop(&mut self) {
        if !self.noted {
            self.to.remove(&self.temporary);
        }
    }
}

impl Consumer {
    /// Takes a consumer's turn. `dir` is the directory of the cursors, which is made where it is missing.
    ///
    /// # Errors
    /// [`ConsumerError::Name`], [`ConsumerError::Busy`], [`ConsumerError::Private`], [`ConsumerError::Damaged`],
    /// [`ConsumerError::Newer`].
    pub fn open(dir: &Path, name: &str) -> Result<Self, ConsumerError> {
        if !is_name(name) {
            return Err(ConsumerError::Name {
                name: name.to_owned(),
            });
        }
        let dir = PrivateDir::create(dir)?;
        let lock = lock(&dir, name)?;
        let file = format!("{name}.json");
        let cursor = match dir.read(&file, MAX_CURSOR) {
            Err(error) if error.is_missing() => Cursor::begin(&dir.path().join(file))?,
            Err(PrivateError::TooLarge { .. }) => {
                let source =
                    serde_json::Error::custom(format!("it is larger than {MAX_CURSOR} bytes"));
                return Err(ConsumerError::Damaged {
                    path: dir.path().join(file),
                    source,
                });
            }
            other => parse(&dir.path().join(file), &other?)?,
        };
        Ok(Self {
            dir,
            name: name.to_owned(),
            cursor,
            _lock: lock,
        })
    }

    /// Takes a consumer's turn and forgets how far it came: all rows come again. A cursor that is damaged is no obstacle.
    ///
    /// # Errors
    /// [`ConsumerError::Name`], [`ConsumerError::Busy`], [`ConsumerError::Private`], [`ConsumerError::Newer`].
    pub fn open_anew(dir: &Path, name: &str) -> Result<Self, ConsumerError> {
        let mut consumer = match Self::open(dir, name) {
            // What cannot be read keeps nothing that could be lost.
            Err(ConsumerError::Damaged { .. } | ConsumerError::Private(_)) => {
                let dir = PrivateDir::create(dir)?;
                let lock = lock(&dir, name)?;
                let cursor = Cursor::begin(dir.path())?;
                Self {
                    dir,
                    name: name.to_owned(),
                    cursor,
                    _lock: lock,
                }
            }
            other => other?,
        };
        consumer.restart()?;
        Ok(consumer)
    }

    /// Forgets how far it came: all rows come again.
    fn restart(&mut self) -> Result<(), ConsumerError> {
        let id = std::mem::take(&mut self.cursor.id);
        self.cursor = Cursor {
            id,
            ..Cursor::begin(self.dir.path())?
        };
        self.save()
    }

    /// Settles what was on its way when the last export ended: a file that was not delivered is now. Returns its path.
    ///
    /// # Errors
    /// [`ConsumerError::DirGone`], [`ConsumerError::Taken`], [`ConsumerError::Write`], [`ConsumerError::Private`].
    pub fn recover(&mut self) -> Result<Option<PathBuf>, ConsumerError> {
        let Some(pending) = self.cursor.pending.clone() else {
            return Ok(None);
        };
        let gone = || ConsumerError::DirGone {
            dir: pending.dir.clone(),
            file: pending.temporary.clone(),
        };
        let dir = match OutputDir::open(&pending.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(gone()),
            other => other.map_err(|source| ConsumerError::Write {
                path: pending.dir.clone(),
                source,
            })?,
        };
        if dir.inode() != pending.dir_inode {
            return Err(gone());
        }
        let failed = |source| ConsumerError::Write {
            path: dir.path().join(&pending.file),
            source,
        };
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
    /// [`ConsumerError::OtherStore`], [`ConsumerError::SetBack`], [`ConsumerError::OtherUser`], [`ConsumerError::Private`].
    pub fn bind(
        &mut self,
        store: &str,
        last: u64,
        user: Option<&str>,
    ) -> Result<(), ConsumerError> {
        let name = || self.name.clone();
        if self.cursor.store.is_empty() {
            store.clone_into(&mut self.cursor.store);
            self.cursor.user = user.map(str::to_owned);
            return self.save();
        }
        if self.cursor.store != store {
            let before = self.cursor.store.clone();
            return Err(ConsumerError::OtherStore {
                name: name(),
                before,
                now: store.to_owned(),
            });
        }
        let reached = self.cursor.reached.values().copied().max().unwrap_or(0);
        if reached > last {
            return Err(ConsumerError::SetBack {
                name: name(),
                reached,
                last,
            });
        }
        if self.cursor.user.as_deref() != user {
            let words = |user: Option<&str>| {
                user.map_or("all users".to_owned(), |user| format!("user `{user}`"))
            };
            let (before, now) = (words(self.cursor.user.as_deref()), words(user));
            return Err(ConsumerError::OtherUser {
                name: name(),
                before,
                now,
            });
        }
        Ok(())
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
    /// [`ConsumerError::Write`].
    pub fn begin<'a>(
        &self,
        to: &'a OutputDir,
        table: Table,
        upto: u64,
        extension: &str,
    ) -> Result<Delivery<'a>, ConsumerError> {
        let failed = |source| ConsumerError::Write {
            path: to.path().to_owned(),
            source,
        };
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
            .map_err(|source| ConsumerError::Write {
                path: to.path().join(&temporary),
                source,
            })?;
        Ok(Delivery {
            to,
            table,
            upto,
            file,
            temporary,
            content,
            noted: false,
        })
    }

    /// Delivers a file that is written; returns its path.
    ///
    /// # Errors
    /// [`ConsumerError::Write`], [`ConsumerError::Taken`], [`ConsumerError::Private`]. Nothing is lost then, and nothing comes
    /// twice: the next export goes on from there.
    pub fn deliver(&mut self, mut delivery: Delivery<'_>) -> Result<PathBuf, ConsumerError> {
        let path = delivery.to.path().join(&delivery.file);
        let failed = |source| ConsumerError::Write {
            path: path.clone(),
            source,
        };
        let synced = delivery
            .content
            .sync_all()
            .and_then(|()| delivery.content.metadata());
        let bytes = synced.map_err(failed)?.len();
        // A hidden name that a power failure takes away would look delivered.
        delivery.to.sync().map_err(failed)?;
        let pending = Pending {
            table: delivery.table.as_str().to_owned(),
            upto: delivery.upto,
            dir: delivery.to.path().to_owned(),
            dir_inode: delivery.to.inode(),
            file: delivery.file.clone(),
            temporary: delivery.temporary.clone(),
            bytes,
        };
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
    /// [`ConsumerError::Private`].
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
                Err(ConsumerError::Taken { path })
            }
            other => other.map_err(|source| ConsumerError::Write { path, source }),
        }
    }

    fn commit(&mut self, table: &str, upto: u64) -> Result<(), ConsumerError> {
        self.cursor.reached.insert(table.to_owned(), upto);
        self.cursor.pending = None;
        self.save()
    }

    fn save(&self) -> Result<(), ConsumerError> {
        let bytes = serde_json::to_vec_pretty(&self.cursor).expect("plain data with text keys");
        self.dir.replace(&format!("{}.json", self.name), &bytes)?;
        Ok(self.dir.sync()?)
    }

    fn suffix(&self) -> String {
        format!(".{}.tmp", self.cursor.id)
    }
}

impl Cursor {
    fn begin(path: &Path) -> Result<Self, ConsumerError> {
        let random = getrandom::u64().map_err(|error| PrivateError::Create {
            path: path.to_owned(),
            source: io::Error::other(error),
        })?;
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

fn parse(path: &Path, bytes: &[u8]) -> Result<Cursor, ConsumerError> {
    #[derive(Deserialize)]
    struct Version {
        format: u32,
    }
    let damaged = |source| ConsumerError::Damaged {
        path: path.to_owned(),
        source,
    };
    let Version { format } = serde_json::from_slice(bytes).map_err(damaged)?;
    if format > FORMAT {
        return Err(ConsumerError::Newer {
            path: path.to_owned(),
            format,
            known: FORMAT,
        });
    }
    let cursor: Cursor = serde_json::from_slice(bytes).map_err(damaged)?;
    // They are taken relative to the consumer's directory, and stay in it.
    let leaves = |pending: &Pending| pending.file.contains('/') || pending.temporary.contains('/');
    if cursor.pending.as_ref().is_some_and(leaves) {
        return Err(damaged(serde_json::Error::custom(
            "the file on its way has a `/` in its name",
        )));
    }
    Ok(cursor)
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
    let failed = |source| PrivateError::Open {
        path: path.clone(),
        source,
    };
    let file = dir
        .open_or_create(&format!("{name}.lock"))
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ConsumerError::Busy {
            name: name.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(failed(source).into()),
    }
}
