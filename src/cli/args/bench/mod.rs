//! `dlrun bench`: its verbs and their arguments, a file each.

mod node;
mod run;
mod show;

use clap::{Args, Subcommand};

pub(crate) use node::BenchNode;
pub(crate) use run::BenchRun;
pub(crate) use show::BenchShow;

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) verb: BenchVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchVerb {
    /// Measure what this kind of node can do: memory bandwidth, floating-point peak, reading
    #[command(long_about = node::ABOUT)]
    Node(BenchNode),
    /// Run a matrix of trainings as jobs, and tell what makes a difference
    #[command(long_about = run::ABOUT)]
    Run(BenchRun),
    /// Tell what a matrix has measured so far
    Show(BenchShow),
}

impl BenchVerb {
    /// The scheduler that was asked for.
    pub(crate) fn scheduler(&self) -> Option<&str> {
        match self {
            Self::Run(args) => args.scheduler.as_deref(),
            Self::Node(_) | Self::Show(_) => None,
        }
    }
}
