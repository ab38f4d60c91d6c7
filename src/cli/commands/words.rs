//! `dlrun words`: what a shell may complete, for the scripts of `dlrun completions`. Quick and silent: a scheduler is never asked,
//! and what cannot be read offers nothing.

use crate::cli::args::{WordKind, Words};
use crate::cli::error::Error;
use crate::cli::session::Session;
use crate::cli::site::kept_queues;
use crate::store::{Filter, Store};

/// The newest runs that are offered.
const RUNS: usize = 50;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &Words) -> Result<u8, Error> {
    let words = match args.kind {
        WordKind::Runs => runs(session).unwrap_or_default(),
        WordKind::Queues => kept_queues(session),
        WordKind::Images => session.catalogue().map_or_else(
            |_| Vec::new(),
            |catalogue| catalogue.entries.into_iter().map(|entry| entry.name).collect(),
        ),
    };
    let text: String = words.iter().map(|word| format!("{word}\n")).collect();
    session.output.result("words", &serde_json::json!({ "words": words }), &text)?;
    Ok(0)
}

/// The shortest ids that are clear, then the names.
fn runs(session: &Session) -> Option<Vec<String>> {
    let path = session.existing_state().ok()?.index_path().ok()?;
    let store = Store::open(&path).ok()?;
    let rows = store.list(RUNS, &Filter::default()).ok()?;
    let ids: Vec<_> = rows.iter().map(|row| row.record.run_id.clone()).collect();
    let mut words = store.shortest_prefixes(&ids).ok()?;
    let mut names: Vec<String> = rows.into_iter().map(|row| row.record.name).collect();
    names.sort();
    names.dedup();
    words.append(&mut names);
    Some(words)
}
