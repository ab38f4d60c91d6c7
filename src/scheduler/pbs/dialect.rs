//! What differs between Torque and OpenPBS.

use super::answer::Thing;
use super::handed_through::Letters;
use super::options::Flag;
use crate::config::site::SiteModel;
use crate::job::{ArraySpec, SchedulerKind};
use crate::launch::Plan;
use crate::record::QueueEntry;
use crate::scheduler::adapter::{Asked, Findings, Lack};
use crate::scheduler::commands::{Commands, Words};
use crate::scheduler::{JobRef, SchedulerError, Submission};

/// One of the two PBS.
pub struct Dialect {
    pub(in crate::scheduler) kind: SchedulerKind,
    /// Its name as people write it.
    pub(in crate::scheduler) name: &'static str,
    pub(in crate::scheduler) lacks: &'static [Lack],
    /// What else it cannot honour of a job file.
    pub(in crate::scheduler) check: fn(&Asked<'_>, &mut Findings),
    /// Why a type of GPU is refused, and what to write in place of it and their number.
    pub(in crate::scheduler) typed_gpus: fn(&str, &str) -> (&'static str, String),
    /// Letters of `qsub` that it alone has and dlrun writes.
    pub(in crate::scheduler) letters: &'static [Letters],
    pub(in crate::scheduler) reserves_by_queue: bool,
    pub(in crate::scheduler) gives_whole_nodes: bool,
    /// Whether a running job may give nodes back (`pbs_release_nodes`).
    pub(in crate::scheduler) gives_nodes_back: bool,
    /// The option of `qalter` by which so many elements of an array run at a time, without the number.
    pub(in crate::scheduler) throttle: [&'static str; 2],
    /// The variable that holds the index of an array's element in its job.
    pub(in crate::scheduler) index: &'static str,
    /// Whether the list of a job's nodes has a line for each CPU, else for each task.
    pub(in crate::scheduler) lists_cpus: bool,
    /// Options of `pbsdsh` before the words.
    pub(in crate::scheduler) pbsdsh: &'static str,
    /// What its commands say where they do nothing.
    pub(in crate::scheduler) words: Words,
    /// The options that say what a job needs. They go on the command line as well as into the script: what is there beats
    /// `#PBS` lines and what a site's filter makes of them.
    pub(in crate::scheduler) requested: fn(&Plan) -> Vec<Flag>,
    /// Where a script's own lines put what the scheduler says of the job, if anywhere.
    pub(in crate::scheduler) output_line: fn(&Plan) -> Option<Flag>,
    /// The same for the command line.
    pub(in crate::scheduler) spool: fn(&Submission<'_>) -> String,
    /// Variables that a job sets without a prefix, which `qsub` must not see inside of one.
    pub(in crate::scheduler) job_variables: &'static [&'static str],
    /// What the server says of jobs by their ids, and of the elements of arrays.
    pub(in crate::scheduler) entries:
        fn(&Commands, &[&str]) -> Result<Vec<QueueEntry>, SchedulerError>,
    /// All jobs that the server shows to this user.
    pub(in crate::scheduler) all: fn(&Commands) -> Result<Vec<Thing>, SchedulerError>,
    /// Whether the server's answers have the jobs that are over.
    pub(in crate::scheduler) keeps_history: bool,
    /// The arguments of each `qdel` that cancels a job or some elements of it.
    pub(in crate::scheduler) deletions: fn(&JobRef, Option<&ArraySpec>) -> Vec<Vec<String>>,
    /// Exit codes of `qdel` for a job that is not known any more or over, modulo 256: what was asked for is so.
    pub(in crate::scheduler) gone: &'static [i32],
    pub(in crate::scheduler) site: fn(&Commands) -> Result<SiteModel, SchedulerError>,
}
