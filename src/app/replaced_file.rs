//! A file that takes the place of another once it is whole.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::app::error::{Error, Kind, failure};
use crate::foundation::filesystem::directory;

/// What to do about a file of `--output` that cannot be written.
pub(crate) const OTHER_OUTPUT: &str =
    "name another file with `--output`; `--output -` writes to standard output";

/// A file cannot be written; `elsewhere` is what to do about it.
pub(crate) fn cannot_write(path: &Path, error: &io::Error, elsewhere: &str) -> Error {
    let failed = |kind| Error::new(kind, format!("cannot write `{}`: {error}", path.display()));
    match error.kind() {
        io::ErrorKind::NotFound if !directory(path).is_dir() => {
            let dir = directory(path).display();
            failed(Kind::Missing).hinted(format!("make the directory first: {dir}"))
        }
        io::ErrorKind::PermissionDenied => failed(Kind::NotPermitted).hinted(elsewhere),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => failed(Kind::CannotWrite)
            .hinted(format!("nothing was changed; make room, or {elsewhere}")),
        _ => failed(Kind::CannotWrite).hinted(format!("nothing was changed; {elsewhere}")),
    }
}

/// Only a regular file is replaced: not what a link leads to, no device, no directory. Returns its rights, if it exists.
pub(crate) fn may_write(path: &Path, elsewhere: &str) -> Result<Option<Permissions>, Error> {
    match fs::symlink_metadata(path) {
        Ok(file) if file.is_file() => Ok(Some(file.permissions())),
        Ok(_) => Err(failure!(
            CannotWrite,
            "cannot write `{}`: it exists and is not a regular file",
            path.display()
        )
        .hinted(elsewhere)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot_write(path, &error, elsewhere)),
    }
}

/// Writes beside the file and renames: what was there stays until all of the new file is on disk. A new file has the rights of the
/// former, else `mode` as far as the umask allows it.
pub(crate) fn replace_file<T>(
    path: &Path,
    mode: u32,
    elsewhere: &str,
    write: impl FnOnce(&mut File) -> Result<T, Error>,
) -> Result<T, Error> {
    let rights = may_write(path, elsewhere)?;
    let cannot = |error| cannot_write(path, &error, elsewhere);
    let Some(name) = path.file_name() else {
        return Err(failure!(Usage, "`{}` names no file", path.display()).hinted(elsewhere));
    };
    let random = getrandom::u64().map_err(|error| cannot(io::Error::other(error)))?;
    let mut beside = OsString::from(".");
    beside.push(name);
    beside.push(format!(".{random:016x}.tmp"));
    let beside = path.with_file_name(beside);
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(mode);
    let mut file = options.open(&beside).map_err(cannot)?;
    let prepared = rights.map_or(Ok(()), |rights| file.set_permissions(rights));
    let written = prepared.map_err(cannot).and_then(|()| write(&mut file));
    let written = written.and_then(|written| {
        // On a network file system a full disk may show no earlier.
        let placed = file.sync_all().and_then(|()| fs::rename(&beside, path));
        // The file is in its place; not every directory can be opened and synced.
        let _ = File::open(directory(path)).and_then(|directory| directory.sync_all());
        placed.map(|()| written).map_err(cannot)
    });
    written.inspect_err(|_| drop(fs::remove_file(&beside)))
}

/// Replaces a file by some bytes.
pub(crate) fn write_over(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    replace_file(path, 0o666, OTHER_OUTPUT, |file| {
        io::Write::write_all(file, bytes).map_err(|error| cannot_write(path, &error, OTHER_OUTPUT))
    })
}
