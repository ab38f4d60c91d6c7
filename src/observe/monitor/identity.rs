//! Who a process is: what others claim of it is compared with `/proc`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::contained::children_of_thread;
use super::process::{ProcDir, Stat, Units, is_gone, line};

/// A `status` with 65,536 groups is shorter.
const STATUS_BYTES_MAX: u64 = 1024 * 1024;

/// A process: a pid and when it was started, since pids are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its pid, as the asking process or the sender of a message sees it.
    pub pid: u32,
    /// When it was started, in clock ticks since boot: [`start_time_ticks`].
    pub start_time_ticks: u64,
}

impl Process {
    /// The process that has this pid now.
    ///
    /// # Errors
    /// As [`start_time_ticks`].
    pub fn with_pid(pid: u32) -> io::Result<Self> {
        let start_time_ticks = start_time_ticks(pid)?;
        Ok(Self {
            pid,
            start_time_ticks,
        })
    }

    /// True while it runs; false for one that ended, also where it was not waited for yet, and for one that may not be seen.
    #[must_use]
    pub fn is_alive(self) -> bool {
        let stat = proc().stat(self.pid, None);
        stat.is_ok_and(|stat| self.is_of(&stat) && !stat.is_ended())
    }

    /// True where it certainly runs no longer; false also where the kernel does not say, as without room for an open file.
    #[must_use]
    pub fn is_gone(self) -> bool {
        match proc().stat(self.pid, None) {
            Ok(stat) => !self.is_of(&stat) || stat.is_ended(),
            Err(error) => is_gone(&error),
        }
    }

    fn is_of(self, stat: &Stat) -> bool {
        stat.start_time_ticks == self.start_time_ticks
    }
}

/// When a process was started, in clock ticks since boot (field 22 of `/proc/PID/stat`). With its pid it names a process
/// for ever, as far as this boot goes.
///
/// # Errors
/// When there is no such process, or it may not be seen.
pub fn start_time_ticks(pid: u32) -> io::Result<u64> {
    Ok(proc().stat(pid, None)?.start_time_ticks)
}

/// How long ago a process was started that was started so many clock ticks after boot (`/proc/uptime`). `None`: the kernel
/// does not say.
#[must_use]
pub fn age(start_time_ticks: u64) -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/uptime").ok()?;
    let uptime = text.split(' ').next()?.parse().ok()?;
    let uptime = Duration::try_from_secs_f64(uptime).ok()?;
    let started = Duration::from_micros(Units::of_system().us(start_time_ticks));
    Some(uptime.saturating_sub(started))
}

/// The parent of a process; 0 for one that has none in this pid name space.
///
/// # Errors
/// As [`start_time_ticks`].
pub fn parent_of(pid: u32) -> io::Result<u32> {
    Ok(proc().stat(pid, None)?.parent)
}

/// All processes that may be seen.
///
/// # Errors
/// When they cannot be listed.
pub fn all_pids() -> io::Result<Vec<u32>> {
    let mut pids = Vec::new();
    proc().list(&mut pids)?;
    Ok(pids)
}

/// The children of a process. It looks at every process of the machine (10 us each): not for each
/// tick. (`/proc/PID/task/TID/children` is not in every kernel and may leave some out.)
///
/// # Errors
/// When the processes cannot be listed.
pub fn children_of(pid: u32) -> io::Result<Vec<Process>> {
    let mut proc = proc();
    // One that ended meanwhile is no child any more.
    let stats = all_pids()?
        .into_iter()
        .filter_map(|pid| proc.stat(pid, None).ok());
    let children = stats.filter(|stat| stat.parent == pid);
    Ok(children
        .map(|stat| Process {
            pid: stat.pid,
            start_time_ticks: stat.start_time_ticks,
        })
        .collect())
}

/// CPU time of a process and of the children that it waited for, in seconds; also of one that ended and was not waited for yet.
#[must_use]
pub fn cpu_seconds_with_children(pid: u32) -> Option<f64> {
    let stat = proc().stat(pid, None).ok()?;
    let ticks = [
        stat.times.user,
        stat.times.system,
        stat.children.user,
        stat.children.system,
    ];
    let us = Units::of_system().us(ticks.into_iter().sum());
    Some(Duration::from_micros(us).as_secs_f64())
}

/// The most memory that a process held at once, in bytes (`VmHWM` of `/proc/PID/status`). `None`: as [`uid_of`].
#[must_use]
pub fn memory_peak(pid: u32) -> Option<u64> {
    Some(line(&status(pid)?, b"VmHWM:")? * 1024)
}

/// The most memory that a child of a process, or a child of one, held at once, in bytes: a rank under an agent, which a container may have
/// started. `None`: there is none, or the kernel lists no children.
#[must_use]
pub fn memory_peak_below(pid: u32) -> Option<u64> {
    let of = |pid: u32| {
        let pid = pid.to_string();
        children_of_thread(&Path::new("/proc").join(&pid).join("task").join(&pid))
    };
    let children = of(pid);
    let theirs = children.iter().flat_map(|child| of(*child));
    let all: Vec<u32> = theirs.chain(children.iter().copied()).collect();
    all.into_iter().filter_map(memory_peak).max()
}

/// The real user of a process (`Uid` of `/proc/PID/status`). `None`: there is no such process, or it may not be seen.
#[must_use]
pub fn uid_of(pid: u32) -> Option<u32> {
    u32::try_from(line(&status(pid)?, b"Uid:")?).ok()
}

/// The pids of a process, from this pid name space down to its own (`NSpid` of `/proc/PID/status`, Linux 4.1). `None`: as
/// [`uid_of`], and in kernels that do not say.
#[must_use]
pub fn nspids(pid: u32) -> Option<Vec<u32>> {
    let status = status(pid)?;
    let mut lines = status.split(|byte| *byte == b'\n');
    let line = lines.find_map(|line| line.strip_prefix(b"NSpid:"))?;
    let pids = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    pids.map(|pid| pid.parse().ok()).collect()
}

/// The id of this boot, 36 characters: pids and start times of another one mean other processes.
///
/// # Errors
/// When the kernel does not say.
pub fn boot_id() -> io::Result<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(id.trim_ascii().to_owned())
}

fn proc() -> ProcDir {
    ProcDir::new(Path::new("/proc"))
}

fn status(pid: u32) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let file = File::open(format!("/proc/{pid}/status")).ok()?;
    file.take(STATUS_BYTES_MAX).read_to_end(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::parent_id;
    use std::process::{Command, Stdio, id};

    use super::*;

    #[test]
    fn this_process_is_itself() {
        let own = Process::with_pid(id()).expect("own");
        let start = own.start_time_ticks;
        let other = Process {
            start_time_ticks: start + 1,
            ..own
        };
        assert!(own.is_alive() && !own.is_gone());
        assert!(!other.is_alive() && other.is_gone());
        assert_eq!(parent_of(id()).expect("known"), parent_id());
        assert_eq!(uid_of(id()).expect("known"), nix::unistd::getuid().as_raw());
        assert_eq!(nspids(id()).expect("known").first(), Some(&id()));
        assert_eq!(boot_id().expect("known").len(), 36);
        assert!(age(start).expect("known") < age(0).expect("known"));
        assert!(age(start).expect("known") < Duration::from_secs(3600));
    }

    #[test]
    fn child_is_found_until_it_ends() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("cat");
        let found = Process::with_pid(child.id()).expect("it runs");
        assert!(children_of(id()).expect("listed").contains(&found));
        assert!(found.is_alive());
        child.kill().expect("killed");
        child.wait().expect("waited");
        assert!(!found.is_alive() && found.is_gone());
        assert!(!children_of(id()).expect("listed").contains(&found));
    }

    #[test]
    fn pid_0_is_gone() {
        assert!(is_gone(&start_time_ticks(0).expect_err("no such process")));
        assert!(uid_of(0).is_none() && nspids(0).is_none() && parent_of(0).is_err());
    }
}
