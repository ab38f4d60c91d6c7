//! A model that others read: put in its place whole, also by root in a directory of somebody else.

use std::io::{self, Write};
use std::path::Path;

use nix::unistd::geteuid;

use super::exposed::{Exposed, Others, exposed};
use crate::app::accounts::user_name;
use crate::app::error::{Error, Kind, failure};
use crate::record::export::OutputDir;

/// Puts a model in the place of `path`, for all to read whatever the umask. The directory must be there and not be open to
/// everybody; only a regular file is replaced. Root writes only where nobody else could exchange the file afterwards, or lead it
/// elsewhere before; for others, what lets somebody do that is returned. `is_trusted` are user ids beside root.
pub(crate) fn publish(
    path: &Path,
    chunks: &[impl AsRef<[u8]>],
    is_trusted: &dyn Fn(u32) -> bool,
) -> Result<Option<Exposed>, Error> {
    let found = check(path, is_trusted)?;
    put(path, chunks, For::Others)?;
    Ok(found)
}

/// Whether [`publish`] would write there, as far as that can be told before.
pub(crate) fn check(
    path: &Path,
    is_trusted: &dyn Fn(u32) -> bool,
) -> Result<Option<Exposed>, Error> {
    let is_root = geteuid().is_root();
    let whoever = |uid| !is_root && is_trusted(uid);
    let found =
        exposed(directory(path), &whoever).map_err(|error| failed(path, error, For::Others))?;
    match found {
        Some(found) if is_root => Err(not_by_root(path, &found)),
        found => Ok(found),
    }
}

/// The same in any directory, for a file that nobody but the caller goes by.
pub(crate) fn place(path: &Path, chunks: &[impl AsRef<[u8]>]) -> Result<(), Error> {
    put(path, chunks, For::Caller)
}

/// Who goes by a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    Others,
    Caller,
}

impl For {
    /// How another place is named.
    fn other_place(self) -> &'static str {
        match self {
            Self::Others => "name another place with the setting `model.path`",
            Self::Caller => "name another file after `--output`",
        }
    }
}

fn directory(path: &Path) -> &Path {
    path.parent()
        .filter(|dir| !dir.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

fn put(path: &Path, chunks: &[impl AsRef<[u8]>], whose: For) -> Result<(), Error> {
    let Some(name) = path.file_name() else {
        return Err(failure!(Usage, "`{}` names no file", path.display())
            .hinted("name a file, such as `site.model`"));
    };
    let failed = |error| failed(path, error, whose);
    let dir = OutputDir::open(directory(path)).map_err(failed)?;
    if whose == For::Others && dir.is_open_to_all().map_err(failed)? {
        return Err(open_to_all(path));
    }
    if dir.has_no_file(name).map_err(failed)? {
        return Err(failure!(
            CannotWrite,
            "cannot write `{}`: it is there and no regular file",
            path.display()
        )
        .hinted("name another file, or remove it"));
    }
    let random = getrandom::u64().map_err(|error| failed(io::Error::other(error)))?;
    let temporary = format!(".dlrun-model.{random:016x}.tmp");
    let mut file = dir.create_for_all(&temporary).map_err(failed)?;
    let written = chunks
        .iter()
        .try_for_each(|chunk| file.write_all(chunk.as_ref()))
        .and_then(|()| file.sync_all());
    written
        .and_then(|()| dir.replace(&temporary, name))
        .map_err(|error| {
            dir.remove(&temporary);
            failed(error)
        })
}

fn not_by_root(path: &Path, found: &Exposed) -> Error {
    let message = format!(
        "root does not publish `{}`: {found}, so others could exchange it",
        path.display()
    );
    let place = found.path.display();
    let name = match found.to {
        Others::Owner(uid) => user_name(uid),
        Others::Group(_) | Others::All => None,
    };
    let hint = match (found.to, name) {
        (Others::Owner(_), Some(name)) => {
            format!("publish as that user, `runuser -u {name} -- dlrun model fit --publish`, or ")
        }
        (Others::Owner(_), None) => "publish as that user, or ".to_owned(),
        (Others::Group(_) | Others::All, _) => format!("`chmod go-w '{place}'`, or "),
    };
    Error::new(Kind::NotPermitted, message).hinted(hint + For::Others.other_place())
}

fn open_to_all(path: &Path) -> Error {
    let (dir, path) = (directory(path).display(), path.display());
    failure!(
        NotPermitted,
        "everybody may write to `{dir}`, so anybody could exchange `{path}`"
    )
    .hinted(format!(
        "{}, or `chmod o-w '{dir}'`",
        For::Others.other_place()
    ))
}

fn failed(path: &Path, error: io::Error, whose: For) -> Error {
    let message = format!("cannot write `{}`: {error}", path.display());
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory if !directory(path).is_dir() => {
            let make = format!("make the directory first: {}", directory(path).display());
            Error::new(Kind::Missing, message).hinted(make)
        }
        io::ErrorKind::PermissionDenied => {
            Error::new(Kind::NotPermitted, message).hinted(whose.other_place())
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Error::new(Kind::CannotWrite, message).hinted("make room; what was there is as it was")
        }
        _ => Error::new(Kind::CannotWrite, message).hinted(whose.other_place()),
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
        place(&path, &[b"one"]).expect("placed");
        place(&path, &[b"two"]).expect("replaced");
        assert_eq!(fs::read(&path).expect("read"), b"two");
        assert_eq!(
            fs::metadata(&path).expect("there").permissions().mode() & 0o777,
            0o644
        );
        assert_eq!(
            fs::read_dir(tmp.path()).expect("listed").count(),
            1,
            "nothing is left beside it"
        );
        let victim = tmp.path().join("victim");
        fs::write(&victim, "untouched").expect("ours");
        let link = tmp.path().join("link");
        symlink(&victim, &link).expect("ours");
        assert_eq!(
            place(&link, &[b"x"]).expect_err("a link").kind,
            Kind::CannotWrite
        );
        assert_eq!(fs::read(&victim).expect("read"), b"untouched");
        assert_eq!(
            place(tmp.path(), &[b"x"]).expect_err("a directory").kind,
            Kind::CannotWrite
        );
        assert_eq!(
            place(&tmp.path().join("no/model"), &[b"x"])
                .expect_err("nowhere")
                .kind,
            Kind::Missing
        );
        let ours = |uid| uid == geteuid().as_raw();
        let open = tmp.path().join("open");
        fs::create_dir(&open).expect("ours");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("ours");
        assert_eq!(
            publish(&open.join("model"), &[b"x"], &ours)
                .expect_err("open")
                .kind,
            Kind::NotPermitted
        );
        place(&open.join("model"), &[b"x"]).expect("nobody goes by it");
        assert_eq!(publish(&path, &[b"three"], &ours).expect("published"), None);
    }
}
