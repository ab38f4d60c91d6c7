//! Directories and files for their owner alone: opened without following links, replaced whole, read within bounds.

use std::error::Error;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat, renameat};
use nix::sys::stat::{Mode, fstat, mkdirat};
use nix::unistd::{UnlinkatFlags, geteuid, getuid, unlinkat};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::failure::Failure;

/// The own user id as processes outside of a container know it: in a user namespace it is another one (`user_namespaces(7)`).
#[must_use]
pub fn kernel_uid() -> u32 {
    let inner = getuid().as_raw();
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    outer_id(&map, inner).unwrap_or(inner)
}

/// What a user id is outside, by lines of `inner outer length`.
fn outer_id(map: &str, inner: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut numbers = line
            .split_whitespace()
            .map_while(|number| number.parse::<u32>().ok());
        let (from, to, length) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let place = inner.checked_sub(from).filter(|place| *place < length)?;
        to.checked_add(place)
    })
}

/// What callers decide by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFault {
    /// A file or directory that was to be read is missing.
    Missing,
    /// The system does not permit it.
    Denied,
    /// The directory belongs to another user.
    ForeignOwner,
    /// Others may write to the directory.
    Exposed,
    /// There is more in the file than is read or written.
    TooLarge,
    /// The content makes no sense.
    Damaged,
    /// A newer dlrun wrote it.
    Newer,
    /// The content belongs elsewhere.
    Misplaced,
    /// Not a name that a directory can have.
    Name,
    /// Any other answer of the system.
    System,
}

/// What went wrong with a file of the state directory, or another private one.
pub type FileError = Failure<FileFault>;

impl FileError {
    /// The system refused to `action` (`open`, `create`, `read`, `write`, `list`, `remove`) the file or directory.
    pub fn cannot(
        action: &'static str,
        path: impl AsRef<Path>,
        source: impl Into<io::Error>,
    ) -> Self {
        let (path, source) = (path.as_ref().display(), source.into());
        let kind = match (source.kind(), action) {
            (io::ErrorKind::NotFound, "open" | "read" | "list") => FileFault::Missing,
            (io::ErrorKind::PermissionDenied, _) => FileFault::Denied,
            _ => FileFault::System,
        };
        Self::caused(kind, format!("cannot {action} `{path}`"), source)
    }

    /// More than is read or written of such a file.
    pub fn too_large(path: impl AsRef<Path>, limit: usize) -> Self {
        let message = format!("`{}` is larger than {limit} bytes", path.as_ref().display());
        Self::new(FileFault::TooLarge, message)
    }

    /// Whether what was to be read does not exist.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.kind == FileFault::Missing
    }
}

/// What was found; `None` where it does not exist.
///
/// # Errors
/// All others.
pub fn if_there<T>(found: Result<T, FileError>) -> Result<Option<T>, FileError> {
    match found {
        Err(error) if error.is_missing() => Ok(None),
        other => other.map(Some),
    }
}

const DIR_MODE: Mode = Mode::S_IRWXU;
const FILE_MODE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);
const OPEN_DIR: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_CLOEXEC);
/// `O_NONBLOCK` so that a pipe put in a file's place does not hang the reader.
const OPEN_FILE: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_NONBLOCK)
    .union(OFlag::O_CLOEXEC);
const CREATE_FILE: OFlag = OFlag::O_WRONLY
    .union(OFlag::O_CREAT)
    .union(OFlag::O_EXCL)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

fn make_with_parents(path: &Path) -> io::Result<()> {
    match make_for_owner(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let Some(parent) = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty())
            else {
                return Err(error);
            };
            make_with_parents(parent)?;
            // Once more and no further: below `/proc` a directory that is there takes none.
            match make_for_owner(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                other => other,
            }
        }
        // Another process may be doing the same.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn make_for_owner(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(DIR_MODE.bits()).create(path)
}

fn owner_at(path: &Path) -> Option<u32> {
    Some(path.symlink_metadata().ok()?.uid())
}

/// An open directory. All names are taken relative to it, so that a swapped parent directory changes nothing.
#[derive(Debug)]
pub struct PrivateDir {
    fd: OwnedFd,
    path: PathBuf,
}

impl PrivateDir {
    /// Opens a directory that must be the caller's own and closed to others. Its path may hold links: a state directory
    /// is often one, to a larger file system.
    ///
    /// # Errors
    /// `Open`, with [`FileError::is_missing`] where there is none; `ForeignOwner`, `Exposed`.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        Self::private(path, OPEN_DIR)
    }

    /// As [`PrivateDir::open`], but creates what is missing, parents too.
    ///
    /// # Errors
    /// As [`PrivateDir::open`], and `Create`.
    pub fn create(path: &Path) -> Result<Self, FileError> {
        match Self::open(path) {
            Err(error) if error.is_missing() => {
                make_with_parents(path)
                    .map_err(|source| FileError::cannot("create", path, source))?;
                Self::open(path)
            }
            other => other,
        }
    }

    /// Opens a directory of anybody, from which others take files.
    ///
    /// # Errors
    /// `Open`, with [`FileError::is_missing`] where there is none.
    pub fn open_shared(path: &Path) -> Result<Self, FileError> {
        let failed = |source| FileError::cannot("open", path, source);
        let path = std::path::absolute(path).map_err(failed)?;
        let fd = open(&path, OPEN_DIR, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        Ok(Self { fd, path })
    }

    /// Creates a file that must not be there yet: the owner writes, the group reads; the umask may take more away.
    ///
    /// # Errors
    /// `Create`.
    pub fn create_for_group(&self, name: &str) -> Result<File, FileError> {
        let fd = openat(&self.fd, name, CREATE_FILE, FILE_MODE | Mode::S_IRGRP);
        let fd = fd.map_err(|errno| FileError::cannot("create", self.path.join(name), errno))?;
        Ok(File::from(fd))
    }

    /// Opens, or creates, a directory whose parent everybody may write to: a link in its place is refused.
    ///
    /// # Errors
    /// As [`PrivateDir::open`], and `Create`.
    pub fn create_in_shared(path: &Path) -> Result<Self, FileError> {
        match make_for_owner(path) {
            Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
                Err(FileError::cannot("create", path, source))
            }
            _ => Self::private(path, OPEN_DIR | OFlag::O_NOFOLLOW),
        }
    }

    /// This user's directory `dlrun-UID` in one that everybody may write to, such as `/var/tmp`: for what belongs to one
    /// machine.
    ///
    /// # Errors
    /// As [`PrivateDir::own_in_shared`].
    pub fn of_user(shared: &Path) -> Result<Self, FileError> {
        Self::own_in_shared(shared, "dlrun-")
    }

    /// This user's directory PREFIX-UID in one that everybody may write to. Where somebody else has taken that name, it is
    /// PREFIX-UID-RANDOM, which nobody could know before.
    ///
    /// # Errors
    /// As [`PrivateDir::create_in_shared`].
    pub fn own_in_shared(shared: &Path, prefix: &str) -> Result<Self, FileError> {
        let user = geteuid().as_raw();
        let name = format!("{prefix}{user}");
        let taken = match Self::create_in_shared(&shared.join(&name)) {
            Err(error) if owner_at(&shared.join(&name)).is_some_and(|owner| owner != user) => error,
            other => return other,
        };
        let found = Self::beside(shared, &name);
        let Some(random) = getrandom::u64().ok().filter(|_| found.is_none()) else {
            return found.ok_or(taken);
        };
        Self::create_in_shared(&shared.join(format!("{name}-{random:016x}")))
    }

    /// The directory that [`PrivateDir::of_user`] would give, where it is there.
    #[must_use]
    pub fn find_of_user(shared: &Path) -> Option<Self> {
        let user = geteuid().as_raw();
        let name = format!("dlrun-{user}");
        match owner_at(&shared.join(&name))? {
            owner if owner == user => Self::open(&shared.join(&name)).ok(),
            _ => Self::beside(shared, &name),
        }
    }

    /// The first own NAME-RANDOM.
    fn beside(shared: &Path, name: &str) -> Option<Self> {
        let beside = format!("{name}-");
        let user = geteuid().as_raw();
        let entries = fs::read_dir(shared).into_iter().flatten().flatten();
        let is_own = |entry: &fs::DirEntry| {
            entry
                .file_name()
                .as_encoded_bytes()
                .starts_with(beside.as_bytes())
                && owner_at(&entry.path()) == Some(user)
        };
        let mut found: Vec<PathBuf> = entries.filter(is_own).map(|entry| entry.path()).collect();
        found.sort();
        found
            .iter()
            .find_map(|path| Self::create_in_shared(path).ok())
    }

    fn private(path: &Path, flags: OFlag) -> Result<Self, FileError> {
        let fd = open(path, flags, Mode::empty())
            .map_err(|errno| FileError::cannot("open", path, errno))?;
        let dir = Self {
            fd,
            path: path.to_owned(),
        };
        let found = fstat(&dir.fd).map_err(|errno| FileError::cannot("open", path, errno))?;
        let user = geteuid().as_raw();
        let shown = dir.path.display();
        let wrong = match (found.st_uid, found.st_mode & 0o777) {
            (owner, _) if owner != user => Some((
                FileFault::ForeignOwner,
                format!("`{shown}` belongs to user id {owner}, not to {user}"),
            )),
            (_, mode) if mode & 0o022 != 0 => Some((
                FileFault::Exposed,
                format!("`{shown}` can be written by others (mode {mode:03o})"),
            )),
            _ => None,
        };
        if let Some((fault, message)) = wrong {
            return Err(FileError::new(fault, message));
        }
        Ok(dir)
    }

    /// Where it was when it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its descriptor.
    #[must_use]
    pub fn fd(&self) -> impl AsFd {
        &self.fd
    }

    /// Opens a directory in this one; a link is refused.
    ///
    /// # Errors
    /// `Open`.
    pub fn open_dir(&self, name: &str) -> Result<Self, FileError> {
        let path = self.path.join(name);
        match openat(&self.fd, name, OPEN_DIR | OFlag::O_NOFOLLOW, Mode::empty()) {
            Ok(fd) => Ok(Self { fd, path }),
            Err(errno) => Err(FileError::cannot("open", path, errno)),
        }
    }

    /// Creates a directory in this one. `None` where something of that name was there before: of several that try, one
    /// gets it.
    ///
    /// # Errors
    /// `Create`, `Open`.
    pub fn win_dir(&self, name: &str) -> Result<Option<Self>, FileError> {
        let failed = |errno: Errno| FileError::cannot("create", self.path.join(name), errno);
        match mkdirat(&self.fd, name, DIR_MODE) {
            Err(Errno::EEXIST) => return Ok(None),
            other => other.map_err(failed)?,
        }
        Ok(Some(self.open_dir(name)?))
    }

    /// Opens a directory in this one, creating it where it is missing.
    ///
    /// # Errors
    /// `Create`, `Open`.
    pub fn ensure_dir(&self, name: &str) -> Result<Self, FileError> {
        match self.open_dir(name) {
            Err(error) if error.is_missing() => match self.win_dir(name)? {
                Some(dir) => Ok(dir),
                None => self.open_dir(name),
            },
            other => other,
        }
    }

    /// Creates a file that must not be there yet, in a directory that nobody reads yet. A power failure within half a
    /// minute may leave it empty.
    ///
    /// # Errors
    /// `Write`.
    pub fn write_new(&self, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        let written = self
            .create_file(name)
            .and_then(|mut file| file.write_all(bytes));
        written.map_err(|source| FileError::cannot("write", self.path.join(name), source))
    }

    /// Puts a file in its place whole: readers see the old or the new content, also after a crash.
    ///
    /// # Errors
    /// `Write`; the old content is still there.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        let failed = |source| FileError::cannot("write", self.path.join(name), source);
        let random = getrandom::u64().map_err(|error| failed(io::Error::other(error)))?;
        let temporary = format!(".{name}.{random:016x}");
        let written = self.create_file(&temporary).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()?;
            drop(file);
            Ok(renameat(&self.fd, temporary.as_str(), &self.fd, name)?)
        });
        written.map_err(|source| {
            // The first error is the one to report; a file left behind does no harm.
            let _ = unlinkat(&self.fd, temporary.as_str(), UnlinkatFlags::NoRemoveDir);
            failed(source)
        })
    }

    /// Creates a file that must not be there yet.
    ///
    /// # Errors
    /// What `openat(2)` says.
    pub fn create_file(&self, name: &str) -> io::Result<File> {
        Ok(File::from(openat(&self.fd, name, CREATE_FILE, FILE_MODE)?))
    }

    /// Opens a file for reading; a link is refused.
    ///
    /// # Errors
    /// `Open`.
    pub fn open_file(&self, name: &str) -> Result<File, FileError> {
        match openat(&self.fd, name, OPEN_FILE, Mode::empty()) {
            Ok(fd) => Ok(File::from(fd)),
            Err(errno) => Err(FileError::cannot("open", self.path.join(name), errno)),
        }
    }

    /// Gives a file another name; what has that name is replaced.
    ///
    /// # Errors
    /// `Write`.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), FileError> {
        let renamed = renameat(&self.fd, from, &self.fd, to);
        renamed.map_err(|errno| FileError::cannot("write", self.path.join(to), errno))
    }

    /// Removes a file; a missing one is no error.
    ///
    /// # Errors
    /// `Write`.
    pub fn remove(&self, name: &str) -> Result<(), FileError> {
        match unlinkat(&self.fd, name, UnlinkatFlags::NoRemoveDir) {
            Err(errno) if errno != Errno::ENOENT => {
                Err(FileError::cannot("write", self.path.join(name), errno))
            }
            _ => Ok(()),
        }
    }

    /// Opens a file to write to, creating it where it is missing; a link is refused.
    ///
    /// # Errors
    /// What `openat(2)` says.
    pub fn open_or_create(&self, name: &str) -> io::Result<File> {
        let flags = OFlag::O_RDWR
            | OFlag::O_CREAT
            | OFlag::O_NOFOLLOW
            | OFlag::O_NONBLOCK
            | OFlag::O_CLOEXEC;
        Ok(File::from(openat(&self.fd, name, flags, FILE_MODE)?))
    }

    /// Reads a file of at most `limit` bytes; a link is refused.
    ///
    /// # Errors
    /// `Open`, `Read`, `TooLarge`.
    pub fn read(&self, name: &str, limit: usize) -> Result<Vec<u8>, FileError> {
        let (path, file) = (self.path.join(name), self.open_file(name)?);
        // Room for most files at once: growing from nothing takes a system call for every few dozen bytes.
        let mut bytes = Vec::with_capacity(limit.min(8 << 10));
        match file.take(limit as u64 + 1).read_to_end(&mut bytes) {
            Err(source) => Err(FileError::cannot("read", path, source)),
            Ok(read) if read > limit => Err(FileError::too_large(path, limit)),
            Ok(_) => Ok(bytes),
        }
    }

    /// Reads a file of JSON of at most `limit` bytes.
    ///
    /// # Errors
    /// As [`PrivateDir::read`]; [`FileFault::Damaged`].
    pub fn read_json<T: DeserializeOwned>(&self, name: &str, limit: usize) -> Result<T, FileError> {
        let bytes = self.read(name, limit)?;
        serde_json::from_slice(&bytes).map_err(|source| self.damaged(name, source))
    }

    /// Reads a file of JSON whose `format` is its version, which may be `known` at most.
    ///
    /// # Errors
    /// As [`PrivateDir::read_json`]; [`FileFault::Newer`].
    pub fn read_versioned<T: DeserializeOwned>(
        &self,
        name: &str,
        limit: usize,
        known: u32,
    ) -> Result<T, FileError> {
        #[derive(serde::Deserialize)]
        struct Version {
            format: u32,
        }
        let bytes = self.read(name, limit)?;
        match serde_json::from_slice(&bytes) {
            Ok(Version { format }) if format > known => {
                let path = self.path.join(name);
                let message = format!(
                    "`{}` has format {format}, and this dlrun knows up to {known}",
                    path.display()
                );
                Err(FileError::new(FileFault::Newer, message))
            }
            _ => serde_json::from_slice(&bytes).map_err(|source| self.damaged(name, source)),
        }
    }

    /// Says that the content of a file makes no sense.
    pub fn damaged(&self, name: &str, why: impl Into<Box<dyn Error + Send + Sync>>) -> FileError {
        let message = format!("`{}` is damaged", self.path.join(name).display());
        FileError::caused(FileFault::Damaged, message, why)
    }

    /// Replaces a file by a value as JSON for people to read, as [`PrivateDir::replace`].
    ///
    /// # Errors
    /// As [`PrivateDir::replace`].
    pub fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), FileError> {
        let bytes = serde_json::to_vec_pretty(value).expect("plain data with text keys");
        self.replace(name, &bytes)
    }

    /// Makes renames in this directory last through a crash.
    ///
    /// # Errors
    /// `Write`.
    pub fn sync(&self) -> Result<(), FileError> {
        let synced = nix::unistd::fsync(&self.fd);
        synced.map_err(|errno| FileError::cannot("write", &self.path, errno))
    }

    /// The names in this directory, in no order. Names that are not UTF-8 are none of ours.
    ///
    /// # Errors
    /// `List`.
    pub fn names(&self) -> Result<Vec<String>, FileError> {
        let failed = |source| FileError::cannot("list", &self.path, source);
        let entries = fs::read_dir(&self.path).map_err(failed)?;
        let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names
            .filter_map(io::Result::transpose)
            .collect::<io::Result<_>>()
            .map_err(failed)
    }
}
