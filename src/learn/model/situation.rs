//! What decides how long a training takes, as far as it is known before it starts.

use serde::{Deserialize, Serialize};

use crate::job::{Framework, StorageClass, Workload};
use crate::record::NodeFigures;

/// A training on some hardware with some software. What is not known is `None` or 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Situation {
    /// What is trained.
    pub workload: Workload,
    /// With what; `version` is one version, not a range.
    pub framework: Framework,
    /// The image: digest, else where it comes from. `None`: no container.
    pub image: Option<String>,
    /// On what, on each node.
    pub hardware: Hardware,
    /// Nodes.
    pub nodes: u32,
    /// Tasks on each node.
    pub tasks_per_node: u32,
    /// What the data lie on.
    pub storage: Option<StorageClass>,
}

impl Situation {
    /// GPUs over all nodes.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.hardware.gpus.saturating_mul(self.nodes.max(1))
    }
}

/// One node as a run gets it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Hardware {
    /// Model name of the CPU.
    pub cpu_model: Option<String>,
    /// CPUs that the program can keep busy: by affinity, quota and `OMP_NUM_THREADS`.
    pub threads: Option<f64>,
    /// CPUs of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// CPUs of the machine that a run might use, by affinity and quota; it shows whether a scheduler confines its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<f64>,
    /// Model name of the GPUs that the run has.
    pub gpu_model: Option<String>,
    /// GPUs that the run has on the node.
    pub gpus: u32,
    /// What the node was measured to do.
    pub figures: Option<NodeFigures>,
}
