//! Arguments of `dlrun report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use serde::Serialize;

use crate::report::ScalingTarget;

/// What `dlrun report --help` says beside its options.
pub(super) const ABOUT: &str = "Write a report of a run, or of several side by side

One HTML file with all that it shows in it: CPU, memory, storage, GPUs and epochs on one clock, the environment, what limited the \
run and what to ask for next time; of several runs their times with 95 % intervals, how they scale, and what is unlike between \
them. It has no script and asks nothing of the network, so that it can be mailed, kept and printed. With --scaling it is about \
how trainings gain by more ranks: speed-up and efficiency from 1 rank and from 1 node, as Markdown, HTML, CSV or JSON. \
docs/report.md says how to read it.";

#[derive(Debug, Args)]
pub(crate) struct Report {
    /// Runs: ids or their beginnings, names, job ids; @1 is the latest. Runs are compared with the first one
    #[arg(required_unless_present = "scaling", value_name = "RUN")]
    pub(crate) runs: Vec<String>,
    /// How the runs scale; without RUN, MATRIX and FILE, those of the latest matrix. Printed as Markdown unless --output or
    /// --format say otherwise
    #[arg(long)]
    pub(crate) scaling: bool,
    /// Add the runs of this matrix of `dlrun bench run`
    #[arg(long = "bench", value_name = "MATRIX", requires = "scaling")]
    pub(crate) matrices: Vec<String>,
    /// Add published series out of this file
    #[arg(long, value_name = "FILE", requires = "scaling", value_hint = ValueHint::FilePath)]
    pub(crate) published: Vec<PathBuf>,
    /// Show how long the runs took to reach a metric: METRIC>=VALUE or METRIC<=VALUE
    #[arg(long, value_name = "TARGET", requires = "scaling")]
    pub(crate) target: Option<ScalingTarget>,
    /// Write there, - for standard output; a report that is there is replaced. Without it HTML goes to
    /// dlrun-report-RUN.html, the rest to standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// What to write; without it by the ending of FILE, else html
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<ReportFormat>,
    /// Ask the scheduler's accounting too
    #[arg(long)]
    pub(crate) history: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReportFormat {
    /// One page for a browser
    Html,
    /// All numbers, as --json writes them
    Json,
    /// Text with tables; with --scaling only
    Markdown,
    /// A row for each size of each series; with --scaling only
    Csv,
}
