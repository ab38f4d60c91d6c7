//! The conditions under which times were taken: they must be equal before two runs are compared.

use std::time::Duration;

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
    /// The id of the kernel's boot: nodes that have the same one are one machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
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
    /// How the first node of a distributed training is reached; `None`: this is the first, or they did not meet over a network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkFacts>,
}

/// What the meeting of the nodes showed of the network to the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkFacts {
    /// From a question to its answer, in microseconds; the first node's work on it included.
    pub round_trip_us: u64,
    /// By how much the clock here is ahead, in milliseconds, to within half the round trip.
    pub clock_skew_ms: i64,
}

impl NetworkFacts {
    /// By the time an answer took, the clock here when it came, and the one that stood in it, in Unix milliseconds.
    #[must_use]
    pub fn measured(round_trip: Duration, here_ms: u64, there_ms: u64) -> Self {
        let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let half = signed(u64::try_from(round_trip.as_millis() / 2).unwrap_or(0));
        Self {
            round_trip_us: u64::try_from(round_trip.as_micros()).unwrap_or(u64::MAX),
            clock_skew_ms: signed(here_ms) - half - signed(there_ms),
        }
    }
}
