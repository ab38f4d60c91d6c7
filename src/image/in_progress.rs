//! What is needed while an image or a Python environment is made: names beside it, its log, what a tool said last.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use crate::foundation::command::CommandError;
use crate::foundation::lock::Owner;

/// How far the making is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<'a> {
    /// Another dlrun makes the same; `None` where it did not say who it is.
    Waiting(Option<&'a Owner>),
    /// A step began.
    Phase(&'a str),
    /// What the runtime, a program of the definition file or pip wrote last.
    Line(&'a str),
}

/// The path with a further ending: `x.sif.lock`.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(".");
    path.push(ending);
    path.into()
}

/// An empty log for its owner alone. A link that somebody put there is not followed, and a pipe is not waited for.
pub(crate) fn new_log(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.custom_flags(flags.bits()).open(path)
}

/// Puts a file at `path`, whole and on the disk or not at all; `part` is its name until then.
pub(crate) fn put(path: &Path, part: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let write = || {
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(part)?;
        file.write_all(bytes)?;
        // Whatever root's umask is.
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs::rename(part, path)?;
        File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
    };
    write().inspect_err(|_| drop(fs::remove_file(part)))
}

/// What a tool that failed said last; empty where it said nothing.
pub(crate) fn last_words(error: &CommandError) -> &str {
    match error {
        CommandError::Failed {
            words: Some(words), ..
        } => &words.0,
        _ => "",
    }
}

/// The texts of ENOSPC and EDQUOT in C, Go, Python and shells.
pub(crate) fn is_full(words: &str) -> bool {
    let words = words.to_lowercase();
    words.contains("no space left on device") || words.contains("disk quota exceeded")
}

/// A directory that goes away unless it is kept.
pub(crate) struct Unfinished(pub(crate) PathBuf);

impl Unfinished {
    pub(crate) fn keep(mut self) -> PathBuf {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // What stays is removed by who makes it the next time.
        if !self.0.as_os_str().is_empty() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}
