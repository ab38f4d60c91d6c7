//! Pulls an image from a registry or the web, or converts an archive, into a SIF file.

use std::path::Path;

use crate::foundation::command::Tool;
use crate::image::build::progress::Progress;
use crate::image::build::unfinished::{MakeError, Making};
use crate::image::runtime::Product;
use crate::job::credentials_in;

/// Schemes that name something on a network, as every product's `pull` knows them.
const REMOTE: [&str; 6] = ["docker", "oras", "library", "shub", "https", "http"];
/// Transports that name something on this machine (containers-transports(5)).
const LOCAL: [&str; 3] = ["docker-archive", "oci-archive", "oci"];

/// Where an image is pulled from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullSource {
    /// `docker://registry.example.org/a/x:1`.
    Remote(&'static str, String),
    /// `docker-archive:/data/x.tar`.
    Local(&'static str, String, String),
}

impl PullSource {
    /// Reads what is to be pulled; relative paths start from `cwd`.
    ///
    /// # Errors
    /// Why it is none, and what would be one.
    pub fn parse(text: &str, cwd: &Path) -> Result<Self, String> {
        if let Some(c) = text.chars().find(|c| c.is_control() || c.is_whitespace()) {
            return Err(format!("{text:?} holds {c:?}, which no URI does"));
        }
        if let Some(problem) = credentials_in(text) {
            return Err(problem);
        }
        if text.len() > 2048 {
            return Err("a URI of more than 2048 bytes is none".to_owned());
        }
        let (scheme, rest) = text.split_once(':').unwrap_or(("", text));
        let known =
            |words: &'static [&'static str]| words.iter().copied().find(|word| *word == scheme);
        if let Some(scheme) = known(&REMOTE) {
            let target = rest.strip_prefix("//").unwrap_or_default();
            return match target.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[') {
                true => Ok(Self::Remote(scheme, text.to_owned())),
                false => Err(format!("{text:?} names nothing behind `{scheme}://`")),
            };
        }
        let Some(transport) = known(&LOCAL) else {
            let words = [
                &REMOTE.map(|word| format!("{word}://"))[..4],
                &LOCAL.map(|word| format!("{word}:")),
            ]
            .concat()
            .join(", ");
            return Err(format!(
                "{text:?} does not say how it is reached; it begins with one of {words}, https://"
            ));
        };
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        let (path, image) = rest.find(':').map_or((rest, ""), |at| rest.split_at(at));
        if path.is_empty() {
            return Err(format!("{text:?} names no file behind `{transport}:`"));
        }
        let path = cwd.join(path).to_string_lossy().into_owned();
        Ok(Self::Local(transport, path, image.to_owned()))
    }

    /// As the runtime is told it; by this text the file is named too.
    #[must_use]
    pub fn uri(&self) -> String {
        match self {
            Self::Remote(_, uri) => uri.clone(),
            Self::Local(transport, path, image) => format!("{transport}:{path}{image}"),
        }
    }

    /// The same image by what it holds, `sha256:..`: a registry gives exactly that then. `None`: there is no such address, and
    /// the file itself has to be looked at.
    #[must_use]
    pub fn by_digest(&self, digest: &str) -> Option<Self> {
        match self {
            Self::Remote(scheme @ ("docker" | "oras"), uri) => {
                let path = uri.split_once('@').map_or(uri.as_str(), |(path, _)| path);
                // A colon behind the last slash begins a tag; one before it, a port.
                let last = path.rfind('/').unwrap_or(0);
                let path = path[last..]
                    .find(':')
                    .map_or(path, |colon| &path[..last + colon]);
                Some(Self::Remote(scheme, format!("{path}@{digest}")))
            }
            _ => None,
        }
    }
}

/// Pulls into [`Making::part`].
///
/// # Errors
/// As [`Making::run`].
pub fn pull(
    making: &mut Making,
    source: &PullSource,
    runtime: &str,
    product: Option<Product>,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), MakeError> {
    let uri = source.uri();
    let tool = Tool::new(runtime).arg("pull").arg(making.part()).arg(&uri);
    making.say(&format!("dlrun: {runtime} pull {uri}"));
    making.run(&format!("the pull of {uri}"), tool, product, stop, progress)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<PullSource, String> {
        PullSource::parse(text, Path::new("/home/u"))
    }

    #[test]
    fn sources_are_told_apart_and_local_ones_are_absolute() {
        for (text, uri) in [
            (
                "docker://tensorflow/tensorflow:2.15.0",
                "docker://tensorflow/tensorflow:2.15.0",
            ),
            ("oras://[::1]:5000/a/x:1", "oras://[::1]:5000/a/x:1"),
            ("https://example.org/x.sif", "https://example.org/x.sif"),
            ("docker-archive:x.tar", "docker-archive:/home/u/x.tar"),
            (
                "docker-archive:/d/x.tar:a/x:1",
                "docker-archive:/d/x.tar:a/x:1",
            ),
            ("oci:layout:1", "oci:/home/u/layout:1"),
        ] {
            assert_eq!(parse(text).map(|source| source.uri()), Ok(uri.to_owned()));
        }
        for (text, part) in [
            ("tensorflow", "does not say how"),
            ("file:///etc/passwd", "does not say how"),
            ("docker://", "names nothing"),
            ("docker://--help", "names nothing"),
            ("docker:x", "names nothing"),
            ("oci:", "names no file"),
            ("docker://a\nb", "holds"),
            ("docker://a b", "holds"),
            ("https://me:secret@h/x.sif", "a user or a password"),
        ] {
            let why = parse(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn a_digest_takes_the_place_of_the_tag() {
        let digest = |text: &str| {
            parse(text)
                .expect("a source")
                .by_digest("sha256:1")
                .map(|source| source.uri())
        };
        for (text, uri) in [
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
            assert_eq!(digest(text).as_deref(), Some(uri));
        }
        assert_eq!(digest("https://example.org/x.sif"), None);
        assert_eq!(digest("oci:/d"), None);
    }
}
