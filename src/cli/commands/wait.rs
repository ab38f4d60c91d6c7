//! `dlrun wait`: until runs have ended.

use std::time::Duration;

use crate::app::error::{Error, Kind};
use crate::app::exit_of_run::{code_of_state, own_code};
use crate::app::session::Session;
use crate::app::track::Tracker;
use crate::app::wait::{Watched, show_hopeless, until_over};
use crate::cli::args::Wait;
use crate::cli::summary::{self, Runs};
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
    let records: Vec<_> = tracked
        .iter()
        .map(|one| tracker.records_of(&one.record.run_id))
        .collect();
    let with_records = || tracked.iter().zip(&records);
    let texts: Vec<String> = with_records()
        .map(|(tracked, records)| summary::to_text(tracked, Some(records)))
        .collect();
    let runs = with_records()
        .map(|(tracked, records)| summary::run_answer(tracked, Some(records)))
        .collect();
    session.answer(&Runs { runs }, &texts.join("\n"))?;
    for tracked in &tracked {
        show_hopeless(session, tracked);
    }
    let codes = tracked.iter().map(|one| code_of_state(one.status.state));
    Ok(match tracked.first() {
        Some(tracked) if args.passthrough => own_code(&tracked.status),
        _ => codes.max().unwrap_or(0),
    })
}
