//! `dlrun image remove`: an image leaves the catalogue, and its file the disk where dlrun made it for this user.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access, geteuid};
use serde::Serialize;
use serde_json::Value;

use super::{named, owner};
use crate::app::error::{Error, Kind};
use crate::app::images::making::origins_of;
use crate::app::images::shelves::shelf_dir;
use crate::app::session::Session;
use crate::app::track::Tracker;
use crate::cli::args::ImageRemove;
use crate::config::Origin;
use crate::image::build;
use crate::image::catalogue::{Catalogue, Entry, Place};

/// What was removed of an image.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Removed<'a> {
    name: &'a str,
    removed: &'a [PathBuf],
    /// Its file, where it stays.
    kept: Option<&'a Path>,
}

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ImageRemove) -> Result<u8, Error> {
    let owner = owner(args.site);
    let catalogue = session.catalogue()?;
    let mut all = catalogue.entries.iter().chain(&catalogue.overridden);
    let Some(entry) = all.find(|entry| entry.name == args.name && entry.owner == owner) else {
        let Entry { name, origin, .. } = named(&catalogue, &args.name)?;
        let message =
            format!("`{name}` is described in {origin}, which is not the catalogue that was meant");
        return Err(Error::new(Kind::Missing, message)
            .hinted("`--site` removes images of the site, without it your own"));
    };
    let shelf = own_shelf(&catalogue, entry)?;
    let file = own_file(session, entry);
    if !args.force
        && let Some(why) = in_use(session, &catalogue, entry, file.as_deref())?
    {
        let message = format!("`{}` is in use: {why}", entry.name);
        return Err(Error::new(Kind::CannotWrite, message).hinted("`--force` removes it anyway"));
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
                let message = format!("cannot remove {}: {error}", path.display());
                return Err(Error::new(Kind::CannotWrite, message));
            }
        }
    }
    let stays = match &entry.place {
        Place::Path(path) if file.is_none() && path.exists() => Some(path),
        _ => None,
    };
    let answer = Removed {
        name: &entry.name,
        removed: &removed,
        kept: stays.map(PathBuf::as_path),
    };
    let lines = removed.iter();
    let lines = lines.map(|path| format!("removed {}\n", path.display()));
    let mut text: String = lines.collect();
    if let Some(path) = stays {
        let path = path.display();
        text.push_str(&format!("kept {path}: dlrun did not make it for you\n"));
    }
    session.answer(&answer, &text)
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
        let (name, origin) = (&entry.name, &entry.origin);
        let message = format!("`{name}` is described in {origin}, which people wrote");
        return Err(Error::new(Kind::CannotWrite, message).hinted("take its [[image]] out there"));
    }
    access(&dir, AccessFlags::W_OK).map_err(|error| {
        let message = format!("cannot write to {}: {error}", dir.display());
        Error::new(Kind::NotPermitted, message)
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
    if let Some(Entry { name, origin, .. }) = other.filter(|_| file.is_some()) {
        return Ok(Some(format!("`{name}` ({origin}) is the same file")));
    }
    if !session.settings.state_dir().exists() {
        return Ok(None);
    }
    let mut tracker = Tracker::open(session)?;
    let place = entry.place.to_string();
    for run_id in tracker.all_going_on()? {
        let plan = tracker.state.run(&run_id).and_then(|run| run.read_plan());
        let plan = plan.unwrap_or_default();
        let plan: Value = serde_json::from_str(&plan).unwrap_or_default();
        if plan["image"]["source"] == *place {
            let run = &run_id.as_str()[..6];
            return Ok(Some(format!("run {run} is to run in it")));
        }
    }
    Ok(None)
}
