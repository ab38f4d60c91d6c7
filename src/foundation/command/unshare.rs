//! Whether a process of ours may have its own namespaces: by trying it.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::unistd::alarm;

/// What the child says when everything went well, since it never becomes another program.
const DONE: Errno = Errno::ECANCELED;

/// Seconds that the child may take.
const PATIENCE_S: u32 = 5;

/// Lets a child process take the given steps of `unshare(2)`, one after the other, and end. Costs about 1 ms.
///
/// The steps are taken one by one, since what the first allows may be refused to the second: on Ubuntu 23.10 and later
/// AppArmor lets everybody make a user namespace, and gives no rights in it.
///
/// # Errors
/// The error of `unshare(2)` at the step that failed; `TimedOut` after 5 s.
pub fn try_unshare(steps: &'static [CloneFlags]) -> io::Result<()> {
    let mut command = Command::new("/proc/self/exe");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let attempt = move || -> io::Result<()> {
        // SAFETY: SIG_DFL installs no code of ours; the only unsafe part of `signal` is a handler's body.
        unsafe { signal(Signal::SIGALRM, SigHandler::SigDfl) }?;
        SigSet::empty().thread_set_mask()?;
        alarm::set(PATIENCE_S);
        for step in steps {
            unshare(*step)?;
        }
        Err(DONE.into())
    };
    // SAFETY: runs between fork and exec, where only async-signal-safe calls are allowed: `signal`, `pthread_sigmask` and
    // `alarm` are such (`signal-safety(7)`), `unshare` is a bare system call, and the closure allocates nothing.
    unsafe { command.pre_exec(attempt) };
    match command.spawn() {
        Err(error) if error.raw_os_error() == Some(DONE as i32) => Ok(()),
        Err(error) => Err(error),
        Ok(mut child) => {
            // It did not answer: the alarm ended it.
            let _ = child.wait();
            Err(io::ErrorKind::TimedOut.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_to_do_succeeds_and_what_the_kernel_refuses_is_told() {
        try_unshare(&[]).expect("there is nothing to refuse");
        // `unshare(2)`: EINVAL for a flag that it does not know. CLONE_VFORK is none of its.
        let refused = try_unshare(&[CloneFlags::CLONE_VFORK]).expect_err("no such namespace");
        assert_eq!(refused.raw_os_error(), Some(Errno::EINVAL as i32));
    }

    #[test]
    fn our_own_namespaces_stay() {
        let own = || std::fs::read_link("/proc/self/ns/user").expect("procfs");
        let before = own();
        // Whether it is allowed differs from machine to machine.
        let _ = try_unshare(&[CloneFlags::CLONE_NEWUSER]);
        assert_eq!(own(), before);
    }
}
