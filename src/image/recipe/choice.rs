//! Which recipe and which of its versions serve a target.

use crate::config::VersionRange;
use crate::foundation::diagnostic::{Problem, nearest};
use crate::image::catalogue::Accelerator;
use crate::image::choice::meant;

use crate::image::recipe::header::{Pin, Recipe};
use crate::image::recipe::{Target, built_in};

/// What was chosen.
pub(crate) struct Choice {
    pub(crate) recipe: Recipe,
    pub(crate) pin: Pin,
    pub(crate) compiler: String,
}

/// The first recipe and the first of its pins that serve `target`. Those of the files, `own`, come first: the user's recipes come before the site's, those before
/// the built-in ones, and a name that came before hides a later one.
pub(crate) fn choose(target: &Target, own: &[Recipe]) -> Result<Choice, Vec<Problem>> {
    let mut recipes = own.to_vec();
    for recipe in built_in() {
        if recipes.iter().all(|known| known.name != recipe.name) {
            recipes.push(recipe);
        }
    }
    if let Some(name) = &target.recipe
        && recipes.iter().all(|recipe| recipe.name != *name)
    {
        return Err(vec![unknown(
            "recipe",
            name,
            recipes.iter().map(|recipe| recipe.name.as_str()),
        )]);
    }
    let named = |recipe: &&Recipe| {
        target
            .recipe
            .as_ref()
            .is_none_or(|name| *name == recipe.name)
    };
    let of_framework = |recipe: &&Recipe| recipe.framework == target.framework;
    let mut reasons = Vec::new();
    for recipe in recipes.iter().filter(named).filter(of_framework) {
        match serves(recipe, target) {
            Ok((pin, compiler)) => {
                return Ok(Choice {
                    recipe: recipe.clone(),
                    pin,
                    compiler,
                });
            }
            Err(why) => reasons.push(Problem::of_file(format!(
                "recipe {}: {why}",
                recipe.shown()
            ))),
        }
    }
    if reasons.is_empty() {
        let frameworks = recipes
            .iter()
            .filter(named)
            .map(|recipe| recipe.framework.as_str());
        return Err(vec![unknown(
            "recipe for the framework",
            &target.framework,
            frameworks,
        )]);
    }
    Err(reasons)
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Problem {
    let mut known: Vec<_> = known.collect();
    known.sort_unstable();
    known.dedup();
    let meant = meant(name, known.iter().copied()).or_else(|| nearest(name, known.iter().copied()));
    let hint = match meant {
        Some(guess) => format!("did you mean `{guess}`?"),
        None => format!(
            "there are {}; recipes of your own are NAME.def in recipes.d",
            known.join(", ")
        ),
    };
    Problem::of_file(format!("there is no {what} {name:?}")).hinted(hint)
}

/// The pin and the compiler with which `recipe` serves `target`, or why it does not.
fn serves(recipe: &Recipe, target: &Target) -> Result<(Pin, String), String> {
    let (accelerator, compiler) = (target.accelerator, target.compiler.as_ref());
    let is_other = |provenance| provenance != recipe.provenance;
    let lacks = |wanted| !recipe.compilers.contains(wanted);
    let misfits = [
        (
            target.provenance.is_some_and(is_other),
            format!("takes the framework from {}", recipe.provenance.as_str()),
        ),
        (
            !recipe.accelerators.contains(&accelerator),
            format!("is not for the accelerator {}", accelerator.as_str()),
        ),
        (
            !recipe.archs.contains(&target.arch),
            format!(
                "is for {}, not for {:?}",
                recipe.archs.join(", "),
                target.arch
            ),
        ),
        (
            compiler.is_some_and(lacks),
            format!("has only the compilers {}", recipe.compilers.join(", ")),
        ),
        (
            !target.with.is_empty() && !recipe.body.contains("{{with}}"),
            "takes no packages".to_owned(),
        ),
    ];
    if let Some((_, why)) = misfits.into_iter().find(|(is_misfit, _)| *is_misfit) {
        return Err(why);
    }
    let fitting: Vec<_> = recipe
        .pins
        .iter()
        .filter_map(|pin| Some((pin, pin_fits(pin, recipe, target)?)))
        .collect();
    if fitting.is_empty() {
        return Err(format!(
            "has no version for the accelerator {} on {}",
            target.accelerator.as_str(),
            target.arch
        ));
    }
    let in_range = |(pin, _): &&(&Pin, &String)| {
        let version = holds(target.version.as_ref(), Some(&pin.version));
        let cuda = target.accelerator != Accelerator::Nvidia
            || holds(
                target.cuda.as_ref(),
                pin.values.get("cuda").map(String::as_str),
            );
        version && cuda
    };
    match fitting.iter().find(in_range) {
        Some((pin, compiler)) => Ok(((*pin).clone(), (*compiler).clone())),
        None => {
            let known: Vec<&str> = fitting.iter().map(|(pin, _)| &pin.version[..]).collect();
            Err(format!(
                "knows the versions {}; none has the requested version and CUDA",
                known.join(", ")
            ))
        }
    }
}

/// The compiler with which `pin` serves `target`, version and CUDA aside.
fn pin_fits<'a>(pin: &Pin, recipe: &'a Recipe, target: &Target) -> Option<&'a String> {
    let fits = pin
        .accelerator
        .is_none_or(|accelerator| accelerator == target.accelerator)
        && pin.arch.as_ref().is_none_or(|arch| *arch == target.arch);
    let has = |compiler: &&String| pin.compilers.is_empty() || pin.compilers.contains(compiler);
    let wanted = |compiler: &&String| {
        target
            .compiler
            .as_ref()
            .is_none_or(|wanted| wanted == *compiler)
    };
    recipe
        .compilers
        .iter()
        .filter(|_| fits)
        .find(|compiler| has(compiler) && wanted(compiler))
}

/// Whether `version` is known and lies in the range; without a range anything does.
fn holds(range: Option<&VersionRange>, version: Option<&str>) -> bool {
    let Some(range) = range else { return true };
    version
        .and_then(|version| VersionRange::parse(version).ok())
        .is_some_and(|version| range.holds(&version))
}
