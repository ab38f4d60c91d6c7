//! One image, as it is described and as it was found.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use serde_json::json;

use super::name::name_problem;
use crate::config::{Origin, Owner, VersionRange, arch, text_table};
use crate::foundation::toml_keys::{
    boolean, keys, list, number, parsed, text, texts, values, word,
};
use crate::foundation::vocabulary::vocabulary;
use crate::job::{
    Provenance, line_of_text, name_in_small_letters, name_word, read_uri, version_text,
};

/// Moments after the year 5138 are mistakes, in Unix milliseconds.
const LAST_MOMENT_MS: u64 = 100_000_000_000_000;

/// Where an image is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// A file (SIF) or a sandbox directory, absolute.
    Path(#[serde(serialize_with = "path_as_text")] PathBuf),
    /// A URI, aliases not yet replaced.
    Uri(String),
}

impl Default for Place {
    fn default() -> Self {
        Self::Path(PathBuf::new())
    }
}

impl Place {
    /// Reads an absolute path, or a URI such as `docker://tensorflow/tensorflow:2.1.0`.
    ///
    /// # Errors
    /// With what is wrong, for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            _ if text.contains("://") => read_uri(text).map(Self::Uri),
            _ if text.chars().any(char::is_control) => {
                Err(format!("{text:?} holds a control character"))
            }
            _ if text.len() > 4096 => Err("a path is not longer than 4096 bytes".to_owned()),
            _ if text.starts_with('/') => Ok(Self::Path(PathBuf::from(text))),
            _ => Err(format!("{text:?} is neither an absolute path nor a URI")),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Uri(uri) => f.write_str(uri),
        }
    }
}

vocabulary! {
    /// What an image's framework computes on.
    #[derive(Default)]
    pub enum Accelerator {
        /// CPUs alone.
        #[default]
        None = "none",
        /// NVIDIA's GPUs.
        Nvidia = "nvidia",
        /// AMD's GPUs.
        Amd = "amd",
    }
}

keys! {
    /// An image of the catalogue: `[[image]]`. What is `None` or empty is not said.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
    pub struct Entry {
        /// Its name, unique in the catalogue: see [`crate::image::catalogue::name_problem`].
        name: String = or_default(parsed("", read_name)),
        /// Where it is.
        [serde(flatten)]
        place: Place,
        /// `tensorflow`, `pytorch`, `keras`, `mxnet`, `jax`, ..., in small letters.
        framework: String = or_default(name_word()),
        /// The framework's version, such as `2.4.1`.
        version: String = or_default(parsed("", version_text)),
        /// Where it got the framework from.
        provenance: Option<Provenance> = optional(word(&Provenance::WORDS)),
        /// As `uname -m` has it: `x86_64`, `aarch64`, `ppc64le`. Default of the file: `x86_64`.
        arch: String = or_default(arch().or(Self::DEFAULT_ARCH.to_owned())),
        /// The least processor that its code runs on: `x86-64-v3`, or archspec's name such as `skylake_avx512`.
        microarch: Option<String> = optional(name_word()),
        /// What its framework computes on.
        accelerator: Accelerator = or_default(word(&Accelerator::WORDS)),
        /// CUDA's version in the image, such as `12.4`.
        cuda: Option<String> = optional(parsed("", version_text)),
        /// Compute capabilities of NVIDIA's GPUs that its code runs on, such as `>=7.5`; `None`: what its CUDA serves.
        [serde(serialize_with = "as_text")]
        compute_capability: Option<VersionRange> = optional(parsed("", VersionRange::parse)),
        /// ROCm's version in the image.
        rocm: Option<String> = optional(parsed("", version_text)),
        /// Graph compilers that it has: `xla`, `inductor`, `ngraph`, `glow`.
        compilers: Vec<String> = or_default(values(list(&json!({}), name_in_small_letters))),
        /// Python's version.
        python: Option<String> = optional(parsed("", version_text)),
        /// Python packages beside the framework that it was given: `scikit-learn`.
        packages: Vec<String> = or_default(texts()),
        /// The MPI in it and its version: `openmpi 4.1`, `mpich 4.0`.
        mpi: Option<String> = optional(parsed("", line_of_text)),
        /// `sha256:` and 64 hexadecimal digits of the SIF file; of a URI, the hub's own digest.
        digest: Option<String> = optional(parsed("", read_digest)),
        /// The recipe that it was built from.
        recipe: Option<String> = optional(parsed("", line_of_text)),
        /// The id of the run that built it, where a job did.
        built_by: Option<String> = optional(parsed("", line_of_text)),
        /// Whether it runs with `--fakeroot` only.
        needs_fakeroot: bool = or_default(boolean()),
        /// Whose file describes it.
        [serde(skip)]
        owner: Owner,
        /// Where it is described.
        [serde(skip)]
        origin: Origin,
        /// What the latest check found.
        [serde(skip)]
        check: Option<Check>,
        /// What is there of its file.
        [serde(skip)]
        file: FileState,
    }
}

fn path_as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

fn as_text<S: Serializer>(range: &Option<VersionRange>, serializer: S) -> Result<S::Ok, S::Error> {
    match range {
        Some(range) => serializer.collect_str(range),
        None => serializer.serialize_none(),
    }
}

impl Entry {
    /// What the architecture is where a description does not say.
    pub const DEFAULT_ARCH: &str = "x86_64";

    /// An image of which nothing further is said.
    #[cfg(test)]
    pub(crate) fn new(
        name: &str,
        place: Place,
        framework: &str,
        version: &str,
        owner: Owner,
        origin: Origin,
    ) -> Self {
        Self {
            name: name.to_owned(),
            place,
            framework: framework.to_owned(),
            version: version.to_owned(),
            arch: Self::DEFAULT_ARCH.to_owned(),
            owner,
            origin,
            ..Self::default()
        }
    }

    /// Says whether the file was written again since its check, so that the check tells of another file. `None`: there is
    /// no check, or nothing to hold it against.
    #[must_use]
    pub fn changed_since_check(&self) -> Option<bool> {
        let FileState::There {
            size_bytes,
            modified_ms,
        } = &self.file
        else {
            return None;
        };
        let check = self.check.as_ref()?;
        let (size, modified) = (check.size_bytes?, check.modified_ms?);
        Some(size_bytes.is_some_and(|found| found != size) || *modified_ms != modified)
    }
}

/// What was found at an image's place. Only who may look at files sets it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FileState {
    /// Nobody looked, as for a URI.
    #[default]
    NotLooked,
    /// It cannot be used; why.
    Missing(String),
    /// It is there.
    There {
        /// Length of the file in bytes; `None` for a sandbox.
        size_bytes: Option<u64>,
        /// Modification time, in Unix milliseconds.
        modified_ms: u64,
    },
}

keys! {
    /// What dlrun found when it ran an image: `[[check]]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
    pub struct Check {
        /// The entry's name.
        image: String = or_default(parsed("", read_name)),
        /// When, in Unix milliseconds UTC.
        at_ms: u64 = or_default(number(0..=LAST_MOMENT_MS)),
        /// Where.
        host: String = or_default(text()),
        /// The runtime that ran it: `apptainer 1.4.5`.
        runtime: String = or_default(text()),
        /// Length of the file in bytes, by which a later change is seen; `None` for a sandbox or a URI.
        size_bytes: Option<u64> = optional(number(0..=i64::MAX.unsigned_abs())),
        /// Its modification time, in Unix milliseconds.
        modified_ms: Option<u64> = optional(number(0..=LAST_MOMENT_MS)),
        /// `sha256:..` of the file, where it was computed.
        digest: Option<String> = optional(parsed("", read_digest)),
        /// What is wrong; empty: it is as it is described.
        problems: Vec<String> = or_default(texts()),
        /// Versions that were found, by name: `python`, `pytorch`, `cuda`, `numpy`, ...
        versions: BTreeMap<String, String> = or_default(text_table()),
        /// Graph compilers that compiled something.
        compilers: Vec<String> = or_default(texts()),
        /// GPUs that the framework saw; `None`: it was not tried, since the node has none.
        gpus: Option<u32> = optional(number(0..=u32::MAX.into()).map(|count| u32::try_from(count).ok())),
        /// The MPI library's binary interface: `libmpi.so.40` (Open MPI), `libmpi.so.12` (MPICH's).
        mpi_abi: Option<String> = optional(text()),
    }
}

fn read_name(text: &str) -> Result<String, String> {
    name_problem(text).map_or_else(|| Ok(text.to_owned()), Err)
}

/// A digest as files and options have it: `sha256:..`, in small letters.
///
/// # Errors
/// What is wrong with it, for people.
pub fn read_digest(text: &str) -> Result<String, String> {
    let digits = text.strip_prefix("sha256:").unwrap_or_default();
    if digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(format!(
            "{text:?} is not a digest: `sha256:` and 64 hexadecimal digits"
        ))
    }
}
