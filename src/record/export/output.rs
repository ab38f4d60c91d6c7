//! A directory that others take files from: a file shows up there under its name when it is whole. Not only exports go this way.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, RenameFlags, open, openat, renameat, renameat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, fsync, geteuid, unlinkat};

/// The owner writes, the group reads; the umask may take more away.
const MODE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR).union(Mode::S_IRGRP);
const OPEN_DIR: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_CLOEXEC);
/// Whoever runs this, a link that somebody left there is not followed.
const CREATE: OFlag = OFlag::O_WRONLY
    .union(OFlag::O_CREAT)
    .union(OFlag::O_EXCL)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// An open directory for exports. Names are taken relative to it.
#[derive(Debug)]
pub struct OutputDir {
    fd: OwnedFd,
    path: PathBuf,
    inode: u64,
}

impl OutputDir {
    /// Opens a directory, which must be there.
    ///
    /// # Errors
    /// What `open(2)` says.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let fd = open(&path, OPEN_DIR, Mode::empty())?;
        let inode = fstat(&fd)?.st_ino;
        Ok(Self { fd, path, inode })
    }

    /// Where it is, absolute.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which directory it is, whatever its name.
    pub(super) fn inode(&self) -> u64 {
        self.inode
    }

    /// Creates a file that must not be there yet.
    ///
    /// # Errors
    /// What `openat(2)` says.
    pub fn create(&self, name: &str) -> io::Result<File> {
        Ok(File::from(openat(&self.fd, name, CREATE, MODE)?))
    }

    /// Puts a file under its last name, where nothing may be yet.
    pub(super) fn deliver(&self, temporary: &str, name: &str) -> io::Result<()> {
        match renameat2(
            &self.fd,
            temporary,
            &self.fd,
            name,
            RenameFlags::RENAME_NOREPLACE,
        ) {
            // File systems of the network do not know it.
            Err(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP)
                if self.about(name)?.is_none() =>
            {
                renameat(&self.fd, temporary, &self.fd, name)?;
            }
            Err(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => {
                return Err(Errno::EEXIST.into());
            }
            other => other?,
        }
        self.sync()
    }

    /// Removes a file; a missing one is no error.
    pub fn remove(&self, name: &str) {
        let _ = unlinkat(&self.fd, name, UnlinkatFlags::NoRemoveDir);
    }

    /// The length of a regular file of the caller's own; `Some(None)` for anything else, `None` where there is nothing.
    pub(super) fn own_length(&self, name: &str) -> io::Result<Option<Option<u64>>> {
        Ok(self.about(name)?.map(|about| {
            let is_own = about.st_uid == geteuid().as_raw();
            u64::try_from(about.st_size)
                .ok()
                .filter(|_| is_file(&about) && is_own)
        }))
    }

    /// The names that end so.
    pub(super) fn names_ending(&self, suffix: &str) -> io::Result<Vec<String>> {
        let mut dir = Dir::openat(&self.fd, ".", OPEN_DIR, Mode::empty())?;
        let mut found = Vec::new();
        for entry in dir.iter() {
            if let Ok(name) = entry?.file_name().to_str()
                && name.ends_with(suffix)
            {
                found.push(name.to_owned());
            }
        }
        Ok(found)
    }

    /// Makes names in it last through a power failure.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.fd)?)
    }

    fn about(&self, name: &str) -> io::Result<Option<FileStat>> {
        match fstatat(&self.fd, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Err(Errno::ENOENT) => Ok(None),
            other => Ok(Some(other?)),
        }
    }
}

fn is_file(about: &FileStat) -> bool {
    SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG
}
