//! The command line of verbs that carry records.

use std::path::PathBuf;

use clap::{Args, ValueHint};

pub(super) const IMPORT: &str = "Read runs back that `dlrun export --format jsonl` wrote, here or elsewhere

The same file twice changes nothing, and of two versions of a row the newer one stays, whichever comes first. Where a line is \
wrong nothing of its file is taken in (exit code 65). Into your own records the files are copied, so that `list --reindex` \
finds them again; runs that have a directory there are left alone. Rows of a run that did not come yet wait for it.";

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// Files of JSON Lines; - is standard input
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Into this database, made where it is missing, instead of your own records
    #[arg(long, value_name = "DB", value_hint = ValueHint::FilePath)]
    pub(crate) store: Option<PathBuf>,
    /// Pass over lines that are wrong and take in the others; the exit code is 65 all the same
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Tell what would be taken in, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}
