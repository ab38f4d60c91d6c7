//! A model that others read: put in its place whole, also by root in a directory of somebody else.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fchmod, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};

use crate::cli::error::{Error, Kind};

const OPEN_DIR: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);
/// Whoever runs this, a link that somebody left there is not followed.
const CREATE: OFlag = OFlag::O_WRONLY
    .union(OFlag::O_CREAT)
    .union(OFlag::O_EXCL)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// Puts `bytes` in the place of `path`, for all to read whatever the umask. The directory must be there, and nobody may write to
/// it but its owner and group; only a regular file is replaced.
pub(crate) fn publish(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    put(path, bytes, true)
}

/// The same in any directory, for a file that nobody but the caller goes by.
pub(crate) fn place(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    put(path, bytes, false)
}

fn put(path: &Path, bytes: &[u8], is_for_others: bool) -> Result<(), Error> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        let error = Error::new(Kind::Usage, format!("`{}` names no file", path.display()));
        return Err(error.hinted("name a file, such as `site.model`"));
    };
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let fd = open(dir, OPEN_DIR, Mode::empty()).map_err(|errno| failed(path, dir, errno.into()))?;
    let about = fstat(&fd).map_err(|errno| failed(path, dir, errno.into()))?;
    if is_for_others && about.st_mode & 0o002 != 0 {
        return Err(open_to_all(path, dir));
    }
    match fstatat(&fd, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(found) if SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG => {
            let message = format!("cannot write `{}`: it is there and no regular file", path.display());
            return Err(Error::new(Kind::CannotWrite, message).hinted("name another file, or remove it"));
        }
        Ok(_) | Err(Errno::ENOENT) => {}
        Err(errno) => return Err(failed(path, dir, errno.into())),
    }
    let random = getrandom::u64().map_err(|error| failed(path, dir, io::Error::other(error)))?;
    let temporary = format!(".dlrun-model.{random:016x}.tmp");
    let written = write(&fd, &temporary, bytes)
        .and_then(|()| Ok(renameat(&fd, temporary.as_str(), &fd, name)?))
        .and_then(|()| Ok(fsync(&fd)?));
    written.map_err(|error| {
        // The first error is the one to report; a file left behind does no harm.
        let _ = unlinkat(&fd, temporary.as_str(), UnlinkatFlags::NoRemoveDir);
        failed(path, dir, error)
    })
}

fn write(dir: &OwnedFd, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mode = Mode::from_bits_truncate(0o644);
    let mut file = File::from(openat(dir, name, CREATE, mode)?);
    // A umask may have taken rights away.
    fchmod(&file, mode)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn open_to_all(path: &Path, dir: &Path) -> Error {
    let (dir, path) = (dir.display(), path.display());
    let message = format!("everybody may write to `{dir}`, so anybody could exchange `{path}`");
    Error::new(Kind::NotPermitted, message)
        .hinted(format!("name another directory with the setting `model.path`, or `chmod o-w '{dir}'`"))
}

fn failed(path: &Path, dir: &Path, error: io::Error) -> Error {
    let message = format!("cannot write `{}`: {error}", path.display());
    let make = || format!("make the directory first: {}", dir.display());
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            Error::new(Kind::Missing, message).hinted(make())
        }
        io::ErrorKind::PermissionDenied => {
            Error::new(Kind::NotPermitted, message).hinted("the setting `model.path` names another place")
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Error::new(Kind::CannotWrite, message).hinted("make room; what was there is as it was")
        }
        _ => Error::new(Kind::CannotWrite, message),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_a_regular_file_in_a_safe_directory_is_replaced() {
        let tmp = tempfile::tempdir().expect("a directory");
        let path = tmp.path().join("model");
        place(&path, b"one").expect("placed");
        place(&path, b"two").expect("replaced");
        assert_eq!(fs::read(&path).expect("read"), b"two");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(tmp.path()).expect("listed").count(), 1, "nothing is left beside it");
        let victim = tmp.path().join("victim");
        fs::write(&victim, "untouched").expect("ours");
        let link = tmp.path().join("link");
        symlink(&victim, &link).expect("ours");
        assert_eq!(place(&link, b"x").expect_err("a link").kind, Kind::CannotWrite);
        assert_eq!(fs::read(&victim).expect("read"), b"untouched");
        assert_eq!(place(tmp.path(), b"x").expect_err("a directory").kind, Kind::CannotWrite);
        assert_eq!(place(&tmp.path().join("no/model"), b"x").expect_err("nowhere").kind, Kind::Missing);
        let open = tmp.path().join("open");
        fs::create_dir(&open).expect("ours");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("ours");
        assert_eq!(publish(&open.join("model"), b"x").expect_err("open").kind, Kind::NotPermitted);
        place(&open.join("model"), b"x").expect("nobody goes by it");
        publish(&path, b"three").expect("published");
    }
}
