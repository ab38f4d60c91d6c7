//! `dlrun report`: what is known of runs, as a page that people look at.

use std::ffi::OsString;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::show::element_of;
use crate::app::error::{Error, Kind};
use crate::app::output::envelope;
use crate::app::series::Series;
use crate::app::session::Session;
use crate::app::track::{Tracked, Tracker};
use crate::cli::args::{Report as Arguments, ReportFormat};
use crate::cli::insights;
use crate::foundation::clock::now_ms;
use crate::job::RunId;
use crate::record::NodeRecord;
use crate::record::rundir::RunDir;
use crate::report::{NODES_DRAWN, Node, Report, Run, points_of_each};

/// Runs of a report, elements of arrays counted one by one: more of them are no report but a database.
const MOST_RUNS: usize = 100;
/// Curves of a node without GPUs, and of a GPU, about.
const CURVES_OF_NODE: usize = 8;
const CURVES_OF_GPU: usize = 4;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &Arguments) -> Result<u8, Error> {
    let (format, target) = target(session, args);
    // Before anything is read: reading takes a while.
    if let Some(path) = target.as_deref() {
        may_write(path)?;
    }
    let mut tracker = Tracker::open(session)?;
    let report = gather(session, &mut tracker, args)?;
    let written = match format {
        ReportFormat::Html => report.to_html(),
        ReportFormat::Json => format!("{}\n", envelope("report", &report.to_json())),
    };
    let path = match target {
        // Of a file that is not written yet the first run names it.
        Some(path) if path.as_os_str().is_empty() => default_path(&report),
        Some(path) => path,
        None => {
            session.output.raw(written.as_bytes())?;
            return Ok(0);
        }
    };
    write_over(&path, written.as_bytes())?;
    let runs: Vec<&RunId> = report.runs.iter().map(|run| &run.record.run_id).collect();
    let value = json!({ "file": path.to_string_lossy(), "format": format.as_str(), "bytes": written.len(), "runs": runs });
    session.output.result(
        "report",
        &value,
        &format!("wrote {} ({})\n", path.display(), size(written.len())),
    )?;
    Ok(0)
}

/// What is written, and where to; no place: standard output; an empty one: named after the run.
fn target(session: &Session, args: &Arguments) -> (ReportFormat, Option<PathBuf>) {
    let ending = args
        .output
        .as_ref()
        .and_then(|path| path.extension()?.to_str());
    let by_ending = match ending {
        Some("json") => Some(ReportFormat::Json),
        Some(_) => Some(ReportFormat::Html),
        None => None,
    };
    // For programs that name neither: the object that `--json` promises.
    let by_flag = (session.output.json && args.output.is_none()).then_some(ReportFormat::Json);
    let format = args
        .format
        .or(by_ending)
        .or(by_flag)
        .unwrap_or(ReportFormat::Html);
    let target = match &args.output {
        Some(path) if path == Path::new("-") => None,
        Some(path) => Some(path.clone()),
        None => (format == ReportFormat::Html).then(PathBuf::new),
    };
    (format, target)
}

fn default_path(report: &Report) -> PathBuf {
    let name = report.runs.first().map_or("", |run| run.prefix.as_str());
    let more = report.runs.len().saturating_sub(1);
    let more = if more > 0 {
        format!("-and-{more}-more")
    } else {
        String::new()
    };
    PathBuf::from(format!("dlrun-report-{name}{more}.html"))
}

fn size(bytes: usize) -> String {
    if bytes < 1_000_000 {
        format!("{} kB", bytes.div_ceil(1000))
    } else {
        format!("{:.1} MB", bytes as f64 / 1e6)
    }
}

// ---------------------------------------------------------------------------------------------------- what is in it

fn gather(session: &Session, tracker: &mut Tracker<'_>, args: &Arguments) -> Result<Report, Error> {
    let mut run_ids: Vec<RunId> = Vec::new();
    for text in &args.runs {
        let run_id = tracker.find(text)?;
        if run_ids.contains(&run_id) {
            session.output.warning(&format!(
                "`{text}` is run {run_id}, which is named twice; it is shown once"
            ));
        } else {
            run_ids.push(run_id);
        }
    }
    if run_ids.len() > MOST_RUNS {
        let message = format!(
            "{} runs are named; a report holds {MOST_RUNS} at most",
            run_ids.len()
        );
        return Err(Error::new(Kind::Usage, message)
            .hinted("`dlrun export` gives any number of runs as a table"));
    }
    let tracked = tracker.refresh(&run_ids, args.history)?;
    let prefixes = tracker.store.shortest_prefixes(&run_ids)?;
    let (mut seen, mut remarks) = (Vec::new(), Vec::new());
    for (tracked, prefix) in tracked.into_iter().zip(prefixes) {
        let dir = tracker.state.run(&tracked.record.run_id)?;
        let room = MOST_RUNS - seen.len();
        for (element, tracked) in apart(&dir, tracked, room, &mut remarks)? {
            seen.push((prefix.clone(), element, tracked));
        }
    }
    let nodes = seen
        .iter()
        .flat_map(|(.., tracked)| tracked.reading.outcome.nodes.iter().take(NODES_DRAWN));
    let curves = nodes
        .map(|node| CURVES_OF_NODE + CURVES_OF_GPU * node.gpus.len())
        .sum();
    let points = points_of_each(curves);
    let each = |(prefix, element, tracked): (String, _, Tracked)| {
        let dir = tracker.state.run(&tracked.record.run_id)?;
        Ok(one(session, &dir, prefix, element, tracked, points))
    };
    let runs = seen.into_iter().map(each).collect::<Result<_, Error>>()?;
    Ok(Report {
        runs,
        written_at_ms: now_ms(),
        remarks,
    })
}

/// A run, or the elements of its array that have started, one by one.
fn apart(
    dir: &RunDir,
    tracked: Tracked,
    room: usize,
    remarks: &mut Vec<String>,
) -> Result<Vec<(Option<u32>, Tracked)>, Error> {
    if tracked.elements.is_empty() {
        return Ok(vec![(None, tracked)]);
    }
    let started: Vec<u32> = tracked
        .elements
        .iter()
        .filter(|element| element.status.started_at_ms.is_some())
        .map(|element| element.element)
        .collect();
    if started.is_empty() {
        return Ok(vec![(None, tracked)]);
    }
    if started.len() < tracked.elements.len() || started.len() > room {
        let (all, shown) = (tracked.elements.len(), started.len().min(room));
        remarks.push(format!(
            "{} is an array of {all} elements: {} have started, the first {shown} of them are shown.",
            tracked.record.name,
            started.len()
        ));
    }
    let of = |element: u32| Ok((Some(element), element_of(dir, tracked.clone(), element)?));
    started.into_iter().take(room).map(of).collect()
}

fn one(
    session: &Session,
    dir: &RunDir,
    prefix: String,
    element: Option<u32>,
    mut tracked: Tracked,
    points: usize,
) -> Run {
    let (mut timelines, mut sampled, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for node in tracked.reading.outcome.nodes.iter().take(NODES_DRAWN) {
        let series = Series::curves(dir, node, points);
        timelines.push(series.timeline);
        sampled.push(series.sampled);
        notes.extend(series.notes);
    }
    tracked.reading.notes.extend(notes);
    let request = insights::request(session, dir, &tracked);
    let insight = insights::insight(&tracked, request.as_ref(), sampled);
    let Tracked {
        record,
        status,
        reading,
        ..
    } = tracked;
    let drawn = timelines.into_iter().chain(std::iter::repeat_with(|| None));
    let node = |(record, timeline): (NodeRecord, _)| Node { record, timeline };
    let nodes = reading
        .outcome
        .nodes
        .into_iter()
        .zip(drawn)
        .map(node)
        .collect();
    Run {
        prefix,
        element,
        record,
        status,
        request,
        insight,
        nodes,
        notes: reading.notes,
    }
}

// ---------------------------------------------------------------------------------------------------- where it goes

fn cannot(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::new(
        Kind::CannotWrite,
        format!("cannot write `{}`: {why}", path.display()),
    )
}

fn denied(path: &Path, error: &io::Error) -> Error {
    let error = Error::new(
        Kind::NotPermitted,
        format!("cannot write `{}`: {error}", path.display()),
    );
    error.hinted("nothing was changed; name a file elsewhere with `--output`")
}

/// Only a regular file is replaced: not what a link leads to, no device, no directory. Returns its rights, if it is there.
pub(crate) fn may_write(path: &Path) -> Result<Option<Permissions>, Error> {
    match fs::symlink_metadata(path) {
        Ok(file) if file.is_file() => Ok(Some(file.permissions())),
        Ok(_) => Err(cannot(path, "it is there and no regular file")
            .hinted("name another file; `--output -` writes to standard output")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(denied(path, &error)),
        Err(error) => Err(cannot(path, error)),
    }
}

/// Writes beside the file and renames: what was there stays until all of the new one is on disk.
pub(crate) fn write_over(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let rights = may_write(path)?;
    let Some(name) = path.file_name() else {
        return Err(cannot(path, "it names no file"));
    };
    let mut beside = OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}-{}.tmp", std::process::id(), now_ms()));
    let beside = path.with_file_name(beside);
    let written = write_new(&beside, bytes, rights).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&beside);
        let failed = cannot(path, &error);
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => failed
                .hinted("nothing was changed; make room, or name a file elsewhere with `--output`"),
            io::ErrorKind::NotFound => failed.hinted("make the directory first"),
            io::ErrorKind::PermissionDenied => denied(path, &error),
            _ => failed.hinted("nothing was changed; name a file elsewhere with `--output`"),
        }
    })
}

fn write_new(path: &Path, bytes: &[u8], rights: Option<Permissions>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    if let Some(rights) = rights {
        file.set_permissions(rights)?;
    }
    // On a network file system a full disk may show no earlier.
    file.sync_all()
}
