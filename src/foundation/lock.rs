//! Lets one process at a time make something that lies beside a lock file: a Python environment, an image.
//!
//! A `flock` on a file: the kernel ends it with its owner, however that dies, so nothing has to be guessed
//! or taken over. On NFS it is passed to the server since Linux 2.6.12 (`flock(2)`), so it holds between login nodes;
//! where the file system has no locks, or has them for one node only (Lustre mounted without `flock`, or with
//! `localflock`), two may make the same at once. That costs time and space and nothing else, since each making
//! has its own place. An exclusively created file would hold everywhere, but whether its owner on
//! another node still lives cannot be known.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use nix::errno::Errno;
use nix::fcntl::OFlag;

/// Who is making it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Process id.
    pub pid: u32,
    /// Name of the host.
    pub host: String,
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "pid {} on {}", self.pid, self.host)
    }
}

/// How long to wait.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Between two looks.
    pub step: Duration,
    /// While the owner gives no sign of life. A client of NFS that crashed may hold its locks until it is back.
    pub silence: Duration,
}

impl Patience {
    /// For what takes minutes.
    pub const USUAL: Self = Self {
        step: Duration::from_millis(250),
        silence: Duration::from_secs(1800),
    };
}

/// The right to make it; it ends when this is dropped.
#[derive(Debug)]
pub struct Lock {
    /// `None` where there are no locks, or the owner is silent.
    file: Option<File>,
}

impl Lock {
    /// Whether nobody else makes the same.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        self.file.is_some()
    }

    /// Takes the lock's file away while the lock is held; whoever waits for it makes another.
    pub fn remove(&self, path: &Path) {
        if self.is_exclusive() {
            // One that stays is in nobody's way.
            let _ = fs::remove_file(path);
        }
    }
}

/// Waits for the lock on `path`. `on_wait` hears of each owner once; `log` is what a living owner writes to.
///
/// # Errors
/// When `path` cannot be made or locked for another reason than that somebody has it.
pub fn acquire(
    path: &Path,
    log: &Path,
    patience: Patience,
    mut on_wait: impl FnMut(Option<Owner>),
) -> std::io::Result<Lock> {
    let mut shown = None;
    let (mut sign, mut since) = (sign_of_life(log), Instant::now());
    loop {
        let owner = match acquire_now(path)? {
            Ok(lock) => return Ok(lock),
            Err(owner) => owner,
        };
        if shown.as_ref() != Some(&owner) {
            on_wait(owner.clone());
            shown = Some(owner);
        }
        let now = sign_of_life(log);
        if now != sign {
            (sign, since) = (now, Instant::now());
        } else if since.elapsed() >= patience.silence {
            tracing::warn!(path = %path.display(), "the owner of the lock is silent");
            return Ok(Lock { file: None });
        }
        std::thread::sleep(patience.step);
    }
}

/// The lock on `path` at once, or who has it.
///
/// # Errors
/// As [`acquire`].
pub fn acquire_now(path: &Path) -> std::io::Result<Result<Lock, Option<Owner>>> {
    let mut file = open(path)?;
    loop {
        match try_once(&file, path)? {
            // The owner removed it meanwhile.
            Some(true) if !is_at(&file, path) => file = open(path)?,
            Some(held) => return Ok(Ok(signed(file, held))),
            None => return Ok(Err(read_owner(&mut file))),
        }
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    // The directory may be shared: the owner's name must not be written into the file that somebody's link points to.
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)
}

/// Whether the lock is held now; `false`: there are no locks. `None`: somebody else has it.
fn try_once(file: &File, path: &Path) -> std::io::Result<Option<bool>> {
    match file.try_lock() {
        Ok(()) => Ok(Some(true)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) if has_no_locks(&error) => {
            tracing::warn!(path = %path.display(), %error, "the file system has no locks");
            Ok(Some(false))
        }
        Err(TryLockError::Error(source)) => Err(source),
    }
}

/// Whether the file is still the one at `path`: its former owner may have taken it away ([`Lock::remove`]).
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(own), Ok(there)) = (file.metadata(), fs::metadata(path)) else {
        return false;
    };
    (own.dev(), own.ino()) == (there.dev(), there.ino())
}

fn signed(mut file: File, held: bool) -> Lock {
    if held {
        // For the eyes of those who wait; that nothing depends on it.
        let _ = sign_in(&mut file);
    }
    Lock {
        file: held.then_some(file),
    }
}

fn has_no_locks(error: &std::io::Error) -> bool {
    let known = [Errno::ENOSYS, Errno::ENOLCK, Errno::EOPNOTSUPP];
    error
        .raw_os_error()
        .is_some_and(|code| known.contains(&Errno::from_raw(code)))
}

fn sign_of_life(log: &Path) -> Option<(u64, SystemTime)> {
    let about = fs::metadata(log).ok()?;
    Some((about.len(), about.modified().ok()?))
}

/// Writes `PID HOST` into the lock file.
fn sign_in(file: &mut File) -> std::io::Result<()> {
    let host = nix::unistd::gethostname()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    writeln!(file, "{} {host}", std::process::id())
}

fn read_owner(file: &mut File) -> Option<Owner> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.take(1024).read_to_string(&mut text).ok()?;
    let (pid, host) = text.trim_end().split_once(' ')?;
    Some(Owner {
        pid: pid.parse().ok()?,
        host: host.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASTE: Patience = Patience {
        step: Duration::from_millis(5),
        silence: Duration::from_millis(100),
    };

    #[test]
    fn second_waits_hears_of_the_first_and_follows() {
        let dir = tempfile::tempdir().expect("temp");
        let (path, log) = (dir.path().join("lock"), dir.path().join("log"));
        let first =
            acquire(&path, &log, HASTE, |_| panic!("nobody is before it")).expect("it is free");
        assert!(first.is_exclusive());
        let mut first = Some(first);
        let mut owners = Vec::new();
        let patience = Patience {
            silence: Duration::from_secs(60),
            ..HASTE
        };
        let second = acquire(&path, &log, patience, |owner| {
            owners.push(owner);
            first = None;
        });
        assert!(second.expect("it became free").is_exclusive());
        assert_eq!(owners.len(), 1);
        assert_eq!(
            owners[0].as_ref().map(|owner| owner.pid),
            Some(std::process::id())
        );
    }

    #[test]
    fn link_in_the_place_of_the_lock_is_refused_and_its_target_stays_as_it_was() {
        let dir = tempfile::tempdir().expect("temp");
        let (path, target) = (dir.path().join("lock"), dir.path().join("keys"));
        fs::write(&target, "precious\n").expect("ours");
        std::os::unix::fs::symlink(&target, &path).expect("ours");
        assert!(acquire_now(&path).is_err());
        assert_eq!(fs::read_to_string(&target).expect("a file"), "precious\n");
    }

    #[test]
    fn who_does_not_wait_hears_who_has_it() {
        let dir = tempfile::tempdir().expect("temp");
        let path = dir.path().join("lock");
        let first = acquire_now(&path)
            .expect("it can be made")
            .expect("it is free");
        assert!(first.is_exclusive());
        let owner = acquire_now(&path)
            .expect("it can be opened")
            .expect_err("it is taken");
        assert_eq!(owner.map(|owner| owner.pid), Some(std::process::id()));
        drop(first);
        assert!(acquire_now(&path).expect("it can be opened").is_ok());
    }

    #[test]
    fn silent_owner_is_not_waited_for_for_ever() {
        let dir = tempfile::tempdir().expect("temp");
        let (path, log) = (dir.path().join("lock"), dir.path().join("log"));
        let _first = acquire(&path, &log, HASTE, |_| {}).expect("it is free");
        let second = acquire(&path, &log, HASTE, |_| {}).expect("it goes on");
        assert!(!second.is_exclusive());
    }

    #[test]
    fn owner_that_cannot_be_read_is_unknown() {
        let mut file = tempfile::tempfile().expect("temp");
        assert_eq!(read_owner(&mut file), None);
        file.write_all(b"what\xff").expect("ours");
        assert_eq!(read_owner(&mut file), None);
    }
}
