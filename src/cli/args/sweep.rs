//! `dlrun sweep`: its verbs and their arguments.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use crate::job::SchedulerKind;
use crate::learn::bench::MOST_JOBS;
use crate::learn::sweep::MOST_TRIALS;

#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    #[command(subcommand)]
    pub(crate) verb: SweepVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SweepVerb {
    /// Run trials of a training with different parameters, and look for the best
    #[command(long_about = RUN)]
    Run(SweepRun),
    /// Show the trials of a sweep, best first
    Show(SweepShow),
}

impl SweepVerb {
    /// The scheduler that was asked for.
    pub(crate) fn scheduler(&self) -> Option<&str> {
        match self {
            Self::Run(args) => args.scheduler.as_deref(),
            Self::Show(_) => None,
        }
    }
}

const RUN: &str = "Run trials of a training with different parameters, and look for the best

The file is a job file with a table [sweep]: the metric, the parameters with their ranges, and how many trials there are. Each trial \
is a job of the scheduler at hand; `sweep.stop` ends those early that are worse than others at the same epoch. What was killed or \
interrupted continues with the same command, and no trial runs twice. docs/sweep.md has the file's keys. Exit code 10: no trial came \
to a value.";

#[derive(Debug, Args)]
pub(crate) struct SweepRun {
    /// The sweep: a job file with a table [sweep]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Who takes the jobs; auto: the one whose commands are found, else this machine
    #[arg(long, value_name = "KIND", value_parser = SchedulerKind::NAMES)]
    pub(crate) scheduler: Option<String>,
    /// Trials in all, instead of what the file says; raise it later to add trials
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_TRIALS)))]
    pub(crate) trials: Option<u32>,
    /// Jobs that are queued or run at a time, instead of what the file says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_JOBS)))]
    pub(crate) max_jobs: Option<u32>,
    /// Check and list the first trials, and submit none
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Start again; the trials before are set aside
    #[arg(long)]
    pub(crate) restart: bool,
    /// Skip the checks of files and programs, which may be on the nodes only, and of the site
    #[arg(long)]
    pub(crate) no_check: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SweepShow {
    /// The name of the sweep; default: the latest
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Print all trials as CSV
    #[arg(long, conflicts_with = "best")]
    pub(crate) csv: bool,
    /// Also write a page with drawings: the best so far, and the metric over each parameter
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["csv", "best"])]
    pub(crate) html: Option<PathBuf>,
    /// Print the job file of the best trial
    #[arg(long)]
    pub(crate) best: bool,
}
