//! What an environment would be, and whether it is there. Starts no process for one that is.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::image::fingerprint::hex;
use crate::image::python::failure::PyenvError;
use crate::image::python::interpreter::{self, Interpreter};
use crate::image::python::requirements::{self, Part};

/// The file that says that an environment is whole, and of what it was made.
pub(crate) const MARKER: &str = "dlrun-env.json";

/// Part of every hash and marker. A new number makes all environments again.
pub(crate) const FORMAT: u32 = 1;

/// Letters of the hash that name a directory: 64 bits are enough for the environments of one user.
const NAME_LETTERS: usize = 16;

/// An environment as it is or is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvFacts {
    /// Where it lies: the path to activate. A symbolic link that appears when it is whole.
    pub dir: PathBuf,
    /// Whether it is there and whole.
    pub ready: bool,
    /// The interpreter that it is made with, without symbolic links.
    pub interpreter: PathBuf,
    /// That interpreter's version, such as `3.11.7`.
    pub version: String,
    /// SHA-256 of what it is made of, in hexadecimal.
    pub hash: String,
    /// The requirements file, absolute.
    pub requirements: PathBuf,
}

/// Content of [`MARKER`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Marker {
    pub(crate) format: u32,
    pub(crate) hash: String,
    pub(crate) interpreter: PathBuf,
    pub(crate) version: String,
    pub(crate) requirements: PathBuf,
}

/// Describes the environment for `requirements`, made with `interpreter` (default: the first `python3` in `PATH`) under
/// `env_root`. Changes nothing.
///
/// # Errors
/// When the requirements cannot be read, or no usable interpreter is found.
pub fn inspect(
    requirements: &Path,
    interpreter: Option<&Path>,
    env_root: &Path,
) -> Result<EnvFacts, PyenvError> {
    let unreadable = |source| PyenvError::Requirements(requirements.to_owned(), source);
    let requirements = std::path::absolute(requirements).map_err(unreadable)?;
    let parts = requirements::read(&requirements)?;
    let python = interpreter::find(interpreter)?;
    let hash = hash(&parts, &python);
    let root = std::path::absolute(env_root).map_err(PyenvError::write(env_root))?;
    let dir = root.join(&hash[..NAME_LETTERS]);
    let made = whole(&dir, &hash);
    let ready = made.is_some();
    let version = match made {
        Some(marker) => marker.version,
        None => interpreter::version(&python.path)?,
    };

    Ok(EnvFacts {
        dir,
        ready,
        interpreter: python.path,
        version,
        hash,
        requirements,
    })
}

/// The marker of an environment that is whole and made of what `hash` stands for.
pub(crate) fn whole(dir: &Path, hash: &str) -> Option<Marker> {
    let text = fs::read_to_string(dir.join(MARKER)).ok()?;
    let marker: Marker = serde_json::from_str(&text).ok()?;
    // Sites that purge old files may leave the marker and take the rest.
    let usable = marker.format == FORMAT && marker.hash == hash && dir.join("bin/python3").exists();
    usable.then_some(marker)
}

/// Whether the requirements still are what `facts` was made from.
pub(crate) fn is_unchanged(facts: &EnvFacts) -> Result<bool, PyenvError> {
    let parts = requirements::read(&facts.requirements)?;
    let python = interpreter::find(Some(&facts.interpreter))?;
    Ok(hash(&parts, &python) == facts.hash)
}

/// Every part is preceded by its length, so that no two lists of parts give the same bytes.
fn hash(parts: &[Part], python: &Interpreter) -> String {
    let mut sum = Sha256::new();
    let mut add = |bytes: &[u8]| {
        sum.update(bytes.len().to_le_bytes());
        sum.update(bytes);
    };
    add(format!(
        "dlrun python environment {FORMAT} {}",
        std::env::consts::ARCH
    )
    .as_bytes());
    add(python.path.as_os_str().as_encoded_bytes());
    add(format!("{} {}", python.modified_ns, python.size_bytes).as_bytes());
    for part in parts {
        add(part.text.as_bytes());
    }
    // pip runs where the first file lies, so that is what local names in any of them are relative to.
    if let Some(first) = parts
        .first()
        .filter(|_| parts.iter().any(|part| part.is_local))
    {
        add(first
            .path
            .parent()
            .unwrap_or(Path::new("/"))
            .as_os_str()
            .as_encoded_bytes());
    }
    hex(&sum.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(path: &str, text: &str, is_local: bool) -> Part {
        Part {
            path: path.into(),
            text: text.to_owned(),
            is_local,
        }
    }

    fn python() -> Interpreter {
        Interpreter {
            path: "/usr/bin/python3.11".into(),
            modified_ns: 1,
            size_bytes: 2,
        }
    }

    #[test]
    fn hash_depends_on_content_and_interpreter() {
        let of = |parts: &[Part]| hash(parts, &python());
        let one = of(&[part("/a/r.txt", "torch\n", false)]);
        assert_eq!(one.len(), 64);
        assert_eq!(
            one,
            of(&[part("/b/other.txt", "torch\n", false)]),
            "where it lies does not matter"
        );
        assert_ne!(one, of(&[part("/a/r.txt", "torch==2\n", false)]));
        assert_ne!(
            one,
            of(&[
                part("/a/r.txt", "tor", false),
                part("/a/s.txt", "ch\n", false)
            ])
        );
        let changed = Interpreter {
            modified_ns: 2,
            ..python()
        };
        assert_ne!(one, hash(&[part("/a/r.txt", "torch\n", false)], &changed));
    }

    #[test]
    fn hash_depends_on_the_directory_where_names_are_local() {
        let of = |path| hash(&[part(path, "./mine\n", true)], &python());
        assert_ne!(of("/a/r.txt"), of("/b/r.txt"));
        assert_eq!(of("/a/r.txt"), of("/a/s.txt"));
    }
}
