//! What both PBS do, by what differs between them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::answer::Thing;
use super::dialect::Dialect;
use super::options::{Flag, argv, variables};
use super::own::own_entries;
use super::site::broken;
use super::{handed_through, ids, job_file, script};
use crate::config::site::SiteModel;
use crate::foundation::diagnostic::Problem;
use crate::job::{ArraySpec, JobId, Located, RunId, SchedulerKind};
use crate::launch::{Plan, PlannedResources};
use crate::record::RunRecord;
use crate::scheduler::adapter::{Adapter, Asked, Elsewhere, Findings, Lack};
use crate::scheduler::commands::Commands;
use crate::scheduler::{
    BrokenNode, Entries, JobRef, Reach, RunJobs, Scheduler, SchedulerError, Submission, Submitted,
    output_file,
};

/// What names the server and the installation to PBS's commands, and is no part of a job.
const KEPT_VARIABLES: [&str; 4] = ["PBS_CONF_FILE", "PBS_SERVER", "PBS_DEFAULT", "PBS_EXEC"];

/// Ids in one question: a command line takes 128 KiB and more.
const IDS_AT_A_TIME: usize = 1000;

/// Words of a server that takes no jobs at the moment (`pbs_error_db.h` of Torque 6.1.3, `pbs_messages.c` of OpenPBS 23.06).
pub(in crate::scheduler) const BUSY: [&str; 4] = [
    "Too many open connections",
    "Resource temporarily unavailable",
    "currently too busy to service this request",
    "Possible transient failure",
];

impl Dialect {
    /// Commands are looked for in `bin_dir`, then in `PATH`; each may take `timeout`.
    #[must_use]
    pub fn with_commands(&'static self, bin_dir: Option<PathBuf>, timeout: Duration) -> Pbs {
        let commands = Commands {
            words: self.words,
            bin_dirs: bin_dir.into_iter().collect(),
            timeout,
            // `qstat` writes times in the zone of its environment.
            pinned: |tool| tool.env("TZ", "UTC0"),
        };
        Pbs {
            dialect: self,
            commands,
        }
    }
}

impl Adapter for Dialect {
    fn kind(&self) -> SchedulerKind {
        self.kind
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn open(&'static self, reach: Reach) -> Box<dyn Scheduler> {
        Box::new(self.with_commands(reach.bin_dir, reach.timeout))
    }

    fn lacks(&self) -> &'static [Lack] {
        self.lacks
    }

    fn check(&self, asked: &Asked<'_>, found: &mut Findings) {
        (self.check)(asked, found);
        job_file::check(self.name, asked, found, self.typed_gpus);
    }

    fn option_problem(
        &self,
        option: &Located<String>,
        _: Option<&PlannedResources>,
    ) -> Option<Problem> {
        handed_through::problem(option, self.letters)
    }

    fn elsewhere<'a>(
        &self,
        options: &[&'a str],
        _: &'a [(String, String)],
        _: &PlannedResources,
    ) -> Elsewhere<'a> {
        job_file::elsewhere(options)
    }

    fn reserves_by_queue(&self) -> bool {
        self.reserves_by_queue
    }

    fn gives_whole_nodes(&self) -> bool {
        self.gives_whole_nodes
    }

    fn directives(&self, plan: &Plan) -> (&'static str, Vec<String>) {
        let mut flags = vec![Flag::with("-S", "/bin/bash")];
        flags.extend((self.requested)(plan));
        flags.extend(variables(plan, |_| true));
        // The script writes its output itself. What the scheduler says of the job goes beside it, in NAME.oID.
        flags.push(Flag::with("-j", "oe"));
        flags.extend((self.output_line)(plan));
        let lines = flags.iter().map(Flag::line);
        (
            "#PBS",
            lines.chain(plan.directives.iter().cloned()).collect(),
        )
    }

    fn identity(&self, plan: &Plan) -> String {
        script::identity(plan, self)
    }

    fn before_command(&self, plan: &Plan) -> String {
        script::before(plan, self)
    }

    fn on_each_node(&self, _: &Plan) -> String {
        script::ON_EACH.to_owned()
    }

    fn hosts(&self, plan: &Plan) -> String {
        script::in_use(plan)
            + "dlrun_list=$(IFS=,; echo \"${dlrun_hosts[*]}\")\nexport DLRUN_HOSTS=$dlrun_list\n\
         dlrun_list=$(IFS=,; echo \"${dlrun_tasks[*]}\")\nexport DLRUN_TASKS=$dlrun_list"
    }

    fn ranks(&self, plan: &Plan) -> String {
        script::ranks(plan)
    }

    fn after_command(&self, plan: &Plan) -> &'static str {
        script::after(plan)
    }

    fn keeps_environments_apart(&self) -> bool {
        true
    }

    fn nodes_of_this_job(&self) -> Option<String> {
        let lines = std::fs::read_to_string(std::env::var_os("PBS_NODEFILE")?).ok()?;
        let mut nodes: Vec<&str> = Vec::new();
        for node in lines.lines().filter(|line| !line.is_empty()) {
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        Some(nodes.join(",")).filter(|list| !list.is_empty())
    }

    fn id_in_names<'i>(&self, job_id: &'i str) -> &'i str {
        ids::number(job_id)
    }
}

/// A PBS as this process reaches it.
pub struct Pbs {
    dialect: &'static Dialect,
    commands: Commands,
}

impl Pbs {
    /// The arguments after `qsub`. `has` says whether a variable is set: OpenPBS's `qsub` refuses to hand over one that is not.
    fn arguments(&self, submission: &Submission<'_>, has: impl Fn(&str) -> bool) -> Vec<String> {
        let plan = submission.plan;
        let mut flags = (self.dialect.requested)(plan);
        flags.extend(variables(plan, has));
        flags.push(Flag::with("-j", "oe"));
        flags.push(Flag::with("-o", (self.dialect.spool)(submission)));
        let mut arguments = argv(&flags);
        for argument in &plan.arguments {
            // An option and its value are two words for `qsub`.
            arguments.extend(argument.splitn(2, ' ').map(str::to_owned));
        }
        arguments.push(submission.script.to_string_lossy().into_owned());
        arguments
    }
}

impl Scheduler for Pbs {
    fn command_line(&self, submission: &Submission<'_>) -> Vec<String> {
        let arguments = self.arguments(submission, |_| true);
        std::iter::once("qsub".to_owned())
            .chain(arguments)
            .collect()
    }

    fn submit(&self, submission: &Submission<'_>) -> Result<Submitted, SchedulerError> {
        let plan = submission.plan;
        let has = |name: &str| std::env::var_os(name).is_some();
        let mut tool = self.commands.submitting("qsub", &KEPT_VARIABLES);
        // PBS gives the job the directory of `qsub` (`PBS_O_WORKDIR`).
        if Path::new(&plan.workdir).is_dir() {
            tool = tool.current_dir(&plan.workdir);
        }
        if has("PBS_JOBID") {
            tool = self
                .dialect
                .job_variables
                .iter()
                .fold(tool, |tool, name| tool.env_remove(name));
        }
        let ran = tool.args(self.arguments(submission, has)).run();
        let job_id = self.commands.words.job_id("qsub", ran, |line| {
            Some(line).filter(|line| ids::is_id(line))
        })?;
        Ok(Submitted {
            output: output_file(plan, &job_id),
            job_id,
        })
    }

    fn queue(&self, jobs: &[JobRef]) -> Result<Entries, SchedulerError> {
        let ids: BTreeSet<&str> = jobs.iter().map(|job| job.job_id.0.as_str()).collect();
        let ids: Vec<&str> = ids.into_iter().collect();
        let mut found = Vec::new();
        for some in ids.chunks(IDS_AT_A_TIME) {
            found.extend((self.dialect.entries)(&self.commands, some)?);
        }
        Ok(own_entries(jobs, &found))
    }

    /// By the script among the arguments of `qsub`, which the server keeps.
    fn unheard(
        &self,
        runs: &[&RunRecord],
        known: &BTreeSet<String>,
    ) -> Result<RunJobs, SchedulerError> {
        let jobs = (self.dialect.all)(&self.commands)?;
        // An array has a line for each element.
        let found = jobs.iter().filter_map(|job| unheard(job, runs));
        let found: BTreeMap<RunId, JobId> = found.collect();
        let is_new = |(_, job): &(RunId, JobId)| !known.contains(&job.0);
        Ok(found.into_iter().filter(is_new).collect())
    }

    fn history(&self, jobs: &[JobRef]) -> Result<Entries, SchedulerError> {
        if self.dialect.keeps_history || jobs.is_empty() {
            return self.queue(jobs);
        }
        Err(SchedulerError::NoHistory {
            scheduler: self.commands.words.scheduler,
            source: None,
        })
    }

    fn cancel(&self, job: &JobRef, elements: Option<&ArraySpec>) -> Result<(), SchedulerError> {
        // All are deleted before the first failure is reported.
        let delete = |arguments: Vec<String>| {
            let commands = &self.commands;
            let id = arguments.last().cloned().unwrap_or_default();
            let what = format!("cancel job {id}");
            let ran = commands.tool("qdel").args(&arguments).run();
            let output = ran.map_err(|source| commands.failed(&what, source))?;
            // A job that is gone is what was asked for.
            let answer = commands.answer("qdel", output, self.dialect.gone, &what);
            answer.map(drop)
        };
        let deleted = (self.dialect.deletions)(job, elements)
            .into_iter()
            .map(delete);
        deleted.collect::<Vec<_>>().into_iter().collect()
    }

    fn out_of_order(&self, nodes: &str) -> Option<Vec<BrokenNode>> {
        let names: Vec<&str> = nodes.split(',').collect();
        let printed = self.commands.printed("pbsnodes", &names, &[], "show nodes");
        Some(broken(&printed.ok()?))
    }

    fn throttle(&self, array: &JobId, elements: u32) -> Option<Result<(), SchedulerError>> {
        let [option, key] = self.dialect.throttle;
        let value = format!("{key}{elements}");
        let what = format!("let {elements} elements of job {array} run at a time");
        let arguments = [option, &*value, &*array.0];
        let done = self.commands.printed("qalter", &arguments, &[], &what);
        Some(done.map(drop))
    }

    fn keep_nodes(&self, job: &str, nodes: &[String]) -> Option<Result<(), SchedulerError>> {
        let all = self.dialect.nodes_of_this_job();
        let all = all.filter(|_| self.dialect.gives_nodes_back)?;
        let others = all
            .split(',')
            .filter(|node| nodes.iter().all(|kept| kept != node));
        let arguments: Vec<&str> = ["-j", job].into_iter().chain(others).collect();
        let (program, what) = ("pbs_release_nodes", "give nodes back");
        let done = self.commands.printed(program, &arguments, &[], what);
        Some(done.map(drop))
    }

    fn site(&self) -> Result<SiteModel, SchedulerError> {
        (self.dialect.site)(&self.commands)
    }
}

/// Scripts lie in the directories of their runs. A server may show jobs of others, who may give their scripts any name.
fn unheard(job: &Thing, runs: &[&RunRecord]) -> Option<(RunId, JobId)> {
    let (owner, _) = job.get("Job_Owner")?.split_once('@')?;
    let arguments = job.get("Submit_arguments").or(job.get("submit_args"))?;
    let dir = arguments.trim_end().strip_suffix("/job.sh")?;
    let dir = Path::new(dir).file_name()?;
    let mut own = runs.iter().filter(|run| run.user == owner);
    let run = own.find(|run| dir == run.run_id.as_str())?;
    let id = ids::element(&job.id).map_or_else(|| job.id.clone(), |(array, _)| array);
    Some((run.run_id.clone(), JobId(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_found_by_the_place_of_its_script() {
        let run_id = RunId::from_random([7; 10]);
        let run = Plan::default().new_run(run_id.clone(), 0, "ann".to_owned(), String::new());
        let found_of = |owner: &str, key: &str, id: &str, arguments: String| {
            let owner = ("Job_Owner".to_owned(), format!("{owner}@login"));
            let attributes = [owner, (key.to_owned(), arguments)].into();
            let id = id.to_owned();
            unheard(
                &Thing {
                    id,
                    attributes,
                    ..Thing::default()
                },
                &[&run],
            )
        };
        let found = |key: &str, id: &str, arguments| found_of("ann", key, id, arguments);
        let script = |run: &RunId| format!("-l nodes=1 -N a /home/a b/runs/{run}/job.sh");
        for (key, id, job) in [
            ("Submit_arguments", "14.srv", "14.srv"),
            ("submit_args", "14[3].srv", "14[].srv"),
        ] {
            let expected = (run_id.clone(), JobId(job.to_owned()));
            assert_eq!(found(key, id, script(&run_id)), Some(expected));
        }
        let others = found_of("eve", "submit_args", "14.srv", script(&run_id));
        assert_eq!(others, None);
        let other = RunId::from_random([8; 10]);
        assert_eq!(found("submit_args", "14.srv", script(&other)), None);
        assert_eq!(
            found("submit_args", "14.srv", format!("runs/{run_id}")),
            None
        );
    }
}
