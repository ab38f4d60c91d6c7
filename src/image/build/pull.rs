//! Pulls an image from a registry or the web, or converts an archive, into a SIF file.

use std::path::{Path, PathBuf};

use crate::foundation::command::Tool;
use crate::image::build::unfinished::{MakeError, Making};
use crate::image::fingerprint;
use crate::image::in_progress::Progress;
use crate::image::runtime::Product;
use crate::job::read_uri;

/// Schemes that name something on a network, as every product's `pull` knows them.
const SCHEMES: [&str; 6] = ["docker", "oras", "library", "shub", "https", "http"];

/// Checks what is to be pulled, such as `docker://registry.example.org/a/x:1`.
///
/// # Errors
/// Why it is no URI that can be pulled, and what would be one.
pub fn check_uri(uri: &str) -> Result<(), String> {
    read_uri(uri)?;
    let (scheme, target) = uri.split_once("://").unwrap_or(("", uri));
    let has_target = target.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[');
    if SCHEMES.contains(&scheme) && has_target && uri.len() <= 2048 {
        return Ok(());
    }
    let known = SCHEMES
        .map(|scheme| format!("{scheme}://HOST/.."))
        .join(", ");
    Err(format!("{uri:?} cannot be pulled; write one of {known}"))
}

/// The URI of the same image by what it holds, `sha256:..`: a registry gives exactly that then. `None`: there is no such
/// address, and the file itself has to be looked at.
#[must_use]
pub fn uri_by_digest(uri: &str, digest: &str) -> Option<String> {
    if !uri.starts_with("docker://") && !uri.starts_with("oras://") {
        return None;
    }
    let path = uri.split_once('@').map_or(uri, |(path, _)| path);
    // A colon behind the last slash begins a tag; one before it, a port.
    let last = path.rfind('/').unwrap_or(0);
    let path = path[last..]
        .find(':')
        .map_or(path, |colon| &path[..last + colon]);
    Some(format!("{path}@{digest}"))
}

/// Pulls into [`Making::part`].
///
/// # Errors
/// As [`Making::run`].
pub fn pull(
    making: &mut Making,
    uri: &str,
    runtime: &str,
    product: Option<Product>,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), MakeError> {
    let tool = Tool::new(runtime).arg("pull").arg(making.part()).arg(uri);
    making.say(&format!("dlrun: {runtime} pull {uri}"));
    making.run(&format!("the pull of {uri}"), tool, product, stop, progress)
}

/// How much of a URI's last part is kept for the eye, in bytes.
const SHOWN: usize = 60;

/// The file in `dir` that a URI is pulled to: the URI's last part, so that people find it, and twelve digits of the SHA-256 of
/// the whole URI, so that `a/x:1` and `b/x:1`, a tag and a digest, `X` and `x` never share a file. The URI is taken as it is
/// written, its aliases replaced.
#[must_use]
pub fn pulled_path(dir: &Path, uri: &str) -> PathBuf {
    dir.join(format!("{}.sif", pulled_name(uri)))
}

/// The name of that file, which is a name for the catalogue too.
#[must_use]
pub fn pulled_name(uri: &str) -> String {
    let rest = uri.split_once(':').map_or(uri, |(_, rest)| rest);
    let last = rest
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or_default();
    let allowed = |c: char| {
        if c.is_ascii_alphanumeric() || "._+-".contains(c) {
            c
        } else {
            '_'
        }
    };
    let last: String = last.chars().map(allowed).take(SHOWN).collect();
    let last = last
        .trim_end_matches(".sif")
        .trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let last = if last.is_empty() { "image" } else { last };
    format!("{last}-{}", &fingerprint(uri)[..12])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::image::catalogue::name_problem;

    #[test]
    fn a_uri_that_names_nothing_or_holds_a_password_is_refused() {
        for uri in [
            "docker://tensorflow/tensorflow:2.15.0",
            "oras://[::1]:5000/a/x:1",
            "https://example.org/x.sif",
        ] {
            assert_eq!(check_uri(uri), Ok(()));
        }
        for (uri, part) in [
            ("tensorflow", "is no URI of an image"),
            ("file:///etc/passwd", "cannot be pulled"),
            ("docker:x", "is no URI of an image"),
            ("docker://", "is no URI of an image"),
            ("docker://--help", "cannot be pulled"),
            ("docker://a\nb", "is no URI of an image"),
            ("docker://a b", "is no URI of an image"),
            ("https://me:secret@h/x.sif", "a user or a password"),
        ] {
            let why = check_uri(uri).expect_err(uri);
            assert!(why.contains(part), "{uri}: {why}");
        }
    }

    #[test]
    fn a_digest_takes_the_place_of_the_tag() {
        for (uri, exact) in [
            (
                "docker://r.example.org:5000/a/x:1",
                "docker://r.example.org:5000/a/x@sha256:1",
            ),
            (
                "docker://r.example.org:5000/a/x",
                "docker://r.example.org:5000/a/x@sha256:1",
            ),
            ("docker://x:1", "docker://x@sha256:1"),
            ("oras://r/x@sha256:2", "oras://r/x@sha256:1"),
        ] {
            assert_eq!(uri_by_digest(uri, "sha256:1").as_deref(), Some(exact));
        }
        assert_eq!(uri_by_digest("https://example.org/x.sif", "sha256:1"), None);
    }

    #[test]
    fn names_show_what_it_is_and_never_collide() {
        let uris = [
            "docker://registry.example.org/a/x:1",
            "docker://registry.example.org/b/x:1",
            "docker://registry.example.org/a/X:1",
            "docker://registry.example.org/a/x_1",
            "docker://registry.example.org/a/x@sha256:1",
            "oras://registry.example.org/a/x:1",
            "docker://x:1",
            "docker://x",
            "docker://x/",
        ];
        let names: HashSet<String> = uris
            .iter()
            .map(|uri| pulled_name(uri).to_lowercase())
            .collect();
        assert_eq!(names.len(), uris.len(), "{names:?}");
        assert!(
            pulled_name(uris[0]).starts_with("x_1-"),
            "{}",
            pulled_name(uris[0])
        );
        assert!(pulled_name("https://example.org/i/base.sif").starts_with("base-"));
        let path = pulled_path(Path::new("/i"), "docker://../../etc/passwd");
        assert_eq!(path.parent(), Some(Path::new("/i")));
    }

    proptest! {
        #[test]
        fn every_uri_gives_a_name_of_the_catalogue(uri in ".{0,200}") {
            prop_assert_eq!(name_problem(&pulled_name(&uri)), None);
        }
    }
}
