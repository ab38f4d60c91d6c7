//! What the site says of images' places and of the machines that they run on.

use std::path::Path;

use toml::de::DeTable;

use crate::config::fragment::Origin;
use crate::config::version::VersionRange;
use crate::foundation::diagnostic::Problem;
use crate::job::{read_uri, word};

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

/// A line of `[aliases]`: `NAME://x` stands for TARGET`/x`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    /// The scheme.
    pub name: String,
    /// What it stands for, a URI of a scheme that the runtimes know, without a `/` at its end.
    pub target: String,
    /// Where it stands.
    pub origin: Origin,
}

/// A line of `[mirrors]`: what begins with FROM comes from TO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// How the URIs begin, without a `/` at the end.
    pub from: String,
    /// How they begin instead, without a `/` at the end.
    pub to: String,
    /// Where it stands.
    pub origin: Origin,
}

pub(super) fn aliases(
    table: &DeTable<'_>,
    text: &str,
    path: &Path,
    problems: &mut Vec<Problem>,
) -> Vec<Alias> {
    let read = |name: &str, target: &str| {
        if SCHEMES.contains(&name) {
            return Err(format!(
                "`aliases.{name}`: that is a scheme of the runtime; write a mirror for it"
            ));
        }
        let is_scheme = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.len() <= 40
            && name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+.-".contains(c));
        if !is_scheme {
            return Err(format!(
                "`aliases`: {name:?} is no scheme (small letters, digits and `+ . -`)"
            ));
        }
        let target = known_uri(target).map_err(|why| format!("`aliases.{name}`: {why}"))?;
        Ok((name.to_owned(), target))
    };
    let lines = lines(table, text, path, problems, ("aliases", read));
    lines
        .into_iter()
        .map(|((name, target), origin)| Alias {
            name,
            target,
            origin,
        })
        .collect()
}

pub(super) fn mirrors(
    table: &DeTable<'_>,
    text: &str,
    path: &Path,
    problems: &mut Vec<Problem>,
) -> Vec<Mirror> {
    let read = |from: &str, to: &str| {
        let from = known_uri(from).map_err(|why| format!("`mirrors`: {why}"))?;
        let to = known_uri(to).map_err(|why| format!("`mirrors`: {why}"))?;
        Ok((from, to))
    };
    let lines = lines(table, text, path, problems, ("mirrors", read));
    lines
        .into_iter()
        .map(|((from, to), origin)| Mirror { from, to, origin })
        .collect()
}

type Line = ((String, String), Origin);

/// The lines of a table of texts, in the order of the file.
fn lines(
    table: &DeTable<'_>,
    text: &str,
    path: &Path,
    problems: &mut Vec<Problem>,
    (of, read): (
        &str,
        impl Fn(&str, &str) -> Result<(String, String), String>,
    ),
) -> Vec<Line> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    let mut lines = Vec::new();
    for (name, value) in entries {
        let key: &str = name.get_ref();
        let Some(target) = value.get_ref().as_str() else {
            problems.push(Problem::at(
                value.span(),
                format!("`{of}.{key:?}` must be text in quotes"),
            ));
            continue;
        };
        match read(key, target) {
            Ok(pair) => {
                let line = text[..name.span().start].matches('\n').count() + 1;
                lines.push((
                    pair,
                    Origin::File {
                        path: path.to_owned(),
                        line,
                    },
                ));
            }
            Err(why) => problems.push(Problem::at(name.span(), why)),
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

/// As `uname -m` has it; Debian's and Go's words are known.
pub(crate) fn read_arch(text: &str) -> Result<String, String> {
    Ok(match word(text)?.as_str() {
        "amd64" => "x86_64".to_owned(),
        "arm64" => "aarch64".to_owned(),
        other => other.to_owned(),
    })
}

/// A driver's version: numbers.
pub(super) fn read_driver(text: &str) -> Result<String, String> {
    let is_version =
        text.starts_with(|c: char| c.is_ascii_digit()) && VersionRange::parse(text).is_ok();
    is_version
        .then(|| text.to_owned())
        .ok_or_else(|| format!("{text:?} is no version such as \"550.54\""))
}
