//! `dlrun export`: rows for other programs.

use crate::app::error::Error;
use crate::app::export::export;
use crate::app::session::Session;
use crate::cli::args::Export;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &Export) -> Result<u8, Error> {
    let Some(exported) = export(session, &args.request())? else {
        return Ok(0);
    };
    // The one file that was named needs no word.
    let files = exported.files.iter().filter(|_| args.output.is_none());
    let text: String = files.map(|file| format!("{}\n", file.path)).collect();
    session.answer(&exported, &text)
}
