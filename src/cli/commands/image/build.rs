//! `dlrun image build`: from a recipe, or a definition file, to an image of the catalogue.

use std::io::Read;
use std::path::Path;

use serde_json::json;

use super::build_job;
use crate::cli::args::ImageBuild;
use crate::cli::error::{Error, Kind};
use crate::cli::images::build_job::read_order;
use crate::cli::images::making::{MAX_DEFINITION_BYTES, Order, Origins, make, standing};
use crate::cli::session::Session;
use crate::cli::source::open;
use crate::config::{Origin, Owner, VersionRange};
use crate::foundation::diagnostic::Problem;
use crate::image::catalogue::{Accelerator, Entry, Place, name_problem};
use crate::image::recipe::{Definition, Site, Target, definition};

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ImageBuild) -> Result<u8, Error> {
    let owner = if args.site { Owner::Site } else { Owner::User };
    let (order, notes) = match (&args.order, &args.definition) {
        (Some(order), _) => (
            read_order(order, owner, args.from_dir.as_deref(), args.force)?,
            Vec::new(),
        ),
        (None, Some(file)) => (of_file(session, args, file, owner)?, Vec::new()),
        (None, None) => {
            let definition = written(&target(args)?, &session.recipes()?)?;
            let notes = definition.notes.clone();
            (
                of_recipe(session, &definition, args.name.as_deref(), owner)?.forced(args.force),
                notes,
            )
        }
    };
    for note in &notes {
        session
            .output
            .note(&format!("{}: {note}", order.entry.name));
    }
    if args.print
        && let Origins::Definition { text, .. } = &order.origins
    {
        let value = json!({ "name": order.entry.name, "definition": text, "notes": notes });
        session.output.result("image build", &value, text)?;
        return Ok(0);
    }
    let standing = if args.submit {
        standing(session, &order)?
    } else {
        None
    };
    if args.submit && standing.is_none() {
        return build_job::run(session, args, &order);
    }
    let made = standing.map_or_else(|| make(session, &order), Ok)?;
    session
        .output
        .result("image build", &made.to_json(), &made.to_text("built"))?;
    Ok(0)
}

/// What the options ask a recipe for.
fn target(args: &ImageBuild) -> Result<Target, Error> {
    let version = args.version.as_deref().map(VersionRange::parse).transpose();
    let version = version.map_err(|why| Error::new(Kind::Usage, format!("`--version`: {why}")))?;
    Ok(Target {
        version,
        provenance: args.provenance,
        compiler: args.compiler.clone(),
        accelerator: args.gpu.unwrap_or(Accelerator::None),
        microarch: args.microarch.clone(),
        with: args.with.clone(),
        recipe: args.recipe.clone(),
        base: args.base.as_deref().map(base).transpose()?,
        ..Target::new(&args.framework.to_lowercase(), arch())
    })
}

/// A base that is a path is told from one that is a name by its slash; it is the recipe's from everywhere.
fn base(text: &str) -> Result<String, Error> {
    if text.contains("://") || !text.contains('/') {
        return Ok(text.to_owned());
    }
    let path = std::path::absolute(text)?;
    if !path.exists() {
        return Err(Error::new(
            Kind::Missing,
            format!("`--base`: {} is not there", path.display()),
        ));
    }
    Ok(path.to_string_lossy().into_owned())
}

/// This machine's architecture as `uname -m` has it.
pub(crate) fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
        other => other,
    }
}

/// The definition for a target, or why no recipe serves it.
pub(crate) fn written(target: &Target, site: &Site) -> Result<Definition, Error> {
    let definition =
        definition(target, site).map_err(|problems| refused(&target.framework, &problems))?;
    let missing = definition.needs.files.iter().find(|file| !file.exists());
    match missing {
        Some(file) => {
            let message = format!(
                "the recipe {} needs {}, which is not there",
                definition.recipe,
                file.display()
            );
            Err(Error::new(Kind::Missing, message).hinted(
                "`--base` names another base image; the table [recipes.base] says which images there are",
            ))
        }
        None => Ok(definition),
    }
}

fn refused(framework: &str, problems: &[Problem]) -> Error {
    let all: Vec<&str> = problems
        .iter()
        .map(|problem| problem.message.as_str())
        .collect();
    let message = match &all[..] {
        [one] => (*one).to_owned(),
        several => format!(
            "no recipe makes such an image of {framework}:\n{}",
            several.join("\n")
        ),
    };
    let hints = problems.iter().filter_map(|problem| problem.hint.clone());
    hints.fold(Error::new(Kind::Missing, message), Error::hinted)
}

/// An image of a recipe. Its default name has the definition's hash in it: the same recipe is never built twice.
pub(crate) fn of_recipe(
    session: &Session,
    definition: &Definition,
    name: Option<&str>,
    owner: Owner,
) -> Result<Order, Error> {
    let name = checked(name.unwrap_or(&definition.name))?;
    let place = Place::Path(session.image_file(name, owner)?);
    let entry = Entry {
        provenance: Some(definition.provenance),
        arch: definition.arch.clone(),
        microarch: definition.microarch.clone(),
        accelerator: definition.accelerator,
        cuda: definition.cuda.clone(),
        compilers: definition.compilers.clone(),
        python: definition.python.clone(),
        packages: definition.packages.clone(),
        mpi: definition.mpi.clone(),
        recipe: Some(format!(
            "{} {}",
            definition.recipe,
            definition.hash.get(..12).unwrap_or_default()
        )),
        ..Entry::new(
            name,
            place,
            &definition.framework,
            &definition.version,
            owner,
            Origin::Default,
        )
    };
    let room = definition.needs.disk.map_or(0, |bytes| bytes.0);
    Ok(Order {
        entry,
        origins: Origins::Definition {
            text: definition.text.clone(),
            dir: None,
            room,
        },
        force: false,
    })
}

/// An image of a definition file of the user's own, which the options describe.
fn of_file(
    session: &Session,
    args: &ImageBuild,
    file: &Path,
    owner: Owner,
) -> Result<Order, Error> {
    let path = std::path::absolute(file)?;
    let text = read(&path)?;
    let version = args.version.as_deref().ok_or_else(|| {
        Error::new(
            Kind::Usage,
            "`--definition` needs `--version`: what the image is, its definition file does not say",
        )
    })?;
    let stem = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let name = checked(args.name.as_deref().unwrap_or(&stem))?.to_owned();
    let place = Place::Path(session.image_file(&name, owner)?);
    let entry = Entry {
        provenance: args.provenance,
        arch: arch().to_owned(),
        microarch: args.microarch.clone(),
        accelerator: args.gpu.unwrap_or(Accelerator::None),
        compilers: args.compiler.iter().cloned().collect(),
        packages: args.with.clone(),
        recipe: Some(path.to_string_lossy().into_owned()),
        ..Entry::new(
            &name,
            place,
            &args.framework.to_lowercase(),
            version,
            owner,
            Origin::Default,
        )
    };
    let dir = path.parent().map(Path::to_owned);
    Ok(Order {
        entry,
        origins: Origins::Definition { text, dir, room: 0 },
        force: args.force,
    })
}

pub(super) fn checked(name: &str) -> Result<&str, Error> {
    match name_problem(name) {
        None => Ok(name),
        Some(problem) => {
            Err(Error::new(Kind::Usage, problem)
                .hinted("`--name` gives the image a name of your own"))
        }
    }
}

fn read(path: &Path) -> Result<String, Error> {
    let failed = |why: String| {
        let message = format!("`--definition`: cannot read {}: {why}", path.display());
        Error::new(Kind::Missing, message)
    };
    let mut text = String::new();
    let file = open(path).map_err(|error| failed(error.to_string()))?;
    let count = file
        .take(MAX_DEFINITION_BYTES + 1)
        .read_to_string(&mut text);
    match count.map_err(|error| failed(error.to_string()))? as u64 {
        0 => Err(failed("it is empty".to_owned())),
        count if count > MAX_DEFINITION_BYTES => Err(failed("it is larger than 1 MiB".to_owned())),
        _ => Ok(text),
    }
}
