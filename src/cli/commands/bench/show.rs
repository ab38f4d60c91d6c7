//! `dlrun bench show`: what a matrix has measured so far.

use super::figures::print;
use crate::app::error::{Error, Kind};
use crate::app::matrix::BenchDir;
use crate::app::session::Session;
use crate::cli::args::BenchShow;
use crate::learn::bench::parse;

/// Runs the verb; returns the exit code.
pub(crate) fn run(session: &Session, args: &BenchShow) -> Result<u8, Error> {
    let (bench, text) = BenchDir::find(session, args.name.as_deref())?;
    let matrix = parse(&text, &bench.header.name).map_err(|problems| {
        let file = bench.path().join("matrix.toml");
        Error::in_file(Kind::Data, &file.to_string_lossy(), &text, problems)
    })?;
    print(session, &matrix, &bench)?;
    Ok(0)
}
