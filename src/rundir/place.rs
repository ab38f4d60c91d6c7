//! Where the index can lie: a database needs locks and coherent writes, which network file systems do not promise.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::sys::statfs::fstatfs;
use nix::unistd::geteuid;
use sha2::{Digest, Sha256};

use super::file::{Dir, RunDirError};

/// A kind of file system, by the magic number of `statfs(2)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystem {
    /// Its magic number, `f_type`.
    pub magic: u32,
    /// Its name; `None` where the number is not known here.
    pub name: Option<&'static str>,
    /// True where one kernel alone holds the data, so that a database may lie there. What is not known is not local.
    pub local: bool,
}

/// Magic numbers from `linux/magic.h` and `statfs(2)`; those of GPFS, BeeGFS, PanFS, Lustre and GFS as in coreutils' `stat`.
const KNOWN: [(u32, &str, bool); 28] = [
    (0x0000_ef53, "ext4", true),
    (0x5846_5342, "xfs", true),
    (0x9123_683e, "btrfs", true),
    (0x2fc1_2fc1, "zfs", true),
    (0x0102_1994, "tmpfs", true),
    (0x8584_58f6, "ramfs", true),
    (0xf2f5_2010, "f2fs", true),
    (0xca45_1a4e, "bcachefs", true),
    (0x3153_464a, "jfs", true),
    (0x5265_4973, "reiserfs", true),
    // A container's root: its upper layer must be local to be writable.
    (0x794c_7630, "overlayfs", true),
    (0x0000_6969, "nfs", false),
    (0x0bd0_0bd0, "lustre", false),
    (0x4750_4653, "gpfs", false),
    (0x1983_0326, "beegfs", false),
    (0xff53_4d42, "cifs", false),
    (0xfe53_4d42, "smb2", false),
    (0x0000_517b, "smb", false),
    (0x6573_5546, "fuse", false),
    (0x00c3_6400, "ceph", false),
    (0x5346_414f, "afs", false),
    (0x6b41_4653, "kafs", false),
    (0x2003_0528, "orangefs", false),
    (0xaad7_aaea, "panfs", false),
    (0x0116_1970, "gfs2", false),
    (0x7461_636f, "ocfs2", false),
    (0x7375_7245, "coda", false),
    (0x0102_1997, "9p", false),
];

/// Looks a magic number up.
#[must_use]
pub fn file_system(magic: u32) -> FileSystem {
    match KNOWN.iter().find(|(known, ..)| *known == magic) {
        Some((_, name, local)) => FileSystem { magic, name: Some(name), local: *local },
        None => FileSystem { magic, name: None, local: false },
    }
}

/// The path of the index of `state`; `shared_tmp` is a local directory that everybody may write to.
pub(super) fn index_path(state: &Dir, shared_tmp: &Path) -> Result<PathBuf, RunDirError> {
    if file_system(magic_of(state)?).local {
        return Ok(state.path().join("dlrun.db"));
    }
    local_index_path(state.path(), shared_tmp)
}

/// One user may have several state directories, and an index holds the runs of one: its name comes from the path.
fn local_index_path(state: &Path, shared_tmp: &Path) -> Result<PathBuf, RunDirError> {
    let private = shared_tmp.join(format!("dlrun-{}", geteuid()));
    Dir::create_private_in_shared(&private)?;
    let digest = Sha256::digest(state.as_os_str().as_bytes());
    let name: String = digest[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(private.join(format!("dlrun-{name}.db")))
}

fn magic_of(dir: &Dir) -> Result<u32, RunDirError> {
    let found = fstatfs(dir.fd())
        .map_err(|errno| RunDirError::Open { path: dir.path().to_owned(), source: errno.into() })?;
    // `f_type` has another width and sign on each platform; the magic number is its low four bytes on all.
    let bytes = found.filesystem_type().0.to_le_bytes();
    Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn magic_numbers_are_known_once_each() {
        let numbers: HashSet<u32> = KNOWN.iter().map(|(magic, ..)| *magic).collect();
        assert_eq!(numbers.len(), KNOWN.len());
    }

    #[test]
    fn network_and_unknown_file_systems_are_not_local() {
        for (magic, name) in
            [(0x6969, "nfs"), (0x0bd0_0bd0, "lustre"), (0x4750_4653, "gpfs"), (0x6573_5546, "fuse")]
        {
            assert_eq!(file_system(magic), FileSystem { magic, name: Some(name), local: false });
        }
        assert!(file_system(0xef53).local && file_system(0x5846_5342).local);
        assert_eq!(file_system(0xdead_beef), FileSystem { magic: 0xdead_beef, name: None, local: false });
    }

    #[test]
    fn the_kernel_is_asked() {
        let tmp = tempfile::tempdir().expect("a directory");
        let dir = Dir::open_private(tmp.path()).expect("private");
        assert_ne!(magic_of(&dir).expect("statfs"), 0);
    }

    #[test]
    fn state_directories_do_not_share_an_index() {
        let tmp = tempfile::tempdir().expect("a directory");
        let path = |state: &str| local_index_path(Path::new(state), tmp.path()).expect("a path");
        assert_ne!(path("/nfs/a"), path("/nfs/b"));
        assert_eq!(path("/nfs/a"), path("/nfs/a"));
        let private = tmp.path().join(format!("dlrun-{}", geteuid()));
        let mode = private.metadata().expect("is there").permissions().mode();
        assert_eq!((mode & 0o777, path("/nfs/a").parent()), (0o700, Some(private.as_path())));
    }

    #[test]
    fn a_link_or_an_open_directory_in_the_place_of_ours_is_refused() {
        let tmp = tempfile::tempdir().expect("a directory");
        let private = tmp.path().join(format!("dlrun-{}", geteuid()));
        let elsewhere = tmp.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).expect("a directory");
        symlink(&elsewhere, &private).expect("a link");
        let refused = local_index_path(Path::new("/s"), tmp.path());
        assert!(matches!(refused, Err(RunDirError::Open { .. })), "{refused:?}");
        std::fs::remove_file(&private).expect("removed");
        std::fs::create_dir(&private).expect("a directory");
        std::fs::set_permissions(&private, PermissionsExt::from_mode(0o777)).expect("mode");
        let refused = local_index_path(Path::new("/s"), tmp.path());
        assert!(matches!(refused, Err(RunDirError::Exposed { mode: 0o777, .. })), "{refused:?}");
    }
}
