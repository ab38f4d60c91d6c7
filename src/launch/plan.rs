//! The plan as data: what will run, where and how, with a reason for every choice. It has everything that the script and the node
//! need, so it can wait in a queue for weeks. How it is made is in [`crate::plan`].

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ranks::Roles;
use super::trial::Trial;
use crate::foundation::units::{Bytes, Walltime};
use crate::image::choice::Wanted;
use crate::image::flags::Container;
use crate::job::{
    ArraySpec, Begin, Conda, CpuBinding, DependencyKind, Elastic, EnvVar, Framework, Inherit,
    JobId, Launcher, Mail, NodeCheck, Provenance, Resume, RunId, SchedulerKind, StorageClass,
    TimingPattern, Workload, gpus_on_node,
};
use crate::record::{Forecast, Identity, RunImage, RunRecord};

/// Variables that name the GPUs a program may see.
pub const GPU_VARIABLES: [&str; 3] = [
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
];

/// One choice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// What was chosen: `scheduler`, `environment`, `memory`, ...
    pub what: String,
    /// The choice.
    pub value: String,
    /// Why.
    pub why: String,
    /// What else was possible, and why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<Rejected>,
}

/// A possibility that was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// The possibility.
    pub value: String,
    /// Why not.
    pub why: String,
}

/// The part of a job that one of several trials in it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// Its number, from 0.
    pub number: u32,
    /// CPUs that the trial is bound to; empty: it may use all of the job's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// The job, by its scheduler's id.
    pub job_id: JobId,
    /// Who has that job.
    pub scheduler: SchedulerKind,
}

/// Resources with defaults applied; `None`: the line is left out and the site's default holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedResources {
    /// Nodes.
    pub nodes: u32,
    /// So many nodes more, which take the places of lost ones.
    #[serde(default, skip_serializing_if = "crate::record::is_default")]
    pub spares: u32,
    /// True where the job file says how many nodes, or they are several: else the scheduler is not asked for a number.
    #[serde(default)]
    pub nodes_asked: bool,
    /// Tasks in all, where the job file says so; the scheduler spreads them.
    #[serde(default)]
    pub tasks: Option<u32>,
    /// Tasks on each node; of tasks in all, the most that a node gets where they are spread evenly.
    pub tasks_per_node: u32,
    /// True where the job file says how many tasks each node gets.
    #[serde(default)]
    pub tasks_per_node_asked: bool,
    /// CPUs of each task.
    pub cpus_per_task: Option<u32>,
    /// GPUs on each node: `2` or `v100:2`.
    pub gpus_per_node: Option<String>,
    /// GPUs of each task: `1` or `v100:1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_per_task: Option<String>,
    /// Main memory on each node, in bytes.
    pub memory: Option<Bytes>,
    /// Time limit, in seconds.
    pub walltime: Option<Walltime>,
    /// Queue (Slurm's partition).
    pub queue: Option<String>,
    /// Account.
    pub account: Option<String>,
    /// Quality of service.
    pub qos: Option<String>,
    /// Reservation.
    pub reservation: Option<String>,
    /// Node features.
    pub constraint: Option<String>,
    /// Nodes wanted.
    pub nodelist: Option<String>,
    /// Nodes not wanted.
    pub exclude: Option<String>,
    /// Whole nodes.
    pub exclusive: bool,
    /// Main memory for each CPU, in bytes; never beside `memory`.
    #[serde(default)]
    pub memory_per_cpu: Option<Bytes>,
    /// Indexes of the job array.
    #[serde(default)]
    pub array: Option<ArraySpec>,
    /// What must have happened before, all of it; targets as the scheduler names them.
    #[serde(default)]
    pub depends: Vec<PlannedDependency>,
    /// Not before this moment.
    #[serde(default)]
    pub begin: Option<Begin>,
    /// Mail.
    #[serde(default)]
    pub mail: Option<Mail>,
    /// Licences, by name, each with how many.
    #[serde(default)]
    pub licenses: Vec<(String, u32)>,
}

impl PlannedResources {
    /// GPUs on each node, however they were asked for.
    #[must_use]
    pub fn gpus_on_node(&self) -> Option<String> {
        gpus_on_node(
            self.gpus_per_node.as_deref(),
            self.gpus_per_task.as_deref(),
            self.tasks_per_node,
        )
    }

    /// Main memory that each node is asked for, in bytes, in either way.
    #[must_use]
    pub fn memory_on_node(&self) -> Option<u64> {
        let by_cpu = || {
            let cpus = u64::from(self.cpus_per_task?) * u64::from(self.tasks_per_node.max(1));
            self.memory_per_cpu?.0.checked_mul(cpus)
        };
        self.memory.map(|memory| memory.0).or_else(by_cpu)
    }

    /// Tasks of each of so many nodes, where the scheduler does not say: as even as they can be, the first ones have more.
    #[must_use]
    pub fn tasks_of_nodes(&self, nodes: u32) -> Vec<u32> {
        let most = nodes.saturating_mul(self.tasks_per_node.max(1));
        let all = self.tasks.map_or(most, |tasks| tasks.min(most));
        let of_node = |at| all / nodes + u32::from(at < all % nodes);
        (0..nodes).map(of_node).collect()
    }

    /// Whether a key under `[resources]`, or `name`, has a value, wherever it came from; `None` for keys that are not looked at.
    #[must_use]
    pub fn has(&self, key: &str) -> Option<bool> {
        let value = serde_json::to_value(self).ok()?.get(key).cloned();
        Some(match value {
            None => return (key == "name").then_some(true),
            Some(serde_json::Value::Bool(flag)) => flag,
            Some(serde_json::Value::Array(items)) => !items.is_empty(),
            Some(value) => !value.is_null(),
        })
    }
}

/// A condition on another job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedDependency {
    /// What is waited for.
    pub kind: DependencyKind,
    /// The scheduler's job ids; a run whose array was split has several.
    pub job_ids: Vec<JobId>,
}

/// The storage that was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedStorage {
    /// The site's name of it.
    pub name: String,
    /// Where it is on the nodes; `$NAME` stands for a variable of the job.
    pub path: String,
    /// How quick it is.
    pub class: StorageClass,
}

/// What is built before the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedBuild {
    /// URL or absolute path of the source.
    pub source: String,
    /// Shell text, with the parallelism already in it.
    pub command: Option<String>,
    /// SHA-256 of the file or commit of the repository, in lower-case hexadecimal digits.
    pub checksum: Option<String>,
    /// Directory in which the source lies and is built, absolute.
    pub dir: String,
}

/// A step that a rule of the site's configuration attaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// An argument vector; never goes through a shell.
    pub command: Vec<String>,
    /// The rule's name.
    pub rule: String,
}

/// How the nodes of a distributed training find each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeetingPlan {
    /// How long they wait for the last of them, in seconds.
    pub wait_seconds: u64,
    /// The network interface of the first one; `None`: that of its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Lowest and highest port.
    pub ports: (u16, u16),
}

impl Default for MeetingPlan {
    fn default() -> Self {
        Self {
            wait_seconds: 300,
            interface: None,
            ports: (20_000, 31_999),
        }
    }
}

/// What becomes of a run that does nothing, in minutes without work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdlePolicy {
    /// From here on it is mentioned.
    pub advice_minutes: u64,
    /// From here on it is a warning.
    pub warning_minutes: u64,
    /// From here on the run is ended; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_after_minutes: Option<u64>,
}

impl IdlePolicy {
    /// What is held for so many minutes is noted.
    #[must_use]
    pub fn shortest(&self) -> u64 {
        let cancel = self.cancel_after_minutes.unwrap_or(u64::MAX);
        self.advice_minutes.min(self.warning_minutes).min(cancel)
    }
}

impl Default for IdlePolicy {
    fn default() -> Self {
        Self {
            advice_minutes: 10,
            warning_minutes: 60,
            cancel_after_minutes: None,
        }
    }
}

/// A resolved job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Version of this form, 1.
    pub format: u32,
    /// The job's name.
    pub name: String,
    /// Who takes it; never `auto`.
    pub scheduler: SchedulerKind,
    /// Absolute working directory.
    pub workdir: String,
    /// Where the output goes, relative to the working directory: `%j` stands for the job's id (of an array the array's), `%a`
    /// for the index. `None`: `NAME-JOBID.out`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The job file, absolute.
    pub job_file: String,
    /// The argument vector.
    pub command: Vec<String>,
    /// What the command line sets in place of the job file, as it was written; values of secrets are not kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<String>,
    /// Variables of the run.
    pub env: Vec<EnvVar>,
    /// File of further variables, absolute; read on the node.
    pub env_file: Option<String>,
    /// Environment modules.
    pub modules: Vec<String>,
    /// Directory of the Python environment, absolute.
    pub python_env: Option<String>,
    /// The conda environment that is activated in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conda: Option<Conda>,
    /// `none`, `each` or `mpi`.
    pub launcher: Launcher,
    /// Ranks that do something else than training.
    #[serde(default, skip_serializing_if = "crate::record::is_default")]
    pub roles: Roles,
    /// What `srun --mpi` is given; `None`: the site's default holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi: Option<String>,
    /// Variables of the submitting shell that reach the job; `None`: as the scheduler has it.
    #[serde(default)]
    pub inherit: Option<Inherit>,
    /// The container; `None`: the command runs without one.
    #[serde(default)]
    pub image: Option<Container>,
    /// What the training is written with: what was chosen, where something was left to choose, else as the job file has it.
    #[serde(default)]
    pub framework: Framework,
    /// The storage that was chosen.
    #[serde(default)]
    pub storage: Option<PlannedStorage>,
    /// What is built before the run.
    #[serde(default)]
    pub build: Option<PlannedBuild>,
    /// Steps before the command, in order; one that fails ends the job.
    #[serde(default)]
    pub prologue: Vec<Step>,
    /// Steps after the command, in order, however it ended.
    #[serde(default)]
    pub epilogue: Vec<Step>,
    /// Resources.
    pub resources: PlannedResources,
    /// Directives handed through.
    pub directives: Vec<String>,
    /// Command-line arguments handed through.
    pub arguments: Vec<String>,
    /// What is known of the training.
    pub workload: Workload,
    /// What it is a run of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// What the performance model says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<Forecast>,
    /// The user's own timing pattern.
    pub timing: Option<TimingPattern>,
    /// Time between two samples, in milliseconds.
    pub interval_ms: u64,
    /// Time between two looks at single processes, in milliseconds.
    #[serde(default = "default_process_interval_ms")]
    pub process_interval_ms: u64,
    /// Where the nodes' daemon listens; `None`: it is not asked.
    #[serde(default)]
    pub daemon_socket: Option<String>,
    /// NVML on the nodes; `None`: the linker finds it.
    #[serde(default)]
    pub nvml_library: Option<String>,
    /// Time between two writings of the node record, in seconds.
    pub record_seconds: u64,
    /// How the nodes of a distributed training find each other.
    #[serde(default, skip_serializing_if = "crate::record::is_default")]
    pub meeting: MeetingPlan,
    /// How the run continues after one of its starts ended early; `None`: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
    /// The range of nodes of a run whose starts may differ; `None`: all have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elastic: Option<Elastic>,
    /// The number of the first start of this job; 0 unless it continues another.
    #[serde(default, skip_serializing_if = "crate::record::is_default")]
    pub first_attempt: u32,
    /// Whether the next start keeps off nodes that an earlier one lost.
    #[serde(default, skip_serializing_if = "crate::record::is_default")]
    pub exclude_lost_nodes: bool,
    /// Nodes that were asked for by `dlrun scale`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaled_to: Option<u32>,
    /// Whether no other job writes to the file that `output` names, of a job that continues another.
    #[serde(default, skip_serializing_if = "crate::record::is_default")]
    pub first_output_is_own: bool,
    /// Whether ranks that dlrun starts are bound to CPUs.
    #[serde(default, skip_serializing_if = "crate::record::is_default")]
    pub cpu_binding: CpuBinding,
    /// Whether each node is looked at before the command starts.
    #[serde(default, skip_serializing_if = "crate::record::is_default")]
    pub node_check: NodeCheck,
    /// The ways in which the command is tried before it runs; `None`: it runs as planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// What becomes of it where it does nothing.
    #[serde(default, skip_serializing_if = "crate::record::is_default")]
    pub idle: IdlePolicy,
    /// Time between two updates of the job's comment, in seconds; 0: there are none.
    #[serde(default, skip_serializing_if = "crate::record::is_default")]
    pub comment_seconds: u64,
    /// Up to which time limit the scheduler may be asked for more while the run runs, in seconds; `None`: it is not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extend_up_to: Option<u64>,
    /// Whether the program may be asked to end by itself, so that the watcher looks for that.
    #[serde(default, skip_serializing_if = "crate::record::is_default")]
    pub may_be_asked_to_stop: bool,
    /// The part of the job around it that a packed trial has; `None`: it is a separate job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<Seat>,
    /// TERM to KILL of local jobs, in seconds.
    pub kill_wait_seconds: u64,
    /// Where records go, absolute.
    pub state_dir: String,
    /// dlrun on the nodes, absolute.
    pub dlrun: String,
    /// Every choice.
    pub decisions: Vec<Decision>,
    /// What the user should know before the job waits. It depends on who looks and when, so it is no part of the plan
    /// that travels.
    #[serde(skip)]
    pub warnings: Vec<String>,
    /// What is worth knowing to somebody who looks at the plan, and changes nothing. It does not travel either.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// The images of the catalogue that were compared with the job, all of them: first those that fit, best first. The
    /// decision that travels names some.
    #[serde(skip)]
    pub candidates: Vec<ImageCandidate>,
    /// The ways in which the job could run, the one that is taken first, then the best of the others. It does not travel: the
    /// decisions name some.
    #[serde(skip)]
    pub ways: Vec<Candidate>,
    /// Why the performance model that is there says nothing of the job.
    #[serde(skip)]
    pub no_forecast: Option<String>,
    /// `image.build` is `auto` and no image fits: what has to be built, before the job may be handed over.
    #[serde(skip)]
    pub no_image: Option<NoImage>,
}

/// Of plans that dlrun wrote before it looked at processes one by one.
fn default_process_interval_ms() -> u64 {
    5000
}

impl Plan {
    /// Whether a start may follow another one inside of the same job of a cluster.
    #[must_use]
    pub fn restarts_inside(&self) -> bool {
        let can_give_back = matches!(
            self.scheduler,
            SchedulerKind::Slurm | SchedulerKind::OpenPbs
        );
        let gives_back = self.elastic.is_some() && can_give_back;
        self.resources.spares > 0 || gives_back
    }

    /// Whether all of the run is on one node, as far as the plan says. Of an elastic run it has the fewest nodes, and the scheduler
    /// spreads tasks whose nodes nobody asked for.
    #[must_use]
    pub fn is_on_one_node(&self) -> bool {
        let resources = &self.resources;
        let is_fixed = resources.nodes_asked || resources.tasks.is_none_or(|tasks| tasks == 1);
        resources.nodes == 1 && is_fixed && resources.spares == 0 && self.elastic.is_none()
    }

    /// The version that this dlrun writes.
    pub const FORMAT: u32 = 1;

    /// The record of a run by this plan that is handed over now. It has no job id and no output yet.
    #[must_use]
    pub fn new_run(
        &self,
        run_id: RunId,
        submitted_at_ms: u64,
        user: String,
        submit_host: String,
    ) -> RunRecord {
        RunRecord {
            format: RunRecord::FORMAT,
            run_id,
            name: self.name.clone(),
            submitted_at_ms,
            user,
            submit_host,
            scheduler: self.scheduler,
            job_id: None,
            output: None,
            workdir: self.workdir.clone(),
            job_file: Some(self.job_file.clone()),
            nodes: self.resources.nodes,
            tasks_per_node: Some(self.resources.tasks_per_node),
            array: self.resources.array.clone(),
            parts: Vec::new(),
            framework: self.framework.clone(),
            storage: self
                .storage
                .as_ref()
                .map(|storage| (storage.name.clone(), storage.class)),
            image: self.image.as_ref().map(|image| RunImage {
                source: image.source.clone(),
                name: image.name.clone(),
                digest: image.digest.clone(),
            }),
            queue: self.resources.queue.clone(),
            workload: self.workload.clone(),
            identity: self.identity.clone(),
            forecast: self.forecast.clone(),
            dlrun_version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// As [`Plan::new_run`], of a command that has begun: in the job `job_id`, else on this machine.
    #[must_use]
    pub fn begun_run(
        &self,
        run_id: RunId,
        begun_at_ms: u64,
        (user, host): (String, String),
        job_id: Option<JobId>,
    ) -> RunRecord {
        let scheduler = match job_id {
            Some(_) => self.scheduler,
            None => SchedulerKind::Local,
        };
        RunRecord {
            scheduler,
            job_id,
            ..self.new_run(run_id, begun_at_ms, user, host)
        }
    }

    /// Where the output goes, relative to the working directory, with `%j` for the job's id and `%a` for an index.
    #[must_use]
    pub fn output_pattern(&self) -> String {
        let element = if self.resources.array.is_some() {
            "_%a"
        } else {
            ""
        };
        self.output
            .clone()
            .unwrap_or_else(|| format!("{}-%j{element}.out", self.name))
    }

    /// Says whether no other job writes to the job's output file.
    #[must_use]
    pub fn has_own_output(&self) -> bool {
        // A job that continues another writes to its file, by its whole name.
        let names_job = |output: &String| output.contains("%j") || self.first_output_is_own;
        self.output.as_ref().is_none_or(names_job)
    }

    /// The output file of a job whose id, as file names have it, is `id`; `%a` is left for the index.
    #[must_use]
    pub fn output_of(&self, id: &str) -> PathBuf {
        Path::new(&self.workdir).join(self.output_pattern().replace("%j", id))
    }

    /// The plan as one line of JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a plan is plain data with text keys")
    }
}

/// A way in which a job could run: its hard constraints hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Candidate {
    /// Digest of the image, else where it comes from.
    #[serde(skip)]
    pub image_identity: Option<String>,
    /// Name of the image in the catalogue; `None`: the job names its image, or runs in none.
    pub image: Option<String>,
    /// The framework's version, where it is known.
    pub version: Option<String>,
    /// The graph compiler; `None`: the job file leaves it to the program.
    pub compiler: Option<String>,
    /// Where the framework came from, where it is known.
    pub provenance: Option<Provenance>,
    /// Nodes.
    pub nodes: u32,
    /// Whether it is the one.
    pub chosen: bool,
    /// Parallel efficiency against the fewest nodes, of the same software; `None`: there is one size, or no forecast.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub efficiency_ratio: Option<f64>,
    /// What the model says; `None`: there is no model.
    pub forecast: Option<Forecast>,
    /// Why it is not taken, however quick it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejected: Option<String>,
}

/// An image that was compared with the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImageCandidate {
    /// Its name.
    pub name: String,
    /// Its path or URI.
    pub place: String,
    /// Where it is described.
    pub origin: String,
    /// Whether it is the one.
    pub chosen: bool,
    /// Why it cannot be taken; empty: it fits.
    pub rejected: Vec<String>,
    /// What speaks for it, where it fits.
    pub reasons: Vec<String>,
    /// What is not known and would speak against it.
    pub unknown: Vec<String>,
    /// Why another that fits is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beaten: Option<String>,
}

/// No image fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoImage {
    /// What is wanted.
    pub wanted: Wanted,
    /// Why none of the catalogue fits, in short.
    pub why: String,
}

/// How a source is had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `git clone`.
    Git,
    /// A download.
    Url,
    /// A file or directory that the nodes see.
    Path,
}

impl Source {
    /// Tells it by its text. A name that ends in `.git` is a repository, wherever it lies.
    ///
    /// # Errors
    /// For a scheme that nobody here fetches.
    pub fn from_text(source: &str) -> Result<Self, String> {
        let scheme = source.split_once("://").map(|(scheme, _)| scheme);
        match scheme {
            Some("git" | "ssh" | "git+ssh") => Ok(Self::Git),
            Some("https" | "http" | "file") if source.ends_with(".git") => Ok(Self::Git),
            Some("https" | "http") => Ok(Self::Url),
            Some(scheme) => Err(format!(
                "`{scheme}://` is not fetched; https, ssh and git are"
            )),
            None if source.ends_with(".git") => Ok(Self::Git),
            None => Ok(Self::Path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_with_spares_or_of_changing_size_is_not_on_one_node() {
        let mut plan = Plan::default();
        plan.resources.nodes = 1;
        assert!(plan.is_on_one_node());
        plan.resources.spares = 1;
        assert!(!plan.is_on_one_node());
        (plan.resources.spares, plan.resources.nodes) = (0, 2);
        assert!(!plan.is_on_one_node());
        plan.resources.nodes = 1;
        plan.elastic = Some(Elastic {
            nodes: (1, 4),
            ..Elastic::default()
        });
        assert!(!plan.is_on_one_node());
        // `tasks = 40` without `nodes`: Slurm gives as many nodes as it needs.
        let mut plan = Plan::default();
        (plan.resources.nodes, plan.resources.tasks) = (1, Some(40));
        assert!(!plan.is_on_one_node());
        plan.resources.nodes_asked = true;
        assert!(plan.is_on_one_node());
    }
}
