//! Names of the files that images are pulled to.

use std::path::{Path, PathBuf};

use crate::image::fingerprint;

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
