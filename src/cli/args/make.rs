//! `dlrun image build` and `dlrun image pull`: their arguments.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::image::{Claims, word};
use crate::foundation::units::{Bytes, Walltime};
use crate::image::catalogue::Accelerator;
use crate::job::Provenance;

const BUILD: &str = "Build an image from its recipe, check it, and add it to the catalogue

The recipe for the target is written as a definition file and built, with --fakeroot where you are not root. While it is built, \
the phases and the last line are shown; the whole log is kept beside the image. What is not said is the recipe's choice.";

#[derive(Debug, Args)]
#[command(long_about = BUILD)]
pub(crate) struct ImageBuild {
    /// tensorflow, pytorch, keras, mxnet or jax
    #[arg(
        value_name = "FRAMEWORK",
        default_value = "",
        hide_default_value = true,
        required_unless_present = "order"
    )]
    pub(crate) framework: String,
    /// What is built, as `--submit` wrote it
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) order: Option<PathBuf>,
    /// Where relative paths of its definition file start
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) from_dir: Option<PathBuf>,
    /// The framework's version
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,
    /// The graph compiler that it must have: xla, inductor, ...
    #[arg(long, value_name = "COMPILER")]
    pub(crate) compiler: Option<String>,
    /// Where to take the framework from
    #[arg(long, value_name = "FROM", value_parser = word(&Provenance::WORDS))]
    pub(crate) provenance: Option<Provenance>,
    /// What the framework is to compute on
    #[arg(long, value_name = "KIND", value_parser = word(&Accelerator::WORDS))]
    pub(crate) gpu: Option<Accelerator>,
    /// A Python package to put in: scikit-learn, 'numpy<2'; may be repeated. With --definition: one that it has
    #[arg(long, value_name = "PACKAGE")]
    pub(crate) with: Vec<String>,
    /// The processor to build for: x86-64-v3, or archspec's name such as skylake_avx512
    #[arg(long, value_name = "NAME")]
    pub(crate) microarch: Option<String>,
    /// The recipe to take: tensorflow-hub, or one of your own; default: the first that serves
    #[arg(long, value_name = "NAME", conflicts_with = "definition")]
    pub(crate) recipe: Option<String>,
    /// The base image: a name of the configuration, a file, a sandbox directory or a URI
    #[arg(long, value_name = "BASE", value_hint = ValueHint::AnyPath)]
    pub(crate) base: Option<String>,
    /// Its name in the catalogue, and of its file; default: of the target
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Build this definition file instead of the recipe's
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "base")]
    pub(crate) definition: Option<PathBuf>,
    /// Build although there is an image of that name, and take its place
    #[arg(long)]
    pub(crate) force: bool,
    /// Print the definition file and end
    #[arg(long, conflicts_with_all = ["force", "site", "submit"])]
    pub(crate) print: bool,
    /// Put it into the site's catalogue, for all users
    #[arg(long)]
    pub(crate) site: bool,
    /// Build as a job of the scheduler
    #[arg(long)]
    pub(crate) submit: bool,
    /// The job's queue
    #[arg(long, value_name = "QUEUE", requires = "submit")]
    pub(crate) queue: Option<String>,
    /// Whom the job is charged to
    #[arg(long, value_name = "ACCOUNT", requires = "submit")]
    pub(crate) account: Option<String>,
    /// How long the job may take; default: 4h
    #[arg(long, value_name = "TIME", requires = "submit", value_parser = Walltime::parse)]
    pub(crate) walltime: Option<Walltime>,
    /// How many processors the job gets
    #[arg(long, value_name = "N", requires = "submit", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) cpus: Option<u32>,
    /// How much memory the job gets: 16GiB
    #[arg(long, value_name = "SIZE", requires = "submit", value_parser = Bytes::parse)]
    pub(crate) memory: Option<Bytes>,
}

#[derive(Debug, Args)]
pub(crate) struct ImagePull {
    /// Where it comes from: docker://.., oras://.., library://.., https://.., docker-archive:FILE, oci:DIR
    #[arg(value_name = "URI")]
    pub(crate) uri: String,
    /// Its name in the catalogue; default: that of its file, which comes from the URI
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) claims: Claims,
    /// Do not run it
    #[arg(long, help_heading = "Options")]
    pub(crate) no_check: bool,
    /// Fetch it although it is there, and take the place of an image of that name
    #[arg(long, help_heading = "Options")]
    pub(crate) force: bool,
    /// Put it into the site's catalogue, for all users
    #[arg(long, help_heading = "Options")]
    pub(crate) site: bool,
}
