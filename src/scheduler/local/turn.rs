//! Whose turn it is: first come, first served among the user's jobs, one job at a time on the machine.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};

use super::file_error;
use super::ticket::Ticket;
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
        let open =
            || OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path);
        let file = open().or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                return Err(error);
            }
            fs::DirBuilder::new().recursive(true).mode(0o700).create(queue_dir)?;
            open()
        });
        let locked = file.and_then(|file| {
            Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| io::Error::from(errno))
        });
        let mut file = locked.map_err(file_error("lock", &path))?;
        let mut text = String::new();
        (&mut *file).take(32).read_to_string(&mut text).map_err(file_error("read", &path))?;
        Ok(Self { file, path, last: text.trim().parse().unwrap_or(0) })
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

/// A place in the user's queue: a file named by time of submission, removed when the job starts or gives up.
pub(super) struct Place {
    path: PathBuf,
    name: String,
    queue_dir: PathBuf,
}

impl Place {
    /// Queues up. The file holds the run's directory, so that others can see whether its runner lives.
    pub(super) fn take(ticket: &Ticket, run_dir: &Path) -> Result<Self, SchedulerError> {
        let name = format!("wait-{:020}-{}", ticket.queued_at_ms, ticket.run_id);
        let path = ticket.queue_dir.join(&name);
        // Made whole before it has its name: who reads it half would take us for dead.
        let part = ticket.queue_dir.join(format!("new-{}", ticket.run_id));
        let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&part);
        let written = file.and_then(|mut file| file.write_all(run_dir.to_string_lossy().as_bytes()));
        written.and_then(|()| fs::rename(&part, &path)).map_err(file_error("write", &path))?;
        Ok(Self { path, name, queue_dir: ticket.queue_dir.clone() })
    }

    /// Says whether no living runner of this user waits longer. Places of dead runners are cleared away.
    pub(super) fn is_first(&self) -> bool {
        let Ok(entries) = fs::read_dir(&self.queue_dir) else { return true };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| name.starts_with("wait-")) else { continue };
            if name >= self.name.as_str() {
                continue;
            }
            let run_dir = fs::read_to_string(entry.path()).unwrap_or_default();
            if Ticket::is_held(Path::new(&run_dir)) {
                return false;
            }
            let _ = fs::remove_file(entry.path());
        }
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The lock of this machine, shared by all users. `None` while another job has it.
///
/// Anybody may put something else in its place in a directory that all may write to. What is no plain file that we may
/// read is left alone, and the user's jobs wait for each other only.
pub(super) fn lock_machine(lock_dir: &Path, own_dir: &Path) -> Result<Option<Flock<File>>, SchedulerError> {
    let shared = lock_dir.join("dlrun-local.lock");
    let own = own_dir.join("machine.lock");
    let file = open_lock(&shared).or_else(|error| {
        tracing::warn!(path = %shared.display(), %error, "the machine's lock cannot be used");
        open_lock(&own)
    });
    match Flock::lock(file.map_err(file_error("open the lock", &own))?, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, errno)) => Err(file_error("lock", &shared)(errno.into())),
    }
}

/// Opens a lock file, world-readable and never written, without following links and without waiting (for the other end of
/// a pipe). First without `O_CREAT`, which `fs.protected_regular` forbids on other users' files in sticky directories.
fn open_lock(path: &Path) -> io::Result<File> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).bits();
    let open = || OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = open().or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            return Err(error);
        }
        let made = OpenOptions::new().write(true).create_new(true).mode(0o644).custom_flags(flags).open(path);
        if let Ok(made) = made {
            made.set_permissions(fs::Permissions::from_mode(0o644))?;
        }
        open()
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no plain file")) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn a_strangers_file_in_the_locks_place_stops_no_job() {
        for plant in [
            (|path: &Path| mkfifo(path, Mode::S_IRWXU).map_err(io::Error::from))
                as fn(&Path) -> io::Result<()>,
            |path| symlink("/etc/passwd", path),
            |path| fs::create_dir(path),
        ] {
            let dir = tempfile::tempdir().expect("a directory");
            let own = tempfile::tempdir().expect("a directory");
            plant(&dir.path().join("dlrun-local.lock")).expect("planted");
            let held = lock_machine(dir.path(), own.path()).expect("usable");
            assert!(held.is_some());
            assert!(
                lock_machine(dir.path(), own.path()).expect("usable").is_none(),
                "one at a time all the same"
            );
        }
    }
}
