//! The clock of the file system that the state directory lies on: a file server stamps files with its own time.

use std::path::Path;
use std::time::SystemTime;

use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::foundation::private::{FileError, PrivateDir};

/// What time the file system at `state` has: that of a file made now, which is removed again.
///
/// # Errors
/// [`FileError::is_missing`] where there is no state directory, `Write` where no file can be made in it.
pub fn file_time(state: &Path) -> Result<SystemTime, FileError> {
    let dir = PrivateDir::open(state)?;
    let failed = |source| FileError::cannot("write", state, source);
    let random = getrandom::u64().map_err(|error| failed(std::io::Error::other(error)))?;
    let name = format!(".clock.{random:016x}");
    let made = dir
        .create_file(&name)
        .and_then(|file| file.metadata()?.modified());
    let _ = unlinkat(dir.fd(), name.as_str(), UnlinkatFlags::NoRemoveDir);
    made.map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;

    #[test]
    fn this_machines_files_have_its_time_and_nothing_stays() {
        let tmp = tempfile::tempdir().expect("a directory");
        fs::set_permissions(tmp.path(), fs::Permissions::from_mode(0o700)).expect("ours");
        let before = SystemTime::now() - Duration::from_secs(1);
        let time = file_time(tmp.path()).expect("a time");
        assert!(time >= before && time <= SystemTime::now() + Duration::from_secs(1));
        assert_eq!(fs::read_dir(tmp.path()).expect("ours").count(), 0);
        assert!(
            file_time(&tmp.path().join("none"))
                .expect_err("there is none")
                .is_missing()
        );
    }
}
