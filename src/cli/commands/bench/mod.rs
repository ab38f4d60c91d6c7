//! `dlrun bench`: measurements that are asked for. One file per verb.

mod node;
mod node_jobs;
mod run;
mod show;

use crate::cli::args::{BenchArgs, BenchVerb};
use crate::cli::error::Error;
use crate::cli::session::Session;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &BenchArgs) -> Result<u8, Error> {
    match &args.verb {
        BenchVerb::Node(args) => node::run(session, args),
        BenchVerb::Run(args) => run::run(session, args),
        BenchVerb::Show(args) => show::run(session, args),
    }
}
