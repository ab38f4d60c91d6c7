//! Where a program lies.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::CommandError;

/// Finds an executable regular file called `program`, first in `dirs`, then in `PATH`.
///
/// Directories that are empty or relative are skipped: what runs must not depend on the working directory. A name with
/// a `/` is a path and is only checked. Costs one file-system call for each miss and two for the hit.
#[must_use]
pub fn find(program: impl AsRef<OsStr>, dirs: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    find_along(program.as_ref(), dirs, &path)
}

/// Whether a program is Python by its name: `/env/bin/python3.11`.
pub fn is_python(program: impl AsRef<Path>) -> bool {
    let name = program.as_ref().file_name().unwrap_or_default();
    name.to_string_lossy().starts_with("python")
}

/// Finds all of that name, in the order in which [`find`] looks.
#[must_use]
pub fn find_all(program: &str, dirs: &[PathBuf]) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut files = places(program.as_ref(), dirs, &path);
    files.retain(|file| is_executable(file));
    files
}

/// [`find`] in `dirs` alone, whatever `PATH` is.
#[must_use]
pub fn find_in(program: impl AsRef<OsStr>, dirs: &[PathBuf]) -> Option<PathBuf> {
    find_along(program.as_ref(), dirs, OsStr::new(""))
}

/// [`find`] with a given value of `PATH`.
pub(super) fn find_along(program: &OsStr, dirs: &[PathBuf], path: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(|file| is_executable(file));
    }
    places(program, dirs, path)
        .into_iter()
        .find(|file| is_executable(file))
}

/// Where a program may lie. Login scripts and modules often name a directory twice.
fn places(program: &OsStr, dirs: &[PathBuf], path: &OsStr) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let dirs = dirs
        .iter()
        .cloned()
        .chain(std::env::split_paths(path))
        .filter(|dir| dir.is_absolute());
    for file in dirs.map(|dir| dir.join(program)) {
        if !program.is_empty() && !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

/// Where programs are looked for by a process with these variables set.
pub(super) fn search_path(sets: &[(OsString, OsString)]) -> OsString {
    let set = sets.iter().rfind(|(name, _)| name == "PATH");
    set.map(|(_, value)| value.clone())
        .or_else(|| std::env::var_os("PATH"))
        .unwrap_or_default()
}

/// Like [`find_along`], but says what is wrong.
pub(super) fn locate(
    program: &OsStr,
    dirs: &[PathBuf],
    path: &OsString,
) -> Result<PathBuf, CommandError> {
    if let Some(file) = find_along(program, dirs, path) {
        return Ok(file);
    }
    let named = Path::new(program);
    if program.as_bytes().contains(&b'/') && named.exists() {
        return Err(CommandError::NotExecutable {
            program: named.to_owned(),
        });
    }
    let program = program.to_string_lossy().into_owned();
    Err(CommandError::NotFound {
        program,
        searched: dirs.to_vec(),
    })
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|found| found.is_file()) && access(file, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn put(dir: &Path, name: &str, mode: u32) -> PathBuf {
        let file = dir.join(name);
        fs::write(&file, "#!/bin/sh\n").expect("the directory is ours");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("the file is ours");
        file
    }

    #[test]
    fn find_prefers_fixed_directories_and_skips_what_cannot_run() {
        let (first, second) = (
            tempfile::tempdir().expect("temp"),
            tempfile::tempdir().expect("temp"),
        );
        let plain = put(first.path(), "tool", 0o644);
        let good = put(second.path(), "tool", 0o755);
        fs::create_dir(first.path().join("dir")).expect("the directory is ours");
        let path = std::env::join_paths([first.path(), second.path()]).expect("no colon");
        assert_eq!(find_along("tool".as_ref(), &[], &path), Some(good.clone()));
        assert_eq!(find_along("dir".as_ref(), &[], &path), None);
        let other = put(first.path(), "both", 0o755);
        put(second.path(), "both", 0o755);
        let dirs = [first.path().to_owned()];
        assert_eq!(
            find_along("both".as_ref(), &dirs, second.path().as_os_str()),
            Some(other)
        );
        assert_eq!(
            find_along(good.as_os_str(), &[], OsStr::new("")),
            Some(good)
        );
        assert!(matches!(
            locate(plain.as_os_str(), &[], &OsString::new()),
            Err(CommandError::NotExecutable { program }) if program == plain
        ));
    }

    #[test]
    fn find_skips_empty_and_relative_entries() {
        // The working directory of a test is the package root, where `src` lies.
        let path = OsStr::new(":tests/fakes:.:");
        assert_eq!(
            find_along("sh".as_ref(), &["bin".into(), "".into()], path),
            None
        );
        assert_eq!(find_along("".as_ref(), &[], OsStr::new("/bin")), None);
        assert!(find("sh", &[]).is_some());
    }
}
