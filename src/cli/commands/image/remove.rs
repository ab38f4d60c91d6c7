//! `dlrun image remove`: an image leaves the catalogue, and its file the disk where dlrun made it for this user.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access, geteuid};
use serde_json::{Value, json};

use super::named;
use crate::app::error::{Error, Kind};
use crate::app::images::check::shelf_dir;
use crate::app::images::making::origins_of;
use crate::app::session::Session;
use crate::app::track::Tracker;
use crate::cli::args::ImageRemove;
use crate::config::{Origin, Owner};
use crate::image::build;
use crate::image::catalogue::{Catalogue, Entry, Place};

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ImageRemove) -> Result<u8, Error> {
    let owner = if args.site { Owner::Site } else { Owner::User };
    let catalogue = session.catalogue()?;
    let all = || catalogue.entries.iter().chain(&catalogue.overridden);
    let Some(entry) = all().find(|entry| entry.name == args.name && entry.owner == owner) else {
        let known = named(&catalogue, &args.name)?;
        let message = format!(
            "`{}` is described in {}, which is not the catalogue that was meant",
            known.name, known.origin
        );
        return Err(Error::new(Kind::Missing, message)
            .hinted("`--site` removes images of the site, without it your own"));
    };
    let shelf = own_shelf(&catalogue, entry)?;
    let file = own_file(session, entry);
    if !args.force
        && let Some(why) = in_use(session, &catalogue, entry, file.as_deref())?
    {
        return Err(Error::new(
            Kind::CannotWrite,
            format!("`{}` is in use: {why}", entry.name),
        )
        .hinted("`--force` removes it all the same"));
    }
    // The description goes last: what was stopped half-way is then still known by its name.
    let mut removed = match &file {
        Some(image) => build::discard(image, &origins_of(image))?,
        None => Vec::new(),
    };
    for path in [shelf.with_extension("check.toml"), shelf] {
        match fs::remove_file(&path) {
            Ok(()) => removed.push(path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(Error::new(
                    Kind::CannotWrite,
                    format!("cannot remove {}: {error}", path.display()),
                ));
            }
        }
    }
    let stays = match &entry.place {
        Place::Path(path) if file.is_none() && path.exists() => Some(path),
        _ => None,
    };
    let value = json!({ "name": entry.name, "removed": removed, "kept": stays });
    let mut text: String = removed
        .iter()
        .map(|path| format!("removed {}\n", path.display()))
        .collect();
    if let Some(path) = stays {
        text.push_str(&format!(
            "kept {}: dlrun did not make it for you\n",
            path.display()
        ));
    }
    session.answer(&value, &text)
}

/// The file that describes this image alone.
fn own_shelf(catalogue: &Catalogue, entry: &Entry) -> Result<PathBuf, Error> {
    let path_of = |entry: &Entry| match &entry.origin {
        Origin::File { path, .. } => Some(path.clone()),
        _ => None,
    };
    let dir = shelf_dir(entry.owner)?;
    let shelf = dir.join(format!("{}.toml", entry.name));
    let mut all = catalogue.entries.iter().chain(&catalogue.overridden);
    let is_shared = all.any(|other| other.name != entry.name && path_of(other) == path_of(entry));
    if is_shared || path_of(entry).as_ref() != Some(&shelf) {
        let message = format!(
            "`{}` is described in {}, which people wrote",
            entry.name, entry.origin
        );
        return Err(Error::new(Kind::CannotWrite, message).hinted("take its [[image]] out there"));
    }
    access(&dir, AccessFlags::W_OK).map_err(|error| {
        Error::new(
            Kind::NotPermitted,
            format!("cannot write to {}: {error}", dir.display()),
        )
    })?;
    Ok(shelf)
}

/// The image's file, where dlrun made it and it is this user's.
fn own_file(session: &Session, entry: &Entry) -> Option<PathBuf> {
    let Place::Path(path) = &entry.place else {
        return None;
    };
    let dirs = [
        session.settings.image_dir(),
        session.settings.own_image_dir(),
    ];
    let found = fs::symlink_metadata(path).ok()?;
    let is_ours = found.is_file() && found.uid() == geteuid().as_raw();
    let was_made = origins_of(path).iter().any(|origin| origin.exists());
    let is_among = path
        .parent()
        .is_some_and(|dir| dirs.iter().any(|own| own == dir));
    (is_ours && was_made && is_among).then(|| path.clone())
}

/// Who uses the image, as far as this user can see.
fn in_use(
    session: &Session,
    catalogue: &Catalogue,
    entry: &Entry,
    file: Option<&Path>,
) -> Result<Option<String>, Error> {
    let mut all = catalogue.entries.iter().chain(&catalogue.overridden);
    let other = all.find(|other| other.place == entry.place && other.origin != entry.origin);
    if let Some(other) = other.filter(|_| file.is_some()) {
        return Ok(Some(format!(
            "`{}` ({}) is the same file",
            other.name, other.origin
        )));
    }
    if !session.settings.state_dir().exists() {
        return Ok(None);
    }
    let mut tracker = Tracker::open(session)?;
    for run_id in tracker.all_going_on()? {
        let plan = tracker.state.run(&run_id).and_then(|run| run.read_plan());
        let plan: Option<Value> = plan.ok().and_then(|text| serde_json::from_str(&text).ok());
        let image = plan
            .as_ref()
            .and_then(|plan| plan["image"]["source"].as_str());
        if image == Some(&entry.place.to_string()) {
            return Ok(Some(format!(
                "run {} is to run in it",
                &run_id.as_str()[..6]
            )));
        }
    }
    Ok(None)
}
