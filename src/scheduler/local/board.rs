//! The entries of all users' jobs. Each user writes in a directory of his own and reads those of all.
//!
//! Nothing is locked. An entry counts where its directory and its file belong to the user in the directory's name and that
//! user has the process that it names: nobody can make one for another user, or for a job that does not run.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::{Mode, SFlag, fchmod, fstat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::entry::{Entry, Here, Kind};
use super::process::{Identity, Sessions, owner};
use super::share::{Machine, Share};
use crate::foundation::private::PrivateDir;

const PREFIX: &str = "dlrun-local-";
/// Names that are read of another user's directory, and entries of each kind that are opened.
const NAMES_MAX: usize = 16_384;
const ENTRIES_MAX: usize = 512;
/// Directories of one user.
const DIRS_MAX: usize = 4;
const OPEN_DIR: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);
/// `O_NONBLOCK` so that a pipe put in a file's place does not hang the reader.
const OPEN_FILE: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_NONBLOCK)
    .union(OFlag::O_CLOEXEC);

/// An entry that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) user: u32,
    pub(super) entry: Entry,
    /// The kernel's time of the file's last change, in seconds and nanoseconds: for one that waits, its arrival.
    pub(super) changed: (i64, i64),
}

impl Seen {
    pub(super) fn is(&self, other: &Self) -> bool {
        (self.user, self.entry.runner) == (other.user, other.entry.runner)
    }

    pub(super) fn share(&self, machine: Machine) -> Share {
        self.entry.asked.share(machine)
    }
}

/// What counted at one look.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub(super) waiting: Vec<Seen>,
    pub(super) running: Vec<Seen>,
}

/// Where entries are.
#[derive(Debug)]
pub(super) struct Board {
    shared: PathBuf,
    here: Option<Here>,
    pub(super) user: u32,
}

impl Board {
    pub(super) fn new(lock_dir: &Path) -> Self {
        Self {
            shared: lock_dir.to_owned(),
            here: Here::find(),
            user: geteuid().as_raw(),
        }
    }

    /// Reads all entries; those of this user whose processes are gone are removed.
    pub(super) fn read(&self) -> Look {
        let mut reading = Reading::default();
        let Some(here) = &self.here else {
            return reading.look;
        };
        let mut dirs: Vec<u32> = Vec::new();
        for (user, path) in self.named() {
            let counted = dirs.iter().filter(|counted| **counted == user).count();
            if counted >= DIRS_MAX {
                continue;
            }
            if let Some(dir) = open_dir(&path).filter(|dir| owner_of(dir) == Some(user)) {
                dirs.push(user);
                self.read_dir(dir, user, here, &mut reading);
            }
        }
        reading.look
    }

    /// Directories with a name of ours, each with the user in it; whose they are is another question.
    fn named(&self) -> impl Iterator<Item = (u32, PathBuf)> {
        let entries = fs::read_dir(&self.shared).into_iter().flatten().flatten();
        entries.filter_map(|entry| {
            let name = entry.file_name();
            let rest = name.to_str()?.strip_prefix(PREFIX)?;
            let user = rest.split_once('-').map_or(rest, |(user, _)| user);
            Some((user.parse().ok()?, entry.path()))
        })
    }

    fn read_dir(&self, mut dir: Dir, user: u32, here: &Here, reading: &mut Reading) {
        let is_own = user == self.user;
        let most = if is_own { usize::MAX } else { NAMES_MAX };
        let mut names: Vec<(Kind, String)> = Vec::new();
        let mut counts = [0_usize; 2];
        for entry in dir.iter().take(most).flatten() {
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            let Some(kind) = Kind::from_file_name(name) else {
                continue;
            };
            let count = &mut counts[usize::from(kind == Kind::Run)];
            *count += 1;
            if is_own || *count <= ENTRIES_MAX {
                names.push((kind, name.to_owned()));
            }
        }
        for (kind, name) in names {
            let Some((entry, changed)) = read_entry(&dir, &name, user) else {
                continue;
            };
            let is_alive = entry.here == *here && reading.is_alive(kind, entry.runner, user);
            if is_alive {
                let seen = Seen {
                    user,
                    entry,
                    changed,
                };
                match kind {
                    Kind::Wait => reading.look.waiting.push(seen),
                    Kind::Run => reading.look.running.push(seen),
                }
            } else if is_own && (entry.here == *here || entry.here.is_over(here)) {
                let _ = unlinkat(&dir, name.as_str(), UnlinkatFlags::NoRemoveDir);
            }
        }
    }

    /// A directory for this user's entries.
    pub(super) fn own_dir(&self) -> io::Result<OwnDir> {
        let own = PrivateDir::own_in_shared(&self.shared, PREFIX).map_err(io::Error::other);
        own.and_then(OwnDir::open)
    }

    /// The entry of a job of this user, as others will see it.
    pub(super) fn entry_of(&self, ticket: &super::ticket::Ticket) -> Option<Entry> {
        Some(Entry::new(ticket, ticket.runner?, self.here.clone()?))
    }
}

/// What a look has gathered so far.
#[derive(Default)]
struct Reading {
    look: Look,
    sessions: Option<Sessions>,
}

impl Reading {
    /// Says whether `user` has the process. A job that outlives its runner keeps its share: its processes are in the
    /// session that the runner led.
    fn is_alive(&mut self, kind: Kind, runner: Identity, user: u32) -> bool {
        let is_runner = runner.is_alive() && owner(runner.pid) == Some(user);
        is_runner
            || (kind == Kind::Run
                && self
                    .sessions
                    .get_or_insert_with(Sessions::now)
                    .outlive(runner, user))
    }
}

fn open_dir(path: &Path) -> Option<Dir> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let parent = open(path.parent()?, flags, Mode::empty()).ok()?;
    Dir::from_fd(open_in(parent, path.file_name()?, OPEN_DIR)?).ok()
}

/// Opens what has `name` in `dir`, without following a link and without touching what is mounted there, which may be a file
/// system that never answers.
fn open_in(dir: impl AsFd, name: &OsStr, flags: OFlag) -> Option<OwnedFd> {
    let how = OpenHow::new()
        .flags(flags)
        .resolve(ResolveFlag::RESOLVE_NO_XDEV);
    let opened = match openat2(&dir, name, how) {
        // Linux before 5.6, or a filter of system calls.
        Err(Errno::ENOSYS | Errno::EPERM) => openat(&dir, name, flags, Mode::empty()),
        other => other,
    };
    opened.ok()
}

/// The owner of a directory that nobody else may write to.
fn owner_of(dir: &Dir) -> Option<u32> {
    fstat(dir)
        .ok()
        .filter(|found| found.st_mode & 0o022 == 0)
        .map(|found| found.st_uid)
}

fn read_entry(dir: &Dir, name: &str, user: u32) -> Option<(Entry, (i64, i64))> {
    let file = open_in(dir, OsStr::new(name), OPEN_FILE)?;
    let found = fstat(&file).ok()?;
    let is_file = SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG;
    let size = u64::try_from(found.st_size).ok()?;
    if !is_file || found.st_uid != user || size > Entry::LIMIT {
        return None;
    }
    let mut bytes = Vec::new();
    File::from(file)
        .take(Entry::LIMIT)
        .read_to_end(&mut bytes)
        .ok()?;
    let entry = Entry::parse(&bytes)?;
    // The name goes with the content, so that one process has one entry of a kind.
    let is_its_name = [Kind::Wait, Kind::Run]
        .map(|kind| kind.file_name(entry.runner))
        .contains(&name.to_owned());
    is_its_name.then_some((entry, (found.st_ctime, found.st_ctime_nsec)))
}

/// This user's directory, which others may read.
#[derive(Debug)]
pub(super) struct OwnDir {
    dir: PrivateDir,
    /// A lock that says to systemd-tmpfiles, which clears old files away, that this directory is in use.
    _in_use: Option<File>,
}

impl OwnDir {
    fn open(dir: PrivateDir) -> io::Result<Self> {
        fchmod(dir.fd().as_fd(), Mode::from_bits_truncate(0o755))?;
        let in_use = File::open(dir.path())
            .ok()
            .filter(|dir| dir.try_lock_shared().is_ok());
        Ok(Self {
            dir,
            _in_use: in_use,
        })
    }

    /// Puts an entry up, whole.
    pub(super) fn publish(
        self: &Rc<Self>,
        kind: Kind,
        user: u32,
        entry: &Entry,
    ) -> io::Result<Published> {
        let name = kind.file_name(entry.runner);
        let part = format!("new-{name}");
        let mut file = self.dir.create_file(&part)?;
        let written = file
            .set_permissions(Permissions::from_mode(0o644))
            .and_then(|()| file.write_all(&entry.bytes()))
            .and_then(|()| self.dir.rename(&part, &name).map_err(io::Error::other))
            .and_then(|()| file.metadata());
        let about = written.inspect_err(|_| drop(self.dir.remove(&part)))?;
        let changed = (about.ctime(), about.ctime_nsec());
        let seen = Seen {
            user,
            entry: entry.clone(),
            changed,
        };
        Ok(Published {
            dir: Rc::clone(self),
            name,
            seen,
        })
    }
}

/// An entry of this process, which goes with this.
#[derive(Debug)]
pub(super) struct Published {
    dir: Rc<OwnDir>,
    name: String,
    pub(super) seen: Seen,
}

impl Drop for Published {
    fn drop(&mut self) {
        let _ = self.dir.dir.remove(&self.name);
    }
}
