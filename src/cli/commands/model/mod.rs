//! `dlrun model`: what the recorded runs say of runs to come. One file per verb.

pub(crate) mod evaluate;
mod fit;
pub(crate) mod predict;
mod quality;
pub(crate) mod show;

use crate::app::error::Error;
use crate::app::session::Session;
use crate::cli::args::{ModelArgs, ModelVerb};

/// Runs the verb.
pub(crate) fn run(mut session: Session, args: &ModelArgs) -> Result<u8, Error> {
    match &args.verb {
        ModelVerb::Fit(args) => fit::run(&session, args),
        ModelVerb::Show(args) => {
            session.asked_model.clone_from(&args.model);
            show::run(&session)
        }
        ModelVerb::Evaluate(args) => evaluate::run(&session, args),
        ModelVerb::Predict(args) => {
            session.asked_model.clone_from(&args.model);
            session.asked_hardware.clone_from(&args.hardware);
            predict::run(&session, args)
        }
    }
}
