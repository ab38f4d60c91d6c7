//! `dlrun doctor`: what works here and what does not.

use crate::cli::doctor::{Level, look, to_json, to_text, worst};
use crate::cli::error::{Error, Kind};
use crate::cli::session::Session;

/// Runs the verb.
pub(crate) fn run(session: &Session) -> Result<u8, Error> {
    let findings = look(session);
    session.output.result("doctor", &to_json(&findings), &to_text(&findings))?;
    Ok(if worst(&findings) == Level::Problem { Kind::Config as u8 } else { 0 })
}
