//! What a job wants of its container, as the plan carries it to the node.

use serde::{Deserialize, Serialize};

use crate::job::{Bind, GpuMode};

/// A container as the plan has it. Scripts wait for weeks, so fields are added and none is changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Container {
    /// An absolute path or a URI that the runtime knows.
    pub source: String,
    /// Whether `--nv` is expected: what runs where dlrun is missing on the node.
    pub nv: bool,
    /// Whether `--rocm` is expected, likewise.
    #[serde(default)]
    pub rocm: bool,
    /// The image's name in the catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the catalogue says of its content, `sha256:..`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Which GPUs are passed into it.
    #[serde(default)]
    pub gpu: GpuMode,
    /// Whether the job asks its scheduler for GPUs.
    #[serde(default)]
    pub gpus_asked: bool,
    /// GPUs that do not work are a failure.
    #[serde(default)]
    pub require_gpu: bool,
    /// Whether the run has the container's root user.
    #[serde(default)]
    pub fakeroot: bool,
    /// Directories and files of the node that are seen in it; sources absolute or with a variable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub binds: Vec<Bind>,
    /// Only the variables of the job, the scheduler and the GPUs are seen in it.
    #[serde(default)]
    pub cleanenv: bool,
    /// Further options of the runtime's `exec`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Names of the variables that the job file and rules set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
    /// The working directory, absolute.
    #[serde(default)]
    pub workdir: String,
    /// The runtime's command on the nodes, absolute; `None`: the first apptainer, else singularity, of `PATH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
}
