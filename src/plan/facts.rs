//! What a plan must know of the site, gathered by the caller: resolution itself looks at nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::Rejected;
use crate::config::site::SiteModel;
use crate::image::catalogue::Entry;
use crate::image::python::EnvFacts;
use crate::image::runtime::ThisMachine;
use crate::job::{JobId, JobState, SchedulerKind};
use crate::launch::MpiLibrary;
use crate::learn::model::{Hardware, Model};
use crate::record::Past;

/// A scheduler whose commands are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulerFacts {
    /// Which one.
    pub kind: SchedulerKind,
    /// Where its submit command is, `sbatch` or `qsub`.
    pub command: PathBuf,
    /// Variables of the user's environment that the submit command obeys (`SBATCH_*`, `PBS_*`).
    pub environment: Vec<(String, String)>,
}

/// What became of a dependency's target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetFacts {
    /// Jobs that a scheduler still knows.
    Jobs(Vec<JobId>),
    /// A run that is over: the scheduler may have forgotten it.
    Over(JobState),
    /// Nobody knows it.
    Unknown,
}

/// What `[run] script` turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptFacts {
    /// Absolute path.
    pub path: PathBuf,
    /// What runs it where it cannot be executed by itself: the words of its first line behind `#!`, which are none where
    /// the line is no such line.
    pub interpreter: Option<Vec<String>>,
}

/// What is known of images, and of this machine as one that runs them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageFacts {
    /// The catalogue's images of the job's framework, their files looked at; of a job that names a file, the images of
    /// that file.
    pub entries: Vec<Entry>,
    /// Frameworks of which the catalogue has images.
    pub frameworks: Vec<String>,
    /// Files of URIs that were pulled, by the URI that was fetched.
    pub pulled: BTreeMap<String, PathBuf>,
    /// The image that will be built before the run, where none fits and `image.build` is `auto`: its name and its file.
    pub built: Option<(String, PathBuf)>,
    /// The directory of the job's script, links followed, where it lies outside of the working directory.
    pub script_dir: Option<PathBuf>,
    /// This machine.
    pub here: ThisMachine,
}

/// The performance model that is at hand.
#[derive(Clone)]
pub struct ModelFacts {
    /// The model.
    pub model: Arc<Model>,
    /// Whose it is, for people.
    pub origin: String,
    /// This machine, where local jobs run.
    pub here: Hardware,
    /// The model of CPU or GPU that is asked about in place of what the job would run on.
    pub meant: Option<String>,
}

impl fmt::Debug for ModelFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "model {} ({})", self.model.head().name, self.origin)
    }
}

/// What an argument of the command names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// A file.
    File {
        /// Absolute.
        path: PathBuf,
        /// Length, in bytes.
        bytes: u64,
        /// SHA-256 of a short one, in hexadecimal digits.
        digest: Option<String>,
        /// Whether it may be executed.
        executable: bool,
    },
    /// A directory, absolute, and how many entries it has.
    Directory(PathBuf, u64),
    /// A variable of the submitting shell that a script of the job names, and its value; its key begins with `$`.
    Variable(String),
    /// Nothing that exists.
    Absent,
}

/// The user's own runs of the same program, and what they are compared by.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    /// This host, which is the place of local jobs.
    pub host: String,
    /// Starts of runs that are over, in the order in which they were submitted.
    pub past: Vec<Past>,
    /// Why nobody could look.
    pub unread: Option<String>,
}

/// Facts of the site and of the files around the job file.
#[derive(Debug, Clone, Default)]
pub struct SiteFacts {
    /// The job file, absolute.
    pub job_file: PathBuf,
    /// The working directory, absolute.
    pub workdir: PathBuf,
    /// The script, where the job has one.
    pub script: Option<ScriptFacts>,
    /// The file of secret variables, absolute.
    pub env_file: Option<PathBuf>,
    /// The schedulers whose commands are found, the one to be taken first.
    pub schedulers: Vec<SchedulerFacts>,
    /// What looks like a scheduler and is none, or not the one that was asked for.
    pub passed_over: Vec<Rejected>,
    /// What the scheduler says of the site, where it was asked.
    pub site: Option<SiteModel>,
    /// Whether the job is compared with it; else it only gives the queue of jobs that name none.
    pub hold_against_site: bool,
    /// The performance model, where there is one and the job has a use for it.
    pub model: Option<ModelFacts>,
    /// What `resources.depends` names, by its text.
    pub targets: BTreeMap<String, TargetFacts>,
    /// The image file, absolute.
    pub image: Option<PathBuf>,
    /// What is known of images.
    pub images: ImageFacts,
    /// The container runtime's command, where one is found.
    pub container_runtime: Option<PathBuf>,
    /// The Python environment, where the job wants one.
    pub python: Option<EnvFacts>,
    /// CPUs of this machine that this process may use.
    pub cpus: Option<u64>,
    /// `mpirun` of this machine, where the job wants it.
    pub mpirun: Option<PathBuf>,
    /// The MPI that the program needs, where the job starts ranks of one.
    pub mpi: Option<MpiLibrary>,
    /// What the arguments of the command and of `[run] env` name, by their texts.
    pub named: BTreeMap<String, Named>,
    /// Runs that may be alike, where they were asked for.
    pub history: History,
    /// Login name of who submits.
    pub user: String,
    /// The running dlrun.
    pub dlrun: PathBuf,
}

impl SiteFacts {
    /// Nothing is known but the job file's place.
    #[must_use]
    pub fn unknown(job_file: PathBuf) -> Self {
        let workdir = job_file.parent().map(PathBuf::from).unwrap_or_default();
        Self {
            job_file,
            workdir,
            dlrun: PathBuf::from("/usr/bin/dlrun"),
            ..Self::default()
        }
    }
}
