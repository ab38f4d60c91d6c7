//! `dlrun bench`: measurements that are asked for. One file per verb.

pub(crate) mod figures;
pub(crate) mod node;
pub(crate) mod run;

use crate::app::error::{Error, Kind};
use crate::app::session::Session;
use crate::app::study::BenchDir;
use crate::cli::args::{BenchArgs, BenchShow, BenchVerb};
use crate::learn::bench::parse;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &BenchArgs) -> Result<u8, Error> {
    match &args.verb {
        BenchVerb::Node(args) => node::run(session, args),
        BenchVerb::Run(args) => run::run(session, args),
        BenchVerb::Show(args) => show(session, args),
    }
}

/// What a matrix has measured so far.
fn show(session: &Session, args: &BenchShow) -> Result<u8, Error> {
    let (bench, text) = BenchDir::find(session, args.name.as_deref())?;
    let matrix = parse(&text, &bench.header.name).map_err(|problems| {
        let file = bench.path().join("matrix.toml");
        Error::in_file(Kind::Data, &file.to_string_lossy(), &text, problems)
    })?;
    figures::print(session, &matrix, &bench).map(|_| 0)
}
