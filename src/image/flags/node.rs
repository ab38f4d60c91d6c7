//! What the rules must know of a node.

use serde::{Deserialize, Serialize};

use crate::image::runtime::Runtime;

/// Facts of a node and of this user on it. Gathered by `container`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFacts {
    /// The runtime's command, absolute.
    pub command: String,
    /// Which runtime it is; `None` where it does not say so in a known way: then only flags that all know are given.
    pub runtime: Option<Runtime>,
    /// Who runs it.
    pub uid: u32,
    /// GPUs.
    pub gpus: GpuFacts,
    /// User namespaces.
    pub namespaces: Namespaces,
    /// This user's ranges of further ids.
    pub sub_ids: SubIds,
    /// Whether a squashfuse program is found, by which SIF images are mounted without a setuid starter.
    pub squashfuse: bool,
    /// Whether this user may open `/dev/fuse`.
    pub fuse_device: bool,
}

/// What is there of GPU drivers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GpuFacts {
    /// `/dev/nvidiactl` is there.
    pub nvidia_device: bool,
    /// `/proc/driver/nvidia/version` is there; its content's driver version, such as `550.54.15`.
    pub nvidia_driver: Option<String>,
    /// `ldconfig -p` knows `libcuda.so.1`; `None`: it was not asked.
    pub cuda_library: Option<bool>,
    /// `/dev/kfd` is there.
    pub amd_device: bool,
    /// Variables by which the job was given GPUs, or none, each with its value: `CUDA_VISIBLE_DEVICES`, `SLURM_JOB_GPUS`, ...
    pub granted_by: Vec<(String, String)>,
}

/// Whether this user gets a namespace of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Namespaces {
    /// `None`: they work; else why not.
    pub missing: Option<String>,
    /// The runtime has a setuid starter, which does without.
    pub setuid_starter: bool,
}

/// What `--fakeroot` needs beside user namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SubIds {
    /// Length of this user's longest range in `/etc/subuid`; 0: none. The runtimes map one range, of at least 65536 ids,
    /// and never add several up (Apptainer 1.4, `internal/pkg/fakeroot`).
    pub subuid_count: u64,
    /// Length of this user's longest range in `/etc/subgid`.
    pub subgid_count: u64,
    /// `newuidmap` and `newgidmap` are found.
    pub newuidmap: bool,
    /// The `fakeroot` program is found.
    pub fakeroot_command: bool,
}

impl SubIds {
    /// The least that a range must hold. Apptainer 1.4.5 ends over shorter ones, in either file: `mapping entries for user U found
    /// in /etc/subuid but all with a range count lower than 65536`; with none in `/etc/subuid` it continues without.
    pub const LEAST: u64 = 65536;
}
