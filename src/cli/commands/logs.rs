//! `dlrun logs`: the output of a run, from any directory and shell.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Serialize;

use crate::app::error::{Error, Kind};
use crate::app::follow::Follower;
use crate::app::output_files::{OutputFile, Wanted, outputs};
use crate::app::session::Session;
use crate::app::tail::tail;
use crate::app::track::{Tracked, Tracker};
use crate::cli::args::Logs;
use crate::job::{JobState, RunId};

/// What `--json` holds of one file at most, in bytes; more is cut at the front.
const JSON_BYTES: u64 = 16 << 20;

/// The outputs of a run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Outputs {
    run_id: RunId,
    files: Vec<Output>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Output {
    /// The node's name, or `job`.
    node: String,
    path: String,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    element: Option<u32>,
}

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &Logs) -> Result<u8, Error> {
    if args.follow && session.output.json {
        let message = "`logs --follow` and `--json` exclude each other";
        return Err(Error::new(Kind::Usage, message));
    }
    let mut tracker = Tracker::open(session)?;
    let run_id = tracker.find(&args.run)?;
    let tracked = tracker.look_at(&run_id, false)?;
    let wanted = Wanted {
        node: args.node.as_deref(),
        rank: args.rank,
        elements: args.element.as_ref(),
    };
    if args.follow {
        Follower::new(session, wanted, args.lines, &tracked).run(&mut tracker, tracked)?;
        return Ok(0);
    }
    let mut files = outputs(&tracker.state.run(&run_id)?, &tracked, wanted)?;
    if files.iter().all(|file| !file.path.exists()) {
        return Err(no_output(&tracked, &files));
    }
    if tracked.record.array.is_some() {
        // Elements that never ran have none.
        files.retain(|file| file.path.exists());
    }
    if session.output.json {
        let read = |file: OutputFile| {
            let text = tail(&file.path, args.lines, JSON_BYTES).unwrap_or_default();
            Output {
                node: file.node.unwrap_or_else(|| "job".to_owned()),
                path: file.path.to_string_lossy().into_owned(),
                text: String::from_utf8_lossy(&text).into_owned(),
                element: file.element,
            }
        };
        let files = files.into_iter().map(read).collect();
        return session.answer(&Outputs { run_id, files }, "");
    }
    let has_text = |path: &Path| path.metadata().is_ok_and(|metadata| metadata.len() > 0);
    for file in files.iter().filter(|file| has_text(&file.path)) {
        if files.len() > 1 {
            let head = format!("==> {}: {} <==\n", file.head(), file.path.display());
            session.output.raw(head.as_bytes())?;
        }
        print(session, &file.path, args.lines)?;
    }
    Ok(0)
}

fn no_output(tracked: &Tracked, files: &[OutputFile]) -> Error {
    let state = tracked.status.state;
    let first = files.first().map(|first| first.path.display().to_string());
    let place = first.or_else(|| tracked.record.output.clone());
    let place = place.unwrap_or_else(|| "nowhere yet".to_owned());
    let message = format!("the run has no output (it is {state}; its place is {place})");
    let error = Error::new(Kind::Missing, message);
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
