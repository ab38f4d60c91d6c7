//! From the job file to the plan, one function per choice.

use super::candidates::Prospect;
use super::facts::SiteFacts;
use super::identity::identity_of;
use super::plan_text::is_secret;
use super::resolver::{JOB_FILE, Resolver, text};
use super::rules::Attached;
use super::run_context::{Going, Surroundings};
use super::secrets::{shown_argv, shown_overrides};
use super::{Plan, PlannedBuild, PlannedResources, PlannedStorage, Rejected, compiler};
use crate::config::{Origin, Settings};
use crate::foundation::diagnostic::Problem;
use crate::image::flags::Container;
use crate::job::{
    Command, Framework, JobSpec, Launcher, Located, SchedulerKind, name_problem, output_of,
};
use crate::record::Identity;
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
    let name = resolver.name();
    let scheduler = resolver.scheduler();
    let command = resolver.command();
    let output = resolver.output(&name);
    let before_environment = resolver.decisions.len();
    let (fewest, most) = spec.resources.node_bounds();
    let most = if scheduler.is_local() { fewest } else { most };
    let launcher = resolver.launcher(most, scheduler);
    let mut resources = resolver.resources(fewest, scheduler);
    resolver.dialect(scheduler, &name, launcher);
    let queue = resolver.final_queue(&resources, scheduler);
    let identity = identity_of(spec, facts);
    let mut prospect = resolver.prospect(scheduler, queue.as_deref(), &resources, &identity);
    resolver.settle(&mut resources, &prospect);
    let behind = resolver.decisions.len();
    let going = Going {
        launcher,
        scheduler,
        queue: queue.as_deref(),
    };
    let Surroundings {
        mut image,
        python_env,
        framework,
        identity,
    } = resolver.surroundings(identity, &going, &mut resources, &mut prospect);
    // It is told where it was asked for, though it goes by the queue.
    resolver.decisions[before_environment..].rotate_left(behind - before_environment);
    resolver.house(&resources, scheduler.is_local());
    let storage = resolver.storage(queue.as_deref());
    let mut attached = resolver.rules(scheduler, queue.as_deref(), storage.as_ref());
    compiler::add_variables(
        &mut attached.env,
        &framework,
        resources.gpus_on_node().is_some(),
    );
    if let Some(image) = &mut image {
        image.variables = attached
            .env
            .iter()
            .map(|variable| variable.name.clone())
            .collect();
        resolver.flags(image);
    }
    let build = resolver.build(image.as_ref(), &attached.modules);
    resolver.rest(&resources, scheduler);
    let problems = std::mem::take(&mut resolver.problems);
    let chosen = Chosen {
        name,
        scheduler,
        output,
        command,
        launcher,
        resources,
        image,
        python_env,
        framework,
        identity,
        storage,
        attached,
        build,
        prospect,
    };
    check_size(plan_of(resolver, chosen), problems)
}

/// What was chosen, one by one.
struct Chosen {
    name: String,
    scheduler: SchedulerKind,
    output: Option<String>,
    command: Vec<String>,
    launcher: Launcher,
    resources: PlannedResources,
    image: Option<Container>,
    python_env: Option<String>,
    framework: Framework,
    identity: Identity,
    storage: Option<PlannedStorage>,
    attached: Attached,
    build: Option<PlannedBuild>,
    prospect: Prospect,
}

fn plan_of(resolver: Resolver<'_>, chosen: Chosen) -> Plan {
    let (spec, settings, facts) = (resolver.spec, resolver.settings, resolver.facts);
    let attached = chosen.attached;
    Plan {
        format: Plan::FORMAT,
        name: chosen.name,
        scheduler: chosen.scheduler,
        workdir: text(&facts.workdir),
        output: chosen.output,
        job_file: text(&facts.job_file),
        command: chosen.command,
        overrides: shown_overrides(&spec.overrides),
        env: attached.env,
        env_file: facts.env_file.as_deref().map(text),
        modules: attached.modules,
        python_env: chosen.python_env,
        conda: spec.conda().cloned(),
        launcher: chosen.launcher,
        inherit: spec.run.inherit.clone(),
        image: chosen.image,
        framework: chosen.framework,
        storage: chosen.storage,
        build: chosen.build,
        prologue: attached.prologue,
        epilogue: attached.epilogue,
        resources: chosen.resources,
        directives: attached.directives,
        arguments: attached.arguments,
        workload: spec.workload.clone(),
        identity: Some(chosen.identity),
        forecast: chosen.prospect.forecast().cloned(),
        timing: spec.timing.as_ref().map(|timing| timing.value.clone()),
        interval_ms: millis(settings.monitor_interval()),
        process_interval_ms: millis(settings.process_interval()),
        daemon_socket: settings.daemon_socket().map(text),
        nvml_library: settings.nvml_library().map(text),
        record_seconds: settings.record_interval().as_secs(),
        kill_wait_seconds: settings.local_kill_wait().as_secs(),
        state_dir: text(settings.state_dir()),
        dlrun: text(settings.node_dlrun().unwrap_or(&facts.dlrun)),
        decisions: resolver.decisions,
        warnings: resolver.warnings,
        notes: resolver.notes,
        candidates: resolver.candidates,
        ways: chosen.prospect.candidates,
        no_forecast: chosen.prospect.silence,
        no_image: resolver.no_image,
    }
}

/// Who would take the job: what [`resolve`] chooses, for those who must ask the scheduler before.
#[must_use]
pub fn scheduler_of(spec: &JobSpec, settings: &Settings, facts: &SiteFacts) -> SchedulerKind {
    Resolver::new(spec, settings, facts).scheduler()
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

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Resolver<'_> {
    /// The job file's name, else the file's stem with unusable characters replaced.
    fn name(&mut self) -> String {
        if let Some(name) = &self.spec.name {
            self.decide("name", name.clone(), JOB_FILE);
            return name.clone();
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
        name.to_owned()
    }

    /// Design rule: a scheduler whose commands are found takes the job; none found and none configured means this
    /// machine, said loudly. A scheduler that is down is never replaced by this machine: that is the caller's error.
    fn scheduler(&mut self) -> SchedulerKind {
        let (kind, why) = asked_scheduler(self.spec, self.settings).unwrap_or_else(|| {
            if let Some(found) = self.facts.schedulers.first() {
                return (found.kind, format!("found {}", found.command.display()));
            }
            self.warnings
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
                "{} is there, but was not asked for",
                found.command.display()
            );
            self.reject(found.kind.as_str(), why);
        }
        for Rejected { value, why } in &self.facts.passed_over {
            self.reject(value, why.clone());
        }
        if kind.is_local() && self.facts.schedulers.is_empty() {
            self.reject("slurm", "`sbatch` is not in PATH");
            if self.facts.passed_over.is_empty() {
                self.reject("torque, openpbs", "`qsub` is not in PATH");
            }
        }
        let is_here = self.facts.schedulers.iter().any(|found| found.kind == kind);
        if kind.is_pbs() && !is_here {
            for Rejected { value, why } in &self.facts.passed_over {
                self.warnings.push(format!(
                    "the job is for {}, but {value}: {why}",
                    kind.as_str()
                ));
            }
        }
        kind
    }

    fn command(&mut self) -> Vec<String> {
        match &self.spec.run.command.value {
            Command::Argv(argv) => {
                let why = "an argument vector: no shell reads it".to_owned();
                self.decide("command", shown_argv(argv), why);
                argv.clone()
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
                argv
            }
        }
    }

    /// What no other choice waits for.
    fn rest(&mut self, resources: &PlannedResources, scheduler: SchedulerKind) {
        self.timing();
        self.monitoring();
        self.pass_through(resources, scheduler);
        self.variables(resources, scheduler);
        self.warn_of_secrets();
        self.fit(resources, scheduler);
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
            self.warnings.push(format!(
                "{names} looks like a secret, and values of `run.env` stay in the run's `job.sh`; put it into a file that `run.env_file` names"
            ));
        }
    }

    fn output(&mut self, name: &str) -> Option<String> {
        let asked = self.spec.run.output.as_ref()?;
        let is_array = self.spec.resources.array.is_some();
        let output = output_of(asked, name, &self.facts.user, is_array);
        let output = output.map_err(|problem| self.problems.push(problem)).ok()?;
        if !output.contains("%j") {
            self.warnings.push(
                "epochs are not recognised: other jobs may write to the output file; put `%j` into `run.output`"
                    .to_owned(),
            );
        }
        Some(output)
    }

    fn launcher(&mut self, nodes: u32, scheduler: SchedulerKind) -> Launcher {
        let asked = self.spec.run.launcher.as_ref();
        match launch::choose(
            asked.map(|asked| asked.value),
            nodes,
            self.spec.run.idle_nodes,
        ) {
            Ok(choice) => {
                self.decide("launcher", choice.launcher.as_str(), choice.why);
                choice.launcher
            }
            Err(why) => {
                let named = &self.spec.resources;
                let span = asked.map(|asked| asked.span.clone());
                let span = span.or_else(|| named.nodes.as_ref().map(|nodes| nodes.span.clone()));
                let mut hint =
                    "write `launcher = \"each\"` under [run] to start the command on every node";
                let mut message = why;
                if named.nodes.is_none()
                    && let Some((tasks, each)) = named.tasks.zip(named.tasks_per_node)
                {
                    message = format!(
                        "`resources.tasks = {tasks}` with `tasks_per_node = {each}` makes {nodes} nodes, and {message}"
                    );
                    if scheduler.is_local() {
                        hint = "a local job has one node: leave `tasks_per_node` out";
                    }
                }
                self.problems.push(Problem {
                    span,
                    message,
                    hint: Some(hint.to_owned()),
                });
                Launcher::None
            }
        }
    }

    fn timing(&mut self) {
        let Some(timing) = &self.spec.timing else {
            self.decide(
                "timing",
                "recognised",
                "the output of the usual frameworks and plain `epoch N .. s` lines are known",
            );
            return;
        };
        match timing::check_pattern(&timing.value) {
            Ok(()) => self.decide("timing", "pattern", "the job file has `[timing]`"),
            Err(why) => self
                .problems
                .push(Problem::at(timing.span.clone(), why.to_string())),
        }
    }

    fn monitoring(&mut self) {
        let interval = millis(self.settings.monitor_interval());
        let origin = self.settings.origin("monitor.interval_ms").to_string();
        self.decide(
            "monitor",
            format!("every {interval} ms"),
            format!("{origin}; CPU, memory, I/O of the process tree"),
        );
        if self.settings.daemon_socket().is_none() {
            let origin = self.settings.origin("monitor.daemon");
            self.reject("dlrund", format!("`monitor.daemon` is off ({origin})"));
        }
    }

    /// Options handed through must not take over what dlrun writes and relies on.
    fn pass_through(&mut self, resources: &PlannedResources, scheduler: SchedulerKind) {
        let section = &self.spec.scheduler;
        let options = section.directives.iter().chain(&section.arguments);
        let is_found = section.kind.is_none_or(|kind| kind == SchedulerKind::Auto);
        // Of a local job they have no effect, and are written for a cluster.
        let adapter = match scheduler {
            SchedulerKind::Local => adapter_for(SchedulerKind::Slurm),
            kind => adapter_for(kind),
        };
        let is_local = scheduler.is_local();
        let beside = (!is_local).then_some((resources, is_found));
        let problem = |option: &Located<String>| adapter.option_problem(option, beside);
        self.problems.extend(options.filter_map(problem));
        if scheduler.is_local() && !(section.directives.is_empty() && section.arguments.is_empty())
        {
            self.warnings.push(
                "without effect on a local job: [scheduler] directives and arguments".to_owned(),
            );
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
