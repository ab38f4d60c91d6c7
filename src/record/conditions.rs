//! The conditions under which times were taken: they must be equal before two runs are compared.

use serde::{Deserialize, Serialize};

/// What kind of storage a directory of the run lies on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageClass {
    /// Which directory: `workdir`, `data`, ...
    pub of: String,
    /// The kind of its file system, in the kernel's word: `nfs4`, `lustre`, `tmpfs`, `ext4`, ...
    pub class: String,
}

/// A program or package that a run uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Software {
    /// `python`, or a package by its name at installation: `torch`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// The conditions of one run on one node. What could not be read is `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Conditions {
    /// The CPUs that the command may use, as the kernel lists them, such as `0-3,8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<String>,
    /// CPUs that the command can really keep busy: those of its affinity, or fewer by its cgroup's quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus_effective: Option<f64>,
    /// CPUs that everything else on the node kept busy on average while the command ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_cpus_busy: Option<f64>,
    /// What the directories of the run lie on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storage: Vec<StorageClass>,
    /// Python and the compiled frameworks in use, by the files that the run's processes had mapped; plain Python maps none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub software: Vec<Software>,
    /// The queue (Slurm's partition) that the job ran in, by the scheduler's variables in the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The account that was charged, from the same source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Its actual quality of service, from the same source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
}
