//! `dlrun image add`: describes an image in the catalogue.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::check::place_of;
use super::list::to_json;
use super::{described, owner};
use crate::app::error::{Error, Kind, failure};
use crate::app::images::check::{Bench, Subject, Tried, digest_of, keep, keep_check, shelf_dir};
use crate::app::images::recipes::checked_name;
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::cli::args::{Claims as Stated, ImageAdd};
use crate::config::{Origin, Owner};
use crate::image::catalogue::{self, Accelerator, Catalogue, Entry, Place, look, write_entry};
use crate::image::check::Claims;
use crate::image::runtime::{ImageKind, inspect, labels};
use crate::job::Provenance;

/// How long the image may take to be tried.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ImageAdd) -> Result<u8, Error> {
    let owner = owner(args.site);
    let catalogue = session.catalogue()?;
    if let Some(name) = &args.name {
        shelf_for(&catalogue, checked_name(name)?, owner, args.force)?;
    }
    let place = plain_place(&args.image)?;
    // Without a runtime an image can be described, and not tried.
    let bench = match Bench::open(session) {
        Err(_) if args.no_check => None,
        bench => Some(bench?),
    };
    let mut draft = Draft {
        stated: args.claims.clone(),
        ..Draft::default()
    };
    if let Place::Path(path) = &place {
        draft.inspect(path, bench.as_ref())?;
    }
    let mut display = Display::new(session.output);
    let mut claims = draft.claims();
    let subject = Subject {
        name: args.name.as_deref().unwrap_or(&args.image),
        place: &place,
        claims: &claims,
        digest: args.claims.digest.as_deref(),
        reads_digest: true,
        needs_fakeroot: args.claims.needs_fakeroot,
        patience: PATIENCE,
    };
    let bench = bench.filter(|_| !args.no_check);
    let tried = bench.map(|bench| bench.run(&subject, &mut display));
    let tried: Option<Tried> = tried.transpose()?;
    let digest = match (&tried, &place) {
        (Some(tried), _) => tried.check.digest.clone(),
        (None, Place::Path(path)) if path.is_file() => {
            Some(digest_of(&args.image, path, &mut display)?)
        }
        (None, _) => None,
    };
    drop(display);
    if let Some(tried) = &tried {
        if !tried.check.problems.is_empty() && !args.force {
            let problems = tried.check.problems.join("; ");
            return Err(
                failure!(JobFile, "{} was not added: {problems}", args.image)
                    .hinted("say what it is with --framework, --version and so on")
                    .hinted("`--force` adds it anyway"),
            );
        }
        claims = tried.findings.fill(claims);
    }
    if let (Some(found), Some(stated)) = (&digest, &args.claims.digest)
        && found != stated
    {
        return Err(failure!(JobFile, "its digest is {found}, and not {stated}"));
    }
    let mut entry = draft.entry(args, claims, place, owner)?;
    entry.digest = digest.or(entry.digest);
    shelf_for(&catalogue, &entry.name, owner, args.force)?;
    let shelf = keep(owner, &format!("{}.toml", entry.name), &write_entry(&entry))?;
    if let Some(tried) = &tried {
        let check = catalogue::Check {
            image: entry.name.clone(),
            ..tried.check.clone()
        };
        keep_check(owner, &check)?;
        entry.check = Some(check);
    }
    look([&mut entry]);
    let mut value = to_json(&entry);
    value["described_in"] = json!(shelf);
    value["notes"] = json!(tried.as_ref().map(|tried| &tried.findings.notes));
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

/// The place without `..`, so that it is the same from everywhere; the last name may be a link, which the site may point
/// elsewhere.
fn plain_place(word: &str) -> Result<Place, Error> {
    let place = place_of(word)?;
    let Place::Path(path) = &place else {
        return Ok(place);
    };
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(place);
    };
    let dir = dir
        .canonicalize()
        .map_err(|error| failure!(Missing, "{} cannot be reached: {error}", path.display()))?;
    place_of(&dir.join(name).to_string_lossy())
}

/// The file that is to describe the image; nothing else may describe one of that name for the same owner.
fn shelf_for(
    catalogue: &Catalogue,
    name: &str,
    owner: Owner,
    force: bool,
) -> Result<PathBuf, Error> {
    let shelf = shelf_dir(owner)?.join(format!("{name}.toml"));
    let all = catalogue.entries.iter().chain(&catalogue.overridden);
    for known in all.filter(|known| known.owner == owner) {
        let is_in_shelf = matches!(&known.origin, Origin::File { path, .. } if *path == shelf);
        let (message, hint) = if known.name == name && is_in_shelf && force {
            continue;
        } else if known.name == name {
            let origin = &known.origin;
            let hint = match is_in_shelf {
                true => "`--force` takes its place; `--name` gives this one another name",
                false => "take it out there, or give this one another name with `--name`",
            };
            let message = format!("there is an image `{name}` already, described in {origin}");
            (message, hint)
        } else if is_in_shelf {
            let (shelf, other) = (shelf.display(), &known.name);
            let message = format!("{shelf} describes `{other}` too, and is not written over");
            (message, "give this one another name with `--name`")
        } else {
            continue;
        };
        return Err(Error::new(Kind::CannotWrite, message).hinted(hint));
    }
    Ok(shelf)
}

/// What is known of the image before it is tried.
#[derive(Default)]
struct Draft {
    /// By the options, else by its labels.
    stated: Stated,
    arch: Option<String>,
    recipe: Option<String>,
}

impl Draft {
    /// Looks at the file: what it is, and what its labels say.
    fn inspect(&mut self, path: &Path, bench: Option<&Bench>) -> Result<(), Error> {
        let file = inspect(path)?;
        if let Some(fault) = file.arch_fault() {
            return Err(failure!(JobFile, "{}: {fault}", path.display()));
        }
        self.arch = file.arch.clone();
        let is_labelled = matches!(file.kind, ImageKind::Sif(_) | ImageKind::Sandbox);
        if let Some(bench) = bench.filter(|_| is_labelled) {
            match labels(bench.runtime(), path) {
                Ok(labels) => self.take_labels(&labels),
                Err(error) => tracing::warn!(%error, "the labels cannot be read"),
            }
        }
        Ok(())
    }

    /// What was stated wins over a label.
    fn take_labels(&mut self, labels: &BTreeMap<String, String>) {
        let label = |name: &str| {
            let value = labels.get(&format!("dlrun.{name}"))?.trim();
            let is_text = !value.is_empty() && !value.chars().any(char::is_control);
            is_text.then(|| value.to_owned())
        };
        let stated = &mut self.stated;
        for (claim, name) in [
            (&mut stated.framework, "framework"),
            (&mut stated.version, "version"),
            (&mut stated.cuda, "cuda"),
            (&mut stated.rocm, "rocm"),
            (&mut stated.mpi, "mpi"),
            (&mut stated.microarch, "microarch"),
            (&mut self.recipe, "recipe"),
        ] {
            *claim = claim.take().or_else(|| label(name));
        }
        let gpu = || word(&Accelerator::WORDS, &label("accelerator")?);
        stated.gpu = stated.gpu.or_else(gpu);
        let provenance = || word(&Provenance::WORDS, &label("provenance")?);
        stated.provenance = stated.provenance.or_else(provenance);
        if stated.with.is_empty() {
            let packages = label("packages").unwrap_or_default();
            stated.with = packages.split_whitespace().map(str::to_owned).collect();
        }
        if stated.compilers.is_empty() {
            let compiler = label("compiler").filter(|compiler| compiler != "none");
            stated.compilers.extend(compiler);
        }
    }

    /// What the image is compared with.
    fn claims(&self) -> Claims {
        let stated = self.stated.clone();
        Claims {
            framework: stated.framework.map(|name| name.to_lowercase()),
            version: stated.version,
            arch: self.arch.clone(),
            accelerator: stated.gpu,
            cuda: stated.cuda,
            rocm: stated.rocm,
            compilers: stated.compilers,
            mpi: stated.mpi,
            python: None,
        }
    }

    /// The description: what was stated, else what was found.
    fn entry(
        self,
        args: &ImageAdd,
        claims: Claims,
        place: Place,
        owner: Owner,
    ) -> Result<Entry, Error> {
        let (Some(framework), Some(version)) = (claims.framework, claims.version) else {
            return Err(
                failure!(Usage, "{} does not say which framework it has", args.image)
                    .hinted("say it with `--framework` and `--version`"),
            );
        };
        let gpu = claims.accelerator.filter(|gpu| *gpu != Accelerator::None);
        let mut parts = vec![framework.as_str(), &version];
        parts.extend(claims.compilers.iter().map(String::as_str));
        parts.extend(gpu.map(Accelerator::as_str));
        let name = args.name.clone().unwrap_or_else(|| parts.join("-"));
        let origin = Origin::File {
            path: shelf_dir(owner)?.join(format!("{}.toml", checked_name(&name)?)),
            line: 1,
        };
        let entry = Entry::new(&name, place, &framework, &version, owner, origin);
        let mut entry = described(entry, &self.stated);
        entry.arch = claims.arch.unwrap_or(entry.arch);
        entry.accelerator = claims.accelerator.unwrap_or_default();
        entry.cuda = claims.cuda;
        entry.rocm = claims.rocm;
        entry.compilers = claims.compilers;
        entry.python = claims.python;
        entry.mpi = claims.mpi;
        entry.digest = self.stated.digest;
        entry.recipe = self.recipe;
        Ok(entry)
    }
}

fn word<T: Copy>(words: &[(&str, T)], text: &str) -> Option<T> {
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value)
}
