//! What schedulers reported of the site, kept for a while: `site/SCHEDULER.json`. It is a cache: a file that is missing or
//! damaged costs a question.

use std::path::Path;

use crate::foundation::private::{FileError, PrivateDir};
use crate::job::SchedulerKind;

const SITE: &str = "site";
/// The largest file, in bytes. Equal nodes are one entry, so that large sites take some tens of kilobytes.
const MAX_SITE: usize = 4 << 20;

/// Reads what was kept in the state directory at `state`.
///
/// # Errors
/// [`FileError::is_missing`] where nothing is, and the reasons for which a state directory is refused.
pub fn read_site(state: &Path, scheduler: SchedulerKind) -> Result<Vec<u8>, FileError> {
    let dir = PrivateDir::open(state)?.open_dir(SITE)?;
    dir.read(&name(scheduler), MAX_SITE)
}

/// Keeps `bytes` in the state directory at `state`, which must be there.
///
/// # Errors
/// [`FileError::is_missing`] where there is no state directory, `Create`, `Write`.
pub fn write_site(state: &Path, scheduler: SchedulerKind, bytes: &[u8]) -> Result<(), FileError> {
    let dir = PrivateDir::open(state)?.ensure_dir(SITE)?;
    dir.replace(&name(scheduler), bytes)
}

fn name(scheduler: SchedulerKind) -> String {
    format!("{}.json", scheduler.as_str())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_kept_is_the_owners_alone_and_no_state_directory_is_made_for_it() {
        let tmp = tempfile::tempdir().expect("a directory");
        let state = tmp.path().join("dlrun");
        let slurm = SchedulerKind::Slurm;
        assert!(
            write_site(&state, slurm, b"{}")
                .expect_err("no directory")
                .is_missing()
        );
        assert!(
            read_site(&state, slurm)
                .expect_err("no directory")
                .is_missing()
                && !state.exists()
        );
        fs::create_dir(&state).expect("ours");
        fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).expect("ours");
        for bytes in [&b"{}"[..], b"{ }"] {
            write_site(&state, slurm, bytes).expect("written");
            assert_eq!(read_site(&state, slurm).expect("read"), bytes);
        }
        let file = state.join("site/slurm.json");
        assert_eq!(
            file.metadata().expect("there").permissions().mode() & 0o777,
            0o600
        );
        assert!(
            read_site(&state, SchedulerKind::Torque)
                .expect_err("another one")
                .is_missing()
        );
    }
}
