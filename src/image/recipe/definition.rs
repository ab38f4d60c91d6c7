//! The definition file itself.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::config::{Owner, RecipeTable};
use crate::foundation::diagnostic::Problem;
use crate::foundation::units::Bytes;
use crate::image::catalogue::{Accelerator, Entry};
use crate::job::Provenance;

use crate::image::fingerprint;
use crate::image::recipe::choice::{Choice, choose};
use crate::image::recipe::fill::{Values, fill};
use crate::image::recipe::values::{basic, files, plain, setup};
use crate::image::recipe::{Recipe, Target};

/// A definition file, and what is known of the image that it makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// The file's text.
    pub text: String,
    /// The recipe's name.
    pub recipe: String,
    /// The image that it makes, as the catalogue describes it, without a place. Its name tells it from those of other definitions:
    /// `tensorflow-2.21.0-pip-cpu-xla-1a2b3c4d`.
    pub entry: Entry,
    /// Files and directories that must be there: base image, certificates.
    pub files: Vec<PathBuf>,
    /// About so much space for unpacking and for the image.
    pub disk: Option<Bytes>,
    /// What the user should know, sentence by sentence.
    pub notes: Vec<String>,
}

/// Writes the definition of an image for `target`, by the recipes of files (see [`crate::image::recipe::recipes_in`]) and by
/// those that are built in.
///
/// # Errors
/// With why each recipe of the framework does not serve, or with what cannot be put into a definition.
pub fn definition(
    target: &Target,
    site: &RecipeTable,
    recipes: &[Recipe],
) -> Result<Definition, Vec<Problem>> {
    let choice = choose(target, recipes)?;
    let mut values = basic(target, &choice, site)?;
    let base = base(&choice, site, &values)?;
    let compiled = choice.recipe.provenance == Provenance::Source;
    let microarch = target.microarch.clone().filter(|_| compiled);
    let mut labels = labels(&values, &base, microarch.as_deref());
    if !target.with.is_empty() {
        labels.insert("dlrun.packages".to_owned(), target.with.join(" "));
    }
    values.insert("base".to_owned(), base.clone());
    values.insert("bootstrap".to_owned(), bootstrap(&base)?);
    values.insert("files".to_owned(), files(site)?);
    values.insert("setup".to_owned(), setup(site)?);
    let write = |hash: Option<&str>| {
        let mut values = values.clone();
        let own = hash.map(|hash| format!("{HASH_LABEL} {hash}"));
        let lines = labels
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .chain(own);
        values.insert("labels".to_owned(), lines.collect::<Vec<_>>().join("\n"));
        fill(&choice.recipe.body, &values).map_err(|problems| with_recipe_name(&choice, problems))
    };
    let hash = fingerprint(&write(None)?);
    let text = write(Some(&hash))?;
    let value = |name: &str| values.get(name).filter(|value| !value.is_empty()).cloned();
    let cuda = value("cuda").filter(|_| target.accelerator == Accelerator::Nvidia);
    let name = name(
        target,
        &choice,
        cuda.as_deref(),
        microarch.as_deref(),
        &hash,
    );
    let (recipe, pin) = (&choice.recipe, &choice.pin);
    let entry = Entry {
        name,
        framework: recipe.framework.clone(),
        version: pin.version.clone(),
        owner: Owner::User,
        provenance: Some(recipe.provenance),
        compilers: Some(choice.compiler.clone())
            .filter(|compiler| compiler != "none")
            .into_iter()
            .collect(),
        accelerator: target.accelerator,
        arch: target.arch.clone(),
        cuda,
        python: value("python"),
        packages: target.with.clone(),
        microarch,
        recipe: Some(format!("{} {}", recipe.name, &hash[..12])),
        ..Entry::default()
    };
    Ok(Definition {
        text,
        recipe: recipe.name.clone(),
        entry,
        files: Some(PathBuf::from(&base))
            .filter(|base| base.is_absolute())
            .into_iter()
            .chain(site.certificates.clone())
            .collect(),
        disk: recipe.disk,
        notes: notes(target, &choice, &values, compiled)?,
    })
}

const HASH_LABEL: &str = "dlrun.definition";

fn with_recipe_name(choice: &Choice, problems: Vec<Problem>) -> Vec<Problem> {
    let shown = choice.recipe.shown();
    let named = |problem: Problem| Problem {
        message: format!("recipe {shown}: {}", problem.message),
        ..problem
    };
    problems.into_iter().map(named).collect()
}

/// The image to begin with: a URI, or an absolute path.
fn base(choice: &Choice, site: &RecipeTable, values: &Values) -> Result<String, Vec<Problem>> {
    let of_recipe =
        fill(&choice.recipe.base, values).map_err(|problems| with_recipe_name(choice, problems))?;
    let (name, uri) = of_recipe
        .trim()
        .split_once(char::is_whitespace)
        .unwrap_or((of_recipe.trim(), ""));
    let base = match (site.base.get(name), uri.trim()) {
        (Some(base), _) => base.clone(),
        (None, "") if name.starts_with('/') || name.contains(':') => name.to_owned(),
        (None, "") => {
            let message = format!("there is no base image {name:?}");
            let hint =
                format!("name one: [recipes.base] \"{name}\" = \"/path/of/image.sif\", or a URI");
            return Err(vec![Problem::of_file(message).hinted(hint)]);
        }
        (None, uri) => uri.to_owned(),
    };
    plain("a base image", &base).map_err(|problem| vec![problem])?;
    Ok(base)
}

/// Agents of Apptainer's definition files whose `From` is the rest of the URI.
const AGENTS: [&str; 6] = [
    "docker",
    "library",
    "oras",
    "docker-archive",
    "oci",
    "oci-archive",
];

fn bootstrap(base: &str) -> Result<String, Vec<Problem>> {
    if base.starts_with('/') {
        return Ok(format!("Bootstrap: localimage\nFrom: {base}"));
    }
    let (scheme, rest) = base.split_once(':').unwrap_or((base, ""));
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    if AGENTS.contains(&scheme) && rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/')
    {
        return Ok(format!("Bootstrap: {scheme}\nFrom: {rest}"));
    }
    let message = format!("{base:?} cannot be built on");
    let hint = format!("an absolute path, or a URI of {}", AGENTS.join(", "));
    Err(vec![Problem::of_file(message).hinted(hint)])
}

/// Labels for `apptainer inspect`, by which an image is known again.
fn labels(values: &Values, base: &str, microarch: Option<&str>) -> BTreeMap<String, String> {
    let value = |name: &str| values.get(name).map_or("", String::as_str);
    let own = [
        "recipe",
        "framework",
        "version",
        "provenance",
        "compiler",
        "accelerator",
        "arch",
    ];
    let own = own.map(|name| (format!("dlrun.{name}"), value(name).to_owned()));
    let mut labels = BTreeMap::from(own);
    let cuda = match value("nvidia") {
        "" => "",
        _ => value("cuda"),
    };
    let more = [
        ("dlrun.microarch", microarch.unwrap_or_default()),
        ("dlrun.cuda", cuda),
        ("org.opencontainers.image.title", value("framework")),
        ("org.opencontainers.image.version", value("version")),
        ("org.opencontainers.image.base.name", base),
    ];
    labels.extend(more.map(|(name, value)| (name.to_owned(), value.to_owned())));
    labels.retain(|_, value| !value.is_empty());
    labels
}

fn name(
    target: &Target,
    choice: &Choice,
    cuda: Option<&str>,
    microarch: Option<&str>,
    hash: &str,
) -> String {
    let mut parts = vec![
        choice.recipe.framework.clone(),
        choice.pin.version.clone(),
        choice.recipe.provenance.as_str().to_owned(),
        match (target.accelerator, cuda) {
            (Accelerator::None, _) => "cpu".to_owned(),
            (Accelerator::Nvidia, Some(cuda)) => format!("cuda{cuda}"),
            (of, _) => of.as_str().to_owned(),
        },
    ];
    parts.extend(Some(choice.compiler.clone()).filter(|compiler| compiler != "none"));
    parts.extend(microarch.map(str::to_owned));
    parts.extend(Some(target.arch.clone()).filter(|arch| arch != "x86_64"));
    parts.push(hash[..8].to_owned());
    parts.join("-")
}

fn notes(
    target: &Target,
    choice: &Choice,
    values: &Values,
    compiled: bool,
) -> Result<Vec<String>, Vec<Problem>> {
    let mut notes = Vec::new();
    for note in &choice.recipe.notes {
        let filled = fill(note, values).map_err(|problems| with_recipe_name(choice, problems))?;
        notes.extend(Some(filled.trim().to_owned()).filter(|note| !note.is_empty()));
    }
    if let Some(microarch) = target.microarch.as_ref().filter(|_| !compiled) {
        notes.push(format!(
            "nothing is compiled here, so that {microarch} has no effect; --provenance source compiles"
        ));
    }
    Ok(notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_target_gives_the_same_bytes_and_another_one_another_hash() {
        let (target, site) = (Target::new("tensorflow", "x86_64"), RecipeTable::default());
        let first = definition(&target, &site, &[]).expect("it serves");
        assert_eq!(definition(&target, &site, &[]).as_ref(), Ok(&first));
        let (_, hash) = first.entry.name.rsplit_once('-').expect("a hash");
        assert!(
            first.text.contains(&format!("    dlrun.definition {hash}")),
            "{}",
            first.text
        );
        assert!(!first.text.contains("{{"), "{}", first.text);
        let with_xla = Target {
            compiler: Some("xla".into()),
            ..target
        };
        assert_ne!(
            definition(&with_xla, &site, &[])
                .expect("it serves")
                .entry
                .recipe,
            first.entry.recipe
        );
    }
}
