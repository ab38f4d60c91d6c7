//! `dlrun model fit`: a model of the recorded runs.

use super::quality;
use crate::app::error::Error;
use crate::app::models::fit::{Fitted, fit_model};
use crate::app::session::Session;
use crate::cli::args::ModelFit;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ModelFit) -> Result<u8, Error> {
    let (store, output) = (args.store.as_deref(), args.output.as_deref());
    let fitted = fit_model(session, store, output, args.publish)?;
    session.output.sentences(&fitted, &to_text(&fitted))
}

fn to_text(fitted: &Fitted) -> String {
    let mut text = quality::trained_on(&fitted.model);
    text.push_str(&quality::of_head(&fitted.model));
    let path = &fitted.path;
    text.push_str(&match (&fitted.published, fitted.in_use) {
        (Some(site), _) => format!("published as {site}: all users' plans use it\n"),
        (None, true) => format!("`plan` and `submit` use it from now on: {path}\n"),
        (None, false) => format!("written to {path}; nothing uses it\n"),
    });
    if !fitted.removed.is_empty() {
        text.push_str(&format!(
            "removed for their age: {}\n",
            fitted.removed.join(", ")
        ));
    }
    text
}
