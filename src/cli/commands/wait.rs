//! `dlrun wait`: until runs have ended.

use std::time::Duration;

use serde_json::json;

use crate::app::error::{Error, Kind};
use crate::app::exit_code::{code_of_state, own_code};
use crate::app::session::Session;
use crate::app::track::Tracker;
use crate::app::wait::{Watched, show_hopeless, until_over};
use crate::cli::args::Wait;
use crate::cli::summary;
use crate::job::RunId;

/// Runs the verb; returns the exit code.
pub(crate) fn run(session: &Session, args: &Wait) -> Result<u8, Error> {
    if args.passthrough && args.runs.len() > 1 {
        return Err(Error::new(Kind::Usage, "`--passthrough` takes one run"));
    }
    let mut tracker = Tracker::open(session)?;
    let mut run_ids: Vec<RunId> = Vec::new();
    for text in &args.runs {
        for run_id in tracker.find_all_going_on(text)? {
            if !run_ids.contains(&run_id) {
                run_ids.push(run_id);
            }
        }
    }
    if args.passthrough && run_ids.len() > 1 {
        let message = format!("{} runs match; `--passthrough` takes one", run_ids.len());
        return Err(Error::new(Kind::Usage, message));
    }
    let mut watched = Vec::new();
    for run_id in run_ids {
        tracker.expect_directory(&run_id)?;
        watched.push(Watched::of_run(&tracker, &run_id)?);
    }
    let limit = args.timeout.map(Duration::from_secs);
    let tracked = until_over(session, &mut tracker, watched, limit)?;
    let (mut runs, mut texts) = (Vec::new(), Vec::new());
    for tracked in &tracked {
        let records = tracker.records_of(tracked);
        runs.push(summary::to_json(tracked, Some(&records)));
        texts.push(summary::to_text(tracked, Some(&records)));
    }
    session.answer(&json!({ "runs": runs }), &texts.join("\n"))?;
    for tracked in &tracked {
        show_hopeless(session, tracked);
    }
    let codes = tracked.iter().map(|one| code_of_state(one.status.state));
    Ok(match tracked.first() {
        Some(tracked) if args.passthrough => own_code(&tracked.status),
        _ => codes.max().unwrap_or(0),
    })
}
