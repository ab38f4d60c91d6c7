//! The numbers of this user's local jobs on this machine: L1, L2 and so on.

use std::fs::OpenOptions;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use super::file_error;
use crate::foundation::private::PrivateDir;
use crate::launch::Plan;
use crate::scheduler::SchedulerError;

/// The number of the next job, which is counted under a lock, and the job's output file.
pub(super) fn numbered_output(
    queue_dir: &Path,
    plan: &Plan,
) -> Result<(u64, PathBuf), SchedulerError> {
    let path = queue_dir.join("last");
    let file = PrivateDir::create(queue_dir)?.open_or_create("last");
    let locked = file.and_then(|file| {
        Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| io::Error::from(errno))
    });
    let mut file = locked.map_err(file_error("lock", &path))?;
    let mut text = String::new();
    (&mut *file)
        .take(32)
        .read_to_string(&mut text)
        .map_err(file_error("read", &path))?;
    let last: u64 = text.trim().parse().unwrap_or(0);
    let numbered = create_output(plan, last + 1)?;
    let written = file.set_len(0).and_then(|()| file.rewind());
    let written = written.and_then(|()| writeln!(file, "{}", numbered.0));
    written.map_err(file_error("write", &path))?;
    Ok(numbered)
}

/// Creates the output file of the next job id, which nobody has used in that directory: `NAME-L7.out`. One whose name has no id
/// is appended to.
fn create_output(plan: &Plan, first: u64) -> Result<(u64, PathBuf), SchedulerError> {
    let mut number = first;
    loop {
        let path = plan.output_of(&format!("L{number}"));
        // Who wants one file for all runs of a job gets it.
        let is_own = plan.has_own_output();
        match OpenOptions::new()
            .create(true)
            .create_new(is_own)
            .append(true)
            .mode(0o666)
            .open(&path)
        {
            Ok(_) => return Ok((number, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(source) => return Err(file_error("create the output file", &path)(source)),
        }
    }
}
