//! Where the index can lie: beside the runs, or where those are on a network file system, on a local one.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::foundation::filesystem::{FileSystem, Kind};
use crate::foundation::private::{FileError, PrivateDir};
use crate::foundation::units::hex;

/// The path of the index of `state`; `shared_tmp` is a local directory that everybody may write to.
pub(super) fn index_path(state: &PrivateDir, shared_tmp: &Path) -> Result<PathBuf, FileError> {
    let found = FileSystem::of(state.fd());
    let found = found.map_err(|source| FileError::cannot("open", state.path(), source))?;
    // What is not known is taken for a network's.
    if found.kind == Kind::Local {
        return Ok(state.path().join("dlrun.db"));
    }
    local_index_path(state.path(), shared_tmp)
}

/// One user may have several state directories, and an index holds the runs of one: its name comes from the path.
fn local_index_path(state: &Path, shared_tmp: &Path) -> Result<PathBuf, FileError> {
    let private = PrivateDir::of_user(shared_tmp)?;
    let digest = Sha256::digest(state.as_os_str().as_bytes());
    let name = format!("dlrun-{}.db", hex(&digest[..6]));
    Ok(private.path().join(name))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use nix::unistd::geteuid;

    use super::*;
    use crate::foundation::private::FileFault;

    #[test]
    fn state_directories_do_not_share_an_index() {
        let tmp = tempfile::tempdir().expect("a directory");
        let path = |state: &str| local_index_path(Path::new(state), tmp.path()).expect("a path");
        assert_ne!(path("/nfs/a"), path("/nfs/b"));
        assert_eq!(path("/nfs/a"), path("/nfs/a"));
        let private = tmp.path().join(format!("dlrun-{}", geteuid()));
        let mode = private.metadata().expect("is there").permissions().mode();
        assert_eq!(
            (mode & 0o777, path("/nfs/a").parent()),
            (0o700, Some(private.as_path()))
        );
    }

    #[test]
    fn directory_that_another_user_made_in_the_place_of_ours_does_not_cost_the_index() {
        if !geteuid().is_root() {
            return;
        }
        let tmp = tempfile::tempdir().expect("a directory");
        for name in ["dlrun-0", "dlrun-0-1"] {
            std::fs::create_dir(tmp.path().join(name)).expect("a directory");
            std::os::unix::fs::chown(tmp.path().join(name), Some(64_012), None).expect("root may");
        }
        let first = local_index_path(Path::new("/nfs/a"), tmp.path()).expect("a path");
        let dir = first.parent().expect("a directory");
        assert!(
            dir.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("dlrun-0-")),
            "{dir:?}"
        );
        assert_eq!(
            dir.metadata().expect("is there").permissions().mode() & 0o777,
            0o700
        );
        assert_eq!(
            local_index_path(Path::new("/nfs/a"), tmp.path()).expect("a path"),
            first
        );
    }

    #[test]
    fn a_link_or_an_open_directory_in_the_place_of_ours_is_refused() {
        let tmp = tempfile::tempdir().expect("a directory");
        let private = tmp.path().join(format!("dlrun-{}", geteuid()));
        let elsewhere = tmp.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).expect("a directory");
        symlink(&elsewhere, &private).expect("a link");
        let refused = local_index_path(Path::new("/s"), tmp.path());
        assert!(
            matches!(
                refused,
                Err(ref error) if error.kind == FileFault::System
            ),
            "{refused:?}"
        );
        std::fs::remove_file(&private).expect("removed");
        std::fs::create_dir(&private).expect("a directory");
        std::fs::set_permissions(&private, PermissionsExt::from_mode(0o777)).expect("mode");
        let refused = local_index_path(Path::new("/s"), tmp.path());
        assert!(
            matches!(
                refused,
                Err(ref error) if error.kind == FileFault::Exposed
            ),
            "{refused:?}"
        );
    }
}
