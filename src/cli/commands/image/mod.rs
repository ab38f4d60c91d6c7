//! `dlrun image`: the images that jobs run in. One file per verb.

mod add;
pub(crate) mod build;
pub(crate) mod check;
mod list;
mod pull;
pub(crate) mod remove;
mod show;

use crate::app::error::{Error, failure};
use crate::app::session::Session;
use crate::cli::args::{Claims, ImageArgs, ImageVerb};
use crate::config::Owner;
use crate::image::catalogue::{Accelerator, Catalogue, Entry, Place};

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
        let error = failure!(Missing, "there is no image {name:?} in the catalogue");
        match catalogue.nearest(name) {
            Some(nearest) => error.hinted(format!("did you mean `{nearest}`?")),
            None => error.hinted("`dlrun image list` lists them"),
        }
    })
}

/// Whose catalogue is meant.
fn owner(site: bool) -> Owner {
    if site { Owner::Site } else { Owner::User }
}

/// An image as the options describe it.
fn described(claims: &Claims, name: &str, place: Place, owner: Owner) -> Entry {
    let lower = |name: &String| name.to_lowercase();
    Entry {
        name: name.to_owned(),
        place,
        framework: claims.framework.as_ref().map(lower).unwrap_or_default(),
        version: claims.version.clone().unwrap_or_default(),
        provenance: claims.provenance,
        accelerator: claims.gpu.unwrap_or_default(),
        compilers: claims.compilers.clone(),
        packages: claims.with.clone(),
        needs_fakeroot: claims.needs_fakeroot,
        owner,
        ..Entry::default()
    }
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
