//! `dlrun bench`: measurements that are asked for. One file per verb.

pub(crate) mod figures;
pub(crate) mod node;
pub(crate) mod run;
pub(crate) mod show;

use crate::app::error::Error;
use crate::app::session::Session;
use crate::cli::args::{BenchArgs, BenchVerb};

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &BenchArgs) -> Result<u8, Error> {
    match &args.verb {
        BenchVerb::Node(args) => node::run(session, args),
        BenchVerb::Run(args) => run::run(session, args),
        BenchVerb::Show(args) => show::run(session, args),
    }
}
