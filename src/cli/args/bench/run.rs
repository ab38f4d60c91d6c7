//! Arguments of `dlrun bench run`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::job::SchedulerKind;
use crate::learn::bench::{MOST_JOBS, MOST_REPEATS};

/// What `dlrun bench run --help` says beside its options.
pub(super) const ABOUT: &str = "Run a matrix of trainings as jobs, and tell what makes a difference

The file is a job file with a table [bench]: axes, each with its values. Every combination becomes a job of the scheduler at \
hand, on whole nodes; each repeat runs all of them once, in an order of its own. What was killed or interrupted goes on with the \
same command, and nothing that is done runs again. The end is a table: steady epochs with 95 % intervals over the repeats, and how \
each value of an axis stands to the first. docs/bench.md has the file's keys. Exit code 10: some runs have failed twice.";

#[derive(Debug, Args)]
pub(crate) struct BenchRun {
    /// The matrix: a job file with a table [bench]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Who takes the jobs; auto: the one whose commands are found, else this machine
    #[arg(long, value_name = "KIND", value_parser = SchedulerKind::NAMES)]
    pub(crate) scheduler: Option<String>,
    /// How often each combination runs, instead of what the file says; more of them go on where fewer ended
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_REPEATS)))]
    pub(crate) repeats: Option<u32>,
    /// Jobs that are queued or run at a time, instead of what the file says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_JOBS)))]
    pub(crate) max_jobs: Option<u32>,
    /// Run only the cells that have this value of this axis, or one of several with commas between; the others can follow
    #[arg(long, value_name = "AXIS=VALUE")]
    pub(crate) only: Vec<String>,
    /// Check every job of the matrix, tell them, and submit none
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Write bench.html and bench.json into this directory too
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output_dir: Option<PathBuf>,
    /// Go on with what was begun; an error where nothing was
    #[arg(long, conflicts_with = "restart")]
    pub(crate) resume: bool,
    /// Begin anew; what was measured before is set aside
    #[arg(long)]
    pub(crate) restart: bool,
    /// Skip the checks of files and programs, which may be on the nodes only, and of the site
    #[arg(long)]
    pub(crate) no_check: bool,
}
