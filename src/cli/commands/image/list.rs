//! `dlrun image list`: the images of the catalogue.

use serde_json::{Value, json};

use super::{accelerator_text, owner_word};
use crate::app::error::Error;
use crate::app::session::Session;
use crate::app::times::ago;
use crate::cli::args::ImageList;
use crate::cli::table::{headed, or_dash};
use crate::image::catalogue::look_at_files;
use crate::image::catalogue::{Entry, FileState};

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ImageList) -> Result<u8, Error> {
    let mut catalogue = session.catalogue()?;
    if let Some(framework) = &args.framework {
        let wanted = framework.to_lowercase();
        catalogue.entries.retain(|entry| entry.framework == wanted);
    }
    look_at_files(&mut catalogue.entries);
    let value = json!({ "images": catalogue.entries.iter().map(to_json).collect::<Vec<_>>() });
    session.answer(&value, &to_text(&catalogue.entries, args))
}

/// What is known of an image. `show` prints the same.
pub(super) fn to_json(entry: &Entry) -> Value {
    let (missing, size_bytes) = match &entry.file {
        FileState::Missing(why) => (Some(why), None),
        FileState::There { size_bytes, .. } => (None, *size_bytes),
        FileState::NotLooked => (None, None),
    };
    let mut value = serde_json::to_value(entry).unwrap_or_default();
    let more = json!({
        "place": entry.place.to_string(),
        "owner": owner_word(entry.owner),
        "described_in": entry.origin.to_string(),
        "missing": missing,
        "size_bytes": size_bytes,
        "changed_since_check": entry.changed_since_check(),
        "check": entry.check,
    });
    if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
        value.retain(|key, _| key != "path" && key != "uri");
        value.extend(more);
    }
    value
}

/// What the latest check says, in a few words.
pub(super) fn check_text(entry: &Entry) -> String {
    if let FileState::Missing(_) = entry.file {
        return "missing".to_owned();
    }
    match &entry.check {
        None => "never".to_owned(),
        Some(_) if entry.changed_since_check() == Some(true) => "changed since".to_owned(),
        Some(check) if check.problems.is_empty() => format!("ok, {}", ago(check.at_ms)),
        Some(check) => format!("not as described, {}", ago(check.at_ms)),
    }
}

fn to_text(entries: &[Entry], args: &ImageList) -> String {
    if entries.is_empty() {
        return match &args.framework {
            Some(framework) => format!("no image of {framework} is in the catalogue\n"),
            None => "no image is in the catalogue; `dlrun image add FILE` adds one\n".to_owned(),
        };
    }
    let heads = [
        "NAME",
        "FRAMEWORK",
        "VERSION",
        "GPU",
        "COMPILERS",
        "FROM",
        "CHECKED",
        "WHOSE",
        "PLACE",
    ];
    let row = |entry: &Entry| {
        let compilers = (!entry.compilers.is_empty()).then(|| entry.compilers.join(" "));
        [
            entry.name.clone(),
            entry.framework.clone(),
            entry.version.clone(),
            accelerator_text(entry),
            or_dash(compilers),
            or_dash(entry.provenance.map(|provenance| provenance.as_str())),
            check_text(entry),
            owner_word(entry.owner).to_owned(),
            entry.place.to_string(),
        ]
    };
    headed(heads, entries.iter().map(row))
}
