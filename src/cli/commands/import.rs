//! `dlrun import`: rows of JSON Lines become runs again.

use crate::app::error::{Error, Kind};
use crate::app::import::import;
use crate::app::session::Session;
use crate::cli::args::Import;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &Import) -> Result<u8, Error> {
    let imported = import(session, &args.files, args.store.as_deref())?;
    let files = imported.files.iter();
    let text: String = files
        .map(|file| format!("{}: {}\n", file.file, file.counts.to_text()))
        .collect();
    session.answer(&imported, &text)?;
    let is_valid = imported.files.iter().all(|file| file.counts.wrong == 0);
    Ok(if is_valid { 0 } else { Kind::Data.code() })
}
