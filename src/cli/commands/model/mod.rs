//! `dlrun model`: what the recorded runs say of runs to come. One file per verb.

pub(crate) mod evaluate;
mod fit;
pub(crate) mod predict;
mod quality;
pub(crate) mod show;

use std::path::Path;

use crate::app::error::Error;
use crate::app::session::Session;
use crate::cli::args::{ModelArgs, ModelVerb};

/// Runs the verb.
pub(crate) fn run(mut session: Session, args: &ModelArgs) -> Result<u8, Error> {
    session.asked_model = args.verb.model().map(Path::to_owned);
    if let ModelVerb::Predict(args) = &args.verb {
        session.asked_hardware.clone_from(&args.hardware);
    }
    let session = &session;
    match &args.verb {
        ModelVerb::Fit(args) => fit::run(session, args),
        ModelVerb::Show(_) => show::run(session),
        ModelVerb::Evaluate(args) => evaluate::run(session, args),
        ModelVerb::Predict(args) => predict::run(session, args),
    }
}
