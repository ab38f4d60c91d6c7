//! Processes by pid and start time: a pid alone is reused.

use std::collections::BTreeMap;

use nix::unistd::{Pid, getsid};
use serde::{Deserialize, Serialize};

use crate::observe::monitor::identity::{Process, all_pids, parent_of, uid_of};
use crate::scheduler::by_key;

/// One process for the whole of its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) pid: i32,
    /// Start time in clock ticks since boot (`proc_pid_stat(5)`, field 22).
    pub(super) start: u64,
}

impl Identity {
    /// The process that has `pid` now.
    pub(super) fn from_pid(pid: i32) -> Option<Self> {
        let now = Process::with_pid(pid.try_into().ok()?).ok()?;
        let start = now.start_time_ticks;
        now.is_alive().then_some(Self { pid, start })
    }

    /// True while it runs; a zombie does not.
    pub(super) fn is_alive(self) -> bool {
        Self::from_pid(self.pid) == Some(self)
    }
}

/// The real user of a process, which no other user can take on.
pub(super) fn owner(pid: i32) -> Option<u32> {
    uid_of(pid.try_into().ok()?)
}

/// The sessions of this machine, with the processes that live in each.
#[derive(Debug, Default)]
pub(super) struct Sessions(BTreeMap<i32, Vec<i32>>);

impl Sessions {
    pub(super) fn now() -> Self {
        Self(by_key(pids().filter_map(|pid| Some((session(pid)?, pid)))))
    }

    /// Says whether `user` has a process in the session that `leader` led. The kernel gives a pid to nobody else while a
    /// session is named by it, so a later process of that pid means that the session is over.
    pub(super) fn outlive(&self, leader: Identity, user: u32) -> bool {
        let successor = Identity::from_pid(leader.pid).filter(|now| *now != leader);
        let members = self.0.get(&leader.pid).filter(|_| successor.is_none());
        members
            .into_iter()
            .flatten()
            .any(|pid| owner(*pid) == Some(user))
    }
}

/// The live processes of this machine.
fn pids() -> impl Iterator<Item = i32> {
    let pids = all_pids().unwrap_or_default().into_iter();
    let pids = pids.filter_map(|pid| i32::try_from(pid).ok());
    pids.filter(|pid| Identity::from_pid(*pid).is_some())
}

fn session(pid: i32) -> Option<i32> {
    Some(getsid(Some(Pid::from_raw(pid))).ok()?.as_raw())
}

/// Every other live process of `leader`'s session, and every child of `parent` (orphans that came back to it).
pub(super) fn left_over(leader: Option<Pid>, parent: Pid) -> Vec<i32> {
    let (leader, parent) = (leader.map(Pid::as_raw), parent.as_raw());
    let is_child =
        |pid: i32| parent_of(pid.unsigned_abs()).is_ok_and(|of| of == parent.unsigned_abs());
    let belongs = |pid: i32| session(pid).is_some_and(|of| Some(of) == leader) || is_child(pid);
    pids()
        .filter(|pid| *pid != parent && belongs(*pid))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio, id};

    use super::*;

    fn own() -> Identity {
        Identity::from_pid(id().cast_signed()).expect("it runs")
    }

    #[test]
    fn own_process_is_alive_and_belongs_to_this_user() {
        let own = own();
        assert!(own.is_alive());
        assert!(
            !Identity {
                start: own.start + 1,
                ..own
            }
            .is_alive()
        );
        assert_eq!(owner(own.pid), Some(nix::unistd::getuid().as_raw()));
    }

    #[test]
    fn session_outlives_its_leader_while_a_process_of_the_user_is_in_it() {
        // The shell leads a session, starts a process in it and ends.
        let script = "echo $$; sleep 60 >/dev/null & echo $!";
        let mut command = Command::new("setsid");
        command
            .args(["--wait", "sh", "-c", script])
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        let said = command.output().expect("setsid and sh");
        let text = String::from_utf8(said.stdout).expect("text");
        let pids: Vec<i32> = text
            .lines()
            .map(|line| line.parse().expect("a pid"))
            .collect();
        let leader = Identity {
            pid: pids[0],
            start: 1,
        };
        let user = nix::unistd::getuid().as_raw();
        assert!(Sessions::now().outlive(leader, user));
        assert!(
            !Sessions::now().outlive(leader, user + 1),
            "another user has no process there"
        );
        nix::sys::signal::kill(Pid::from_raw(pids[1]), nix::sys::signal::Signal::SIGKILL)
            .expect("ours");
        while Identity::from_pid(pids[1]).is_some() {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        assert!(!Sessions::now().outlive(leader, user));
    }

    #[test]
    fn session_of_a_later_process_with_the_pid_is_another_one() {
        let leader = Identity {
            start: own().start + 1,
            ..own()
        };
        assert!(!Sessions::now().outlive(leader, nix::unistd::getuid().as_raw()));
    }
}
