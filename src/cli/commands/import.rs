//! `dlrun import`: rows of JSON Lines become runs again.

use crate::app::error::Error;
use crate::app::import::{FileTaken, ImportRequest, Outcome, import};
use crate::app::session::Session;
use crate::cli::args::Import;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &Import) -> Result<u8, Error> {
    let request = ImportRequest {
        files: args.files.clone(),
        store: args.store.clone(),
        dry_run: args.dry_run,
    };
    let imported = import(session, &request)?;
    let mut text = String::new();
    for FileTaken { file, outcome } in &imported.files {
        if let Outcome::Taken(counts) = outcome {
            text.push_str(&format!("{file}: {}\n", counts.to_text()));
        }
    }
    if args.dry_run {
        text.push_str("nothing was changed\n");
    }
    session.answer(&imported, &text)?;
    Ok(imported.exit_code)
}
