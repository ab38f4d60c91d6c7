//! `dlrun sweep`. One file per verb.

pub(crate) mod planned;
pub(crate) mod run;
pub(crate) mod show;
mod tuned;

use crate::app::error::Error;
use crate::app::session::Session;
use crate::cli::args::{SweepArgs, SweepVerb};

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &SweepArgs) -> Result<u8, Error> {
    match &args.verb {
        SweepVerb::Run(args) => run::run(session, args),
        SweepVerb::Show(args) => show::run(session, args),
    }
}
