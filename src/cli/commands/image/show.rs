//! `dlrun image show`: all that is known of an image.

use std::path::PathBuf;

use super::list::{check_text, to_json};
use super::{accelerator_text, named, owner_word};
use crate::app::error::Error;
use crate::app::session::Session;
use crate::app::times::local_time;
use crate::cli::args::ImageShow;
use crate::cli::table::{rendered, table};
use crate::foundation::units::Bytes;
use crate::image::build::log_of;
use crate::image::catalogue::look;
use crate::image::catalogue::{Check, Entry, FileState, Place};

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ImageShow) -> Result<u8, Error> {
    let mut catalogue = session.catalogue()?;
    look(
        catalogue
            .entries
            .iter_mut()
            .filter(|entry| entry.name == args.name),
    );
    let entry = named(&catalogue, &args.name)?;
    let hidden = catalogue
        .overridden
        .iter()
        .find(|hidden| hidden.name == entry.name);
    let log = log(entry);
    let mut value = to_json(entry);
    value["in_the_place_of"] = hidden.map(|hidden| hidden.origin.to_string()).into();
    value["log"] = log.as_ref().map(|log| log.to_string_lossy()).into();
    let mut rows = rows(entry);
    rows.extend(hidden.map(|hidden| ("in place of", format!("the site's, {}", hidden.origin))));
    rows.extend(log.map(|log| ("log", log.display().to_string())));
    let is_told =
        |row: &(&str, String)| row.0 == "its digest" && Some(&row.1) == entry.digest.as_ref();
    rows.extend(
        entry
            .check
            .iter()
            .flat_map(check_rows)
            .filter(|row| !is_told(row)),
    );
    let mut table = table();
    for (name, text) in rows {
        table.add_row([name.to_owned(), text]);
    }
    session.answer(&value, &rendered(table))
}

/// The log of its build or pull, where there is one.
fn log(entry: &Entry) -> Option<PathBuf> {
    match &entry.place {
        Place::Path(path) => Some(log_of(path)).filter(|log| log.is_file()),
        Place::Uri(_) => None,
    }
}

fn rows(entry: &Entry) -> Vec<(&'static str, String)> {
    let place = match &entry.file {
        FileState::Missing(why) => format!("{} (missing: {why})", entry.place),
        FileState::There {
            size_bytes: Some(size),
            ..
        } => format!("{} ({})", entry.place, Bytes(*size)),
        FileState::There {
            size_bytes: None, ..
        } => format!("{} (a sandbox directory)", entry.place),
        FileState::NotLooked => entry.place.to_string(),
    };
    let mut rows = vec![
        ("name", entry.name.clone()),
        ("place", place),
        (
            "framework",
            format!("{} {}", entry.framework, entry.version),
        ),
        ("GPU", accelerator_text(entry)),
        ("architecture", entry.arch.clone()),
    ];
    let more = [
        ("microarch", entry.microarch.clone()),
        (
            "compilers",
            Some(entry.compilers.join(" ")).filter(|text| !text.is_empty()),
        ),
        (
            "packages",
            Some(entry.packages.join(" ")).filter(|text| !text.is_empty()),
        ),
        (
            "compute capability",
            entry.compute_capability.as_ref().map(ToString::to_string),
        ),
        ("python", entry.python.clone()),
        ("mpi", entry.mpi.clone()),
        (
            "from",
            entry
                .provenance
                .map(|provenance| provenance.as_str().to_owned()),
        ),
        ("recipe", entry.recipe.clone()),
        ("built by run", entry.built_by.clone()),
        ("digest", entry.digest.clone()),
        (
            "fakeroot",
            entry
                .needs_fakeroot
                .then(|| "it runs with --fakeroot only".to_owned()),
        ),
        ("whose", Some(owner_word(entry.owner).to_owned())),
        ("described in", Some(entry.origin.to_string())),
        ("checked", Some(check_text(entry))),
    ];
    rows.extend(
        more.into_iter()
            .filter_map(|(name, text)| Some((name, text?))),
    );
    rows
}

/// What a check found.
pub(super) fn check_rows(check: &Check) -> Vec<(&'static str, String)> {
    let versions: Vec<String> = check
        .versions
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let mut rows = vec![(
        "check",
        format!(
            "{} on {}, {}",
            local_time(check.at_ms),
            check.host,
            check.runtime
        ),
    )];
    let more = [
        (
            "found",
            Some(versions.join(", ")).filter(|text| !text.is_empty()),
        ),
        (
            "compiles",
            Some(check.compilers.join(" ")).filter(|text| !text.is_empty()),
        ),
        ("GPUs seen", check.gpus.map(|gpus| gpus.to_string())),
        ("MPI library", check.mpi_abi.clone()),
        ("its digest", check.digest.clone()),
    ];
    rows.extend(
        more.into_iter()
            .filter_map(|(name, text)| Some((name, text?))),
    );
    rows.extend(
        check
            .problems
            .iter()
            .map(|problem| ("problem", problem.clone())),
    );
    rows
}
