//! `dlrun image build`: from a recipe to an image of the catalogue.

use serde::Serialize;

use super::owner;
use crate::app::error::{Error, Kind};
use crate::app::images::making::{Order, make};
use crate::app::images::recipes::{definition_for, order_of_recipe};
use crate::app::session::Session;
use crate::cli::args::ImageBuild;
use crate::config::VersionRange;
use crate::image::catalogue::Accelerator;
use crate::image::recipe::Target;
use crate::image::runtime::arch;

/// The definition that `--print` shows.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PrintedDefinition<'a> {
    name: &'a str,
    definition: &'a str,
    notes: &'a [String],
}

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ImageBuild) -> Result<u8, Error> {
    let owner = owner(args.site);
    let definition = definition_for(session, &target(args)?)?;
    let order = Order {
        force: args.force,
        ..order_of_recipe(session, &definition, args.name.as_deref(), owner)?
    };
    for note in &definition.notes {
        session.note(&format!("{}: {note}", order.entry.name));
    }
    if args.print {
        let (name, text) = (&order.entry.name, &definition.text);
        let answer = PrintedDefinition {
            name,
            definition: text,
            notes: &definition.notes,
        };
        return session.answer(&answer, text);
    }
    let made = make(session, &order)?;
    session.answer(&made, &made.to_text("built"))
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
        ..Target::new(&args.framework.to_lowercase(), arch())
    })
}
