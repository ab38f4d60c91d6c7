//! What a plan must know of the site, gathered by the caller: resolution itself looks at nothing.

use std::path::PathBuf;

/// Slurm's commands as found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlurmFacts {
    /// Where `sbatch` is.
    pub sbatch: PathBuf,
    /// `SBATCH_*` variables of the user's environment, which beat `#SBATCH` lines.
    pub environment: Vec<(String, String)>,
}

/// The Python environment that a requirements file asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonFacts {
    /// Its directory.
    pub dir: PathBuf,
    /// True when it is made and complete.
    pub ready: bool,
    /// The Python it is made with.
    pub interpreter: PathBuf,
    /// Version of that Python, where it is known without starting it.
    pub version: Option<String>,
    /// The requirements file.
    pub requirements: PathBuf,
}

/// What `[run] script` turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptFacts {
    /// Absolute path.
    pub path: PathBuf,
    /// True when it can be executed by itself.
    pub executable: bool,
}

/// Facts of the site and of the files around the job file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteFacts {
    /// The job file, absolute.
    pub job_file: PathBuf,
    /// The working directory, absolute.
    pub workdir: PathBuf,
    /// The script, where the job has one.
    pub script: Option<ScriptFacts>,
    /// The file of secret variables, absolute.
    pub env_file: Option<PathBuf>,
    /// Slurm, where its commands are found.
    pub slurm: Option<SlurmFacts>,
    /// The container runtime's command, where one is found.
    pub container_runtime: Option<PathBuf>,
    /// The Python environment, where the job wants one.
    pub python: Option<PythonFacts>,
    /// CPUs of this machine that this process may use.
    pub cpus: Option<u64>,
    /// The running dlrun.
    pub dlrun: PathBuf,
}
