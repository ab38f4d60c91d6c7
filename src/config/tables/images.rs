//! What the site says of images' places and of the machines that they run on.

use crate::config::origin::{Origin, SourceFile};
use crate::foundation::diagnostic::Problem;
use crate::foundation::toml_reader::Fields;
use crate::job::read_uri;

/// Schemes that the runtimes know (Apptainer's user guide, "Supported URIs").
pub const SCHEMES: [&str; 10] = [
    "docker",
    "oras",
    "library",
    "shub",
    "https",
    "http",
    "docker-archive",
    "docker-daemon",
    "oci",
    "oci-archive",
];

/// Makers of GPUs.
pub(super) const MAKERS: [(&str, &str); 2] = [("nvidia", "nvidia"), ("amd", "amd")];

/// A line of `[aliases]`, by which the scheme FROM means TO`/`, or of `[mirrors]`, by which what begins with FROM comes from TO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// The scheme of an alias; how the URIs of a mirror begin, without a `/` at the end.
    pub from: String,
    /// How they begin instead: a URI of a scheme that the runtimes know, without a `/` at its end.
    pub to: String,
    /// Where it is written.
    pub origin: Origin,
}

pub(super) fn aliases(fields: &mut Fields<'_>, source: &SourceFile<'_>) -> Vec<Replacement> {
    replacements(fields, "aliases", source, |name, target| {
        if SCHEMES.contains(&name) {
            return Err(format!(
                "`aliases.{name}`: that is a scheme of the runtime; write a mirror for it"
            ));
        }
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+.-".contains(c);
        let is_scheme = name.starts_with(|c: char| c.is_ascii_lowercase());
        if !is_scheme || name.len() > 40 || !name.chars().all(allowed) {
            return Err(format!(
                "`aliases`: {name:?} is not a scheme (small letters, digits and `+ . -`)"
            ));
        }
        let target = known_uri(target).map_err(|why| format!("`aliases.{name}`: {why}"))?;
        Ok((name.to_owned(), target))
    })
}

pub(super) fn mirrors(fields: &mut Fields<'_>, source: &SourceFile<'_>) -> Vec<Replacement> {
    replacements(fields, "mirrors", source, |from, to| {
        let uri = |text| known_uri(text).map_err(|why| format!("`mirrors`: {why}"));
        Ok((uri(from)?, uri(to)?))
    })
}

/// The lines of a table of texts.
fn replacements(
    fields: &mut Fields<'_>,
    key: &'static str,
    source: &SourceFile<'_>,
    read: impl Fn(&str, &str) -> Result<(String, String), String>,
) -> Vec<Replacement> {
    let mut lines = Vec::new();
    for (name, target) in fields.text_table(key) {
        let origin = source.origin(&name.span);
        match read(&name.value, &target) {
            Ok((from, to)) => lines.push(Replacement { from, to, origin }),
            Err(why) => fields.problem(Problem::at(name.span, why)),
        }
    }
    lines
}

fn known_uri(text: &str) -> Result<String, String> {
    let uri = read_uri(text)?;
    let scheme = uri.split("://").next().unwrap_or_default();
    if !SCHEMES.contains(&scheme) {
        return Err(format!(
            "{text:?} has no scheme of the runtime; there are {}",
            SCHEMES.join(", ")
        ));
    }
    Ok(uri.trim_end_matches('/').to_owned())
}
