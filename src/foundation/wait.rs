//! Collecting children that ended. nix's `waitpid` knows no real-time signals: it collects a child that one of them ended, and then fails.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::unistd::Pid;
use rustix::io::retry_on_intr;
use rustix::process::{self, WaitOptions, waitpid};

/// Collects a child that ended, if there is one; `None`: any of them.
///
/// # Errors
/// As `waitpid(2)`: there is no such child.
pub fn collect(child: Option<Pid>) -> io::Result<Option<(Pid, ExitStatus)>> {
    ended(child, WaitOptions::NOHANG)
}

/// Waits until this child ends, and collects it.
///
/// # Errors
/// As `waitpid(2)`: there is no such child.
pub fn wait_for(child: Pid) -> io::Result<ExitStatus> {
    let ended = ended(Some(child), WaitOptions::empty())?;
    let (_, status) = ended.ok_or_else(|| io::Error::other("no child ended"))?;
    Ok(status)
}

fn ended(child: Option<Pid>, options: WaitOptions) -> io::Result<Option<(Pid, ExitStatus)>> {
    let child = child.and_then(|child| process::Pid::from_raw(child.as_raw()));
    // `waitpid` without a pid looks at the own process group alone.
    let ended = retry_on_intr(|| match child {
        None => process::wait(options),
        child => waitpid(child, options),
    })?;
    Ok(ended.map(|(pid, status)| {
        let pid = Pid::from_raw(pid.as_raw_pid());
        (pid, ExitStatus::from_raw(status.as_raw()))
    }))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn every_end_of_a_child_is_known() {
        for (script, code, signal) in [
            ("exit 3", Some(3), None),
            ("kill -TERM $$; sleep 9", None, Some(15)),
            ("kill -34 $$; sleep 9", None, Some(34)),
            ("kill -64 $$; sleep 9", None, Some(64)),
        ] {
            let mut shell = Command::new("sh");
            let mut child = shell.args(["-c", script]).spawn().expect("a shell");
            let pid = Pid::from_raw(child.id().cast_signed());
            let status = wait_for(pid).expect("ours");
            assert_eq!((status.code(), status.signal()), (code, signal), "{script}");
            assert!(
                collect(Some(pid)).is_err() && child.wait().is_err(),
                "{script}"
            );
        }
    }
}
