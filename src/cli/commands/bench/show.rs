//! `dlrun bench show`: what a matrix has measured so far.

use super::figures::{may_write_into, print};
use crate::app::error::{Error, Kind};
use crate::app::matrix::BenchDir;
use crate::app::session::Session;
use crate::cli::args::BenchShow;
use crate::learn::bench::parse;

/// Runs the verb; returns the exit code.
pub(crate) fn run(session: &Session, args: &BenchShow) -> Result<u8, Error> {
    if let Some(dir) = &args.output_dir {
        may_write_into(dir)?;
    }
    let (bench, text) = BenchDir::find(session, args.name.as_deref())?;
    let matrix = parse(&text, &bench.header.name).map_err(|problems| {
        let file = bench.path().join("matrix.toml");
        Error::in_file(Kind::Data, &file.to_string_lossy(), &text, problems)
    })?;
    let printed = print(session, &matrix, &bench, args.output_dir.as_deref())?;
    Ok(printed.unwritten.map_or(0, Kind::code))
}
