//! `dlrun logs`: the output of a run, from any directory and shell.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::cli::args::Logs;
use crate::cli::error::{Error, Kind};
use crate::cli::session::Session;
use crate::cli::track::{Tracked, Tracker};
use crate::job::{JobState, RunId};

/// What `--json` holds of one file at most, in bytes; more is cut at the front.
const JSON_BYTES: u64 = 16 << 20;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &Logs) -> Result<u8, Error> {
    if args.follow && session.output.json {
        return Err(Error::new(Kind::Usage, "`logs --follow` and `--json` exclude each other"));
    }
    let mut tracker = Tracker::open(session)?;
    let run_id = tracker.find(&args.run)?;
    let tracked = refresh(&mut tracker, &run_id)?;
    let files = files(&tracked, args.node.as_deref())?;
    if args.follow {
        return follow(session, &mut tracker, &run_id, args, &files);
    }
    if files.iter().all(|(_, path)| !path.exists()) {
        return Err(no_output(&tracked, &files));
    }
    if session.output.json {
        let read = |(label, path): &(String, PathBuf)| {
            let text = tail(path, args.lines, JSON_BYTES).unwrap_or_default();
            json!({ "node": label, "path": path, "text": String::from_utf8_lossy(&text) })
        };
        let value = json!({ "run_id": run_id, "files": files.iter().map(read).collect::<Vec<_>>() });
        session.output.result("logs", &value, "")?;
        return Ok(0);
    }
    let has_text = |path: &Path| path.metadata().is_ok_and(|metadata| metadata.len() > 0);
    for (label, path) in files.iter().filter(|(_, path)| has_text(path)) {
        if files.len() > 1 {
            session.output.raw(format!("==> {label}: {} <==\n", path.display()).as_bytes())?;
        }
        print(session, path, args.lines)?;
    }
    Ok(0)
}

fn refresh(tracker: &mut Tracker<'_>, run_id: &RunId) -> Result<Tracked, Error> {
    let tracked = tracker.refresh(std::slice::from_ref(run_id), false)?;
    tracked.into_iter().next().ok_or_else(|| Error::new(Kind::Internal, "the run vanished"))
}

/// The job's output file first, then the nodes' own where they have any.
fn files(tracked: &Tracked, node: Option<&str>) -> Result<Vec<(String, PathBuf)>, Error> {
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    if node.is_none() {
        files.extend(tracked.record.output.iter().map(|path| ("job".to_owned(), PathBuf::from(path))));
    }
    let outcome = &tracked.reading.outcome;
    for record in outcome.nodes.iter().filter(|record| node.is_none_or(|node| record.key.node == node)) {
        let Some(path) = record.output.as_ref().map(PathBuf::from) else { continue };
        if files.iter().all(|(_, known)| *known != path) {
            files.push((record.key.node.clone(), path));
        }
    }
    if let Some(node) = node.filter(|_| files.is_empty()) {
        let known: Vec<&str> = outcome.nodes.iter().map(|record| record.key.node.as_str()).collect();
        let error = Error::new(Kind::Missing, format!("the run has no output of a node `{node}`"));
        return Err(error.hinted(format!("nodes with output so far: {}", known.join(", "))));
    }
    Ok(files)
}

fn no_output(tracked: &Tracked, files: &[(String, PathBuf)]) -> Error {
    let state = tracked.status.state;
    let place =
        files.first().map_or_else(|| "nowhere yet".to_owned(), |(_, path)| path.display().to_string());
    let error =
        Error::new(Kind::Missing, format!("the run has no output (it is {state}; its place is {place})"));
    match state {
        JobState::Pending => error.hinted("`dlrun logs -f` waits for it"),
        _ => error,
    }
}

fn print(session: &Session, path: &Path, lines: Option<usize>) -> Result<(), Error> {
    if lines.is_some() {
        return session.output.raw(&tail(path, lines, u64::MAX)?);
    }
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            read => session.output.raw(&buffer[..read])?,
        }
    }
}

/// The last `lines` lines of a file (all without), at most `limit` bytes. Read from the end: logs may have gigabytes.
fn tail(path: &Path, lines: Option<usize>, limit: u64) -> std::io::Result<Vec<u8>> {
    const STEP: u64 = 64 << 10;
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let Some(lines) = lines else {
        file.seek(SeekFrom::Start(length.saturating_sub(limit)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        return Ok(bytes);
    };
    let mut bytes = Vec::new();
    let mut start = length;
    while start > 0 && (length - start) < limit {
        let from = start.saturating_sub(STEP);
        let mut chunk = vec![0; usize::try_from(start - from).unwrap_or(0)];
        file.read_exact_at(&mut chunk, from)?;
        chunk.extend_from_slice(&bytes);
        bytes = chunk;
        start = from;
        let ends = bytes.iter().rev().skip(1).filter(|byte| **byte == b'\n').count();
        if ends >= lines {
            break;
        }
    }
    let body = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let cut = body.iter().rposition(|byte| *byte == b'\n');
    let mut position = cut;
    for _ in 1..lines {
        position = position.and_then(|at| body[..at].iter().rposition(|byte| *byte == b'\n'));
    }
    if lines == 0 {
        return Ok(Vec::new());
    }
    Ok(bytes.split_off(position.map_or(0, |at| at + 1)))
}

/// One followed file.
struct Followed {
    label: String,
    path: PathBuf,
    offset: u64,
    /// Bytes of a line that has not ended; only with several files, whose lines must not mix.
    partial: Vec<u8>,
}

fn follow(
    session: &Session,
    tracker: &mut Tracker<'_>,
    run_id: &RunId,
    args: &Logs,
    first: &[(String, PathBuf)],
) -> Result<u8, Error> {
    let mut open: BTreeMap<PathBuf, Followed> = BTreeMap::new();
    let mut files = first.to_vec();
    let mut pause = Duration::from_secs(1);
    let mut look_at = Instant::now() + pause;
    let mut over = refresh(tracker, run_id)?.status.state.is_final();
    loop {
        for (label, path) in &files {
            if !open.contains_key(path) && path.exists() {
                let offset = match args.lines {
                    Some(lines) => {
                        let length = path.metadata().map_or(0, |metadata| metadata.len());
                        length
                            - (tail(path, Some(lines), u64::MAX).map_or(0, |bytes| bytes.len() as u64))
                                .min(length)
                    }
                    None => 0,
                };
                let followed =
                    Followed { label: label.clone(), path: path.clone(), offset, partial: Vec::new() };
                open.insert(path.clone(), followed);
            }
        }
        let labelled = open.len() > 1;
        for followed in open.values_mut() {
            followed.copy(session, labelled)?;
        }
        if over {
            for followed in open.values_mut() {
                followed.finish(session)?;
            }
            return Ok(0);
        }
        std::thread::sleep(Duration::from_millis(200));
        if Instant::now() >= look_at {
            let tracked = refresh(tracker, run_id)?;
            over = tracked.status.state.is_final();
            files = self::files(&tracked, args.node.as_deref()).unwrap_or(files);
            pause = pause.mul_f64(1.3).min(Duration::from_secs(15));
            look_at = Instant::now() + pause;
        }
    }
}

impl Followed {
    fn copy(&mut self, session: &Session, labelled: bool) -> Result<(), Error> {
        let Ok(file) = File::open(&self.path) else { return Ok(()) };
        if file.metadata().is_ok_and(|metadata| metadata.len() < self.offset) {
            self.offset = 0;
        }
        let mut buffer = vec![0; 64 << 10];
        while let Ok(read @ 1..) = file.read_at(&mut buffer, self.offset) {
            self.offset += read as u64;
            if labelled {
                self.partial.extend_from_slice(&buffer[..read]);
                self.print_lines(session)?;
            } else {
                session.output.raw(&buffer[..read])?;
            }
        }
        Ok(())
    }

    /// Prints a last line that never ended.
    fn finish(&mut self, session: &Session) -> Result<(), Error> {
        if !self.partial.is_empty() {
            self.partial.push(b'\n');
        }
        self.print_lines(session)
    }

    fn print_lines(&mut self, session: &Session) -> Result<(), Error> {
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            session.output.raw(&[self.label.as_bytes(), b": ", &line].concat())?;
        }
        Ok(())
    }
}
