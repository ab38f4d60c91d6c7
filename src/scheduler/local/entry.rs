//! What a local job shows to the runners of all users: a small file that says who it is and what it takes.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};

use super::process::Identity;
use super::share::Asked;
use super::ticket::Ticket;
use crate::job::name_problem;
use crate::observe::monitor::identity::boot_id;

/// Where process ids mean the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Here {
    host: String,
    boot: String,
    /// Containers may share the directory and number their own processes.
    pid_namespace: u64,
}

impl Here {
    /// `None` where the kernel does not say.
    pub(super) fn find() -> Option<Self> {
        Some(Self {
            host: nix::unistd::gethostname().ok()?.into_string().ok()?,
            boot: boot_id().ok()?,
            pid_namespace: fs::metadata("/proc/self/ns/pid").ok()?.ino(),
        })
    }

    /// Says whether what ran there cannot run any more, since this machine was booted later.
    pub(super) fn is_over(&self, now: &Self) -> bool {
        self.host == now.host && self.boot != now.boot
    }
}

/// One job's entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    format: u32,
    pub(super) here: Here,
    pub(super) runner: Identity,
    /// Orders the jobs of one user; nobody else's go by it. Unix milliseconds.
    pub(super) queued_at_ms: u64,
    pub(super) asked: Asked,
    /// The local job id, `L7`.
    pub(super) job: String,
    pub(super) name: String,
}

impl Entry {
    const FORMAT: u32 = 1;
    /// The largest entry, in bytes.
    pub(super) const LIMIT: u64 = 1024;

    /// The job of `ticket`, whose runner is `runner`.
    pub(super) fn new(ticket: &Ticket, runner: Identity, here: Here) -> Self {
        Self {
            format: Self::FORMAT,
            here,
            runner,
            queued_at_ms: ticket.queued_at_ms,
            asked: ticket.asked,
            job: ticket.job_id.0.clone(),
            name: ticket.name.clone(),
        }
    }

    #[cfg(test)]
    pub(super) fn for_test(
        here: Here,
        runner: Identity,
        queued_at_ms: u64,
        asked: Asked,
        job: String,
        name: String,
    ) -> Self {
        Self {
            format: Self::FORMAT,
            here,
            runner,
            queued_at_ms,
            asked,
            job,
            name,
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("an entry is plain data with text keys")
    }

    /// Reads an entry that anybody may have written. What is shown of it is a job id and a name, or nothing.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let entry: Self = serde_json::from_slice(bytes)
            .ok()
            .filter(|entry: &Self| entry.format == Self::FORMAT)?;
        let number = entry.job.strip_prefix('L')?;
        let is_number =
            (1..=20).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
        let is_named = entry.name.is_empty() || name_problem(&entry.name).is_none();
        (is_number && is_named && entry.runner.pid > 0).then_some(entry)
    }
}

/// What an entry says of its job, by the name of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It waits. The file is made when the job arrives and not touched again: the kernel's time on it is the arrival.
    Wait,
    /// It takes its share.
    Run,
}

impl Kind {
    pub(super) fn file_name(self, runner: Identity) -> String {
        let word = match self {
            Self::Wait => "wait",
            Self::Run => "run",
        };
        format!("{word}-{}-{}", runner.pid, runner.start)
    }

    pub(super) fn from_file_name(name: &str) -> Option<Self> {
        match name.split_once('-')?.0 {
            "wait" => Some(Self::Wait),
            "run" => Some(Self::Run),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        let here = Here {
            host: "h".into(),
            boot: "b".into(),
            pid_namespace: 1,
        };
        let runner = Identity { pid: 7, start: 8 };
        let asked = Asked {
            cpus: Some(2),
            memory_bytes: Some(1 << 30),
            gpus: 0,
        };
        Entry::for_test(here, runner, 5, asked, "L7".into(), "train".into())
    }

    #[test]
    fn entry_is_read_as_it_was_written() {
        let longest = Entry {
            name: "x".repeat(100),
            job: format!("L{}", u64::MAX),
            ..entry()
        };
        for entry in [entry(), longest] {
            assert!(entry.bytes().len() < 1024);
            assert_eq!(Entry::parse(&entry.bytes()), Some(entry));
        }
    }

    #[test]
    fn entry_with_a_hostile_word_is_ignored() {
        for hostile in [
            Entry {
                job: "L7\u{1b}[2J".into(),
                ..entry()
            },
            Entry {
                job: "L".into(),
                ..entry()
            },
            Entry {
                name: "a\nb".into(),
                ..entry()
            },
            Entry {
                name: "a b".into(),
                ..entry()
            },
            Entry {
                format: 2,
                ..entry()
            },
            Entry {
                runner: Identity { pid: -1, start: 1 },
                ..entry()
            },
        ] {
            assert_eq!(Entry::parse(&hostile.bytes()), None, "{hostile:?}");
        }
        assert_eq!(Entry::parse(b"[[[["), None);
    }

    #[test]
    fn name_of_the_file_says_what_the_job_does() {
        let runner = Identity { pid: 7, start: 8 };
        for kind in [Kind::Wait, Kind::Run] {
            assert_eq!(Kind::from_file_name(&kind.file_name(runner)), Some(kind));
        }
        assert_eq!(Kind::from_file_name("new-7-8"), None);
    }
}
