//! `dlrun image check`: runs images, and says whether they are as they are described.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::named;
use super::show::check_rows;
use crate::app::error::{Error, Kind};
use crate::app::images::check::{Bench, Subject, Tried, keep_check};
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::cli::args::ImageCheck;
use crate::cli::table::{rendered, table};
use crate::config::Owner;
use crate::image::catalogue::look;
use crate::image::catalogue::{Catalogue, Entry, FileState, Place};
use crate::image::check::Claims;

/// What one of the words of the command line is.
enum Wanted {
    /// In the catalogue.
    Known(Box<Entry>),
    /// A file of which nothing is said.
    File(Place),
}

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ImageCheck) -> Result<u8, Error> {
    let mut catalogue = session.catalogue()?;
    look(&mut catalogue.entries);
    let wanted = if args.all {
        all(&catalogue)
    } else {
        words(&catalogue, &args.images)?
    };
    let bench = Bench::open(session)?;
    let mut display = Display::new(session.output);
    let (mut values, mut text, mut code) = (Vec::new(), String::new(), 0);
    for one in &wanted {
        let name = name_of(one);
        let (value, shown, worst) = match tried(one, &bench, args, &mut display) {
            Ok(tried) => {
                let kept = match one {
                    Wanted::Known(_) => Some(keep_check(owner(args), &tried.check)?),
                    Wanted::File(_) => None,
                };
                let is_right = tried.check.problems.is_empty();
                let worst = if is_right { 0 } else { Kind::JobFile as u8 };
                (
                    found_to_json(&name, &tried, kept.as_deref()),
                    found_to_text(&name, &tried),
                    worst,
                )
            }
            // Of one image it is the command's failure; of several the others are tried.
            Err(error) if wanted.len() == 1 || error.kind == Kind::TryAgain => return Err(error),
            Err(error) => {
                let value = json!({ "image": name, "ok": false, "error": error.to_json() });
                (
                    value,
                    format!("{name}: {}\n", error.message()),
                    error.kind.code(),
                )
            }
        };
        values.push(value);
        text.push_str(&shown);
        code = code.max(worst);
    }
    if wanted.is_empty() {
        text.push_str("no image of the catalogue is a file here\n");
    }
    drop(display);
    session.answer(&json!({ "images": values }), &text)?;
    Ok(code)
}

fn owner(args: &ImageCheck) -> Owner {
    if args.site { Owner::Site } else { Owner::User }
}

/// All that are files here. One that is missing is known to be so without trying.
fn all(catalogue: &Catalogue) -> Vec<Wanted> {
    let there = catalogue
        .entries
        .iter()
        .filter(|entry| matches!(entry.file, FileState::There { .. }));
    there
        .map(|entry| Wanted::Known(Box::new(entry.clone())))
        .collect()
}

/// A word with a slash is a file or a URI; another is a name, or else a file that lies here.
fn words(catalogue: &Catalogue, words: &[String]) -> Result<Vec<Wanted>, Error> {
    let one = |word: &String| {
        let is_file =
            word.contains('/') || (catalogue.get(word).is_none() && Path::new(word).exists());
        if is_file {
            return place_of(word).map(Wanted::File);
        }
        named(catalogue, word).map(|entry| Wanted::Known(Box::new(entry.clone())))
    };
    words.iter().map(one).collect()
}

/// The place that a word of the command line names: a URI as it stands, a file with its absolute path.
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

fn name_of(one: &Wanted) -> String {
    match one {
        Wanted::Known(entry) => entry.name.clone(),
        Wanted::File(place) => place.to_string(),
    }
}

fn tried(
    one: &Wanted,
    bench: &Bench,
    args: &ImageCheck,
    display: &mut Display,
) -> Result<Tried, Error> {
    let name = name_of(one);
    let (place, claims, digest, needs_fakeroot) = match one {
        Wanted::Known(entry) => (
            &entry.place,
            Claims::from(&**entry),
            entry.digest.as_deref(),
            entry.needs_fakeroot,
        ),
        Wanted::File(place) => (place, Claims::default(), None, false),
    };
    let subject = Subject {
        name: &name,
        place,
        claims: &claims,
        digest,
        reads_digest: args.digest,
        needs_fakeroot,
        patience: Duration::from_secs(args.timeout.0),
    };
    bench.run(&subject, display)
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
    let verdict = if tried.check.problems.is_empty() {
        "ok"
    } else {
        "not as described"
    };
    let mut table = table();
    for (what, text) in check_rows(&tried.check) {
        table.add_row(["", what, &text]);
    }
    for note in &tried.findings.notes {
        table.add_row(["", "note", note]);
    }
    format!("{name}: {verdict}\n{}", rendered(table))
}
