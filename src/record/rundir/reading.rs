//! What an attempt left: the batch shell's marks and the nodes' records.

use std::error::Error;

use super::attempt::Attempt;
use super::node::{NodeDir, parse_node_dir};
use crate::foundation::private::PrivateDir;
use crate::job::RunId;
use crate::record::{AttemptRecord, Missing, Outcome, Sentinel};

/// The largest mark that is read, in bytes. The batch shell writes about 150.
const MAX_SENTINEL: usize = 64 << 10;

/// What the job noted of a start of a run that may continue.
pub(super) const ATTEMPT_FILE: &str = "attempt.json";

/// What an attempt left, as far as it could be read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reading {
    /// Which attempt; `None` where there was none.
    pub attempt: Option<Attempt>,
    /// Its marks and records.
    pub outcome: Outcome,
    /// What lay there but could not be read, and why.
    pub notes: Vec<Missing>,
}

/// What the job noted of a start; `None` also where it cannot be read.
pub fn attempt_record(run: &PrivateDir, attempt: Attempt) -> Option<AttemptRecord> {
    read_attempt(&run.open_dir(&attempt.dir_name()).ok()?)
}

fn read_attempt(dir: &PrivateDir) -> Option<AttemptRecord> {
    dir.read_versioned(ATTEMPT_FILE, MAX_SENTINEL, AttemptRecord::FORMAT)
        .ok()
}

impl Reading {
    pub(super) fn unreadable(attempt: Attempt, error: &dyn Error) -> Self {
        let notes = vec![note(&attempt.dir_name(), error)];
        Self {
            attempt: Some(attempt),
            outcome: Outcome::default(),
            notes,
        }
    }

    /// The marks alone.
    pub(super) fn marks(dir: &PrivateDir, attempt: Attempt) -> Self {
        let mut notes = Vec::new();
        let start = sentinel(dir, "start.json", &mut notes);
        let end = sentinel(dir, "end.json", &mut notes);
        Self {
            attempt: Some(attempt),
            outcome: Outcome {
                start,
                end,
                attempt: read_attempt(dir),
                ..Outcome::default()
            },
            notes,
        }
    }

    pub(super) fn read(dir: &PrivateDir, run_id: &RunId, attempt: Attempt) -> Self {
        let mut reading = Self::marks(dir, attempt);
        for (node, step) in node_dirs(dir, &mut reading.notes) {
            let key = attempt.key(run_id, &node, step);
            match NodeDir::open(dir, &key).and_then(|dir| dir.read_record()) {
                Ok(record) => reading.outcome.nodes.push(record),
                // Its supervisor has not written yet.
                Err(error) if error.is_missing() => {}
                Err(error) => reading
                    .notes
                    .push(note(&format!("{}.{}", key.node, key.step), &error)),
            }
        }
        reading
    }
}

fn node_dirs(dir: &PrivateDir, notes: &mut Vec<Missing>) -> Vec<(String, u32)> {
    let names = dir.names().unwrap_or_else(|error| {
        notes.push(note("nodes", &error));
        Vec::new()
    });
    let mut found: Vec<_> = names
        .iter()
        .filter_map(|name| parse_node_dir(name))
        .collect();
    found.sort_unstable();
    found
}

/// Reads a mark. The batch shell writes it with `printf` and no care: it may be half there, empty, or nonsense.
fn sentinel(dir: &PrivateDir, name: &str, notes: &mut Vec<Missing>) -> Option<Sentinel> {
    match dir.read_json(name, MAX_SENTINEL) {
        Ok(mark) => Some(mark),
        Err(error) if error.is_missing() => None,
        Err(error) => {
            notes.push(note(name, &error));
            None
        }
    }
}

fn note(what: &str, error: &dyn Error) -> Missing {
    Missing {
        what: what.to_owned(),
        why: crate::foundation::diagnostic::chain(error).join(": "),
    }
}
