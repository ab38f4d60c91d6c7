//! `dlrun image`: its verbs and their arguments.

use clap::{Args, Subcommand, ValueHint};

use super::word;
use crate::foundation::units::Walltime;
use crate::image::catalogue::Accelerator;
use crate::job::Provenance;

#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    #[command(subcommand)]
    pub(crate) verb: ImageVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImageVerb {
    /// List the images of the catalogue
    List(ImageList),
    /// Show all that is known of an image
    Show(ImageShow),
    /// Run images and check whether they are as described
    #[command(long_about = CHECK)]
    Check(ImageCheck),
    /// Add an image to the catalogue
    #[command(long_about = ADD)]
    Add(Box<ImageAdd>),
    /// Fetch or convert an image, check it, and add it to the catalogue
    Pull(Box<ImagePull>),
    /// Build an image from its recipe, check it, and add it to the catalogue
    Build(Box<ImageBuild>),
    /// Remove an image from the catalogue, and its file if dlrun made it
    #[command(long_about = REMOVE)]
    Remove(ImageRemove),
}

#[derive(Debug, Args)]
pub(crate) struct ImageList {
    /// Only images of this framework
    #[arg(long, value_name = "FRAMEWORK")]
    pub(crate) framework: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ImageShow {
    /// Its name in the catalogue
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

const REMOVE: &str = "Remove an image from the catalogue, and its file if dlrun made it

The description and its check go, and the file that `image build` or `image pull` made, with what it was made from and its log, \
where it is yours. Other files stay. An image that one of your pending or running jobs uses, or that another description names, \
is not removed without --force. Jobs of other users cannot be seen: exit code 73 where an image is in use, 66 where there is none.";

#[derive(Debug, Args)]
pub(crate) struct ImageRemove {
    /// Its name in the catalogue
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Remove it although it is in use
    #[arg(long)]
    pub(crate) force: bool,
    /// Remove it from the site's catalogue, not from yours
    #[arg(long)]
    pub(crate) site: bool,
}

const CHECK: &str = "Run images and check whether they are as described

A small program in the image looks for Python, imports the framework, compiles something with each graph compiler, asks for GPUs \
where this machine has some, and loads the MPI library. It has no network and nothing of yours: neither home directory nor \
environment. What it finds is kept beside the catalogue, where a plan reads it. Exit code 65: an image is not as described; 66: \
it is missing; 69: it could not be tried here.";

#[derive(Debug, Args)]
pub(crate) struct ImageCheck {
    /// Names in the catalogue; or image files, of which nothing is kept
    #[arg(value_name = "IMAGE", required_unless_present = "all", value_hint = ValueHint::AnyPath)]
    pub(crate) images: Vec<String>,
    /// All images of the catalogue that are files here
    #[arg(long, conflicts_with = "images")]
    pub(crate) all: bool,
    /// Compute the files' SHA-256 too, and compare it with the catalogue
    #[arg(long)]
    pub(crate) digest: bool,
    /// How long an image may take
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = patience)]
    pub(crate) timeout: Walltime,
    /// Keep what was found in the site's catalogue, not in yours
    #[arg(long)]
    pub(crate) site: bool,
}

fn patience(text: &str) -> Result<Walltime, String> {
    let time = Walltime::parse(text).map_err(|error| error.to_string())?;
    if time.0 <= 24 * 3600 {
        Ok(time)
    } else {
        Err("it is at most 24h".to_owned())
    }
}

#[derive(Debug, Args)]
pub(crate) struct ImageAdd {
    /// An image file, a sandbox directory, or a URI that the runtime fetches for each job
    #[arg(value_name = "PATH|URI", value_hint = ValueHint::AnyPath)]
    pub(crate) image: String,
    /// Its name in the catalogue; default: of framework, version, compilers and GPU
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) claims: Claims,
    /// Do not run it
    #[arg(long, help_heading = "Options")]
    pub(crate) no_check: bool,
    /// Take the place of an image of that name, and take one in that is not as described
    #[arg(long, help_heading = "Options")]
    pub(crate) force: bool,
    /// Describe it in the site's catalogue, for all users
    #[arg(long, help_heading = "Options")]
    pub(crate) site: bool,
}

const ADD: &str = "Add an image to the catalogue

What the image is, its labels say where dlrun built it; options say the rest, and win. The image is run once, as by \
`dlrun image check`, and taken in where it is as described. Its SHA-256 is computed. Nothing is copied.";

/// What the options say of an image. What is left out is read from its labels, and found out by running it.
#[derive(Debug, Clone, Args, Default)]
#[command(next_help_heading = "What the image is; default: what its labels and a check say")]
pub(crate) struct Claims {
    /// tensorflow, pytorch, keras, mxnet, jax, ...
    #[arg(long, value_name = "FRAMEWORK")]
    pub(crate) framework: Option<String>,
    /// The framework's version
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,
    /// Where it got the framework from
    #[arg(long, value_name = "FROM", value_parser = word(Provenance::WORDS))]
    pub(crate) provenance: Option<Provenance>,
    /// What the framework computes on
    #[arg(long, value_name = "KIND", value_parser = word(Accelerator::WORDS))]
    pub(crate) gpu: Option<Accelerator>,
    /// A graph compiler that it has: xla, inductor, ...; may be given more than once
    #[arg(long = "compiler", value_name = "COMPILER", value_delimiter = ',')]
    pub(crate) compilers: Vec<String>,
    /// A Python package that it has beside the framework: scikit-learn; may be given more than once
    #[arg(long, value_name = "PACKAGE")]
    pub(crate) with: Vec<String>,
    /// It runs with --fakeroot only
    #[arg(long)]
    pub(crate) needs_fakeroot: bool,
}

const BUILD: &str = "Build an image from its recipe, check it, and add it to the catalogue

The recipe for the target is written as a definition file and built, with --fakeroot where you are not root. While it is built, \
the phases and the last line are shown; the whole log is kept beside the image. The rest is the recipe's choice.";

#[derive(Debug, Args)]
#[command(long_about = BUILD)]
pub(crate) struct ImageBuild {
    /// tensorflow, pytorch, keras, mxnet or jax
    #[arg(value_name = "FRAMEWORK")]
    pub(crate) framework: String,
    /// The framework's version
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,
    /// The graph compiler that it must have: xla, inductor, ...
    #[arg(long, value_name = "COMPILER")]
    pub(crate) compiler: Option<String>,
    /// Where to take the framework from
    #[arg(long, value_name = "FROM", value_parser = word(Provenance::WORDS))]
    pub(crate) provenance: Option<Provenance>,
    /// What the framework is to compute on
    #[arg(long, value_name = "KIND", value_parser = word(Accelerator::WORDS))]
    pub(crate) gpu: Option<Accelerator>,
    /// A Python package to put in: scikit-learn, 'numpy<2'; may be repeated
    #[arg(long, value_name = "PACKAGE")]
    pub(crate) with: Vec<String>,
    /// The processor to build for: x86-64-v3, or archspec's name such as skylake_avx512
    #[arg(long, value_name = "NAME")]
    pub(crate) microarch: Option<String>,
    /// The recipe to take: tensorflow-hub, or one of your own; default: the first that serves
    #[arg(long, value_name = "NAME")]
    pub(crate) recipe: Option<String>,
    /// Its name in the catalogue, and of its file; default: of the target
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Build although there is an image of that name, and take its place
    #[arg(long)]
    pub(crate) force: bool,
    /// Print the definition file and end
    #[arg(long, conflicts_with_all = ["force", "site"])]
    pub(crate) print: bool,
    /// Put it into the site's catalogue, for all users
    #[arg(long)]
    pub(crate) site: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ImagePull {
    /// Where it comes from: docker://.., oras://.., library://.., https://..
    #[arg(value_name = "URI")]
    pub(crate) uri: String,
    /// Its name in the catalogue; default: that of its file, which comes from the URI
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) claims: Claims,
    /// The digest that it must have
    #[arg(long, value_name = "sha256:HEX", help_heading = "Options")]
    pub(crate) digest: Option<String>,
    /// Fetch it although it is there, and take the place of an image of that name
    #[arg(long, help_heading = "Options")]
    pub(crate) force: bool,
    /// Put it into the site's catalogue, for all users
    #[arg(long, help_heading = "Options")]
    pub(crate) site: bool,
}
