//! One image, as it is described and as it was found.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, Serializer};

use crate::config::{Origin, Owner, VersionRange};
use crate::foundation::vocabulary::vocabulary;
use crate::job::{Provenance, read_uri};

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

/// An image of the catalogue: `[[image]]`. What is `None` or empty is not said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Entry {
    /// Its name, unique in the catalogue: see [`crate::image::catalogue::name_problem`].
    pub name: String,
    /// Where it is.
    #[serde(flatten)]
    pub place: Place,
    /// `tensorflow`, `pytorch`, `keras`, `mxnet`, `jax`, ..., in small letters.
    pub framework: String,
    /// The framework's version, such as `2.4.1`.
    pub version: String,
    /// Where it got the framework from.
    pub provenance: Option<Provenance>,
    /// As `uname -m` has it: `x86_64`, `aarch64`, `ppc64le`. Default of the file: `x86_64`.
    pub arch: String,
    /// The least processor that its code runs on: `x86-64-v3`, or archspec's name such as `skylake_avx512`.
    pub microarch: Option<String>,
    /// What its framework computes on.
    pub accelerator: Accelerator,
    /// CUDA's version in the image, such as `12.4`.
    pub cuda: Option<String>,
    /// Compute capabilities of NVIDIA's GPUs that its code runs on, such as `>=7.5`; `None`: what its CUDA serves.
    #[serde(serialize_with = "as_text")]
    pub compute_capability: Option<VersionRange>,
    /// ROCm's version in the image.
    pub rocm: Option<String>,
    /// Graph compilers that it has: `xla`, `inductor`, `ngraph`, `glow`.
    pub compilers: Vec<String>,
    /// Python's version.
    pub python: Option<String>,
    /// Python packages beside the framework that it was given: `scikit-learn`.
    pub packages: Vec<String>,
    /// The MPI in it and its version: `openmpi 4.1`, `mpich 4.0`.
    pub mpi: Option<String>,
    /// `sha256:` and 64 hexadecimal digits of the SIF file; of a URI, the hub's own digest.
    pub digest: Option<String>,
    /// The recipe that it was built from.
    pub recipe: Option<String>,
    /// The id of the run that built it, where a job did.
    pub built_by: Option<String>,
    /// Whether it runs with `--fakeroot` only.
    pub needs_fakeroot: bool,
    /// Whose file describes it.
    #[serde(skip)]
    pub owner: Owner,
    /// Where it is described.
    #[serde(skip)]
    pub origin: Origin,
    /// What the latest check found.
    #[serde(skip)]
    pub check: Option<Check>,
    /// What is there of its file.
    #[serde(skip)]
    pub file: FileState,
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
    #[must_use]
    pub fn new(
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

/// What dlrun found when it ran an image: `[[check]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Check {
    /// The entry's name.
    pub image: String,
    /// When, in Unix milliseconds UTC.
    pub at_ms: u64,
    /// Where.
    pub host: String,
    /// The runtime that ran it: `apptainer 1.4.5`.
    pub runtime: String,
    /// Length of the file in bytes, by which a later change is seen; `None` for a sandbox or a URI.
    #[serde(default)]
    pub size_bytes: Option<u64>,
    /// Its modification time, in Unix milliseconds.
    #[serde(default)]
    pub modified_ms: Option<u64>,
    /// `sha256:..` of the file, where it was computed.
    #[serde(default)]
    pub digest: Option<String>,
    /// What is wrong; empty: it is as it is described.
    #[serde(default)]
    pub problems: Vec<String>,
    /// Versions that were found, by name: `python`, `pytorch`, `cuda`, `numpy`, ...
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// Graph compilers that compiled something.
    #[serde(default)]
    pub compilers: Vec<String>,
    /// GPUs that the framework saw; `None`: it was not tried, since the node has none.
    #[serde(default)]
    pub gpus: Option<u32>,
    /// The MPI library's binary interface: `libmpi.so.40` (Open MPI), `libmpi.so.12` (MPICH's).
    #[serde(default)]
    pub mpi_abi: Option<String>,
}
