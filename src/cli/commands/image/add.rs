//! `dlrun image add`: describes an image in the catalogue.

use std::time::Duration;

use serde_json::json;

use super::check::place_of;
use super::list::to_json;
use super::{described, owner};
use crate::app::error::{Error, failure};
use crate::app::images::check::{Bench, digest_of};
use crate::app::images::making::check_named;
use crate::app::images::recipes::checked_name;
use crate::app::images::shelves::{keep, keep_check, shelf_for};
use crate::app::job::load::without_parents;
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::cli::args::ImageAdd;
use crate::image::catalogue::{Accelerator, Entry, Place, look_at_files, write_entry};
use crate::image::runtime::inspect;

/// How long the image may take to be tried.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ImageAdd) -> Result<u8, Error> {
    let owner = owner(args.site);
    let catalogue = session.catalogue()?;
    if let Some(name) = &args.name {
        shelf_for(&catalogue, checked_name(name)?, owner, args.force)?;
    }
    let name = args.name.as_ref().unwrap_or(&args.image);
    let place = match place_of(&args.image)? {
        Place::Path(path) => Place::Path(without_parents(path)),
        uri => uri,
    };
    let mut entry = described(&args.claims, name, place, owner);
    // Without a runtime an image can be described, and not tried.
    let bench = match Bench::open(session) {
        Err(_) if args.no_check => None,
        bench => Some(bench?),
    };
    if let Place::Path(path) = &entry.place {
        let file = inspect(path)?;
        if let Some(fault) = file.arch_fault() {
            return Err(failure!(JobFile, "{}: {fault}", path.display()));
        }
        entry.arch = file.arch.unwrap_or_default();
    }
    if let Some(bench) = &bench {
        bench.read_labels(&mut entry);
    }
    let mut display = Display::new(session.output);
    let mut notes = None;
    match bench.filter(|_| !args.no_check) {
        Some(bench) => {
            let found = bench.run(&entry, true, PATIENCE, &mut display)?;
            if !found.check.problems.is_empty() && !args.force {
                let problems = found.check.problems.join("; ");
                return Err(
                    failure!(JobFile, "{} was not added: {problems}", args.image)
                        .hinted("say what it is with --framework, --version and so on")
                        .hinted("`--force` adds it anyway"),
                );
            }
            found.complete(&mut entry);
            entry.digest.clone_from(&found.check.digest);
            notes = Some(found.notes);
            entry.check = Some(found.check);
        }
        None => entry.digest = digest_of_file(&entry, &mut display)?,
    }
    drop(display);
    check_named(&entry)?;
    entry.accelerator = args.claims.gpu.unwrap_or(entry.accelerator);
    if entry.arch.is_empty() {
        entry.arch = Entry::DEFAULT_ARCH.to_owned();
    }
    if args.name.is_none() {
        entry.name = default_name(&entry);
    }
    shelf_for(&catalogue, checked_name(&entry.name)?, owner, args.force)?;
    let shelf = keep(owner, &format!("{}.toml", entry.name), &write_entry(&entry))?;
    if let Some(check) = &mut entry.check {
        check.image.clone_from(&entry.name);
        keep_check(owner, check)?;
    }
    look_at_files([&mut entry]);
    let mut value = to_json(&entry);
    value["described_in"] = json!(shelf);
    value["notes"] = json!(notes);
    let text = format!(
        "added {}: {} {}, {}\nit is described in {}\n",
        entry.name,
        entry.framework,
        entry.version,
        entry.place,
        shelf.display()
    );
    session.answer(&value, &text)
}

fn digest_of_file(entry: &Entry, display: &mut Display) -> Result<Option<String>, Error> {
    match &entry.place {
        Place::Path(path) if path.is_file() => digest_of(&entry.name, path, display).map(Some),
        _ => Ok(None),
    }
}

/// Of framework, version, compilers and GPU.
fn default_name(entry: &Entry) -> String {
    let mut parts = vec![entry.framework.as_str(), &entry.version];
    parts.extend(entry.compilers.iter().map(String::as_str));
    if entry.accelerator != Accelerator::None {
        parts.push(entry.accelerator.as_str());
    }
    parts.join("-")
}
