//! `dlrun export` and `dlrun import`: rows for other programs, and runs from such rows.

use crate::app::error::{Error, Kind};
use crate::app::session::Session;
use crate::app::{export, import};
use crate::cli::args::{Export, Import};

/// Writes rows.
pub(crate) fn export(session: &Session, args: &Export) -> Result<u8, Error> {
    let Some(exported) = export::export(session, &args.request())? else {
        return Ok(0);
    };
    // The one file that was named needs no word.
    let files = exported.files.iter().filter(|_| args.output.is_none());
    let text: String = files.map(|file| format!("{}\n", file.path)).collect();
    session.answer(&exported, &text)
}

/// Reads rows.
pub(crate) fn import(session: &Session, args: &Import) -> Result<u8, Error> {
    let imported = import::import(session, &args.files, args.store.as_deref())?;
    let files = imported.files.iter();
    let text: String = files
        .map(|file| format!("{}: {}\n", file.file, file.counts.to_text()))
        .collect();
    session.answer(&imported, &text)?;
    let is_valid = imported.files.iter().all(|file| file.counts.wrong == 0);
    Ok(if is_valid { 0 } else { Kind::Data.code() })
}
