//! A model that others read: put in its place whole, also by root in a directory of somebody else.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use nix::unistd::geteuid;

use super::exposed::{Exposed, Others, exposed};
use crate::app::error::{Error, Kind, failure};
use crate::app::replaced_file::{OTHER_OUTPUT, cannot_write, replace_file};
use crate::foundation::filesystem::directory;

const READ_BY_ALL: u32 = 0o644;
const OTHER_PLACE: &str = "name another place with the setting `model.path`";

/// Puts a model in the place of `path`, for all to read whatever the umask. The directory must be there and not be open to
/// everybody; only a regular file is replaced. Root writes only where nobody else could exchange the file afterwards, or lead it
/// elsewhere before; for others, what lets somebody do that is returned. `is_trusted` are user ids beside root.
pub(crate) fn publish(
    path: &Path,
    bytes: &[u8],
    is_trusted: &dyn Fn(u32) -> bool,
) -> Result<Option<Exposed>, Error> {
    let found = check(path, is_trusted)?;
    let open = directory(path).metadata();
    if open.is_ok_and(|dir| dir.mode() & 0o002 != 0) {
        return Err(open_to_all(path));
    }
    put(path, bytes, OTHER_PLACE)?;
    Ok(found)
}

/// Whether [`publish`] would write there, as far as that is known before.
pub(crate) fn check(
    path: &Path,
    is_trusted: &dyn Fn(u32) -> bool,
) -> Result<Option<Exposed>, Error> {
    let is_root = geteuid().is_root();
    let is_safe = |uid| !is_root && is_trusted(uid);
    let found = exposed(directory(path), &is_safe)
        .map_err(|error| cannot_write(path, &error, OTHER_PLACE))?;
    match found {
        Some(found) if is_root => Err(not_by_root(path, &found)),
        found => Ok(found),
    }
}

/// The same in any directory, for a file that nobody but the caller goes by.
pub(crate) fn place(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    put(path, bytes, OTHER_OUTPUT)
}

fn put(path: &Path, bytes: &[u8], elsewhere: &str) -> Result<(), Error> {
    replace_file(path, READ_BY_ALL, elsewhere, |file| {
        let rights = Permissions::from_mode(READ_BY_ALL);
        let written = file
            .set_permissions(rights)
            .and_then(|()| file.write_all(bytes));
        written.map_err(|error| cannot_write(path, &error, elsewhere))
    })
}

fn not_by_root(path: &Path, found: &Exposed) -> Error {
    let message = format!(
        "root does not publish `{}`: {found}, so others could exchange it",
        path.display()
    );
    let place = found.path.display();
    let hint = match found.to {
        Others::Owner(_) => "publish as that user, or ".to_owned(),
        Others::Group(_) | Others::All => format!("`chmod go-w '{place}'`, or "),
    };
    Error::new(Kind::NotPermitted, message).hinted(hint + OTHER_PLACE)
}

fn open_to_all(path: &Path) -> Error {
    let (dir, path) = (directory(path).display(), path.display());
    failure!(
        NotPermitted,
        "everybody may write to `{dir}`, so anybody could exchange `{path}`"
    )
    .hinted(format!("{OTHER_PLACE}, or `chmod o-w '{dir}'`"))
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
            place(&link, b"x").expect_err("a link").kind,
            Kind::CannotWrite
        );
        assert_eq!(fs::read(&victim).expect("read"), b"untouched");
        assert_eq!(
            place(tmp.path(), b"x").expect_err("a directory").kind,
            Kind::CannotWrite
        );
        assert_eq!(
            place(&tmp.path().join("no/model"), b"x")
                .expect_err("nowhere")
                .kind,
            Kind::Missing
        );
        let ours = |uid| uid == geteuid().as_raw();
        let open = tmp.path().join("open");
        fs::create_dir(&open).expect("ours");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("ours");
        assert_eq!(
            publish(&open.join("model"), b"x", &ours)
                .expect_err("open")
                .kind,
            Kind::NotPermitted
        );
        place(&open.join("model"), b"x").expect("nobody goes by it");
        assert_eq!(publish(&path, b"three", &ours).expect("published"), None);
    }
}
