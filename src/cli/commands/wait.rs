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
        let found = tracker.find_all_going_on(text)?;
        run_ids.extend(
            found
                .into_iter()
                .filter(|run_id| !run_ids.contains(run_id))
                .collect::<Vec<_>>(),
        );
    }
    if args.passthrough && run_ids.len() > 1 {
        return Err(Error::new(
            Kind::Usage,
            format!("{} runs go on; `--passthrough` takes one", run_ids.len()),
        ));
    }
    let mut watched = Vec::new();
    for run_id in run_ids {
        tracker.expect_directory(&run_id)?;
        watched.push(Watched::of_run(&tracker, &run_id)?);
    }
    let limit = args.timeout.map(Duration::from_secs);
    let tracked = until_over(session, &mut tracker, watched, limit)?;
    let shown: Vec<_> = tracked
        .iter()
        .map(|tracked| summary::to_json(tracked, Some(&tracker.records_of(tracked))))
        .collect();
    let text: Vec<String> = tracked
        .iter()
        .map(|tracked| summary::to_text(tracked, Some(&tracker.records_of(tracked))))
        .collect();
    session.answer(&json!({ "runs": shown }), &text.join("\n"))?;
    tracked
        .iter()
        .for_each(|tracked| show_hopeless(session, tracked));
    Ok(match tracked.first() {
        Some(tracked) if args.passthrough => own_code(&tracked.status),
        _ => tracked
            .iter()
            .map(|tracked| code_of_state(tracked.status.state))
            .max()
            .unwrap_or(0),
    })
}
