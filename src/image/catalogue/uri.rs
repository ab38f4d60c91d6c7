//! From the URI that somebody wrote to the one that is fetched: the site's aliases and mirrors.

use crate::config::{Replacement, SCHEMES, Tables};
use crate::foundation::diagnostic::{Problem, nearest};

/// A URI that the runtime knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The URI.
    pub uri: String,
    /// What was replaced and where that is said; empty: it is as it was written.
    pub reasons: Vec<String>,
}

/// Replaces an alias, then the beginning that the longest mirror names. Mirrors are compared with what was written, and for
/// Docker's hub also against its long form: `docker://ubuntu:22.04` is `docker://docker.io/library/ubuntu:22.04`.
///
/// # Errors
/// A scheme that neither the runtime nor the configuration knows.
pub fn fetched(uri: &str, tables: &Tables) -> Result<Fetched, Problem> {
    let (scheme, rest) = uri.split_once("://").unwrap_or(("", uri));
    let mut fetched = Fetched {
        uri: uri.to_owned(),
        reasons: Vec::new(),
    };
    if let Some(alias) = tables.aliases.iter().find(|alias| alias.from == scheme) {
        fetched.uri = format!("{}/{}", alias.to, rest.trim_start_matches('/'));
        fetched.reasons.push(format!(
            "`{scheme}` is an alias of {} ({})",
            alias.to, alias.origin
        ));
    } else if !SCHEMES.contains(&scheme) {
        let known = SCHEMES
            .into_iter()
            .chain(tables.aliases.iter().map(|alias| &alias.from[..]));
        let message = format!(
            "`{scheme}://` is not a scheme of the container runtime, and the configuration has no alias of that name"
        );
        let hint = match nearest(scheme, known) {
            Some(nearest) => format!("did you mean `{nearest}://`?"),
            None => "own schemes are lines of `[aliases]` in the configuration".to_owned(),
        };
        return Err(Problem::of_file(message).hinted(hint));
    }
    let found = tables
        .mirrors
        .iter()
        .filter_map(|mirror| Some((mirror, behind(mirror, &fetched.uri)?)));
    if let Some((mirror, rest)) = found.max_by_key(|(mirror, _)| mirror.from.len()) {
        fetched.reasons.push(format!(
            "{} is the mirror of {} ({})",
            mirror.to, mirror.from, mirror.origin
        ));
        fetched.uri = format!("{}{rest}", mirror.to);
    }
    Ok(fetched)
}

/// What follows the mirror's beginning, where the URI has it.
fn behind(mirror: &Replacement, uri: &str) -> Option<String> {
    let written = uri.strip_prefix(&mirror.from).map(str::to_owned);
    let long = || {
        long_form(uri)?
            .strip_prefix(&mirror.from)
            .map(str::to_owned)
    };
    let ends = |rest: &String| {
        rest.is_empty() || rest.starts_with(['/', ':', '@']) || mirror.from.ends_with("://")
    };
    written.filter(ends).or_else(|| long().filter(ends))
}

/// Docker's hub goes without a host (reference grammar of distribution/reference: the first part is a host where it has a
/// dot or a colon or is `localhost`).
fn long_form(uri: &str) -> Option<String> {
    let name = uri.strip_prefix("docker://")?;
    match name.split_once('/') {
        None => Some(format!("docker://docker.io/library/{name}")),
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => None,
        Some(_) => Some(format!("docker://docker.io/{name}")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Fragment, Settings};

    fn told(uri: &str) -> Result<(String, usize), Problem> {
        let text = "[aliases]\nml = \"docker://registry.example.org/ml/\"\n[mirrors]\n\
                    \"docker://docker.io\" = \"docker://mirror/hub\"\n\"docker://docker.io/library\" = \"oras://mirror/base\"\n\
                    \"docker://registry.example.org\" = \"docker://near:5000\"\n\"https://a/b\" = \"http://c\"\n";
        let fragment = Fragment::from_toml(Path::new("/c.toml"), text);
        assert!(fragment.errors.is_empty(), "{fragment:#?}");
        let settings = Settings::merge(Some("/s".into()), &[fragment]).expect("settings");
        fetched(uri, settings.tables()).map(|fetched| (fetched.uri, fetched.reasons.len()))
    }

    #[test]
    fn aliases_come_first_and_the_longest_mirror_counts() {
        for (written, expected, steps) in [
            ("docker://quay.io/a/b:1", "docker://quay.io/a/b:1", 0),
            (
                "docker://tensorflow/tensorflow:2.1.0",
                "docker://mirror/hub/tensorflow/tensorflow:2.1.0",
                1,
            ),
            (
                "docker://ubuntu:22.04",
                "oras://mirror/base/ubuntu:22.04",
                1,
            ),
            (
                "docker://docker.io/library/ubuntu@sha256:1",
                "oras://mirror/base/ubuntu@sha256:1",
                1,
            ),
            ("docker://docker.iox/y", "docker://docker.iox/y", 0),
            ("ml://x:1", "docker://near:5000/ml/x:1", 2),
            ("https://a/bc.sif", "https://a/bc.sif", 0),
            ("https://a/b/c.sif", "http://c/c.sif", 1),
        ] {
            assert_eq!(told(written), Ok((expected.to_owned(), steps)), "{written}");
        }
    }

    #[test]
    fn an_unknown_scheme_is_named_with_the_nearest() {
        let hint = |uri: &str| told(uri).expect_err("unknown").hint.expect("a hint");
        assert_eq!(hint("dokcer://x"), "did you mean `docker://`?");
        assert_eq!(hint("m1://x"), "did you mean `ml://`?");
        assert!(hint("instance://x").contains("[aliases]"));
        let unknown = told("dokcer://x").expect_err("unknown");
        assert!(unknown.message.starts_with("`dokcer://` is not a scheme"));
    }
}
