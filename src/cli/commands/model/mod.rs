//! `dlrun model`: what the recorded runs say of runs to come. One file per verb.

mod evaluate;
mod fit;
mod predict;
mod show;
mod source;
mod words;

use std::path::Path;

use crate::app::error::{Error, Kind};
use crate::app::job::source::{open, read_text};
use crate::app::session::Session;
use crate::cli::args::{ModelArgs, ModelVerb};
use crate::learn::model::Priors;

/// Runs the verb.
pub(crate) fn run(mut session: Session, args: &ModelArgs) -> Result<u8, Error> {
    session.asked_model = args.verb.model().map(Path::to_owned);
    if let ModelVerb::Predict(args) = &args.verb {
        session.asked_hardware.clone_from(&args.hardware);
    }
    let session = &session;
    match &args.verb {
        ModelVerb::Fit(args) => fit::run(session, args),
        ModelVerb::Show(args) => show::run(session, args),
        ModelVerb::Evaluate(args) => evaluate::run(session, args),
        ModelVerb::Predict(args) => predict::run(session, args),
    }
}

/// The published effects that a fit begins with.
fn priors(session: &Session) -> Result<Priors, Error> {
    let Some(path) = session.settings.priors() else {
        return Ok(Priors::built_in());
    };
    let shown = path.display().to_string();
    let unreadable = |error: std::io::Error| {
        Error::new(Kind::Config, format!("cannot read `{shown}`: {error}"))
            .hinted("the setting `model.priors` names it; without it dlrun's own are taken")
    };
    let file = open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(unreadable(std::io::ErrorKind::InvalidInput.into()));
    }
    let text = read_text(file, &shown)?;
    Priors::parse(&text).map_err(|problems| Error::in_file(Kind::Config, &shown, &text, problems))
}
