//! `dlrun bench`: its verbs and their arguments.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use crate::foundation::units::Bytes;
use crate::job::SchedulerKind;
use crate::learn::bench::{MOST_JOBS, MOST_REPEATS};

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) verb: BenchVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchVerb {
    /// Measure what this kind of node can do: memory bandwidth and floating-point peak
    #[command(long_about = NODE)]
    Node(BenchNode),
    /// Run a matrix of trainings as jobs, and show what makes a difference
    #[command(long_about = RUN)]
    Run(BenchRun),
    /// Show what a matrix has measured so far
    Show(BenchShow),
}

impl BenchVerb {
    /// The scheduler that was asked for.
    pub(crate) fn scheduler(&self) -> Option<&str> {
        match self {
            Self::Run(args) => args.how.scheduler.as_deref(),
            Self::Node(_) | Self::Show(_) => None,
        }
    }
}

const NODE: &str = "Measure what this kind of node can do: memory bandwidth and floating-point peak

It takes some ten seconds, on all CPUs that this process may use. What was measured is kept in the state directory, once for each \
kind of node; runs on such nodes carry the figures, and the performance model distinguishes nodes by them. Figures of a node that is \
busy, or of which only a part may be used, are shown and not kept, with exit code 75. For other nodes run it as a job, alone on its \
node: docs/node-figures.md.";

#[derive(Debug, Args)]
pub(crate) struct BenchNode {
    /// Memory of the three arrays together; default: each four times as large as the last-level caches
    #[arg(long, value_name = "SIZE", value_parser = arrays)]
    pub(crate) arrays: Option<Bytes>,
    /// Keep the figures although the node is busy, or only a part of it may be used
    #[arg(long)]
    pub(crate) force: bool,
}

/// Smaller ones measure the caches of one core.
fn arrays(text: &str) -> Result<Bytes, String> {
    let bytes = Bytes::parse(text).map_err(|error| error.to_string())?;
    let least = Bytes(1 << 20);
    if bytes < least {
        Err(format!("the arrays are {least} together at least"))
    } else {
        Ok(bytes)
    }
}

const RUN: &str = "Run a matrix of trainings as jobs, and show what makes a difference

The file is a job file with a table [bench]: axes, each with its values. Every combination becomes a job of the scheduler at \
hand, on whole nodes; each repeat runs all of them once, in a new order. What was killed or interrupted continues with the \
same command, and nothing that is done runs again. The end is a table: steady epochs with 95 % intervals over the repeats, and how \
each value of an axis compares with the first. docs/bench.md has the file's keys. Exit code 10: some runs have failed twice.";

#[derive(Debug, Args)]
pub(crate) struct BenchRun {
    #[command(flatten)]
    pub(crate) how: StudyRun,
    /// How often each combination runs, instead of what the file says; raise it later to add repeats
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_REPEATS)))]
    pub(crate) repeats: Option<u32>,
}

/// How a matrix or a sweep runs.
#[derive(Debug, Args)]
pub(crate) struct StudyRun {
    /// A job file with a table [bench], [sweep] or [tune]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Who takes the jobs; auto: the one whose commands are found, else this machine
    #[arg(long, value_name = "KIND", value_parser = SchedulerKind::NAMES)]
    pub(crate) scheduler: Option<String>,
    /// Jobs that are queued or run at a time, instead of what the file says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_JOBS)))]
    pub(crate) max_jobs: Option<u32>,
    /// Check the jobs and list them, and submit none
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Start again; earlier results are kept under another name
    #[arg(long)]
    pub(crate) restart: bool,
    /// Let a small job run it, so that nobody has to stay logged in; nodes must be able to submit jobs. It continues after its own time limit
    #[arg(long, value_name = "WALLTIME", num_args = 0..=1, require_equals = true, default_missing_value = "1d", conflicts_with = "dry_run")]
    pub(crate) detach: Option<String>,
    /// Skip the checks of files and programs, which may be on the nodes only, and of the site
    #[arg(long)]
    pub(crate) no_check: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchShow {
    /// The name of the matrix, or of one state of it with its ending; default: the latest
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
}
