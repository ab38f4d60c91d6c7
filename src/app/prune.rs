//! Deletes the records of runs that are over.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::app::error::Error;
use crate::app::session::Session;
use crate::app::track::{FORGET_AFTER_MS, Tracker};
use crate::foundation::clock::now_ms;
use crate::job::{JobState, RunId};
use crate::record::RunRow;
use crate::record::store::{Filter, StoreError};

/// What ended just now may still be written by its watcher, in milliseconds.
const SETTLED_AFTER_MS: u64 = 60_000;

/// A run that is to go.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Chosen {
    pub(crate) run_id: RunId,
    pub(crate) name: String,
    pub(crate) state: JobState,
    pub(crate) ended_at_ms: Option<u64>,
    #[serde(skip)]
    pub(crate) submitted_at_ms: u64,
    /// Of its directory.
    pub(crate) bytes: u64,
    pub(crate) deleted: bool,
}

/// A run that would go, and why it stays.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Left {
    pub(crate) run_id: RunId,
    pub(crate) why: String,
}

/// What was chosen, and what became of it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Pruned {
    pub(crate) runs: Vec<Chosen>,
    pub(crate) left: Vec<Left>,
}

/// Chooses runs, and deletes them where `deletes`: those that are named; else those that ended `before`, and all but so many
/// of the newest.
pub(crate) fn prune(
    session: &Session,
    runs: &[String],
    before: Option<u64>,
    keep: Option<usize>,
    deletes: bool,
) -> Result<Pruned, Error> {
    let mut tracker = Tracker::open(session)?;
    tracker.refresh_unfinished(false)?;
    let mut named = BTreeSet::new();
    for run in runs {
        named.insert(tracker.find(run)?);
    }
    let rows = tracker.store.list(usize::MAX >> 1, &Filter::default())?;
    let mut pruned = choose(&tracker, rows, &named, before, keep)?;
    for chosen in pruned.runs.iter_mut().filter(|_| deletes) {
        match delete(&mut tracker, chosen) {
            Ok(()) => chosen.deleted = true,
            Err(why) => session.warning(&format!("run {} was not deleted: {why}", chosen.run_id)),
        }
    }
    for Left { run_id, why } in &pruned.left {
        if named.contains(run_id) {
            session.warning(&format!("run {run_id} stays: {why}"));
        }
    }
    Ok(pruned)
}

/// The runs that go, and those that would if they were over.
fn choose(
    tracker: &Tracker<'_>,
    rows: Vec<RunRow>,
    named: &BTreeSet<RunId>,
    before: Option<u64>,
    keep: Option<usize>,
) -> Result<Pruned, Error> {
    let (mut going, mut left, mut newer) = (Vec::new(), Vec::new(), 0);
    // The newest comes first.
    for row in rows {
        let run_id = row.record.run_id.clone();
        let is_over = is_over(&row);
        let ended = row.status.ended_at_ms.unwrap_or(row.record.submitted_at_ms);
        newer += usize::from(is_over);
        let is_meant = if named.is_empty() {
            keep.is_none_or(|keep| newer > keep || !is_over)
                && before.is_none_or(|before| ended < before)
        } else {
            named.contains(&run_id)
        };
        let why = if tracker.store.is_imported(&run_id)? {
            Some("it was imported".to_owned())
        } else if !is_over {
            Some(format!("it is {}", row.status.state))
        } else {
            (now_ms().saturating_sub(ended) < SETTLED_AFTER_MS)
                .then(|| "it ended less than a minute ago".to_owned())
        };
        match why {
            Some(why) if is_meant => left.push(Left { run_id, why }),
            None if is_meant => going.push(row),
            _ => {}
        }
    }
    let chosen = going.into_iter().map(|row| {
        let bytes = size(&tracker.records_of(&row.record.run_id));
        Chosen {
            run_id: row.record.run_id,
            name: row.record.name,
            state: row.status.state,
            ended_at_ms: row.status.ended_at_ms,
            submitted_at_ms: row.record.submitted_at_ms,
            bytes,
            deleted: false,
        }
    });
    Ok(Pruned {
        runs: chosen.collect(),
        left,
    })
}

/// Says whether a run is over. One whose end nobody knows counts as over when it is not asked about any more.
fn is_over(row: &RunRow) -> bool {
    let is_lost = row.status.state == JobState::Unknown && row.record.job_id.is_some();
    let age = now_ms().saturating_sub(row.record.submitted_at_ms);
    row.status.state.is_final() || (is_lost && age > FORGET_AFTER_MS)
}

/// Bytes of the files below a directory; what cannot be read counts nothing.
fn size(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let of_entry = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(of_entry).sum()
}

fn delete(tracker: &mut Tracker<'_>, chosen: &Chosen) -> Result<(), String> {
    let run_id = &chosen.run_id;
    if tracker.records_of(run_id).exists() {
        tracker
            .state
            .remove_run(run_id)
            .map_err(|error| error.to_string())?;
    }
    tracker
        .store
        .write(|writer| writer.forget_run(run_id))
        .map_err(|error: StoreError| error.to_string())
}
