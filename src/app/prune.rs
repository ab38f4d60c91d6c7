//! Deletes the records of runs that are over, and their output where that is asked for.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::getuid;
use serde::Serialize;

use crate::app::error::Error;
use crate::app::output_files::{Wanted, outputs};
use crate::app::session::Session;
use crate::app::track::{FORGET_AFTER_MS, Tracked, Tracker};
use crate::foundation::clock::now_ms;
use crate::job::{JobState, RunId};
use crate::plan::Plan;
use crate::record::RunRow;
use crate::record::store::{Filter, StoreError};

/// What ended just now may still be written by its watcher, in milliseconds.
const SETTLED_AFTER_MS: u64 = 60_000;

/// Which runs are to go.
pub(crate) struct PruneRequest<'a> {
    /// These, as they are named; none: all that the others say.
    pub(crate) runs: &'a [String],
    /// Those that ended before, in Unix milliseconds UTC.
    pub(crate) before: Option<u64>,
    /// All but so many of the newest.
    pub(crate) keep: Option<usize>,
    /// Their output files too.
    pub(crate) outputs: bool,
    /// Delete them; else they are only chosen.
    pub(crate) delete: bool,
}

/// A run that is to go.
#[derive(Serialize)]
pub(crate) struct Chosen {
    pub(crate) run_id: RunId,
    pub(crate) name: String,
    pub(crate) state: JobState,
    pub(crate) ended_at_ms: Option<u64>,
    #[serde(skip)]
    pub(crate) submitted_at_ms: u64,
    /// Of its directory.
    pub(crate) bytes: u64,
    /// Those that are to be deleted; once the run is deleted those that were.
    pub(crate) outputs: Vec<PathBuf>,
    pub(crate) deleted: bool,
}

/// A run that would go, and why it stays.
#[derive(Serialize)]
pub(crate) struct Left {
    pub(crate) run_id: RunId,
    pub(crate) why: String,
}

/// What was chosen, and what became of it.
#[derive(Serialize)]
pub(crate) struct Pruned {
    pub(crate) runs: Vec<Chosen>,
    pub(crate) left: Vec<Left>,
}

/// Chooses runs, and deletes them where that is asked for.
pub(crate) fn prune(session: &Session, request: &PruneRequest<'_>) -> Result<Pruned, Error> {
    let mut tracker = Tracker::open(session)?;
    tracker.refresh_unfinished(false)?;
    let mut named = BTreeSet::new();
    for run in request.runs {
        named.insert(tracker.find(run)?);
    }
    let rows = tracker.store.list(usize::MAX >> 1, &Filter::default())?;
    let mut pruned = choose(&tracker, rows, request, &named)?;
    for chosen in pruned.runs.iter_mut().filter(|_| request.delete) {
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
    request: &PruneRequest<'_>,
    named: &BTreeSet<RunId>,
) -> Result<Pruned, Error> {
    let (mut going, mut left, mut kept, mut newer) = (Vec::new(), Vec::new(), Vec::new(), 0);
    // The newest comes first.
    for row in rows {
        let run_id = row.record.run_id.clone();
        let is_over = is_over(&row);
        let ended = row.status.ended_at_ms.unwrap_or(row.record.submitted_at_ms);
        newer += usize::from(is_over);
        let is_meant = if named.is_empty() {
            request.keep.is_none_or(|keep| newer > keep || !is_over)
                && request.before.is_none_or(|before| ended < before)
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
            None if is_meant => {
                going.push(row);
                continue;
            }
            _ => {}
        }
        kept.extend(
            row.record
                .output
                .filter(|_| request.outputs)
                .map(|output| canonical(Path::new(&output))),
        );
    }
    let (arrays, kept): (Vec<_>, BTreeSet<_>) = (
        kept.iter()
            .filter(|path| path.to_string_lossy().contains("%a"))
            .cloned()
            .collect(),
        kept.into_iter().collect(),
    );
    // A file that another run writes too is not this run's alone.
    let is_kept = |path: &Path| {
        let path = canonical(path);
        kept.contains(&path) || arrays.iter().any(|array| is_of_array(array, &path))
    };
    let chosen = going.into_iter().map(|row| {
        let run = tracker
            .state
            .path()
            .join("runs")
            .join(row.record.run_id.as_str());
        let mut outputs = if request.outputs {
            outputs_of(tracker, &row)
        } else {
            Vec::new()
        };
        outputs.retain(|path| !is_kept(path));
        Chosen {
            run_id: row.record.run_id,
            name: row.record.name,
            state: row.status.state,
            ended_at_ms: row.status.ended_at_ms,
            submitted_at_ms: row.record.submitted_at_ms,
            bytes: size(&run),
            outputs,
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

/// A path by which two names of one file are equal; of a missing file its directory's.
fn canonical(path: &Path) -> PathBuf {
    let of_dir = || {
        Some(
            fs::canonicalize(path.parent()?)
                .ok()?
                .join(path.file_name()?),
        )
    };
    fs::canonicalize(path)
        .ok()
        .or_else(of_dir)
        .unwrap_or_else(|| path.to_owned())
}

/// Says whether a file may be that of an element of an array, whose name has `%a` for the index.
fn is_of_array(array: &Path, path: &Path) -> bool {
    let (array, path) = (array.to_string_lossy(), path.to_string_lossy());
    let ends = (
        array.split("%a").next().unwrap_or_default(),
        array.rsplit("%a").next().unwrap_or_default(),
    );
    path.starts_with(ends.0) && path.ends_with(ends.1)
}

/// The output files of a run: regular ones of this user, whose names have the job's id. Others may have been the user's
/// before the run, which appended to them.
fn outputs_of(tracker: &Tracker<'_>, row: &RunRow) -> Vec<PathBuf> {
    let found = tracker.state.run(&row.record.run_id).ok().and_then(|run| {
        let plan: Plan = serde_json::from_str(&run.read_plan().ok()?).ok()?;
        let reading = run
            .newest_outcome(0)
            .ok()
            .filter(|_| plan.has_own_output())?;
        let elements = tracker
            .store
            .elements(&row.record.run_id)
            .unwrap_or_default();
        let tracked = Tracked {
            record: row.record.clone(),
            status: row.status.clone(),
            reading,
            elements,
        };
        outputs(&run, &tracked, Wanted::default()).ok()
    });
    let mut paths: Vec<PathBuf> = found.into_iter().flatten().map(|file| file.path).collect();
    let is_mine = |path: &PathBuf| {
        fs::symlink_metadata(path)
            .is_ok_and(|file| file.is_file() && file.uid() == getuid().as_raw())
    };
    paths.retain(is_mine);
    paths.sort();
    paths.dedup();
    paths
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

/// The output first: without its record nobody would find it.
fn delete(tracker: &mut Tracker<'_>, chosen: &mut Chosen) -> Result<(), String> {
    for path in std::mem::take(&mut chosen.outputs) {
        match fs::remove_file(&path) {
            Ok(()) => chosen.outputs.push(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
    let run_id = &chosen.run_id;
    let dir = tracker.state.path().join("runs").join(run_id.as_str());
    if dir.exists() {
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
