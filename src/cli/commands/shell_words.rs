//! `dlrun words`: what a shell may complete, for the scripts of `dlrun completions`. Quick and silent: a scheduler is never asked,
//! and what cannot be read offers nothing.

use serde::Serialize;

use crate::app::error::Error;
use crate::app::runs::run_completions;
use crate::app::session::Session;
use crate::cli::args::{WordKind, Words};
use crate::job::schema::keys;

/// The newest runs that are offered.
const RUNS: usize = 50;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Completable {
    words: Vec<String>,
}

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &Words) -> Result<u8, Error> {
    let names = || {
        let catalogue = Session::quiet_catalogue().unwrap_or_default();
        catalogue.entries.into_iter().map(|entry| entry.name)
    };
    let mut words = match args.kind {
        WordKind::Runs => run_completions(session, RUNS).unwrap_or_default(),
        WordKind::Images => names().collect(),
        WordKind::Keys => keys().iter().map(|key| format!("{key}=")).collect(),
    };
    words.retain(|word| is_harmless(word));
    let text: String = words.iter().map(|word| format!("{word}\n")).collect();
    session.answer(&Completable { words }, &text)
}

/// Says whether no shell reads anything into a word: names of imported runs and images are written by others.
fn is_harmless(word: &str) -> bool {
    !word.is_empty()
        && word
            .chars()
            .all(|c| c.is_alphanumeric() || "._+@/:-=".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_a_shell_could_read_are_left_out() {
        assert!(
            ["train-7b_v1.2", "0k3f", "pytorch@2.1+cu118", "site/a:b"]
                .iter()
                .all(|word| is_harmless(word))
        );
        assert!(
            ![
                "",
                "$(touch x)",
                "`id`",
                "a b",
                "~root",
                "a;b",
                "*",
                "a\\b",
                "'"
            ]
            .iter()
            .any(|word| is_harmless(word))
        );
    }
}
