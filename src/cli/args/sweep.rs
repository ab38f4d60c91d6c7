//! `dlrun sweep`: its verbs and their arguments.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::StudyRun;
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
            Self::Run(args) => args.how.scheduler.as_deref(),
            Self::Show(_) => None,
        }
    }
}

const RUN: &str = "Run trials of a training with different parameters, and look for the best

The file is a job file with a table [sweep]: the metric, the parameters with their ranges, and how many trials there are. Each trial \
is a job of the scheduler at hand; `sweep.stop` ends those early that are worse than others at the same epoch. What was killed or \
interrupted continues with the same command, and no finished trial runs again. docs/sweep.md has the file's keys. Exit code 10: no trial \
has a value.";

#[derive(Debug, Args)]
pub(crate) struct SweepRun {
    #[command(flatten)]
    pub(crate) how: StudyRun,
    /// Trials in all, instead of what the file says; raise it later to add trials
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_TRIALS)))]
    pub(crate) trials: Option<u32>,
    /// Run so many trials at a time side by side within one job, each on its own CPUs and GPUs: with --detach within a job that this
    /// submits, else within the job in which the command runs
    #[arg(long, value_name = "N", conflicts_with = "max_jobs", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_JOBS)))]
    pub(crate) pack: Option<u32>,
}

pub(super) const TUNE: &str = "Find the settings with which a training is fastest

Trials of a job file differ in what changes the speed and not the result: threads, variables, CPUs, the compiler. The first trial has \
your own settings; a trial ends after a few epochs. At last the best trial and your settings run again in turn, and the speed-up is \
shown with its 95 % interval and the lines for the job file. A table [tune] says what is searched; without it the numbers of threads \
and of loader workers are, and compilers if the file names one. What was killed or interrupted continues with the same command. `dlrun sweep show` shows the trials again. docs/tune.md has the \
file's keys. Exit code 10: no trial has a value.";

#[derive(Debug, Args)]
pub(crate) struct Tune {
    #[command(flatten)]
    pub(crate) how: StudyRun,
}

#[derive(Debug, Args)]
pub(crate) struct SweepShow {
    /// The name of the sweep or tuning; default: the latest
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Print all trials as CSV
    #[arg(long, conflicts_with = "best")]
    pub(crate) csv: bool,
    /// Also write a page with drawings: the best so far, and the metric over each parameter
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["csv", "best"])]
    pub(crate) html: Option<PathBuf>,
    /// Print the job file of the best trial; of a tuning only where it is known to be faster
    #[arg(long)]
    pub(crate) best: bool,
}
