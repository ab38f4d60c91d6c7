//! The recipes of images, and what they are asked to build.

use super::making::{Order, Origins};
use super::shelves::shelf_dir;
use crate::app::error::{Error, Kind, failure};
use crate::app::session::Session;
use crate::config::Owner;
use crate::foundation::diagnostic::Problem;
use crate::image::catalogue::{Accelerator, Entry, Place, name_problem};
use crate::image::choice::{Device, Processor, Wanted, cuda_for};
use crate::image::recipe::{Definition, Target, definition, recipes_in};
use crate::plan::NoImage;

/// The definition for a target by what the site and the user say of builds, or why no recipe serves it.
pub(crate) fn definition_for(session: &Session, target: &Target) -> Result<Definition, Error> {
    let beside = |owner| Some(shelf_dir(owner).ok()?.with_file_name("recipes.d"));
    let dirs: Vec<_> = [Owner::User, Owner::Site]
        .into_iter()
        .filter_map(beside)
        .collect();
    let recipes = recipes_in(&dirs).map_err(|why| Error::new(Kind::Config, why))?;
    let definition = definition(target, &session.settings.tables().recipes, &recipes)
        .map_err(|problems| no_recipe(&target.framework, &problems))?;
    let missing = definition.files.iter().find(|file| !file.exists());
    match missing {
        Some(file) => {
            let hint = "the table [recipes.base] says which base images there are";
            Err(failure!(
                Missing,
                "the recipe {} needs {}, which does not exist",
                definition.recipe,
                file.display()
            )
            .hinted(hint))
        }
        None => Ok(definition),
    }
}

fn no_recipe(framework: &str, problems: &[Problem]) -> Error {
    let all = problems.iter().map(|problem| problem.message.as_str());
    let all = all.collect::<Vec<_>>().join("\n");
    let message = format!("no recipe makes such an image of {framework}: {all}");
    let hints = problems.iter().filter_map(|problem| problem.hint.clone());
    hints.fold(Error::new(Kind::Missing, message), Error::hinted)
}

/// An image of a recipe. Its default name has the definition's hash in it: the same recipe is never built twice.
pub(crate) fn order_of_recipe(
    session: &Session,
    definition: &Definition,
    name: Option<&str>,
    owner: Owner,
) -> Result<Order, Error> {
    let name = checked_name(name.unwrap_or(&definition.entry.name))?;
    let entry = Entry {
        name: name.to_owned(),
        place: Place::Path(session.image_file(name, owner)?),
        owner,
        ..definition.entry.clone()
    };
    let room = definition.disk.map_or(0, |bytes| bytes.0);
    Ok(Order {
        entry,
        origins: Origins::Definition {
            text: definition.text.clone(),
            room,
        },
        force: false,
    })
}

pub(crate) fn checked_name(name: &str) -> Result<&str, Error> {
    match name_problem(name) {
        None => Ok(name),
        Some(problem) => {
            Err(Error::new(Kind::Usage, problem)
                .hinted("`--name` gives the image a name of your own"))
        }
    }
}

/// What has to be built where no image fits. Nothing is written: a plan shows it too.
pub(crate) fn order_of_plan(session: &Session, none: &NoImage) -> Result<Order, Error> {
    let definition = definition_for(session, &wanted_target(&none.wanted))?;
    order_of_recipe(session, &definition, None, Owner::User)
}

/// A job's wishes as a recipe hears them.
fn wanted_target(wanted: &Wanted) -> Target {
    let accelerator = match &wanted.device {
        Device::Cpu => Accelerator::None,
        // Of GPUs that nobody describes most are NVIDIA's.
        Device::Gpu {
            maker: Accelerator::None,
            ..
        } => Accelerator::Nvidia,
        Device::Gpu { maker, .. } => *maker,
    };
    let cuda = match &wanted.device {
        Device::Gpu {
            driver,
            capabilities,
            ..
        } if accelerator == Accelerator::Nvidia => {
            let capabilities: Vec<&str> = capabilities
                .iter()
                .map(|(capability, _)| &capability[..])
                .collect();
            cuda_for(
                driver.as_ref().map(|(driver, _)| &driver[..]),
                &capabilities,
            )
        }
        _ => None,
    };
    let microarch = match &wanted.processor {
        Processor::Named(name, _) => Some(name.clone()),
        Processor::Here(_) | Processor::Unknown => None,
    };
    let arch = wanted.arch.as_ref().map_or_else(
        || crate::image::runtime::arch().to_owned(),
        |(arch, _)| arch.clone(),
    );
    Target {
        version: wanted.version.clone(),
        provenance: wanted.provenance,
        compiler: wanted.compiler.clone(),
        accelerator,
        microarch,
        cuda,
        with: wanted.packages.clone(),
        ..Target::new(&wanted.framework, &arch)
    }
}
