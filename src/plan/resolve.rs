//! From the job file to the plan, one function per choice.

use super::decisions::{JOB_FILE, Resolver, text};
use super::facts::SiteFacts;
use super::identity::identity_of;
use super::plan_text::is_secret;
use super::secrets::shown_argv;
use super::{Plan, Rejected, compiler};
use crate::config::{Origin, Settings};
use crate::foundation::diagnostic::Problem;
use crate::job::{Command, JobSpec, Launcher, Located, SchedulerKind, name_problem, output_of};
use crate::launch::Roles;
use crate::scheduler::adapter_for;
use crate::{launch, observe::timing};

/// The largest plan, in bytes of JSON: it travels to the node in one environment variable, and Linux ends those at
/// 128 KiB (`MAX_ARG_STRLEN`, `execve(2)`).
const MAX_PLAN_BYTES: usize = 100 << 10;

/// Resolves a job.
///
/// # Errors
/// Every contradiction between job file and site, with its place in the job file where it has one.
pub fn resolve(
    spec: &JobSpec,
    settings: &Settings,
    facts: &SiteFacts,
) -> Result<Plan, Vec<Problem>> {
    let mut resolver = Resolver::new(spec, settings, facts);
    resolver.name();
    resolver.scheduler();
    resolver.command();
    resolver.output();
    let before_environment = resolver.plan.decisions.len();
    let (fewest, most) = spec.resources.node_bounds();
    resolver.launcher(if resolver.is_local() { fewest } else { most });
    resolver.resources(fewest);
    resolver.attendance();
    resolver.roles();
    resolver.dialect();
    resolver.queue = resolver.final_queue();
    let identity = identity_of(spec, facts);
    let mut prospect = resolver.prospect(&identity);
    resolver.settle(&prospect);
    let behind = resolver.plan.decisions.len();
    resolver.surroundings(identity, &mut prospect);
    // The environment is shown where it was asked for, though it depends on the queue.
    resolver.plan.decisions[before_environment..].rotate_left(behind - before_environment);
    resolver.house_rules();
    resolver.storage();
    resolver.rules();
    let on_gpus = resolver.plan.resources.gpus_on_node().is_some();
    compiler::add_variables(&mut resolver.plan.env, &resolver.plan.framework, on_gpus);
    resolver.trial(&prospect);
    resolver.flags();
    resolver.mpi();
    resolver.build();
    resolver.timing();
    resolver.node_check();
    resolver.resume(&prospect);
    resolver.extension();
    resolver.pass_through();
    resolver.variables();
    resolver.warn_of_secrets();
    resolver.warn_of_kept_variables();
    resolver.warn_of_launcher();
    if spec.has_explore {
        let warning =
            "`framework.explore` has no effect: dlrun no longer draws candidates to learn";
        resolver.plan.warnings.push(warning.to_owned());
    }
    resolver.fit();
    resolver.plan.forecast = prospect.forecast().cloned();
    resolver.starts();
    resolver.plan.ways = prospect.candidates;
    resolver.plan.no_forecast = prospect.silence;
    check_size(resolver.plan, resolver.problems)
}

/// Who would take the job: what [`resolve`] chooses, for those who must ask the scheduler before.
#[must_use]
pub fn scheduler_of(spec: &JobSpec, settings: &Settings, facts: &SiteFacts) -> SchedulerKind {
    let mut resolver = Resolver::new(spec, settings, facts);
    resolver.scheduler();
    resolver.plan.scheduler
}

/// The scheduler that flag, job file or setting name, with the reason; `None`: the one that is found.
#[must_use]
pub fn asked_scheduler(spec: &JobSpec, settings: &Settings) -> Option<(SchedulerKind, String)> {
    let in_file = spec
        .scheduler
        .kind
        .filter(|kind| *kind != SchedulerKind::Auto);
    let configured = Some(settings.scheduler()).filter(|kind| *kind != SchedulerKind::Auto);
    let origin = settings.origin("scheduler.kind");
    // A flag is the user's last word; a site's or user's setting gives way to the job file.
    let flag = configured.filter(|_| matches!(origin, Origin::Flag { .. }));
    match (flag, in_file, configured) {
        (None, Some(kind), _) => Some((kind, JOB_FILE.to_owned())),
        (Some(kind), ..) | (None, None, Some(kind)) => Some((kind, format!("{origin} says so"))),
        (None, None, None) => None,
    }
}

fn check_size(plan: Plan, mut problems: Vec<Problem>) -> Result<Plan, Vec<Problem>> {
    let bytes = plan.to_json().len();
    if bytes > MAX_PLAN_BYTES {
        problems.push(
            Problem::of_file(format!(
                "the plan is {bytes} bytes long; {MAX_PLAN_BYTES} is the limit"
            ))
            .hinted("put long values into a file that the program reads"),
        );
    }
    if problems.is_empty() {
        Ok(plan)
    } else {
        Err(problems)
    }
}

impl Resolver<'_> {
    /// The job file's name, else the file's stem with unusable characters replaced.
    fn name(&mut self) {
        if let Some(name) = &self.spec.name {
            self.decide("name", name.clone(), JOB_FILE);
            self.plan.name.clone_from(name);
            return;
        }
        let stem = self
            .facts
            .job_file
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned());
        let stem = stem.unwrap_or_default();
        let usable = |c: char| {
            if c.is_alphanumeric() || "._+-".contains(c) {
                c
            } else {
                '-'
            }
        };
        let cleaned: String = stem.chars().map(usable).take(40).collect();
        let cleaned = cleaned.trim_start_matches(|c: char| !c.is_alphanumeric());
        let name = if name_problem(cleaned).is_some() {
            "job"
        } else {
            cleaned
        };
        self.decide(
            "name",
            name,
            "the job file names none, so its file name serves",
        );
        self.plan.name = name.to_owned();
    }

    /// Design rule: a scheduler whose commands are found takes the job; none found and none configured means this
    /// machine, with a warning. A scheduler that is down is never replaced by this machine: that is the caller's error.
    fn scheduler(&mut self) {
        let (kind, why) = asked_scheduler(self.spec, self.settings).unwrap_or_else(|| {
            if let Some(found) = self.facts.schedulers.first() {
                return (found.kind, format!("found {}", found.command.display()));
            }
            self.plan
                .warnings
                .push("no scheduler found: the job runs on THIS machine".to_owned());
            (
                SchedulerKind::Local,
                "no scheduler's commands are found and none is configured".to_owned(),
            )
        });
        self.decide("scheduler", kind.as_str(), why);
        for found in self
            .facts
            .schedulers
            .iter()
            .filter(|found| found.kind != kind)
        {
            let why = format!(
                "{} is installed, but another scheduler was asked for",
                found.command.display()
            );
            self.reject(found.kind.as_str(), why);
        }
        for Rejected { value, why } in &self.facts.passed_over {
            self.reject(value, why.clone());
        }
        if kind.is_local() && self.facts.schedulers.is_empty() {
            self.reject(
                "slurm, torque, openpbs",
                "neither `sbatch` nor `qsub` is in PATH",
            );
        }
        let is_here = self.facts.schedulers.iter().any(|found| found.kind == kind);
        if kind.is_pbs() && !is_here {
            for Rejected { value, why } in &self.facts.passed_over {
                self.plan.warnings.push(format!(
                    "the job is for {}, but {value}: {why}",
                    kind.as_str()
                ));
            }
        }
        self.plan.scheduler = kind;
    }

    fn command(&mut self) {
        match &self.spec.run.command.value {
            Command::Argv(argv) => {
                let why = "an argument vector: no shell reads it".to_owned();
                self.decide("command", shown_argv(argv), why);
                self.plan.command.clone_from(argv);
            }
            Command::Script(name) => {
                let script = self.facts.script.as_ref();
                let path = script.map_or_else(|| name.clone(), |script| text(&script.path));
                let bash = || vec!["/bin/bash".to_owned()];
                let (words, why) = match script.map(|script| script.interpreter.as_deref()) {
                    Some(None) => (Vec::new(), "the script is executable"),
                    Some(Some([])) | None => (
                        bash(),
                        "the script is not executable and names no interpreter",
                    ),
                    Some(Some(words)) => (words.to_vec(), "the script names it in its first line"),
                };
                let argv: Vec<String> = words.into_iter().chain([path]).collect();
                let argv = [argv, self.spec.run.arguments.clone()].concat();
                self.decide("command", shown_argv(&argv), why);
                self.plan.command = argv;
            }
        }
    }

    fn warn_of_secrets(&mut self) {
        let secret = self
            .spec
            .run
            .env
            .iter()
            .filter(|variable| is_secret(variable));
        let names: Vec<String> = secret
            .map(|variable| format!("`{}`", variable.name))
            .collect();
        if !names.is_empty() {
            let names = names.join(", ");
            self.plan.warnings.push(format!(
                "{names} looks like a secret, and values of `run.env` stay in the run's `job.sh`; put it into a file that `run.env_file` names"
            ));
        }
    }

    fn warn_of_launcher(&mut self) {
        let framework = self.spec.framework.name.as_deref();
        let doubt = launch::doubt(self.plan.launcher, framework, &self.plan.command);
        self.plan.warnings.extend(doubt);
        let ranks = u64::from(launch::Shape::for_plan(&self.plan).ranks());
        let is_asked = self
            .spec
            .run
            .launcher
            .as_ref()
            .is_some_and(|asked| asked.value == Launcher::None);
        if self.plan.launcher == Launcher::None && !is_asked && ranks > 1 && self.is_plain_python()
        {
            self.plan.warnings.push(format!(
                "the command starts once, though the job has room for {ranks} tasks; to start one rank for each, name a launcher under [run], or the framework under [framework]"
            ));
        }
        let is_here = self.is_local() && self.plan.launcher.is_distributed();
        let cpus = self.facts.cpus.filter(|cpus| is_here && ranks > *cpus);
        // On a cluster the scheduler gives each rank a CPU, or refuses the job.
        if let Some(cpus) = cpus.filter(|cpus| *cpus > 0) {
            self.plan.warnings.push(format!(
                "{ranks} ranks share the {cpus} CPUs of this machine, up to {} on each; OMP_NUM_THREADS is 1 unless you set it",
                ranks.div_ceil(cpus)
            ));
        }
    }

    /// Whether Python runs a program that starts no ranks itself, as far as the words of the command say.
    fn is_plain_python(&self) -> bool {
        let mut words = self
            .plan
            .command
            .iter()
            .map(|word| word.rsplit('/').next().unwrap_or(word));
        let first = words.next().unwrap_or_default();
        first.starts_with("python") && !words.any(launch::starts_ranks)
    }

    fn warn_of_kept_variables(&mut self) {
        let kept: Vec<String> = launch::variables_kept(&self.plan)
            .into_iter()
            .map(|name| format!("`{name}`"))
            .collect();
        if !kept.is_empty() {
            let launcher = self.plan.launcher;
            self.plan.warnings.push(format!(
                "`run.env` sets {}, which the launcher `{launcher}` would set for each rank; yours is kept",
                kept.join(", ")
            ));
        }
    }

    fn output(&mut self) {
        let Some(asked) = &self.spec.run.output else {
            return;
        };
        let is_array = self.spec.resources.array.is_some();
        let output = match output_of(asked, &self.plan.name, &self.facts.user, is_array) {
            Ok(output) => output,
            Err(problem) => return self.problems.push(problem),
        };
        if !output.contains("%j") {
            self.plan.warnings.push(
                "epochs are not recognised: other jobs may write to the output file; put `%j` into `run.output`"
                    .to_owned(),
            );
        }
        self.plan.output = Some(output);
    }

    fn launcher(&mut self, nodes: u32) {
        let asked = self.spec.run.launcher.as_ref();
        let resources = &self.spec.resources;
        let tasks = [resources.tasks, resources.tasks_per_node];
        match launch::choose(launch::Wish {
            asked: asked.map(|asked| asked.value),
            nodes,
            has_tasks: tasks.into_iter().flatten().any(|tasks| tasks > 1),
            idle_nodes: self.spec.run.idle_nodes,
            framework: self.spec.framework.name.as_deref(),
        }) {
            Ok(choice) if choice.launcher.is_distributed() && self.leaves_nodes_open() => {
                let message = format!(
                    "`launcher = \"{}\"` needs `resources.nodes`",
                    choice.launcher
                );
                let hint =
                    "without it the scheduler spreads `tasks` over as many nodes as it likes";
                let span = resources.spans.get("tasks").cloned();
                self.problems.push(Problem {
                    span,
                    message,
                    hint: Some(hint.to_owned()),
                });
            }
            Ok(choice) => {
                self.decide("launcher", choice.launcher.as_str(), choice.why);
                self.plan.launcher = choice.launcher;
                self.warn_of_keras();
            }
            Err(why) => {
                let named = &self.spec.resources;
                let span = asked.map(|asked| asked.span.clone());
                let span = span.or_else(|| named.nodes.as_ref().map(|nodes| nodes.span.clone()));
                let hint = match self.is_local() {
                    true => "a local job has one node: leave `tasks_per_node` out",
                    false => {
                        "name the framework under [framework], or a launcher under [run]: `ddp`, `torchrun`, `horovod`, `mpi`, ..; `each` starts the command on every node"
                    }
                };
                self.problems.push(Problem {
                    span,
                    message: why,
                    hint: Some(hint.to_owned()),
                });
            }
        }
    }

    /// What the last ranks are. Parameter servers serve a chief and a worker.
    fn roles(&mut self) {
        let (servers, evaluator) = (self.spec.run.parameter_servers, self.spec.run.evaluator);
        if servers == 0 && !evaluator {
            return;
        }
        let fewest = 1 + u32::from(servers > 0) + servers + u32::from(evaluator);
        let ranks = launch::Shape::for_plan(&self.plan).ranks();
        let launcher = self.plan.launcher;
        if launcher != Launcher::Tensorflow || ranks < fewest {
            self.problems.push(Problem::of_file(format!(
                "`run.parameter_servers` and `run.evaluator` need the launcher `tensorflow` and here {fewest} ranks: the job has `{launcher}` and {ranks}"
            )));
        }
        self.plan.roles = Roles {
            parameter_servers: servers,
            evaluator,
        };
        self.decide("roles", self.plan.roles.to_string(), JOB_FILE);
    }

    /// Keras 3 trains under no strategy of several workers (keras-team/keras#20585, seen with TensorFlow 2.21).
    fn warn_of_keras(&mut self) {
        const WHY: &str = "Keras 3 cannot train under TensorFlow's MultiWorkerMirroredStrategy";
        const WAY: &str = "set KERAS_BACKEND = \"jax\" in `run.env`, or TF_USE_LEGACY_KERAS = \"1\" and install tf_keras";
        let value = |name: &str| {
            let mut own = self.spec.run.env.iter();
            let found = own.find(|variable| variable.name == name);
            found.map(|variable| &*variable.value)
        };
        if value("TF_USE_LEGACY_KERAS") == Some("1") {
            return;
        }
        match (self.plan.launcher, value("KERAS_BACKEND")) {
            (Launcher::Keras, None | Some("tensorflow")) => {
                self.plan.warnings.push(format!("{WHY}: {WAY}"));
            }
            (Launcher::Tensorflow, _) => {
                let text = format!("{WHY}, only a loop of the program itself: {WAY}");
                self.plan.notes.push(text);
            }
            _ => {}
        }
    }

    /// Whether the scheduler decides how many nodes the tasks get.
    fn leaves_nodes_open(&self) -> bool {
        let resources = &self.spec.resources;
        resources.tasks.is_some() && resources.nodes.is_none() && !self.is_local()
    }

    fn timing(&mut self) {
        let Some(timing) = &self.spec.timing else {
            return;
        };
        match timing::check_pattern(&timing.value) {
            Ok(()) => self.decide("timing", "pattern", "the job file has `[timing]`"),
            Err(why) => self
                .problems
                .push(Problem::at(timing.span.clone(), why.to_string())),
        }
    }

    /// Options handed through must not take over what dlrun writes and relies on.
    fn pass_through(&mut self) {
        let section = &self.spec.scheduler;
        let options = section.directives.iter().chain(&section.arguments);
        // Of a local job they have no effect, and are written for a cluster.
        let adapter = match self.plan.scheduler {
            kind if kind.is_local() => adapter_for(SchedulerKind::Slurm),
            kind => adapter_for(kind),
        };
        let beside = (!self.is_local()).then_some(&self.plan.resources);
        let problem = |option: &Located<String>| adapter.option_problem(option, beside);
        self.problems.extend(options.filter_map(problem));
        if self.is_local() && !(section.directives.is_empty() && section.arguments.is_empty()) {
            self.plan.warnings.push(
                "without effect on a local job: [scheduler] directives and arguments".to_owned(),
            );
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
