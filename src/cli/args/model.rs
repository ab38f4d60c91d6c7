//! `dlrun model`: its verbs and their arguments.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::JobFile;

#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    #[command(subcommand)]
    pub(crate) verb: ModelVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelVerb {
    /// Learn from the recorded runs how long trainings take
    #[command(long_about = FIT)]
    Fit(ModelFit),
    /// Show what a model has learned, from how many runs, and how good it is
    Show(ModelShow),
    /// Evaluate the model on held-out runs
    #[command(long_about = EVALUATE)]
    Evaluate(ModelEvaluate),
    /// Predict how long a job takes, and how much memory, with how sure that is
    Predict(ModelPredict),
}

const FIT: &str = "Learn from the recorded runs how long trainings take

Reads all runs of your records, or of --store, and keeps the model under models/ of the state directory; `plan` and `submit` use \
it from then on. The last models are kept (setting `model.keep`), and can be shown by their names. How it works: docs/model.md.";

const EVALUATE: &str = "Evaluate the model on held-out runs

Parts of the recorded runs are held back in turn, a model is fitted on the rest, and its predictions are compared with what was \
measured.";

impl ModelVerb {
    /// The scheduler that is asked for.
    pub(crate) fn scheduler(&self) -> Option<&str> {
        match self {
            Self::Predict(args) => args.job.options.scheduler.as_deref(),
            Self::Show(_) | Self::Fit(_) | Self::Evaluate(_) => None,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ModelFit {
    /// Learn from this database, as `dlrun import --store` makes it, instead of your own records
    #[arg(long, value_name = "DB", value_hint = ValueHint::FilePath)]
    pub(crate) store: Option<PathBuf>,
    /// Also write the model for all users, where the setting `model.path` says
    #[arg(long)]
    pub(crate) publish: bool,
    /// Only write the model to this file; it is not activated
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "publish")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ModelShow {
    /// One of your models, or a file; without: the one that plans use
    #[arg(value_name = "NAME|FILE", value_hint = ValueHint::FilePath)]
    pub(crate) model: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ModelEvaluate {
    /// Of the runs of this database instead of your own records
    #[arg(long, value_name = "DB", value_hint = ValueHint::FilePath)]
    pub(crate) store: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ModelPredict {
    #[command(flatten)]
    pub(crate) job: JobFile,
    /// By one of your models, or a file; without: the one that plans use
    #[arg(long, value_name = "NAME|FILE", value_hint = ValueHint::FilePath)]
    pub(crate) model: Option<PathBuf>,
    /// As on this model of CPU, or of GPU for a job with GPUs, with the CPUs that the job asks for; `model show` names those that
    /// were measured
    #[arg(long, value_name = "HARDWARE")]
    pub(crate) hardware: Option<String>,
}
