//! A file that takes the place of another once it is whole.

use std::ffi::OsString;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::path::Path;

use crate::app::error::{Error, failure};
use crate::foundation::clock::now_ms;

fn cannot(path: &Path, why: impl std::fmt::Display) -> Error {
    failure!(CannotWrite, "cannot write `{}`: {why}", path.display())
}

fn denied(path: &Path, error: &io::Error) -> Error {
    failure!(NotPermitted, "cannot write `{}`: {error}", path.display())
        .hinted("nothing was changed; name a file elsewhere with `--output`")
}

/// Only a regular file is replaced: not what a link leads to, no device, no directory. Returns its rights, if it is there.
pub(crate) fn may_write(path: &Path) -> Result<Option<Permissions>, Error> {
    match fs::symlink_metadata(path) {
        Ok(file) if file.is_file() => Ok(Some(file.permissions())),
        Ok(_) => Err(cannot(path, "it is there and no regular file")
            .hinted("name another file; `--output -` writes to standard output")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(denied(path, &error)),
        Err(error) => Err(cannot(path, error)),
    }
}

/// Writes beside the file and renames: what was there stays until all of the new one is on disk.
pub(crate) fn write_over(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let rights = may_write(path)?;
    let Some(name) = path.file_name() else {
        return Err(cannot(path, "it names no file"));
    };
    let mut beside = OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}-{}.tmp", std::process::id(), now_ms()));
    let beside = path.with_file_name(beside);
    let written = write_new(&beside, bytes, rights).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&beside);
        let failed = cannot(path, &error);
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => failed
                .hinted("nothing was changed; make room, or name a file elsewhere with `--output`"),
            io::ErrorKind::NotFound => failed.hinted("make the directory first"),
            io::ErrorKind::PermissionDenied => denied(path, &error),
            _ => failed.hinted("nothing was changed; name a file elsewhere with `--output`"),
        }
    })
}

fn write_new(path: &Path, bytes: &[u8], rights: Option<Permissions>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    if let Some(rights) = rights {
        file.set_permissions(rights)?;
    }
    // On a network file system a full disk may show no earlier.
    file.sync_all()
}
