//! Whether root may write into a directory: nobody else must be able to put a link in the way.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Why root must not write into `dir`: a directory on the way to it, or it itself, can be changed by somebody else. `None`:
/// it is safe, or we are not root. With `sticky_end` the directory itself may be like `/tmp`, where others can add names but
/// touch none of ours.
pub(crate) fn unsafe_for_root(dir: &Path, sticky_end: bool) -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return None;
    }
    // Both the way as it is written, with its links, and the one that they lead to.
    let real = fs::canonicalize(dir).ok()?;
    [dir, &real]
        .into_iter()
        .find_map(|way| faulty_step(way, sticky_end, 0))
}

/// The first step of a way that somebody but `owner` can change.
fn faulty_step(way: &Path, sticky_end: bool, owner: u32) -> Option<String> {
    let mut steps: Vec<&Path> = way.ancestors().collect();
    steps.reverse();
    steps.into_iter().find_map(|step| {
        let found = match fs::symlink_metadata(step) {
            Ok(found) => found,
            Err(error) => return Some(format!("{} cannot be looked at: {error}", step.display())),
        };
        let mode = found.permissions().mode();
        if found.uid() != owner && found.uid() != 0 {
            return Some(format!(
                "{} belongs to user {}",
                step.display(),
                found.uid()
            ));
        }
        // A link's own mode says nothing (symlink(7)).
        let writable =
            !found.is_symlink() && (mode & 0o002 != 0 || (mode & 0o020 != 0 && found.gid() != 0));
        let sticky = mode & 0o1000 != 0 && (step != way || sticky_end);
        (writable && !sticky).then(|| format!("{} can be written by other users", step.display()))
    })
}

/// Whether the image file at `path` was put there by somebody whom this user trusts: where everybody may write to its directory
/// anybody can put a file under the name of a URI, so it has to be this user's, root's or of who owns the directory.
#[must_use]
pub fn is_vouched_for(path: &Path) -> bool {
    let Some(dir) = path.parent() else {
        return false;
    };
    let (Ok(file), Ok(dir)) = (fs::metadata(path), fs::metadata(dir)) else {
        return false;
    };
    let trusted = [nix::unistd::geteuid().as_raw(), 0, dir.uid()];
    dir.mode() & 0o002 == 0 || trusted.contains(&file.uid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_others_can_write_are_found_on_the_way() {
        let root = tempfile::tempdir().expect("temp");
        let me = nix::unistd::geteuid().as_raw();
        let inner = root.path().join("a/b");
        fs::create_dir_all(&inner).expect("ours");
        let mode = |dir: &Path, mode| {
            fs::set_permissions(dir, fs::Permissions::from_mode(mode)).expect("ours")
        };
        mode(&root.path().join("a"), 0o755);
        mode(&inner, 0o755);
        // The way there is /tmp, which is sticky.
        assert_eq!(faulty_step(&inner, false, me), None);
        mode(&inner, 0o1777);
        assert!(
            faulty_step(&inner, false, me).is_some_and(|why| why.contains("a/b can be written"))
        );
        assert_eq!(faulty_step(&inner, true, me), None);
        mode(&inner, 0o755);
        mode(&root.path().join("a"), 0o777);
        assert!(faulty_step(&inner, true, me).is_some_and(|why| why.contains("/a can be written")));
    }

    #[test]
    fn where_everybody_writes_only_files_of_trusted_owners_count() {
        let root = tempfile::tempdir().expect("temp");
        let dir = root.path().join("images");
        fs::create_dir(&dir).expect("ours");
        let link = dir.join("x.sif");
        assert!(!is_vouched_for(&link), "nothing is there");
        fs::write(&link, "").expect("ours");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o1777)).expect("ours");
        assert!(is_vouched_for(&link), "it is our own");
        // Root alone can give a file away.
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(&link, Some(4_000_000), None).expect("root may");
            assert!(!is_vouched_for(&link), "it is another user's");
            fs::set_permissions(&dir, fs::Permissions::from_mode(0o775)).expect("ours");
            assert!(is_vouched_for(&link), "not everybody may write there");
        }
    }
}
