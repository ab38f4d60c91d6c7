//! `dlrun image`: the images that jobs run in. One file per verb.

mod add;
mod build;
mod build_job;
mod check;
mod list;
mod pull;
mod remove;
mod show;

use crate::app::error::{Error, Kind};
use crate::app::session::Session;
use crate::cli::args::{ImageArgs, ImageVerb};
use crate::config::Owner;
use crate::image::catalogue::{Accelerator, Catalogue, Entry};

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ImageArgs) -> Result<u8, Error> {
    match &args.verb {
        ImageVerb::List(args) => list::run(session, args),
        ImageVerb::Show(args) => show::run(session, args),
        ImageVerb::Check(args) => check::run(session, args),
        ImageVerb::Add(args) => add::run(session, args),
        ImageVerb::Pull(args) => pull::run(session, args),
        ImageVerb::Build(args) => build::run(session, args),
        ImageVerb::Remove(args) => remove::run(session, args),
    }
}

/// The image of a name.
fn named<'a>(catalogue: &'a Catalogue, name: &str) -> Result<&'a Entry, Error> {
    catalogue.get(name).ok_or_else(|| {
        let error = Error::new(
            Kind::Missing,
            format!("there is no image {name:?} in the catalogue"),
        );
        match catalogue.nearest(name) {
            Some(nearest) => error.hinted(format!("did you mean `{nearest}`?")),
            None => error.hinted("`dlrun image list` lists them"),
        }
    })
}

/// Whose it is, in a word.
fn owner_word(owner: Owner) -> &'static str {
    match owner {
        Owner::Site => "site",
        Owner::User => "user",
    }
}

/// `nvidia 12.4`, `none`.
fn accelerator_text(entry: &Entry) -> String {
    let version = match entry.accelerator {
        Accelerator::None => None,
        Accelerator::Nvidia => entry.cuda.as_ref(),
        Accelerator::Amd => entry.rocm.as_ref(),
    };
    let word = entry.accelerator.as_str();
    version.map_or_else(|| word.to_owned(), |version| format!("{word} {version}"))
}
