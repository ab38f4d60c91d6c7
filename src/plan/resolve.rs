//! From the job file to the plan, one function per choice.

use std::path::Path;

use super::facts::SiteFacts;
use super::{
    Decision, Plan, PlannedDependency, PlannedImage, PlannedResources, Rejected, TargetFacts, pass_through,
};
use crate::config::{Origin, Settings};
use crate::diagnostic::Problem;
use crate::job::{
    Asked, Command, DependencyKind, JobSpec, JobState, Launcher, Located, NodeCount, SchedulerKind,
    name_problem,
};
use crate::{launch, timing};

/// The largest plan, in bytes of JSON: it travels to the node in one environment variable, and Linux ends those at
/// 128 KiB (`MAX_ARG_STRLEN`, `execve(2)`).
const MAX_PLAN_BYTES: usize = 100 << 10;

/// Resolves a job.
///
/// # Errors
/// Every contradiction between job file and site, with its place in the job file where it has one.
pub fn resolve(spec: &JobSpec, settings: &Settings, facts: &SiteFacts) -> Result<Plan, Vec<Problem>> {
    let mut resolver =
        Resolver { spec, settings, facts, decisions: vec![], warnings: vec![], problems: vec![] };
    let name = resolver.name();
    let scheduler = resolver.scheduler();
    let command = resolver.command();
    let (image, python_env) = resolver.environment();
    let nodes = spec.resources.nodes.as_ref().map_or(1, |nodes| nodes.value.0);
    let launcher = resolver.launcher(nodes);
    let resources = resolver.resources(nodes, scheduler);
    resolver.timing();
    resolver.monitoring();
    resolver.pass_through(scheduler);
    let Resolver { decisions, warnings, problems, .. } = resolver;
    let plan = Plan {
        format: Plan::FORMAT,
        name,
        scheduler,
        workdir: text(&facts.workdir),
        job_file: text(&facts.job_file),
        command,
        env: spec.run.env.clone(),
        env_file: facts.env_file.as_deref().map(text),
        modules: spec.run.modules.clone(),
        python_env,
        launcher,
        inherit: spec.run.inherit.clone(),
        image,
        framework: spec.framework.clone(),
        storage: None,
        build: None,
        prologue: Vec::new(),
        epilogue: Vec::new(),
        resources,
        directives: values(&spec.scheduler.directives),
        arguments: values(&spec.scheduler.arguments),
        workload: spec.workload.clone(),
        timing: spec.timing.as_ref().map(|timing| timing.value.clone()),
        interval_ms: millis(settings.monitor_interval()),
        process_interval_ms: millis(settings.process_interval()),
        daemon_socket: settings.daemon_socket().map(text),
        nvml_library: settings.nvml_library().map(text),
        record_seconds: settings.record_interval().as_secs(),
        kill_wait_seconds: settings.local_kill_wait().as_secs(),
        state_dir: text(settings.state_dir()),
        dlrun: text(settings.node_dlrun().unwrap_or(&facts.dlrun)),
        decisions,
        warnings,
    };
    check_size(&plan, problems)
}

fn check_size(plan: &Plan, mut problems: Vec<Problem>) -> Result<Plan, Vec<Problem>> {
    let bytes = plan.to_json().len();
    if bytes > MAX_PLAN_BYTES {
        problems.push(
            Problem::of_file(format!("the plan is {bytes} bytes long; {MAX_PLAN_BYTES} is the limit"))
                .hinted("put long values into a file that the program reads"),
        );
    }
    if problems.is_empty() { Ok(plan.clone()) } else { Err(problems) }
}

fn values(options: &[Located<String>]) -> Vec<String> {
    options.iter().map(|option| option.value.clone()).collect()
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

struct Resolver<'a> {
    spec: &'a JobSpec,
    settings: &'a Settings,
    facts: &'a SiteFacts,
    decisions: Vec<Decision>,
    warnings: Vec<String>,
    problems: Vec<Problem>,
}

const JOB_FILE: &str = "the job file says so";

impl Resolver<'_> {
    fn decide(&mut self, what: &str, value: impl Into<String>, why: impl Into<String>) {
        let (value, why) = (value.into(), why.into());
        self.decisions.push(Decision { what: what.to_owned(), value, why, rejected: vec![] });
    }

    fn reject(&mut self, value: &str, why: impl Into<String>) {
        if let Some(decision) = self.decisions.last_mut() {
            decision.rejected.push(Rejected { value: value.to_owned(), why: why.into() });
        }
    }

    /// The job file's name, else the file's stem with unusable characters replaced.
    fn name(&mut self) -> String {
        if let Some(name) = &self.spec.name {
            self.decide("name", name.clone(), JOB_FILE);
            return name.clone();
        }
        let stem = self.facts.job_file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let stem = stem.unwrap_or_default();
        let usable = |c: char| if c.is_alphanumeric() || "._+-".contains(c) { c } else { '-' };
        let cleaned: String = stem.chars().map(usable).take(40).collect();
        let cleaned = cleaned.trim_start_matches(|c: char| !c.is_alphanumeric());
        let name = if name_problem(cleaned).is_some() { "job" } else { cleaned };
        self.decide("name", name, "the job file names none, so its file name serves");
        name.to_owned()
    }

    /// Design rule: a scheduler whose commands are found takes the job; none found and none configured means this
    /// machine, said loudly. A scheduler that is down is never replaced by this machine: that is the caller's error.
    fn scheduler(&mut self) -> SchedulerKind {
        let in_file = self.spec.scheduler.kind.filter(|kind| *kind != SchedulerKind::Auto);
        let configured = Some(self.settings.scheduler()).filter(|kind| *kind != SchedulerKind::Auto);
        let origin = self.settings.origin("scheduler.kind").clone();
        // A flag is the user's last word; a site's or user's setting gives way to the job file.
        let flag = configured.filter(|_| matches!(origin, Origin::Flag { .. }));
        let (kind, why) = match (flag, in_file, configured) {
            (Some(kind), ..) => (kind, format!("{origin} says so")),
            (None, Some(kind), _) => (kind, JOB_FILE.to_owned()),
            (None, None, Some(kind)) => (kind, format!("{origin} says so")),
            (None, None, None) => match self.facts.schedulers.first() {
                Some(found) => (found.kind, format!("found {}", found.command.display())),
                None => {
                    let warning =
                        "no scheduler found: the job runs on THIS machine, one at a time".to_owned();
                    self.warnings.push(warning);
                    (
                        SchedulerKind::Local,
                        "no scheduler's commands are found and none is configured".to_owned(),
                    )
                }
            },
        };
        self.decide("scheduler", kind.as_str(), why);
        for found in self.facts.schedulers.iter().filter(|found| found.kind != kind) {
            let why = format!("{} is there, but was not asked for", found.command.display());
            self.reject(found.kind.as_str(), why);
        }
        if kind == SchedulerKind::Local && self.facts.schedulers.is_empty() {
            self.reject("slurm", "`sbatch` is not in PATH");
            self.reject("torque, openpbs", "`qsub` is not in PATH");
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
                if script.is_some_and(|script| script.executable) {
                    self.decide("command", path.clone(), "the script is executable");
                    vec![path]
                } else {
                    self.decide(
                        "command",
                        format!("/bin/bash {path}"),
                        "the script is not executable by itself",
                    );
                    vec!["/bin/bash".to_owned(), path]
                }
            }
        }
    }

    /// Container, else `[python]`, else the host.
    fn environment(&mut self) -> (Option<PlannedImage>, Option<String>) {
        if let Some(image) = self.image() {
            return (Some(image), None);
        }
        (None, self.python_or_host())
    }

    fn image(&mut self) -> Option<PlannedImage> {
        let image = &self.spec.image;
        let path = image.path.as_ref().and(self.facts.image.as_deref()).map(text);
        let source = path.or_else(|| image.uri.as_ref().map(|uri| uri.value.clone()))?;
        let nv = self.spec.resources.gpus_per_node.is_some();
        let why = if nv {
            "the job file names the image; `--nv`, since GPUs are asked for"
        } else {
            "the job file names the image"
        };
        self.decide("environment", format!("container {source}"), why);
        if self.facts.python.is_some() {
            self.reject("python environment", "the job file names an image");
        }
        Some(PlannedImage { source, nv })
    }

    fn python_or_host(&mut self) -> Option<String> {
        let Some(python) = &self.facts.python else {
            self.decide("environment", "host", "the job names neither an image nor Python requirements");
            self.reject("container", "the job names no image");
            return None;
        };
        let no_container = match (&self.facts.container_runtime, self.spec.image.none) {
            (_, true) => "the job file says `[image] none = true`".to_owned(),
            (Some(runtime), false) => {
                format!("{} is there, but the job names no image", runtime.display())
            }
            (None, false) => "no container runtime (apptainer, singularity) is found".to_owned(),
        };
        let version =
            python.version.as_ref().map(|version| format!(", for Python {version}")).unwrap_or_default();
        let why = format!("{no_container}; `[python] requirements` is given{version}");
        self.decide("environment", format!("python environment {}", python.dir.display()), why);
        self.reject("container", no_container);
        self.reject("host", "its packages need not be those of `requirements`");
        Some(text(&python.dir))
    }

    fn launcher(&mut self, nodes: u32) -> Launcher {
        let asked = self.spec.run.launcher.as_ref();
        match launch::choose(asked.map(|asked| asked.value), nodes, self.spec.run.idle_nodes) {
            Ok(choice) => {
                self.decide("launcher", choice.launcher.as_str(), choice.why);
                choice.launcher
            }
            Err(why) => {
                let span = asked.map(|asked| asked.span.clone());
                let span =
                    span.or_else(|| self.spec.resources.nodes.as_ref().map(|nodes| nodes.span.clone()));
                let hint = "write `launcher = \"each\"` under [run] to start the command on every node";
                self.problems.push(Problem { span, message: why, hint: Some(hint.to_owned()) });
                Launcher::None
            }
        }
    }

    fn resources(&mut self, nodes: u32, scheduler: SchedulerKind) -> PlannedResources {
        let asked = &self.spec.resources;
        let local = scheduler == SchedulerKind::Local;
        self.nodes(nodes, local);
        let cpus = asked.cpus_per_task;
        let what = "cpus_per_task";
        match (cpus, self.facts.cpus) {
            (Some(cpus), Some(here)) if local && u64::from(cpus) > here => {
                self.decide(what, cpus.to_string(), JOB_FILE);
                self.warnings.push(format!("cpus_per_task = {cpus}, but this machine has {here}"));
            }
            (Some(cpus), _) => self.decide(what, cpus.to_string(), JOB_FILE),
            (None, _) => self.left_out(what, local),
        }
        let memory = self.auto_or_left_out("memory", asked.memory.as_ref(), local);
        let walltime = self.auto_or_left_out("walltime", asked.walltime.as_ref(), local);
        if let Some(gpus) = &asked.gpus_per_node {
            self.decide("gpus_per_node", gpus.clone(), JOB_FILE);
        }
        let queue = self.or_default("queue", asked.queue.as_deref(), self.settings.default_queue());
        let account = self.or_default("account", asked.account.as_deref(), self.settings.default_account());
        if local {
            self.name_what_local_lacks();
        }
        PlannedResources {
            nodes,
            tasks_per_node: asked.tasks_per_node.unwrap_or(1),
            cpus_per_task: cpus,
            gpus_per_node: asked.gpus_per_node.clone(),
            memory,
            walltime,
            queue,
            account,
            qos: asked.qos.clone(),
            reservation: asked.reservation.clone(),
            constraint: asked.constraint.clone(),
            nodelist: asked.nodelist.clone(),
            exclude: asked.exclude.clone(),
            exclusive: asked.exclusive.unwrap_or(false),
            memory_per_cpu: asked.memory_per_cpu,
            array: asked.array.as_ref().map(|array| array.value.clone()),
            depends: self.depends(),
            begin: asked.begin,
            mail: asked.mail.clone(),
            licenses: asked.licenses.clone(),
        }
    }

    /// The jobs that the dependencies mean. One that is met already needs no scheduler; one that cannot be met is an error.
    fn depends(&mut self) -> Vec<PlannedDependency> {
        let mut planned = Vec::new();
        for Located { value, span } in &self.spec.resources.depends {
            let fault = match self.facts.targets.get(&value.target) {
                Some(TargetFacts::Jobs(job_ids)) => {
                    planned.push(PlannedDependency { kind: value.kind, job_ids: job_ids.clone() });
                    continue;
                }
                Some(TargetFacts::Over(state)) if is_met(value.kind, *state) => {
                    self.decide("depends", "nothing to wait for", format!("`{value}`: that run is {state}"));
                    continue;
                }
                Some(TargetFacts::Over(state)) => format!("`{value}` cannot come true: that run is {state}"),
                Some(TargetFacts::Unknown) | None => {
                    format!("`{value}`: there is no run or job `{}`", value.target)
                }
            };
            let problem = Problem::at(span.clone(), format!("`resources.depends`: {fault}"));
            self.problems.push(problem.hinted("`dlrun list` shows the runs"));
        }
        planned
    }

    fn nodes(&mut self, nodes: u32, local: bool) {
        let why = if self.spec.resources.nodes.is_some() { JOB_FILE } else { "the default" };
        self.decide("nodes", nodes.to_string(), why);
        if let Some(asked) = self.spec.resources.nodes.as_ref().filter(|_| local && nodes > 1) {
            let NodeCount(count) = asked.value;
            self.problems.push(
                Problem::at(
                    asked.span.clone(),
                    format!("`resources.nodes = {count}`, but a local job has one node"),
                )
                .hinted("submit to a cluster, or write `nodes = 1`"),
            );
        }
    }

    fn left_out(&mut self, what: &str, local: bool) {
        let why = if local {
            "not asked for; a local job may use all there is"
        } else {
            "not asked for; the site's default holds"
        };
        self.decide(what, "left out", why);
    }

    fn auto_or_left_out<T: Copy + std::fmt::Display>(
        &mut self,
        what: &str,
        asked: Option<&Asked<T>>,
        local: bool,
    ) -> Option<T> {
        match asked {
            Some(Asked::Value(value)) => {
                let why = match (what, local) {
                    ("memory", true) => "the job file says so; a local job is not held to it",
                    _ => JOB_FILE,
                };
                self.decide(what, value.to_string(), why);
                Some(*value)
            }
            Some(Asked::Auto) => {
                let why = "`auto` needs a performance model, and there is none yet; the site's default holds";
                self.decide(what, "left out", why);
                None
            }
            None => {
                self.left_out(what, local);
                None
            }
        }
    }

    fn or_default(&mut self, what: &str, asked: Option<&str>, default: Option<&str>) -> Option<String> {
        if let Some(asked) = asked {
            self.decide(what, asked, JOB_FILE);
            return Some(asked.to_owned());
        }
        let default = default?;
        let origin = self.settings.origin(&format!("defaults.{what}")).to_string();
        self.decide(what, default, format!("{origin} says so"));
        Some(default.to_owned())
    }

    /// Nothing is dropped in silence: options that only a cluster has are named.
    fn name_what_local_lacks(&mut self) {
        let asked = &self.spec.resources;
        let lacks = [
            ("queue", asked.queue.is_some()),
            ("account", asked.account.is_some()),
            ("qos", asked.qos.is_some()),
            ("reservation", asked.reservation.is_some()),
            ("constraint", asked.constraint.is_some()),
            ("nodelist", asked.nodelist.is_some()),
            ("exclude", asked.exclude.is_some()),
            ("gpus_per_node", asked.gpus_per_node.is_some()),
            ("exclusive", asked.exclusive.is_some()),
            ("tasks_per_node", asked.tasks_per_node.is_some_and(|tasks| tasks > 1)),
        ];
        let named: Vec<&str> = lacks.into_iter().filter(|(_, set)| *set).map(|(key, _)| key).collect();
        if !named.is_empty() {
            self.warnings.push(format!("without effect on a local job: {}", named.join(", ")));
        }
    }

    fn timing(&mut self) {
        let Some(timing) = &self.spec.timing else {
            self.decide("timing", "recognised", "Keras, PyTorch and plain `epoch N .. s` lines are known");
            return;
        };
        match timing::check_pattern(&timing.value.epoch) {
            Ok(()) => self.decide("timing", "pattern", "the job file has `[timing] epoch`"),
            Err(why) => {
                self.problems.push(Problem::at(timing.span.clone(), format!("`timing.epoch`: {why}")));
            }
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
    fn pass_through(&mut self, scheduler: SchedulerKind) {
        let section = &self.spec.scheduler;
        let options = section.directives.iter().chain(&section.arguments);
        self.problems.extend(options.filter_map(pass_through::problem));
        if scheduler == SchedulerKind::Local
            && !(section.directives.is_empty() && section.arguments.is_empty())
        {
            self.warnings
                .push("without effect on a local job: [scheduler] directives and arguments".to_owned());
        }
        let found = self.facts.schedulers.iter().filter(|found| found.kind == scheduler);
        let overriding = found.flat_map(|found| &found.environment);
        for (name, value) in overriding.filter(|_| scheduler == SchedulerKind::Slurm) {
            self.warnings.push(format!(
                "{name}={value} of your environment holds wherever the job file says nothing (Slurm lets it beat #SBATCH lines)"
            ));
        }
    }
}

/// Says whether a run that is over fulfils a condition. `aftercorr` goes by elements, of which this knows nothing.
fn is_met(kind: DependencyKind, state: JobState) -> bool {
    let completed = state == JobState::Completed;
    match kind {
        DependencyKind::After | DependencyKind::AfterAny => true,
        DependencyKind::AfterOk | DependencyKind::AfterCorr => completed,
        DependencyKind::AfterNotOk => !completed,
    }
}

/// An argument vector for people: words with blanks in quotes.
fn shown_argv(argv: &[String]) -> String {
    let shown = |word: &String| {
        let plain = !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_./=:,+@%".contains(c));
        if plain { word.clone() } else { format!("{word:?}") }
    };
    argv.iter().map(shown).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::config::{Defaults, Fragment, Key};
    use crate::plan::{PythonFacts, SchedulerFacts};

    fn facts() -> SiteFacts {
        SiteFacts {
            job_file: "/home/u/my job.toml".into(),
            workdir: "/home/u".into(),
            script: None,
            env_file: None,
            schedulers: Vec::new(),
            site: None,
            targets: std::collections::BTreeMap::new(),
            image: None,
            container_runtime: None,
            python: None,
            cpus: Some(2),
            dlrun: "/usr/bin/dlrun".into(),
        }
    }

    fn with_slurm(environment: &[(&str, &str)]) -> SiteFacts {
        let environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let slurm =
            SchedulerFacts { kind: SchedulerKind::Slurm, command: "/usr/bin/sbatch".into(), environment };
        SiteFacts { schedulers: vec![slurm], ..facts() }
    }

    fn settings(set: &[(&str, &str, Origin)]) -> Settings {
        let mut fragment = Fragment::default();
        for (name, value, origin) in set {
            fragment.add(Key::named(name).expect("a setting"), value, origin.clone());
        }
        let defaults = Defaults { state_dir: Some(PathBuf::from("/home/u/.local/state/dlrun")) };
        Settings::merge(&defaults, &[fragment]).expect("settings")
    }

    fn resolved(lines: &str, settings: &Settings, facts: &SiteFacts) -> Result<Plan, Vec<Problem>> {
        let spec =
            crate::job::parse(&format!("[run]\ncommand = [\"true\"]\n{lines}")).expect("a valid job file");
        resolve(&spec, settings, facts)
    }

    fn plan(lines: &str, facts: &SiteFacts) -> Plan {
        resolved(lines, &settings(&[]), facts).expect("a plan")
    }

    fn problem(lines: &str, facts: &SiteFacts) -> String {
        resolved(lines, &settings(&[]), facts).expect_err("a contradiction").remove(0).message
    }

    fn decision<'a>(plan: &'a Plan, what: &str) -> &'a Decision {
        plan.decisions.iter().find(|decision| decision.what == what).expect("it is decided")
    }

    #[test]
    fn a_found_scheduler_takes_the_job_and_none_is_said_loudly() {
        assert_eq!(plan("", &with_slurm(&[])).scheduler, SchedulerKind::Slurm);
        let local = plan("", &facts());
        assert_eq!(local.scheduler, SchedulerKind::Local);
        assert!(local.warnings[0].contains("THIS machine"), "{:?}", local.warnings);
    }

    #[test]
    fn flag_beats_job_file_beats_setting() {
        let flag = Origin::Flag { flag: "--scheduler".into() };
        let file = Origin::File { path: "/etc/dlrun/dlrun.toml".into(), line: 1 };
        let job = "[scheduler]\nkind = \"slurm\"\n";
        let kind =
            |settings: &Settings, job: &str| resolved(job, settings, &facts()).expect("a plan").scheduler;
        assert_eq!(kind(&settings(&[("scheduler.kind", "local", flag)]), job), SchedulerKind::Local);
        assert_eq!(kind(&settings(&[("scheduler.kind", "local", file.clone())]), job), SchedulerKind::Slurm);
        assert_eq!(kind(&settings(&[("scheduler.kind", "slurm", file)]), ""), SchedulerKind::Slurm);
    }

    #[test]
    fn the_file_name_becomes_a_usable_name() {
        let name = |file: &str| plan("", &SiteFacts { job_file: file.into(), ..facts() }).name;
        assert_eq!(name("/home/u/my job.toml"), "my-job");
        assert_eq!(name("/home/u/..toml"), "job");
        assert_eq!(name("/home/u/-.toml"), "job");
    }

    #[test]
    fn auto_without_a_model_leaves_the_line_out_and_says_so() {
        let plan = plan("[resources]\nmemory = \"auto\"\nwalltime = \"auto\"\n", &with_slurm(&[]));
        assert_eq!((plan.resources.memory, plan.resources.walltime), (None, None));
        assert!(decision(&plan, "memory").why.contains("performance model"));
    }

    #[test]
    fn the_environment_is_explained_with_what_was_rejected() {
        let python = PythonFacts {
            dir: "/home/u/env".into(),
            ready: false,
            interpreter: "/usr/bin/python3".into(),
            version: None,
            requirements: "/home/u/requirements.txt".into(),
        };
        let plan = plan("", &SiteFacts { python: Some(python), ..facts() });
        let decision = decision(&plan, "environment");
        assert_eq!(decision.value, "python environment /home/u/env");
        assert!(decision.why.contains("no container runtime"), "{}", decision.why);
        assert_eq!(decision.rejected.len(), 2);
    }

    #[test]
    fn the_way_to_the_daemon_travels_in_the_plan() {
        let asked = plan("", &facts());
        assert_eq!(asked.daemon_socket.as_deref(), Some("/run/dlrun/dlrund.sock"));
        let origin = Origin::Environment { variable: "DLRUN_MONITOR__DAEMON".into() };
        let set = [
            ("monitor.daemon", "off", origin.clone()),
            ("monitor.process_interval_ms", "700", origin.clone()),
            ("monitor.nvml_library", "/opt/nvml.so", origin),
        ];
        let off = resolved("", &settings(&set), &facts()).expect("a plan");
        assert_eq!((off.daemon_socket.as_deref(), off.process_interval_ms), (None, 700));
        assert_eq!(off.nvml_library.as_deref(), Some("/opt/nvml.so"));
        assert!(decision(&off, "monitor").rejected[0].why.contains("DLRUN_MONITOR__DAEMON"));
    }

    #[test]
    fn plans_from_before_the_daemon_are_read() {
        let mut json: serde_json::Value = serde_json::from_str(&plan("", &facts()).to_json()).expect("JSON");
        let fields = json.as_object_mut().expect("an object");
        for name in ["process_interval_ms", "daemon_socket", "nvml_library"] {
            assert!(fields.remove(name).is_some(), "{name}");
        }
        let old: Plan = serde_json::from_value(json).expect("a plan");
        assert_eq!((old.daemon_socket, old.nvml_library, old.process_interval_ms), (None, None, 5000));
    }

    #[test]
    fn contradictions_are_found_before_anything_is_queued() {
        assert!(problem("[resources]\nnodes = 2\n", &with_slurm(&[])).contains("need a launcher"));
        assert!(
            problem("launcher = \"each\"\n[resources]\nnodes = 2\n", &facts())
                .contains("a local job has one node")
        );
        assert!(problem("[timing]\nepoch = \"(\"\n", &facts()).contains("timing.epoch"));
        assert!(
            problem("[scheduler]\ndirectives = [\"--output=x\"]\n", &with_slurm(&[])).contains("dlrun's own")
        );
        assert!(problem("[scheduler]\narguments = [\"--export\"]\n", &with_slurm(&[])).contains("one word"));
        let long = format!("env = {{ A = \"{}\" }}\n", "x".repeat(MAX_PLAN_BYTES));
        assert!(problem(&long, &facts()).contains("is the limit"));
    }

    #[test]
    fn what_a_local_job_has_no_use_for_is_named() {
        let plan = plan("[resources]\nqueue = \"gpu\"\nqos = \"long\"\ncpus_per_task = 64\n", &facts());
        assert!(plan.warnings.iter().any(|warning| warning.contains("queue, qos")), "{:?}", plan.warnings);
        assert!(
            plan.warnings.iter().any(|warning| warning.contains("this machine has 2")),
            "{:?}",
            plan.warnings
        );
    }

    #[test]
    fn the_environment_that_slurm_listens_to_is_named_and_does_not_travel() {
        let plan = plan("", &with_slurm(&[("SBATCH_PARTITION", "debug")]));
        assert!(plan.warnings[0].contains("SBATCH_PARTITION=debug"), "{:?}", plan.warnings);
        assert!(!plan.to_json().contains("SBATCH_PARTITION"));
    }
}
