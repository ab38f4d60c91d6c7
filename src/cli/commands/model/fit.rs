//! `dlrun model fit`: a model of the recorded runs.

use super::quality;
use crate::app::error::Error;
use crate::app::models::fit::{FitRequest, Fitted, fit_model};
use crate::app::session::Session;
use crate::cli::args::ModelFit;
use crate::foundation::diagnostic::printable;
use crate::learn::model::FEWEST;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ModelFit) -> Result<u8, Error> {
    let request = FitRequest {
        store: args.store.as_deref(),
        output: args.output.as_deref(),
        force: args.force,
        publish: args.publish,
    };
    let fitted = fit_model(session, &request)?;
    session
        .output
        .sentences(&fitted, &printable(&to_text(&fitted)))
}

fn to_text(fitted: &Fitted) -> String {
    let name = &fitted.model.name;
    let mut text = quality::trained_on(&fitted.model);
    text.push_str(&quality::evaluation(&fitted.model));
    match (&fitted.compared, &fitted.before) {
        (Some(compared), _) => text.push_str(&quality::compared(compared, fitted.in_use)),
        (None, Some(before)) => text.push_str(&format!(
            "fewer than {FEWEST} runs came after those of {before}, the model before: it is not known yet which is better\n"
        )),
        (None, None) => {}
    }
    let path = &fitted.path;
    text.push_str(&match (&fitted.published, fitted.in_use, &fitted.before) {
        (Some(site), ..) => format!("published as {site}: all users' plans go by it\n"),
        (None, true, _) => format!("`plan` and `submit` go by it from now on: {path}\n"),
        (None, false, Some(before)) => format!(
            "{before} stays in use; this one is kept as {path}\n\
             `dlrun model show {name}` tells of it, `dlrun model fit --force` takes it into use\n"
        ),
        (None, false, None) => format!("written to {path}; nothing goes by it\n"),
    });
    if !fitted.removed.is_empty() {
        text.push_str(&format!(
            "removed for their age: {}\n",
            fitted.removed.join(", ")
        ));
    }
    text
}
