//! The numbers of this user's local jobs on this machine: L1, L2 and so on.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use super::file_error;
use crate::foundation::private::PrivateDir;
use crate::scheduler::SchedulerError;

/// The counter of local job ids, locked.
pub(super) struct Counter {
    file: Flock<File>,
    path: PathBuf,
    last: u64,
}

impl Counter {
    /// Locks the counter of this machine, making it where it is missing.
    pub(super) fn lock(queue_dir: &Path) -> Result<Self, SchedulerError> {
        let path = queue_dir.join("last");
        let file = PrivateDir::create(queue_dir)?.open_or_create("last");
        let locked = file.and_then(|file| {
            Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| io::Error::from(errno))
        });
        let mut file = locked.map_err(file_error("lock", &path))?;
        let mut text = String::new();
        (&mut *file)
            .take(32)
            .read_to_string(&mut text)
            .map_err(file_error("read", &path))?;
        Ok(Self {
            file,
            path,
            last: text.trim().parse().unwrap_or(0),
        })
    }

    /// The first number that was not used yet.
    pub(super) fn next(&self) -> u64 {
        self.last + 1
    }

    /// Notes that `number` is used now.
    pub(super) fn used(mut self, number: u64) -> Result<(), SchedulerError> {
        let written = self.file.set_len(0).and_then(|()| self.file.rewind());
        let written = written.and_then(|()| writeln!(self.file, "{number}"));
        written.map_err(file_error("write", &self.path))
    }
}
