//! Arguments of `dlrun bench show`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

#[derive(Debug, Args)]
pub(crate) struct BenchShow {
    /// The name of the matrix, or of one state of it with its ending; default: the latest
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Write bench.html and bench.json into this directory too
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output_dir: Option<PathBuf>,
}
