//! What is known of a scheduler without asking it: what its options mean, what it cannot honour of a job file, what its jobs'
//! scripts do otherwise. Each scheduler says it in the `adapter.rs` of its directory, which has its line in `ADAPTERS` (`scheduler/mod.rs`).

use super::script::{DEFAULT_IDENTITY, MINT};
use super::{Reach, Scheduler};
use crate::config::Tables;
use crate::foundation::diagnostic::Problem;
use crate::job::{JobSpec, Launcher, Located, Resources, SchedulerKind};
use crate::launch::{Plan, PlannedResources, Shape};

/// A key of `[resources]` that a scheduler has nothing for.
#[derive(Debug)]
pub struct Lack {
    /// The key.
    pub key: &'static str,
    /// Ends the sentence "`resources.KEY`: ".
    pub why: &'static str,
    /// What to do in its place.
    pub instead: &'static str,
}

/// A job file, as far as schedulers differ by it.
pub struct Asked<'a> {
    /// The job file.
    pub spec: &'a JobSpec,
    /// The job's name.
    pub name: &'a str,
    /// How the command gets onto the nodes.
    pub launcher: Launcher,
    /// What the site says of its GPUs.
    pub tables: &'a Tables,
    /// Whether `mpirun` is on this machine.
    pub has_mpirun: bool,
}

impl Asked<'_> {
    /// Whether a key under `[resources]` asks for something.
    #[must_use]
    pub fn asks(&self, key: &str) -> bool {
        let Resources {
            depends,
            licenses,
            spans,
            ..
        } = &self.spec.resources;
        match key {
            "depends" => !depends.is_empty(),
            "licenses" => !licenses.is_empty(),
            key => spans.contains_key(key),
        }
    }
}

/// What is reported about a job file.
#[derive(Debug, Default)]
pub struct Findings {
    /// What the scheduler cannot honour.
    pub problems: Vec<Problem>,
    /// What takes effect otherwise than it looks.
    pub warnings: Vec<String>,
}

impl Findings {
    /// A key under `[resources]` cannot be honoured.
    pub fn refuse(&mut self, asked: &JobSpec, key: &str, why: &str, instead: &str) {
        self.problems.push(Problem {
            span: asked.resources.spans.get(key).cloned(),
            message: format!("`resources.{key}`: {why}"),
            hint: Some(instead.to_owned()),
        });
    }
}

/// What is not in the job file and decides all the same: options handed through, the user's environment.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Elsewhere<'a> {
    /// The queue.
    pub queue: Option<&'a str>,
    /// The quality of service.
    pub qos: Option<&'a str>,
    /// Another cluster takes the job, of which nothing is known here.
    pub other_cluster: bool,
}

/// One scheduler.
pub trait Adapter: Sync {
    /// Which one it is.
    fn kind(&self) -> SchedulerKind;
    /// Its name as people write it.
    fn name(&self) -> &'static str;
    /// The scheduler, through its commands.
    fn open(&'static self, reach: Reach) -> Box<dyn Scheduler>;

    /// Keys under `[resources]` that it has nothing for.
    fn lacks(&self) -> &'static [Lack] {
        &[]
    }
    /// What else it cannot honour of a job file, and what it takes otherwise.
    fn check(&self, _asked: &Asked<'_>, _found: &mut Findings) {}
    /// What is wrong with handing an option through to it. `beside`: what the job asks for.
    fn option_problem(
        &self,
        _option: &Located<String>,
        _beside: Option<&PlannedResources>,
    ) -> Option<Problem> {
        None
    }
    /// What options handed through and variables of the environment decide.
    fn elsewhere<'a>(
        &self,
        _options: &[&'a str],
        _environment: &'a [(String, String)],
        _resources: &PlannedResources,
    ) -> Elsewhere<'a> {
        Elsewhere::default()
    }
    /// The key of the job file that a variable of its command's environment speaks for.
    fn key_of_variable(&self, _name: &str) -> Option<&'static str> {
        None
    }
    /// What a variable that no key speaks for does.
    fn effect_of_variable(&self) -> &'static str {
        "holds: qsub obeys it"
    }
    /// Whether a reservation has its own queue.
    fn reserves_by_queue(&self) -> bool {
        false
    }
    /// Whether a job whose nodes are its own may use all of their CPUs.
    fn gives_whole_nodes(&self) -> bool {
        true
    }

    /// What its lines in the script begin with, and the lines.
    fn directives(&self, _plan: &Plan) -> (&'static str, Vec<String>) {
        ("#", Vec::new())
    }
    /// Who the run is, as shell text: element, attempt, job id, node and run id.
    fn identity(&self, _plan: &Plan) -> String {
        format!("{DEFAULT_IDENTITY}{MINT}")
    }
    /// What must be there before the command is put together, as shell text.
    fn before_command(&self, _plan: &Plan) -> String {
        String::new()
    }
    /// What starts one dlrun on each node, as shell words.
    fn on_each_node(&self, _plan: &Plan) -> String {
        String::new()
    }
    /// What sets `DLRUN_HOSTS` (the job's nodes, in order) and `DLRUN_TASKS` (tasks on each), as shell text.
    fn hosts(&self, _plan: &Plan) -> String {
        "export DLRUN_HOSTS=$DLRUN_NODE DLRUN_TASKS=".to_owned()
    }
    /// What starts the ranks of an MPI program, as shell words.
    fn ranks(&self, plan: &Plan) -> String {
        format!("'mpirun' '-np' '{}'", Shape::for_plan(plan).ranks())
    }
    /// What is done behind the command, as shell text; it may say in `dlrun_why` why the job ends.
    fn after_command(&self, _plan: &Plan) -> &'static str {
        ""
    }
    /// Whether nodes read the file of variables themselves with `launcher = "each"`.
    fn keeps_environments_apart(&self) -> bool {
        false
    }

    /// The list of a job's nodes, as the variables of the job say it in which this process runs; `None`: they do not.
    fn nodes_of_this_job(&self) -> Option<String> {
        None
    }

    /// Whether its command reads the script from its input.
    fn reads_script_from_input(&self) -> bool {
        false
    }

    /// A job's id as names of files have it.
    fn id_in_names<'i>(&self, job_id: &'i str) -> &'i str {
        job_id
    }
    /// What the reason for which a job waits means, for people; `None`: it says so itself, or is not known.
    fn meaning_of_reason(&self, _reason: &str) -> Option<&'static str> {
        None
    }
    /// Whether a job that waits for this reason can never start as it is.
    fn can_never_start(&self, reason: &str) -> bool {
        reason.to_ascii_lowercase().contains("can never run")
    }
    /// How to see whether it answers.
    fn how_to_see_the_server(&self) -> &'static str {
        "`qstat -B` says whether its server is up"
    }
    /// What to do where nobody knows whether a job is queued.
    fn how_to_find_the_job(&self) -> &'static str {
        "look with `qstat -u $USER` before submitting again; the run is kept, and its job is found in the queue"
    }
}
