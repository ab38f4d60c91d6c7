//! `dlrun image show`: all that is known of an image.

use std::path::PathBuf;

use super::list::{check_text, to_json};
use super::{accelerator_text, named, owner_word};
use crate::app::error::Error;
use crate::app::session::Session;
use crate::app::times::local_time;
use crate::cli::args::ImageShow;
use crate::cli::table::Rows;
use crate::foundation::units::Bytes;
use crate::image::build::log_of;
use crate::image::catalogue::look_at_files;
use crate::image::catalogue::{Check, Entry, FileState, Place};

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ImageShow) -> Result<u8, Error> {
    let mut catalogue = session.catalogue()?;
    let wanted = |entry: &&mut Entry| entry.name == args.name;
    look_at_files(catalogue.entries.iter_mut().filter(wanted));
    let entry = named(&catalogue, &args.name)?;
    let mut hidden = catalogue.overridden.iter();
    let hidden = hidden.find(|hidden| hidden.name == entry.name);
    let log = log(entry);
    let mut value = to_json(entry);
    value["in_the_place_of"] = hidden.map(|hidden| hidden.origin.to_string()).into();
    value["log"] = log.as_ref().map(|log| log.to_string_lossy()).into();
    let mut rows = rows(entry);
    let origin = hidden.map(|hidden| format!("the site's, {}", hidden.origin));
    rows.add_known("in place of", origin);
    rows.add_known("log", log.map(|log| log.display().to_string()));
    if let Some(check) = &entry.check {
        let is_new = check.digest != entry.digest;
        add_check(check, &mut rows, is_new);
    }
    session.answer(&value, &rows.into_text())
}

/// The log of its build or pull, where there is one.
fn log(entry: &Entry) -> Option<PathBuf> {
    match &entry.place {
        Place::Path(path) => Some(log_of(path)).filter(|log| log.is_file()),
        Place::Uri(_) => None,
    }
}

fn rows(entry: &Entry) -> Rows {
    let file = match &entry.file {
        FileState::Missing(why) => format!(" (missing: {why})"),
        FileState::There {
            size_bytes: Some(size),
            ..
        } => format!(" ({})", Bytes(*size)),
        FileState::There { .. } => " (a sandbox directory)".to_owned(),
        FileState::NotLooked => String::new(),
    };
    let capability = entry.compute_capability.as_ref();
    let provenance = entry.provenance.map(|provenance| provenance.as_str());
    let fakeroot = entry
        .needs_fakeroot
        .then_some("it runs with --fakeroot only");
    let framework = format!("{} {}", entry.framework, entry.version);
    let mut rows = Rows::default();
    rows.add("name", entry.name.as_str());
    rows.add("place", format!("{}{file}", entry.place));
    rows.add("framework", framework);
    rows.add("GPU", accelerator_text(entry));
    rows.add("architecture", entry.arch.as_str());
    rows.add_known("microarch", entry.microarch.as_deref());
    rows.add_list("compilers", &entry.compilers, " ");
    rows.add_list("packages", &entry.packages, " ");
    rows.add_known("compute capability", capability.map(ToString::to_string));
    rows.add_known("python", entry.python.as_deref());
    rows.add_known("mpi", entry.mpi.as_deref());
    rows.add_known("from", provenance);
    rows.add_known("recipe", entry.recipe.as_deref());
    rows.add_known("built by run", entry.built_by.as_deref());
    rows.add_known("digest", entry.digest.as_deref());
    rows.add_known("fakeroot", fakeroot);
    rows.add("whose", owner_word(entry.owner));
    rows.add("described in", entry.origin.to_string());
    rows.add("checked", check_text(entry));
    rows
}

/// What a check found; its digest where `with_digest`.
pub(super) fn add_check(check: &Check, rows: &mut Rows, with_digest: bool) {
    let (at, host, runtime) = (local_time(check.at_ms), &check.host, &check.runtime);
    let versions = check.versions.iter();
    let versions = versions.map(|(name, version)| format!("{name} {version}"));
    let digest = check.digest.as_deref().filter(|_| with_digest);
    rows.add("check", format!("{at} on {host}, {runtime}"));
    rows.add_list("found", &versions.collect::<Vec<_>>(), ", ");
    rows.add_list("compiles", &check.compilers, " ");
    rows.add_known("GPUs seen", check.gpus.map(|gpus| gpus.to_string()));
    rows.add_known("MPI library", check.mpi_abi.as_deref());
    rows.add_known("its digest", digest);
    for problem in &check.problems {
        rows.add("problem", problem.as_str());
    }
}
