//! The job file's content as values, defaults not yet applied.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::foundation::vocabulary::vocabulary;

/// A value that may be left to dlrun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked<T> {
    /// `"auto"`: the performance model chooses; without one the line is left out.
    Auto,
    /// This much.
    Value(T),
}

/// What runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// An argument vector; never goes through a shell.
    Argv(Vec<String>),
    /// A shell script, relative to the working directory; run by itself where it is executable, else by bash.
    Script(String),
}

impl Default for Command {
    fn default() -> Self {
        Self::Argv(Vec::new())
    }
}

/// One environment variable of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvVar {
    /// Its name: letters, digits and `_`, not beginning with a digit.
    pub name: String,
    /// Its value, any text without NUL.
    pub value: String,
}

/// What was given on the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `KEY=VALUE` each; of one key the last counts.
    pub set: Vec<String>,
    /// The job's name.
    pub name: Option<String>,
    /// Further arguments of the program or script.
    pub arguments: Vec<String>,
}

vocabulary! {
    /// How the command is started on several nodes.
    #[derive(Default)]
    pub enum Launcher {
        /// dlrun chooses.
        #[default]
        Auto = "auto",
        /// Once, on the first node.
        None = "none",
        /// Once on every node.
        Each = "each",
        /// As the ranks of an MPI program, `tasks_per_node` on each node.
        Mpi = "mpi",
        /// As workers that meet by `RANK`, `WORLD_SIZE` and `MASTER_ADDR` (PyTorch's `env://`).
        Ddp = "ddp",
        /// By one agent of torchrun on each node.
        Torchrun = "torchrun",
        /// As workers that meet by `TF_CONFIG`.
        Tensorflow = "tensorflow",
        /// As workers of Horovod, which meet over Gloo.
        Horovod = "horovod",
        /// As processes of JAX.
        Jax = "jax",
        /// As workers of DeepSpeed, without its own launcher.
        Deepspeed = "deepspeed",
        /// As workers of Hugging Face Accelerate, without its own launcher.
        Accelerate = "accelerate",
        /// As workers of MXNet, with its scheduler and its servers.
        Mxnet = "mxnet",
        /// As Keras 3 wants it on its back end.
        Keras = "keras",
    }
}

impl Launcher {
    /// Whether dlrun and the command run on every node of the job.
    #[must_use]
    pub fn runs_on_each_node(self) -> bool {
        self == Self::Each || self.is_distributed()
    }

    /// Whether dlrun itself starts the ranks of a distributed training.
    #[must_use]
    pub fn is_distributed(self) -> bool {
        !matches!(self, Self::Auto | Self::None | Self::Each | Self::Mpi)
    }

    /// Whether each rank enters its container by itself.
    #[must_use]
    pub fn has_ranks(self) -> bool {
        self == Self::Mpi || self.is_distributed()
    }
}

/// Which variables of the submitting shell reach the job. Schedulers differ where nothing is said: Slurm hands all over,
/// Torque and OpenPBS none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inherit {
    /// All.
    All,
    /// None.
    None,
    /// These.
    Names(Vec<String>),
}

/// A number of nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NodeCount {
    /// So many, at least 1.
    Exactly(u32),
    /// The performance model chooses.
    Between {
        /// At least so many, and so many without a model; at least 1.
        min: u32,
        /// At most so many, not fewer than `min`.
        max: u32,
        /// The least parallel efficiency against `min` nodes that a choice must have, 0 to 1.
        efficiency: f64,
    },
}

impl NodeCount {
    /// The fewest and the most.
    #[must_use]
    pub fn bounds(self) -> (u32, u32) {
        match self {
            Self::Exactly(nodes) => (nodes, nodes),
            Self::Between { min, max, .. } => (min, max),
        }
    }
}

/// A Python environment that the user has made; it is activated before the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnPython {
    /// The directory of a virtual environment, relative to the job file's.
    Venv(PathBuf),
    /// An environment of conda.
    Conda(Conda),
}

/// An environment of conda.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conda {
    /// Its name, or its directory.
    pub name: String,
    /// The shell file that brings the command `conda`, absolute; `None`: it is in `PATH`.
    pub profile: Option<String>,
}

vocabulary! {
    /// Whether ranks that dlrun starts are bound to CPUs.
    #[derive(Default)]
    pub enum CpuBinding {
        /// Each to its own, where the scheduler gave the job just as many as it asked for.
        #[default]
        Auto = "auto",
        /// Each may use all of the job's CPUs on its node.
        None = "none",
    }
}

vocabulary! {
    /// Whether each node is looked at before a start, and what follows where one is unfit.
    #[derive(Default)]
    pub enum NodeCheck {
        /// It is not looked at.
        #[default]
        Off = "off",
        /// The output and the record say so.
        Warn = "warn",
        /// The start ends before its command.
        Fail = "fail",
    }
}

vocabulary! {
    /// Which scheduler takes the job.
    #[derive(Default)]
    pub enum SchedulerKind {
        /// The one whose commands are found.
        #[default]
        Auto = "auto",
        /// Slurm.
        Slurm = "slurm",
        /// Torque.
        Torque = "torque",
        /// OpenPBS, and PBS Pro.
        OpenPbs = "openpbs",
        /// This machine; its jobs share it.
        Local = "local",
    }
}

impl SchedulerKind {
    /// Those that have jobs.
    pub const ALL: [Self; 4] = [Self::Slurm, Self::Torque, Self::OpenPbs, Self::Local];

    /// Whether its jobs run on this machine.
    #[must_use]
    pub fn is_local(self) -> bool {
        self == Self::Local
    }

    /// Whether its jobs have steps, which it signals apart from the batch script.
    #[must_use]
    pub fn has_steps(self) -> bool {
        self == Self::Slurm
    }

    /// The dialects that read `#PBS` lines.
    #[must_use]
    pub fn is_pbs(self) -> bool {
        matches!(self, Self::Torque | Self::OpenPbs)
    }
}

/// `[framework]`: what the training is written with. Rules of the site go by it, and it is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Framework {
    /// `tensorflow`, `pytorch`, `keras`, ...
    pub name: Option<String>,
    /// A version such as `2.1`, or a range such as `>=2.1, <3`.
    pub version: Option<String>,
    /// Graph compiler: `none`, `xla`, `inductor`, ...; `None` also for `auto`.
    pub compiler: Option<String>,
    /// Where the image got it from; `None` also for `any`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

vocabulary! {
    /// Where an image got its framework from.
    pub enum Provenance {
        /// The image is that of a hub.
        Hub = "hub",
        /// Installed from the package index.
        Pip = "pip",
        /// Compiled from source.
        Source = "source",
    }
}

impl Framework {
    /// Says whether nothing is known of it.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

vocabulary! {
    /// How quick a storage is, as MODAK orders it, slowest first.
    #[derive(Default)]
    pub enum StorageClass {
        /// Shared by all, on the network.
        #[default]
        Common = "common",
        /// Shared, and quick.
        High = "high",
        /// On solid-state disks.
        Ssd = "ssd",
        /// In memory, or as quick.
        UltraHigh = "ultra_high",
    }
}

/// `[timing]`: the user's own patterns, for programs that no recogniser knows. At least one is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct TimingPattern {
    /// Regular expression of a line that ends an epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<String>,
    /// Regular expression of a line that ends a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

impl TimingPattern {
    /// One expression, of lines that end an epoch.
    #[must_use]
    pub fn of_epoch(expression: &str) -> Self {
        Self {
            epoch: Some(expression.to_owned()),
            step: None,
        }
    }
}
