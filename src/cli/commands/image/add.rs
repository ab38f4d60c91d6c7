//! `dlrun image add`: describes an image in the catalogue.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::check::place_of;
use super::list::to_json;
use crate::app::error::{Error, Kind};
use crate::app::images::check::{Bench, Subject, Tried, digest_of, keep, keep_check, shelf_dir};
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::cli::args::{Claims as Said, ImageAdd};
use crate::config::{Origin, Owner};
use crate::image::catalogue::look;
use crate::image::catalogue::{Accelerator, Catalogue, Entry, Place, name_problem, write_entry};
use crate::image::check::Claims;
use crate::image::runtime::labels;
use crate::image::runtime::{ImageKind, inspect};
use crate::job::Provenance;

/// How long the image may take to be tried.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ImageAdd) -> Result<u8, Error> {
    let owner = if args.site { Owner::Site } else { Owner::User };
    let catalogue = session.catalogue()?;
    if let Some(name) = &args.name {
        require_name(name)?;
        shelf_for(&catalogue, name, owner, args.force)?;
    }
    let place = plain_place(&args.image)?;
    // Without a runtime an image can be described, and not tried.
    let bench = Bench::open(session);
    let bench = if args.no_check {
        bench.ok()
    } else {
        Some(bench?)
    };
    let mut draft = Draft::of(args);
    if let Place::Path(path) = &place {
        draft.look(path, bench.as_ref())?;
    }
    let mut display = Display::new(session.output);
    let tried = match &bench {
        Some(bench) if !args.no_check => Some(draft.try_out(args, &place, bench, &mut display)?),
        _ => None,
    };
    let digest = match (&tried, &place) {
        (Some(tried), _) => tried.check.digest.clone(),
        (None, Place::Path(path)) if path.is_file() => {
            Some(digest_of(&args.image, path, &mut display)?)
        }
        (None, _) => None,
    };
    drop(display);
    if let Some(tried) = tried
        .as_ref()
        .filter(|tried| !tried.check.problems.is_empty() && !args.force)
    {
        let message = format!(
            "{} was not added: {}",
            args.image,
            tried.check.problems.join("; ")
        );
        return Err(Error::new(Kind::JobFile, message)
            .hinted("say what it is with --framework, --version and so on")
            .hinted("`--force` adds it all the same"));
    }
    let mut entry = draft.entry(args, place, owner, tried.as_ref())?;
    if let (Some(found), Some(said)) = (&digest, &args.claims.digest)
        && found != said
    {
        return Err(Error::new(
            Kind::JobFile,
            format!("its digest is {found}, and not {said}"),
        ));
    }
    entry.digest = digest.or(entry.digest);
    shelf_for(&catalogue, &entry.name, owner, args.force)?;
    let shelf = keep(owner, &format!("{}.toml", entry.name), &write_entry(&entry))?;
    if let Some(tried) = &tried {
        let check = crate::image::catalogue::Check {
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

fn require_name(name: &str) -> Result<(), Error> {
    name_problem(name).map_or(Ok(()), |problem| Err(Error::new(Kind::Usage, problem)))
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
    let dir = dir.canonicalize().map_err(|error| {
        Error::new(
            Kind::Missing,
            format!("{} cannot be reached: {error}", path.display()),
        )
    })?;
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
    let all = || {
        catalogue
            .entries
            .iter()
            .chain(&catalogue.overridden)
            .filter(|known| known.owner == owner)
    };
    let is_there =
        |known: &Entry| matches!(&known.origin, Origin::File { path, .. } if *path == shelf);
    if let Some(known) = all().find(|known| known.name == name) {
        let error = Error::new(
            Kind::CannotWrite,
            format!(
                "there is an image `{name}` already, described in {}",
                known.origin
            ),
        );
        if !is_there(known) {
            return Err(
                error.hinted("take it out there, or give this one another name with `--name`")
            );
        }
        if !force {
            return Err(
                error.hinted("`--force` takes its place; `--name` gives this one another name")
            );
        }
    }
    if let Some(other) = all().find(|known| known.name != name && is_there(known)) {
        let message = format!(
            "{} describes `{}` too, and is not written over",
            shelf.display(),
            other.name
        );
        return Err(Error::new(Kind::CannotWrite, message)
            .hinted("give this one another name with `--name`"));
    }
    Ok(shelf)
}

/// What is known of the image before it is tried.
#[derive(Default)]
struct Draft {
    claims: Claims,
    provenance: Option<Provenance>,
    microarch: Option<String>,
    recipe: Option<String>,
    packages: Vec<String>,
}

impl Draft {
    fn of(args: &ImageAdd) -> Self {
        let Said {
            framework,
            version,
            provenance,
            gpu,
            cuda,
            rocm,
            compilers,
            microarch,
            mpi,
            ..
        } = &args.claims;
        let claims = Claims {
            framework: framework.as_ref().map(|framework| framework.to_lowercase()),
            version: version.clone(),
            accelerator: *gpu,
            cuda: cuda.clone(),
            rocm: rocm.clone(),
            compilers: compilers.clone(),
            mpi: mpi.clone(),
            ..Claims::default()
        };
        Self {
            claims,
            provenance: *provenance,
            microarch: microarch.clone(),
            packages: args.claims.with.clone(),
            ..Self::default()
        }
    }

    /// Looks at the file: what it is, and what its labels say.
    fn look(&mut self, path: &Path, bench: Option<&Bench>) -> Result<(), Error> {
        let file = inspect(path)?;
        if let Some(fault) = file.arch_fault() {
            return Err(Error::new(
                Kind::JobFile,
                format!("{}: {fault}", path.display()),
            ));
        }
        self.claims.arch = file.arch.clone();
        let is_labelled = matches!(file.kind, ImageKind::Sif(_) | ImageKind::Sandbox);
        if let Some(bench) = bench.filter(|_| is_labelled) {
            match labels(bench.runtime(), path) {
                Ok(labels) => self.take_labels(&labels),
                Err(error) => tracing::warn!(%error, "the labels cannot be read"),
            }
        }
        Ok(())
    }

    /// What was said wins over a label.
    fn take_labels(&mut self, labels: &BTreeMap<String, String>) {
        let label = |name: &str| {
            let value = labels
                .get(&format!("dlrun.{name}"))
                .map(|value| value.trim());
            value
                .filter(|value| !value.is_empty() && !value.chars().any(char::is_control))
                .map(str::to_owned)
        };
        let claims = &mut self.claims;
        let fill =
            |claim: &mut Option<String>, name: &str| *claim = claim.take().or_else(|| label(name));
        fill(&mut claims.framework, "framework");
        fill(&mut claims.version, "version");
        fill(&mut claims.cuda, "cuda");
        fill(&mut claims.rocm, "rocm");
        fill(&mut claims.mpi, "mpi");
        fill(&mut self.microarch, "microarch");
        fill(&mut self.recipe, "recipe");
        claims.accelerator = claims
            .accelerator
            .or_else(|| word(&Accelerator::WORDS, &label("accelerator")?));
        self.provenance = self
            .provenance
            .or_else(|| word(&Provenance::WORDS, &label("provenance")?));
        if self.packages.is_empty() {
            self.packages = label("packages")
                .iter()
                .flat_map(|all| all.split(' '))
                .map(str::to_owned)
                .collect();
        }
        let compiler = label("compiler").filter(|compiler| compiler != "none");
        if claims.compilers.is_empty() {
            claims.compilers.extend(compiler);
        }
    }

    fn try_out(
        &self,
        args: &ImageAdd,
        place: &Place,
        bench: &Bench,
        display: &mut Display,
    ) -> Result<Tried, Error> {
        let subject = Subject {
            name: args.name.as_deref().unwrap_or(&args.image),
            place,
            claims: &self.claims,
            digest: args.claims.digest.as_deref(),
            reads_digest: true,
            needs_fakeroot: args.claims.needs_fakeroot,
            patience: PATIENCE,
        };
        bench.run(&subject, display)
    }

    /// The description: what was said, else what was found.
    fn entry(
        self,
        args: &ImageAdd,
        place: Place,
        owner: Owner,
        tried: Option<&Tried>,
    ) -> Result<Entry, Error> {
        let Self {
            mut claims,
            provenance,
            microarch,
            recipe,
            packages,
        } = self;
        if let Some(tried) = tried {
            claims = tried.findings.fill(claims);
        }
        let (Some(framework), Some(version)) = (claims.framework, claims.version) else {
            let error = Error::new(
                Kind::Usage,
                format!("{} does not say which framework it has", args.image),
            );
            return Err(error.hinted("say it with `--framework` and `--version`"));
        };
        let name = match &args.name {
            Some(name) => name.clone(),
            None => {
                let gpu = claims.accelerator.filter(|gpu| *gpu != Accelerator::None);
                let parts = [framework.as_str(), version.as_str()].into_iter();
                let parts = parts.chain(claims.compilers.iter().map(String::as_str));
                parts
                    .chain(gpu.map(Accelerator::as_str))
                    .collect::<Vec<_>>()
                    .join("-")
            }
        };
        require_name(&name)?;
        let origin = Origin::File {
            path: shelf_dir(owner)?.join(format!("{name}.toml")),
            line: 1,
        };
        let mut entry = Entry::new(&name, place, &framework, &version, owner, origin);
        entry.provenance = provenance;
        entry.arch = claims.arch.unwrap_or(entry.arch);
        entry.microarch = microarch;
        entry.accelerator = claims.accelerator.unwrap_or_default();
        entry.cuda = claims.cuda;
        entry.rocm = claims.rocm;
        entry.compilers = claims.compilers;
        entry.python = claims.python;
        entry.packages = packages;
        entry.mpi = claims.mpi;
        entry.digest = args.claims.digest.clone();
        entry.recipe = recipe;
        entry.needs_fakeroot = args.claims.needs_fakeroot;
        Ok(entry)
    }
}

fn word<T: Copy>(words: &[(&str, T)], said: &str) -> Option<T> {
    words
        .iter()
        .find(|(word, _)| *word == said)
        .map(|(_, value)| *value)
}
