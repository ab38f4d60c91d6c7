//! `dlrun image check`: runs images, and says whether they are as they are described.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::show::add_check;
use super::{named, owner};
use crate::app::error::{Error, ErrorAnswer, Kind};
use crate::app::images::check::Bench;
use crate::app::images::shelves::keep_check;
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::cli::args::ImageCheck;
use crate::cli::table::Rows;
use crate::image::catalogue::look_at_files;
use crate::image::catalogue::{Catalogue, Entry, FileState, Place};
use crate::image::check::Findings;

/// What a word of the command line names: one with a slash is a file or a URI; another is a name, or else a file that lies
/// here. Of a file that is not described nothing is said.
fn named_or_file(catalogue: &Catalogue, word: &str) -> Result<Entry, Error> {
    let is_file = word.contains('/') || (catalogue.get(word).is_none() && Path::new(word).exists());
    if !is_file {
        return named(catalogue, word).cloned();
    }
    let place = place_of(word)?;
    Ok(Entry {
        name: place.to_string(),
        place,
        ..Entry::default()
    })
}

/// What was found out about images.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CheckedImages {
    images: Vec<CheckedImage>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CheckedImage {
    image: String,
    ok: bool,
    #[serde(flatten)]
    findings: Option<KeptFindings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorAnswer>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct KeptFindings {
    #[serde(flatten)]
    found: Findings,
    kept_in: Option<PathBuf>,
}

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ImageCheck) -> Result<u8, Error> {
    let mut catalogue = session.catalogue()?;
    look_at_files(&mut catalogue.entries);
    let wanted: Vec<Entry> = if args.all {
        // One that is missing is known to be so without trying.
        let is_file = |entry: &&Entry| matches!(entry.file, FileState::There { .. });
        catalogue.entries.iter().filter(is_file).cloned().collect()
    } else {
        let words = args.images.iter();
        let named = words.map(|word| named_or_file(&catalogue, word));
        named.collect::<Result<_, _>>()?
    };
    let bench = Bench::open(session)?;
    let mut display = Display::new(session.output);
    let (mut images, mut text, mut worst) = (Vec::new(), String::new(), 0);
    let patience = Duration::from_secs(args.timeout.0);
    for entry in &wanted {
        let name = &entry.name;
        match bench.run(entry, args.digest, patience, &mut display) {
            Ok(found) => {
                let owner = owner(args.site);
                let is_described = !entry.framework.is_empty();
                let kept = is_described.then(|| keep_check(owner, &found.check));
                let ok = found.check.problems.is_empty();
                worst = worst.max(if ok { 0 } else { Kind::JobFile.code() });
                text.push_str(&found_to_text(name, &found));
                images.push(CheckedImage {
                    image: name.clone(),
                    ok,
                    findings: Some(KeptFindings {
                        found,
                        kept_in: kept.transpose()?,
                    }),
                    error: None,
                });
            }
            // Of one image it is the command's failure; of several the rest is tried.
            Err(error) if wanted.len() == 1 || error.kind == Kind::TryAgain => return Err(error),
            Err(error) => {
                worst = worst.max(error.kind.code());
                text.push_str(&format!("{name}: {}\n", error.message()));
                images.push(CheckedImage {
                    image: name.clone(),
                    ok: false,
                    findings: None,
                    error: Some(error.answer()),
                });
            }
        }
    }
    if wanted.is_empty() {
        text.push_str("no image of the catalogue is a file here\n");
    }
    drop(display);
    session.answer(&CheckedImages { images }, &text)?;
    Ok(worst)
}

/// The place that a word of the command line names: a URI as it is, a file with its absolute path.
pub(super) fn place_of(word: &str) -> Result<Place, Error> {
    let text = if word.contains("://") {
        word.to_owned()
    } else {
        let path = std::path::absolute(word)?;
        let not_text = || Error::new(Kind::Usage, format!("{} is not UTF-8 text", path.display()));
        path.to_str().ok_or_else(not_text)?.to_owned()
    };
    Place::parse(&text).map_err(|problem| Error::new(Kind::Usage, problem))
}

/// What was found, for people.
fn found_to_text(name: &str, found: &Findings) -> String {
    let verdict = match found.check.problems.is_empty() {
        true => "ok",
        false => "not as described",
    };
    let mut rows = Rows::default();
    add_check(&found.check, &mut rows, true);
    for note in &found.notes {
        rows.add("note", note.as_str());
    }
    let rows = rows.into_text();
    let rows: String = rows.lines().map(|line| format!("  {line}\n")).collect();
    format!("{name}: {verdict}\n{rows}")
}
