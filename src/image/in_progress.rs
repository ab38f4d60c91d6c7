//! What is needed while an image or a Python environment is made: names beside it, its log, what a tool said last.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
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
