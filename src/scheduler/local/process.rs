//! Processes by pid and start time: a pid alone is reused.

use std::fs;

use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// One process for the whole of its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) pid: i32,
    /// Start time in clock ticks since boot (`proc_pid_stat(5)`, field 22).
    pub(super) start: u64,
}

impl Identity {
    /// The process that has `pid` now.
    pub(super) fn of(pid: i32) -> Option<Self> {
        let (start, state, _) = stat(pid)?;
        (state != 'Z').then_some(Self { pid, start })
    }

    /// True while it runs; a zombie does not.
    pub(super) fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }
}

/// Start time, state and session of a process. The command's name may hold `) `: fields are counted from the last one.
fn stat(pid: i32) -> Option<(u64, char, i32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    Some((fields.get(19)?.parse().ok()?, fields.first()?.chars().next()?, fields.get(3)?.parse().ok()?))
}

/// Every other live process of `session`, and every child of `parent` (orphans that came back to it).
pub(super) fn left_over(session: Option<Pid>, parent: Pid) -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| *pid != parent.as_raw() && belongs(*pid, session, parent)).collect()
}

fn belongs(pid: i32, session: Option<Pid>, parent: Pid) -> bool {
    let Some((_, state, its_session)) = stat(pid) else { return false };
    let is_child = || {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let ppid = text.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<i32>().ok());
        ppid == Some(parent.as_raw())
    };
    state != 'Z' && (Some(its_session) == session.map(Pid::as_raw) || is_child())
}
