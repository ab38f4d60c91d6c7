//! `dlrun doctor`: what works here and what does not.

use crate::app::error::{Error, Kind};
use crate::app::session::Session;
use crate::cli::doctor::{Level, look, to_json, to_text, worst};

/// Runs the verb.
pub(crate) fn run(session: &Session) -> Result<u8, Error> {
    let examination = look(session);
    session
        .output
        .result("doctor", &to_json(&examination), &to_text(&examination))?;
    Ok(if worst(&examination.findings) == Level::Problem {
        Kind::Config as u8
    } else {
        0
    })
}
