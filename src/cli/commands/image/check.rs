//! `dlrun image check`: runs images, and says whether they are as they are described.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::show::add_check;
use super::{named, owner};
use crate::app::error::{Error, Kind};
use crate::app::images::check::{Bench, Subject, Tried, keep_check};
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::cli::args::ImageCheck;
use crate::cli::table::Rows;
use crate::image::catalogue::look;
use crate::image::catalogue::{Catalogue, Entry, FileState, Place};
use crate::image::check::Claims;

/// What is to be tried.
struct Wanted {
    name: String,
    place: Place,
    /// Its description; `None`: a file without a description.
    entry: Option<Entry>,
}

impl Wanted {
    fn known(entry: &Entry) -> Self {
        Self {
            name: entry.name.clone(),
            place: entry.place.clone(),
            entry: Some(entry.clone()),
        }
    }

    /// A word with a slash is a file or a URI; another is a name, or else a file that lies here.
    fn named(catalogue: &Catalogue, word: &str) -> Result<Self, Error> {
        let is_file =
            word.contains('/') || (catalogue.get(word).is_none() && Path::new(word).exists());
        if !is_file {
            return named(catalogue, word).map(Self::known);
        }
        let place = place_of(word)?;
        Ok(Self {
            name: place.to_string(),
            place,
            entry: None,
        })
    }

    fn tried(
        &self,
        bench: &Bench,
        args: &ImageCheck,
        display: &mut Display,
    ) -> Result<Tried, Error> {
        let entry = self.entry.as_ref();
        let subject = Subject {
            name: &self.name,
            place: &self.place,
            claims: &entry.map(Claims::from).unwrap_or_default(),
            digest: entry.and_then(|entry| entry.digest.as_deref()),
            reads_digest: args.digest,
            needs_fakeroot: entry.is_some_and(|entry| entry.needs_fakeroot),
            patience: Duration::from_secs(args.timeout.0),
        };
        bench.run(&subject, display)
    }
}

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ImageCheck) -> Result<u8, Error> {
    let mut catalogue = session.catalogue()?;
    look(&mut catalogue.entries);
    let wanted: Vec<Wanted> = if args.all {
        // One that is missing is known to be so without trying.
        let is_file = |entry: &&Entry| matches!(entry.file, FileState::There { .. });
        let files = catalogue.entries.iter().filter(is_file);
        files.map(Wanted::known).collect()
    } else {
        let words = args.images.iter();
        let named = words.map(|word| Wanted::named(&catalogue, word));
        named.collect::<Result<_, _>>()?
    };
    let bench = Bench::open(session)?;
    let mut display = Display::new(session.output);
    let (mut values, mut text, mut worst) = (Vec::new(), String::new(), 0);
    for one in &wanted {
        let name = &one.name;
        match one.tried(&bench, args, &mut display) {
            Ok(tried) => {
                let owner = owner(args.site);
                let kept = one.entry.is_some().then(|| keep_check(owner, &tried.check));
                if !tried.check.problems.is_empty() {
                    worst = worst.max(Kind::JobFile.code());
                }
                values.push(found_to_json(name, &tried, kept.transpose()?.as_deref()));
                text.push_str(&found_to_text(name, &tried));
            }
            // Of one image it is the command's failure; of several the rest is tried.
            Err(error) if wanted.len() == 1 || error.kind == Kind::TryAgain => return Err(error),
            Err(error) => {
                worst = worst.max(error.kind.code());
                values.push(json!({ "image": name, "ok": false, "error": error.to_json() }));
                text.push_str(&format!("{name}: {}\n", error.message()));
            }
        }
    }
    if wanted.is_empty() {
        text.push_str("no image of the catalogue is a file here\n");
    }
    drop(display);
    session.answer(&json!({ "images": values }), &text)?;
    Ok(worst)
}

/// The place that a word of the command line names: a URI as it is, a file with its absolute path.
pub(super) fn place_of(word: &str) -> Result<Place, Error> {
    let text = if word.contains("://") {
        word.to_owned()
    } else {
        let path = std::path::absolute(word)?;
        let not_text = || Error::new(Kind::Usage, format!("{} is no UTF-8 text", path.display()));
        path.to_str().ok_or_else(not_text)?.to_owned()
    };
    Place::parse(&text).map_err(|problem| Error::new(Kind::Usage, problem))
}

fn found_to_json(name: &str, tried: &Tried, kept: Option<&Path>) -> Value {
    json!({
        "image": name,
        "ok": tried.check.problems.is_empty(),
        "framework": tried.findings.framework,
        "python": tried.findings.python_path,
        "check": tried.check,
        "notes": tried.findings.notes,
        "kept_in": kept,
    })
}

/// What was found, for people.
fn found_to_text(name: &str, tried: &Tried) -> String {
    let verdict = match tried.check.problems.is_empty() {
        true => "ok",
        false => "not as described",
    };
    let mut rows = Rows::default();
    add_check(&tried.check, &mut rows, true);
    for note in &tried.findings.notes {
        rows.add("note", note.as_str());
    }
    let rows = rows.into_text();
    let rows: String = rows.lines().map(|line| format!("  {line}\n")).collect();
    format!("{name}: {verdict}\n{rows}")
}
