//! Which image a run is in, and how the command of one node got into its container.

use serde::{Deserialize, Serialize};

/// The image of a run, as its plan has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunImage {
    /// An absolute path or a URI.
    pub source: String,
    /// Its name in the catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the catalogue says of its content, `sha256:..`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// What an image is that lies on the node: enough to know later whether a file is still the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageIdentity {
    /// `sif`, `sandbox`, ...
    pub form: String,
    /// The UUID in a SIF's header: another one with each build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Size of the file, in bytes; `None` for a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// When it was last changed, in Unix milliseconds UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_at_ms: Option<u64>,
}

/// The program that starts containers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerRuntime {
    /// Its file, absolute.
    pub path: String,
    /// `apptainer`, `singularity-ce` or `singularity`, by its own word; `None` where it gave none that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// Its version, such as `1.4.5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// A flag, or what was left out, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlagReason {
    /// Such as `--nv` or `no --nv`.
    pub flag: String,
    /// Why.
    pub why: String,
}

/// How the command of one node got into its container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerRecord {
    /// Which image.
    #[serde(flatten)]
    pub image: RunImage,
    /// What the image is, where it lies on the node and can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<ImageIdentity>,
    /// What started the container; `None` where none was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<ContainerRuntime>,
    /// The runtime's words from its subcommand to the image. Values of variables are not among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
    /// What was decided on the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<FlagReason>,
    /// What the user saw at the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Why the node was not asked, and the words are those that were decided at submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unasked: Option<String>,
    /// Why no GPU works in the container although the job was given some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_missing: Option<String>,
    /// Why the container did not start: the runtime's words, or dlrun's own. The command did not run then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl ContainerRecord {
    /// `apptainer 1.4.5`; what is known of it.
    #[must_use]
    pub fn runtime_text(&self) -> Option<String> {
        let runtime = self.runtime.as_ref()?;
        let name = runtime
            .product
            .clone()
            .unwrap_or_else(|| runtime.path.clone());
        Some(match &runtime.version {
            Some(version) => format!("{name} {version}"),
            None => name,
        })
    }
}
