//! Writes a description into a directory of the catalogue.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::image::build::MakeError;
use crate::image::build::unsafe_for_root;

/// Writes `FILE_NAME` in `dir`, whole or not at all, in the place of a former one; a directory that is missing is made. With
/// `shared` all users may read it.
///
/// # Errors
/// `Unsafe`, `Write`.
pub fn keep_description(
    dir: &Path,
    file_name: &str,
    text: &str,
    shared: bool,
) -> Result<PathBuf, MakeError> {
    let (dir_mode, mode) = if shared {
        (0o755, 0o644)
    } else {
        (0o700, 0o600)
    };
    DirBuilder::new()
        .recursive(true)
        .mode(dir_mode)
        .create(dir)
        .map_err(MakeError::write(dir))?;
    if let Some(why) = unsafe_for_root(dir, false) {
        return Err(MakeError::Unsafe(dir.to_owned(), why));
    }
    let path = dir.join(file_name);
    let token = getrandom::u32().map_err(|error| MakeError::write(&path)(error.into()))?;
    // Readers of the catalogue pass over hidden names.
    let part = dir.join(format!(".{file_name}.{token:08x}"));
    let put = || -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&part)?;
        file.write_all(text.as_bytes())?;
        if shared {
            // Whatever root's umask is.
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        file.sync_all()?;
        fs::rename(&part, &path)?;
        File::open(dir)?.sync_all()
    };
    put().map_err(|error| {
        let _ = fs::remove_file(&part);
        MakeError::write(&path)(error)
    })?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_takes_the_place_of_the_former_one_and_a_failure_leaves_it() {
        let root = tempfile::tempdir().expect("temp");
        let dir = root.path().join("dlrun/images.d");
        for text in ["one", "two"] {
            let path = keep_description(&dir, "x.toml", text, false).expect("it can be written");
            assert_eq!(fs::read_to_string(&path).expect("there"), text);
            assert_eq!(
                fs::metadata(&path).expect("there").permissions().mode() & 0o777,
                0o600
            );
        }
        fs::create_dir(dir.join("y.toml")).expect("ours");
        let error =
            keep_description(&dir, "y.toml", "text", true).expect_err("a directory is there");
        assert!(error.to_string().contains("y.toml"), "{error}");
        let mut names: Vec<_> = fs::read_dir(&dir)
            .expect("ours")
            .flatten()
            .map(|e| e.file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["x.toml", "y.toml"]);
    }
}
