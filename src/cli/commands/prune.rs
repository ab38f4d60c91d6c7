//! `dlrun prune`: deletes the records of runs that are over, and their output where that is asked for.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::getuid;
use serde_json::{Value, json};

use crate::app::error::{Error, Kind};
use crate::app::output_files::{Wanted, outputs};
use crate::app::session::Session;
use crate::app::times::{ago, parse_time};
use crate::app::track::{FORGET_AFTER_MS, Tracked, Tracker};
use crate::cli::args::Prune;
use crate::cli::table::{rendered, table};
use crate::foundation::clock::now_ms;
use crate::foundation::units::Bytes;
use crate::job::{JobState, RunId};
use crate::plan::Plan;
use crate::record::store::{Filter, RunRow, StoreError};

/// What ended just now may still be written by its watcher, in milliseconds.
const SETTLED_AFTER_MS: u64 = 60_000;

/// A run that is to go.
struct Chosen {
    row: RunRow,
    /// Of its directory.
    bytes: u64,
    /// Those that are to be deleted; behind [`delete`] those that were.
    outputs: Vec<PathBuf>,
    is_deleted: bool,
}

/// Runs the verb. Without `--yes` it only shows what would go.
pub(crate) fn run(session: &Session, args: &Prune) -> Result<u8, Error> {
    if args.runs.is_empty() && args.older_than.is_none() && args.keep.is_none() {
        let error = Error::new(
            Kind::Usage,
            "say which runs: RUN, --older-than AGE or --keep N",
        );
        return Err(error
            .hinted("such as `dlrun prune --older-than 30d`; nothing is deleted without `--yes`"));
    }
    let before = args
        .older_than
        .as_ref()
        .map(|age| parse_time(age, now_ms()));
    let before = before
        .transpose()
        .map_err(|why| Error::new(Kind::Usage, why))?;
    let mut tracker = Tracker::open(session)?;
    tracker.refresh_unfinished(false)?;
    let mut named = BTreeSet::new();
    for run in &args.runs {
        named.insert(tracker.find(run)?);
    }
    let rows = tracker.store.list(usize::MAX >> 1, &Filter::default())?;
    let (mut chosen, left) = choose(&tracker, rows, args, &named, before)?;
    if args.yes {
        for chosen in &mut chosen {
            match delete(&mut tracker, chosen) {
                Ok(()) => chosen.is_deleted = true,
                Err(why) => session.output.warning(&format!(
                    "run {} was not deleted: {why}",
                    chosen.row.record.run_id
                )),
            }
        }
    }
    for (run_id, why) in left.iter().filter(|(run_id, _)| named.contains(run_id)) {
        session
            .output
            .warning(&format!("run {run_id} stays: {why}"));
    }
    let value = json!({
        "runs": chosen.iter().map(to_json).collect::<Vec<_>>(),
        "left": left.iter().map(|(run, why)| json!({ "run_id": run, "why": why })).collect::<Vec<_>>(),
    });
    session
        .output
        .result("prune", &value, &to_text(&chosen, &left, args.yes))?;
    let is_done = !args.yes || chosen.iter().all(|one| one.is_deleted);
    Ok(if is_done { 0 } else { Kind::CannotWrite.code() })
}

/// Those that go, and those that would if they were over, each with why it stays.
type Choice = (Vec<Chosen>, Vec<(RunId, String)>);

/// The runs that go, and those that would if they were over.
fn choose(
    tracker: &Tracker<'_>,
    rows: Vec<RunRow>,
    args: &Prune,
    named: &BTreeSet<RunId>,
    before: Option<u64>,
) -> Result<Choice, Error> {
    let (mut going, mut left, mut kept, mut newer) = (Vec::new(), Vec::new(), Vec::new(), 0);
    // The newest comes first.
    for row in rows {
        let run_id = row.record.run_id.clone();
        let is_over = is_over(&row);
        let ended = row.status.ended_at_ms.unwrap_or(row.record.submitted_at_ms);
        newer += usize::from(is_over);
        let is_meant = if named.is_empty() {
            args.keep.is_none_or(|keep| newer > keep || !is_over)
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
            Some(why) if is_meant => left.push((run_id, why)),
            None if is_meant => {
                going.push(row);
                continue;
            }
            _ => {}
        }
        kept.extend(
            row.record
                .output
                .filter(|_| args.outputs)
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
        let mut outputs = if args.outputs {
            outputs_of(tracker, &row)
        } else {
            Vec::new()
        };
        outputs.retain(|path| !is_kept(path));
        Chosen {
            bytes: size(&run),
            outputs,
            row,
            is_deleted: false,
        }
    });
    Ok((chosen.collect(), left))
}

/// Says whether a run is over. One whose end nobody knows counts as over when it is not asked about any more.
fn is_over(row: &RunRow) -> bool {
    let is_lost = row.status.state == JobState::Unknown && row.record.job_id.is_some();
    let age = now_ms().saturating_sub(row.record.submitted_at_ms);
    row.status.state.is_final() || (is_lost && age > FORGET_AFTER_MS)
}

/// A path by which two names of one file are equal; of a file that is not there its directory's.
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
    let run_id = &chosen.row.record.run_id;
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

fn to_json(chosen: &Chosen) -> Value {
    json!({
        "run_id": chosen.row.record.run_id,
        "name": chosen.row.record.name,
        "state": chosen.row.status.state,
        "ended_at_ms": chosen.row.status.ended_at_ms,
        "bytes": chosen.bytes,
        "outputs": chosen.outputs,
        "deleted": chosen.is_deleted,
    })
}

fn to_text(chosen: &[Chosen], left: &[(RunId, String)], is_done: bool) -> String {
    if chosen.is_empty() {
        let reasons: BTreeSet<&str> = left.iter().map(|(_, why)| why.as_str()).collect();
        let reasons = reasons.into_iter().collect::<Vec<_>>().join("; ");
        let stay = (!left.is_empty()).then(|| format!(" ({} stay: {reasons})", left.len()));
        return format!("no runs to delete{}\n", stay.unwrap_or_default());
    }
    let chosen: Vec<&Chosen> = chosen
        .iter()
        .filter(|one| one.is_deleted == is_done)
        .collect();
    let mut rows = table();
    rows.set_header(["RUN", "NAME", "STATE", "ENDED", "RECORDS", ""]);
    for Chosen {
        row,
        bytes,
        outputs,
        ..
    } in &chosen
    {
        let ended = row.status.ended_at_ms.unwrap_or(row.record.submitted_at_ms);
        let files = match outputs.len() {
            0 => String::new(),
            1 => "and 1 output file".to_owned(),
            several => format!("and {several} output files"),
        };
        let record = &row.record;
        let state = row.status.state.to_string();
        rows.add_row([
            record.run_id.to_string(),
            record.name.clone(),
            state,
            ago(ended),
            Bytes(*bytes).to_string(),
            files,
        ]);
    }
    let bytes = Bytes(chosen.iter().map(|one| one.bytes).sum());
    let plural = if chosen.len() == 1 { "" } else { "s" };
    let sum = match is_done {
        true => format!("deleted {} run{plural}, {bytes}\n", chosen.len()),
        false => format!(
            "would delete {} run{plural}, {bytes}; `--yes` deletes\n",
            chosen.len()
        ),
    };
    rendered(rows) + &sum
}
