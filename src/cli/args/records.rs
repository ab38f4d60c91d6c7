//! The command line of verbs that carry records.

use std::path::PathBuf;

use clap::{Args, ValueHint};

pub(super) const IMPORT: &str = "Read runs back that `dlrun export --format jsonl` wrote, here or elsewhere

The same file twice changes nothing, and of two versions of a row the newer one stays, whichever comes first. Invalid lines are \
reported and left out (exit code 65), and so are samples; all other rows are imported. Into your own records the files are copied, so that `list --reindex` \
finds them again; runs that have a directory there are left alone. Rows of a run that did not come yet wait for it.";

pub(super) const PRUNE: &str = "Delete the records of runs that are over

Shows what would go; --yes deletes it. The output files stay. A run that is pending or running is never \
deleted, nor one whose end is not known for less than two weeks. What was exported before stays exported.";

#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// Only these runs: the beginning of an id, a name, a job id, or @1 for the latest
    #[arg(value_name = "RUN", conflicts_with_all = ["older_than", "keep"])]
    pub(crate) runs: Vec<String>,
    /// Only runs that ended longer ago than this, such as 30d or 12h, or before a date
    #[arg(long, value_name = "AGE")]
    pub(crate) older_than: Option<String>,
    /// Keep the newest N finished runs
    #[arg(long, value_name = "N")]
    pub(crate) keep: Option<usize>,
    /// Delete; without it nothing is deleted
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// Files of JSON Lines; - is standard input
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Into this database, made where it is missing, instead of your own records
    #[arg(long, value_name = "DB", value_hint = ValueHint::FilePath)]
    pub(crate) store: Option<PathBuf>,
}
