//! `dlrun show`: all that is known of a run.

use crate::cli::args::Show;
use crate::cli::error::{Error, Kind};
use crate::cli::session::Session;
use crate::cli::summary;
use crate::cli::track::Tracker;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &Show) -> Result<u8, Error> {
    let mut tracker = Tracker::open(session)?;
    let run_id = tracker.find(&args.run)?;
    let tracked = tracker.refresh(&[run_id], args.history)?;
    let Some(tracked) = tracked.first() else { return Err(Error::new(Kind::Internal, "the run vanished")) };
    let value = summary::to_json(tracked, &tracker.state);
    session.output.result("show", &value, &summary::to_text(tracked, &tracker.state))?;
    Ok(0)
}
