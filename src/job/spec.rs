//! The job file's content as values, defaults not yet applied.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::array::ArraySpec;
use super::begin::Begin;
use super::depend::Dependency;
use super::gpus::gpus_on_node;
use super::image::Image;
use super::mail::Mail;
use super::output::OutputPattern;
use super::overrides::Overrides;
use crate::foundation::units::{Bytes, Walltime};

/// A value and where it stands in the job file, so that a later check can point at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Byte range in the job file.
    pub span: Range<usize>,
}

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

/// One environment variable of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvVar {
    /// Its name: letters, digits and `_`, not beginning with a digit.
    pub name: String,
    /// Its value, any text without NUL.
    pub value: String,
}

/// How the command is started on several nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Launcher {
    /// dlrun chooses.
    #[default]
    Auto,
    /// Once, on the first node.
    None,
    /// Once on every node.
    Each,
    /// As the ranks of an MPI program, `tasks_per_node` on each node.
    Mpi,
}

impl Launcher {
    /// The word of the job file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::None => "none",
            Self::Each => "each",
            Self::Mpi => "mpi",
        }
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

/// `[run]`: what runs, where and with which environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// What runs.
    pub command: Located<Command>,
    /// Arguments of a script, from the command line; those of a command are part of it.
    pub arguments: Vec<String>,
    /// Working directory, relative to the job file's. Default: the job file's directory.
    pub workdir: Option<Located<PathBuf>>,
    /// Where the output goes, relative to the working directory. Default: `NAME-JOBID.out` there.
    pub output: Option<Located<OutputPattern>>,
    /// Variables set for the run.
    pub env: Vec<EnvVar>,
    /// File of variables (mode 0600) that is read on the node at start and copied nowhere.
    pub env_file: Option<Located<PathBuf>>,
    /// Environment modules to load first.
    pub modules: Vec<String>,
    /// How the command is started on several nodes.
    pub launcher: Option<Located<Launcher>>,
    /// With `launcher = "none"`, allows nodes on which nothing runs.
    pub idle_nodes: bool,
    /// Variables of the submitting shell that reach the job.
    pub inherit: Option<Inherit>,
}

/// `[resources]`: every line may be left out, then the site's default holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Resources {
    /// Nodes; default 1.
    pub nodes: Option<Located<NodeCount>>,
    /// Tasks in all; the scheduler spreads them.
    pub tasks: Option<u32>,
    /// Tasks on each node; default 1.
    pub tasks_per_node: Option<u32>,
    /// CPUs of each task.
    pub cpus_per_task: Option<u32>,
    /// GPUs on each node, with an optional type: `2`, `v100:2`.
    pub gpus_per_node: Option<String>,
    /// GPUs of each task, which sees no others: `1` or `v100:1`.
    pub gpus_per_task: Option<String>,
    /// Main memory on each node.
    pub memory: Option<Asked<Bytes>>,
    /// Main memory for each CPU, in place of `memory`.
    pub memory_per_cpu: Option<Bytes>,
    /// Limit on the run time.
    pub walltime: Option<Asked<Walltime>>,
    /// Slurm partition, PBS queue.
    pub queue: Option<String>,
    /// Account to charge.
    pub account: Option<String>,
    /// Quality of service.
    pub qos: Option<String>,
    /// Reservation to run in.
    pub reservation: Option<String>,
    /// Node features wanted.
    pub constraint: Option<String>,
    /// Nodes wanted.
    pub nodelist: Option<String>,
    /// Nodes not wanted.
    pub exclude: Option<String>,
    /// Whole nodes, shared with nobody.
    pub exclusive: Option<bool>,
    /// Indexes of a job array.
    pub array: Option<Located<ArraySpec>>,
    /// What must have happened before; all of it.
    pub depends: Vec<Located<Dependency>>,
    /// Not before this moment.
    pub begin: Option<Begin>,
    /// Mail.
    pub mail: Option<Mail>,
    /// Licences, by name, each with how many.
    pub licenses: Vec<(String, u32)>,
    /// Where each key stands, for checks that come later.
    pub spans: BTreeMap<&'static str, Range<usize>>,
}

impl Resources {
    /// Tasks on each of `nodes`, where tasks in all are spread evenly.
    #[must_use]
    pub fn tasks_on_each(&self, nodes: u32) -> u32 {
        let spread = self.tasks.map(|tasks| tasks.div_ceil(nodes.max(1)));
        self.tasks_per_node.or(spread).unwrap_or(1)
    }

    /// The fewest and the most nodes: as asked, or as tasks in all and on each node need.
    #[must_use]
    pub fn node_bounds(&self) -> (u32, u32) {
        let of_tasks = self
            .tasks
            .zip(self.tasks_per_node)
            .map(|(tasks, each)| tasks.div_ceil(each.max(1)));
        let of_tasks = of_tasks.unwrap_or(1);
        self.nodes
            .as_ref()
            .map_or((of_tasks, of_tasks), |nodes| nodes.value.bounds())
    }

    /// The fewest nodes.
    #[must_use]
    pub fn fewest_nodes(&self) -> u32 {
        self.node_bounds().0
    }

    /// GPUs on each node, however they were asked for.
    #[must_use]
    pub fn gpus_on_node(&self) -> Option<String> {
        let tasks = self.tasks_on_each(self.fewest_nodes());
        gpus_on_node(
            self.gpus_per_node.as_deref(),
            self.gpus_per_task.as_deref(),
            tasks,
        )
    }

    /// The key that says how many GPUs a node must have.
    #[must_use]
    pub fn gpu_key(&self) -> &'static str {
        if self.gpus_per_node.is_none() && self.gpus_per_task.is_some() {
            "gpus_per_task"
        } else {
            "gpus_per_node"
        }
    }
}

/// Which scheduler takes the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum SchedulerKind {
    /// The one whose commands are found.
    #[default]
    Auto,
    /// Slurm.
    Slurm,
    /// Torque.
    Torque,
    /// OpenPBS, and PBS Pro.
    #[serde(rename = "openpbs")]
    OpenPbs,
    /// This machine; its jobs share it.
    Local,
}

impl SchedulerKind {
    /// The word of the job file, of `--json` and of the index.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Slurm => "slurm",
            Self::Torque => "torque",
            Self::OpenPbs => "openpbs",
            Self::Local => "local",
        }
    }

    /// The words that a job file, a setting or a flag may hold.
    pub const WORDS: [&str; 5] = ["auto", "slurm", "torque", "openpbs", "local"];

    /// Those that have jobs.
    pub const ALL: [Self; 4] = [Self::Slurm, Self::Torque, Self::OpenPbs, Self::Local];

    /// Reads [`SchedulerKind::as_str`] back.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        std::iter::once(Self::Auto)
            .chain(Self::ALL)
            .find(|kind| kind.as_str() == word)
    }

    /// The dialects that read `#PBS` lines.
    #[must_use]
    pub fn is_pbs(self) -> bool {
        matches!(self, Self::Torque | Self::OpenPbs)
    }
}

/// `[scheduler]`: which one, and what is passed through to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SchedulerSection {
    /// Which one.
    pub kind: Option<SchedulerKind>,
    /// Further directive lines of the script, such as `--comment=paper`.
    pub directives: Vec<Located<String>>,
    /// Further arguments on the submit command's line.
    pub arguments: Vec<Located<String>>,
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

/// What `[framework]` leaves to the performance model.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LeftToModel {
    /// `compiler = "auto"`.
    pub compiler: bool,
    /// Share of the runs that try what is not yet known, 0 to 1.
    pub explore: f64,
}

/// Where an image got its framework from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// The image is that of a hub.
    Hub,
    /// Installed from the package index.
    Pip,
    /// Compiled from source.
    Source,
}

impl Provenance {
    /// The words of the job file and of the catalogue.
    pub const WORDS: [(&'static str, Self); 3] = [
        ("hub", Self::Hub),
        ("pip", Self::Pip),
        ("source", Self::Source),
    ];

    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hub => "hub",
            Self::Pip => "pip",
            Self::Source => "source",
        }
    }
}

impl Framework {
    /// Says whether nothing is known of it.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// How quick a storage is, as MODAK orders it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StorageClass {
    /// Shared by all, on the network.
    Common,
    /// Shared, and quick.
    High,
    /// On solid-state disks.
    Ssd,
    /// In memory, or as quick.
    UltraHigh,
}

impl StorageClass {
    /// The words of the job file and of the configuration, slowest first.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("common", Self::Common),
        ("high", Self::High),
        ("ssd", Self::Ssd),
        ("ultra_high", Self::UltraHigh),
    ];

    /// The word of the job file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::WORDS
            .iter()
            .find(|(_, class)| *class == self)
            .map_or("common", |(word, _)| word)
    }
}

/// `[build]`: source of the application that is fetched and built before the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// URL of a git repository (ends in `.git`) or of a file or archive; or a path.
    pub source: Located<String>,
    /// Shell text that builds it, in the source's directory; `{{parallelism}}` stands for [`Build::parallelism`].
    pub command: Option<String>,
    /// How many things are built at a time.
    pub parallelism: u32,
    /// SHA-256 of the file, or the commit of the repository, in hexadecimal digits.
    pub checksum: Option<String>,
}

/// `[workload]`: what is known of the training; recorded with every measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Workload {
    /// Name of the network.
    pub model: Option<String>,
    /// Trainable parameters.
    pub parameters: Option<u64>,
    /// Name of the data set.
    pub dataset: Option<String>,
    /// Training samples of an epoch.
    pub samples: Option<u64>,
    /// Samples of a step, over all workers.
    pub batch_size: Option<u64>,
    /// Epochs.
    pub epochs: Option<u64>,
    /// `fp32`, `bf16`, ...
    pub precision: Option<String>,
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

/// A whole job file.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSpec {
    /// Name of the job; default: the file's stem.
    pub name: Option<String>,
    /// What runs.
    pub run: Run,
    /// What it needs.
    pub resources: Resources,
    /// Who takes it.
    pub scheduler: SchedulerSection,
    /// The container.
    pub image: Image,
    /// What the training is written with.
    pub framework: Framework,
    /// What of it is left to the performance model.
    pub left_to_model: LeftToModel,
    /// The class of storage that is preferred.
    pub storage: Option<StorageClass>,
    /// What is built before the run.
    pub build: Option<Build>,
    /// The Python requirements file, relative to the job file's directory.
    pub requirements: Option<Located<PathBuf>>,
    /// A Python environment that the user has made.
    pub own_python: Option<Located<OwnPython>>,
    /// What is known of the training.
    pub workload: Workload,
    /// The user's own timing pattern.
    pub timing: Option<Located<TimingPattern>>,
    /// What the command line said in its place.
    pub overrides: Overrides,
}

impl JobSpec {
    /// The conda environment that is activated.
    #[must_use]
    pub fn conda(&self) -> Option<&Conda> {
        match &self.own_python.as_ref()?.value {
            OwnPython::Conda(conda) => Some(conda),
            OwnPython::Venv(_) => None,
        }
    }
}
