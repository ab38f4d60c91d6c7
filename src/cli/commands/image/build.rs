//! `dlrun image build`: from a recipe, or a definition file, to an image of the catalogue.

use std::io::Read;
use std::path::Path;

use serde_json::json;

use super::{build_job, owner};
use crate::app::error::{Error, Kind};
use crate::app::images::build_job::read_order;
use crate::app::images::making::{MAX_DEFINITION_BYTES, Order, Origins, make, standing};
use crate::app::images::recipes::{arch, checked_name, definition_for, order_of_recipe};
use crate::app::job::source::open;
use crate::app::session::Session;
use crate::cli::args::ImageBuild;
use crate::config::{Origin, Owner, VersionRange};
use crate::image::catalogue::{Accelerator, Entry, Place};
use crate::image::recipe::Target;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ImageBuild) -> Result<u8, Error> {
    let owner = owner(args.site);
    let mut notes = Vec::new();
    let order = if let Some(order) = &args.order {
        read_order(order, owner, args.from_dir.as_deref(), args.force)?
    } else if let Some(file) = &args.definition {
        of_file(session, args, file, owner)?
    } else {
        let definition = definition_for(&target(args)?, &session.recipes()?)?;
        notes.clone_from(&definition.notes);
        order_of_recipe(session, &definition, args.name.as_deref(), owner)?.forced(args.force)
    };
    for note in &notes {
        session.note(&format!("{}: {note}", order.entry.name));
    }
    if args.print
        && let Origins::Definition { text, .. } = &order.origins
    {
        let value = json!({ "name": order.entry.name, "definition": text, "notes": notes });
        return session.answer(&value, text);
    }
    let known = match args.submit {
        true => standing(session, &order)?,
        false => None,
    };
    if args.submit && known.is_none() {
        return build_job::run(session, args, &order);
    }
    let made = known.map_or_else(|| make(session, &order), Ok)?;
    session.answer(&made.to_json(), &made.to_text("built"))
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

/// A base with a slash is a path, and becomes absolute; another is a name.
fn base(text: &str) -> Result<String, Error> {
    if text.contains("://") || !text.contains('/') {
        return Ok(text.to_owned());
    }
    let path = std::path::absolute(text)?;
    if !path.exists() {
        return Err(Error::new(
            Kind::Missing,
            format!("`--base`: {} does not exist", path.display()),
        ));
    }
    Ok(path.to_string_lossy().into_owned())
}

/// An image of the user's own definition file, which the options describe.
fn of_file(
    session: &Session,
    args: &ImageBuild,
    file: &Path,
    owner: Owner,
) -> Result<Order, Error> {
    let path = std::path::absolute(file)?;
    let text = read(&path)?;
    let Some(version) = &args.version else {
        let message =
            "`--definition` needs `--version`: what the image is, its definition file does not say";
        return Err(Error::new(Kind::Usage, message));
    };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = checked_name(args.name.as_deref().unwrap_or(&stem))?;
    let place = Place::Path(session.image_file(name, owner)?);
    let framework = args.framework.to_lowercase();
    let entry = Entry {
        provenance: args.provenance,
        arch: arch().to_owned(),
        microarch: args.microarch.clone(),
        accelerator: args.gpu.unwrap_or(Accelerator::None),
        compilers: args.compiler.iter().cloned().collect(),
        packages: args.with.clone(),
        recipe: Some(path.to_string_lossy().into_owned()),
        ..Entry::new(name, place, &framework, version, owner, Origin::Default)
    };
    let dir = path.parent().map(Path::to_owned);
    Ok(Order {
        entry,
        origins: Origins::Definition { text, dir, room: 0 },
        force: args.force,
    })
}

fn read(path: &Path) -> Result<String, Error> {
    let failed = |why: &dyn std::fmt::Display| {
        let message = format!("`--definition`: cannot read {}: {why}", path.display());
        Error::new(Kind::Missing, message)
    };
    let mut text = String::new();
    let file = open(path).map_err(|error| failed(&error))?;
    let mut file = file.take(MAX_DEFINITION_BYTES + 1);
    match file
        .read_to_string(&mut text)
        .map_err(|error| failed(&error))? as u64
    {
        0 => Err(failed(&"it is empty")),
        count if count > MAX_DEFINITION_BYTES => Err(failed(&"it is larger than 1 MiB")),
        _ => Ok(text),
    }
}
