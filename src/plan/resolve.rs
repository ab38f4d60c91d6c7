//! From the job file to the plan, one function per choice.

use std::path::Path;

use super::facts::SiteFacts;
use super::identity::identity_of;
use super::masked::{shown_argv, shown_overrides};
use super::shown::is_secret;
use super::surroundings::{Going, Surroundings};
use super::{
    Decision, ImageCandidate, NoImage, Plan, PlannedResources, Rejected, compiler, pass_through,
    pass_through_pbs, said_twice,
};
use crate::config::{Origin, Settings};
use crate::foundation::diagnostic::Problem;
use crate::job::{Command, JobSpec, Launcher, Located, SchedulerKind, name_problem, output_of};
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
    let most = if scheduler == SchedulerKind::Local {
        fewest
    } else {
        most
    };
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
    resolver.house(&resources, scheduler == SchedulerKind::Local);
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
    let Resolver {
        decisions,
        warnings,
        notes,
        problems,
        candidates,
        no_image,
        ..
    } = resolver;
    let plan = Plan {
        format: Plan::FORMAT,
        name,
        scheduler,
        workdir: text(&facts.workdir),
        output,
        job_file: text(&facts.job_file),
        command,
        overrides: shown_overrides(&spec.overrides),
        env: attached.env,
        env_file: facts.env_file.as_deref().map(text),
        modules: attached.modules,
        python_env,
        conda: spec.conda().cloned(),
        launcher,
        inherit: spec.run.inherit.clone(),
        image,
        framework,
        storage,
        build,
        prologue: attached.prologue,
        epilogue: attached.epilogue,
        resources,
        directives: attached.directives,
        arguments: attached.arguments,
        workload: spec.workload.clone(),
        identity: Some(identity),
        forecast: prospect.forecast().cloned(),
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
        notes,
        candidates,
        ways: prospect.candidates,
        no_forecast: prospect.silence,
        no_image,
    };
    check_size(&plan, problems)
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

fn check_size(plan: &Plan, mut problems: Vec<Problem>) -> Result<Plan, Vec<Problem>> {
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
        Ok(plan.clone())
    } else {
        Err(problems)
    }
}

pub(super) fn values(options: &[Located<String>]) -> Vec<String> {
    options.iter().map(|option| option.value.clone()).collect()
}

pub(super) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) struct Resolver<'a> {
    pub(super) spec: &'a JobSpec,
    pub(super) settings: &'a Settings,
    pub(super) facts: &'a SiteFacts,
    decisions: Vec<Decision>,
    pub(super) warnings: Vec<String>,
    pub(super) notes: Vec<String>,
    pub(super) problems: Vec<Problem>,
    pub(super) candidates: Vec<ImageCandidate>,
    pub(super) no_image: Option<NoImage>,
}

pub(super) const JOB_FILE: &str = "the job file says so";

impl<'a> Resolver<'a> {
    pub(super) fn new(spec: &'a JobSpec, settings: &'a Settings, facts: &'a SiteFacts) -> Self {
        let (decisions, warnings, notes, problems) = (vec![], vec![], vec![], vec![]);
        let (candidates, no_image) = (vec![], None);
        Self {
            spec,
            settings,
            facts,
            decisions,
            warnings,
            notes,
            problems,
            candidates,
            no_image,
        }
    }

    /// Why something is as it is, where that was decided.
    pub(super) fn reason_of(&self, what: &str) -> Option<&str> {
        self.decisions
            .iter()
            .find(|decision| decision.what == what)
            .map(|decision| decision.why.as_str())
    }

    pub(super) fn decide(&mut self, what: &str, value: impl Into<String>, why: impl Into<String>) {
        let (value, why) = (value.into(), why.into());
        self.decisions.push(Decision {
            what: what.to_owned(),
            value,
            why,
            rejected: vec![],
        });
    }

    /// Replaces a decision that had to wait for others, where it stands.
    pub(super) fn redecide(
        &mut self,
        what: &str,
        value: String,
        why: String,
        rejected: Vec<Rejected>,
    ) {
        if let Some(decision) = self
            .decisions
            .iter_mut()
            .find(|decision| decision.what == what)
        {
            *decision = Decision {
                what: what.to_owned(),
                value,
                why,
                rejected,
            };
        }
    }

    pub(super) fn reject(&mut self, value: &str, why: impl Into<String>) {
        if let Some(decision) = self.decisions.last_mut() {
            decision.rejected.push(Rejected {
                value: value.to_owned(),
                why: why.into(),
            });
        }
    }

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
        if kind == SchedulerKind::Local && self.facts.schedulers.is_empty() {
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
        if scheduler == SchedulerKind::Slurm
            && resources.walltime.is_some_and(|limit| limit.0 % 60 > 0)
        {
            self.notes
                .push("Slurm rounds time limits up to whole minutes".to_owned());
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
                    if scheduler == SchedulerKind::Local {
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
        let problem = |option: &Located<String>| match scheduler {
            kind if kind.is_pbs() => pass_through_pbs::problem(option, kind),
            SchedulerKind::Slurm => {
                let of_pbs = pass_through::of_pbs(option).filter(|_| is_found);
                let own = || pass_through::problem(option);
                of_pbs
                    .or_else(own)
                    .or_else(|| said_twice::problem(option, resources))
            }
            _ => pass_through::problem(option),
        };
        self.problems.extend(options.filter_map(problem));
        if scheduler == SchedulerKind::Local
            && !(section.directives.is_empty() && section.arguments.is_empty())
        {
            self.warnings.push(
                "without effect on a local job: [scheduler] directives and arguments".to_owned(),
            );
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::config::site::{NodeType, Queue, SiteModel};
    use crate::config::{Defaults, Fragment, Key};
    use crate::foundation::units::Walltime;
    use crate::job::Overrides;
    use crate::plan::{PythonFacts, SchedulerFacts, ScriptFacts};

    pub(in crate::plan) fn facts() -> SiteFacts {
        let facts = SiteFacts::unknown("/home/u/my job.toml".into());
        SiteFacts {
            hold_against_site: true,
            cpus: Some(2),
            user: "ann".into(),
            ..facts
        }
    }

    fn with_slurm(environment: &[(&str, &str)]) -> SiteFacts {
        let environment = environment
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect();
        let slurm = SchedulerFacts {
            kind: SchedulerKind::Slurm,
            command: "/usr/bin/sbatch".into(),
            environment,
        };
        SiteFacts {
            schedulers: vec![slurm],
            ..facts()
        }
    }

    fn settings(set: &[(&str, &str, Origin)]) -> Settings {
        let mut fragment = Fragment::default();
        for (name, value, origin) in set {
            fragment.add(Key::named(name).expect("a setting"), value, origin.clone());
        }
        let defaults = Defaults {
            state_dir: Some(PathBuf::from("/home/u/.local/state/dlrun")),
        };
        Settings::merge(&defaults, &[fragment]).expect("settings")
    }

    fn resolved(lines: &str, settings: &Settings, facts: &SiteFacts) -> Result<Plan, Vec<Problem>> {
        let spec = crate::job::parse(&format!("[run]\ncommand = [\"true\"]\n{lines}"))
            .expect("a valid job file");
        resolve(&spec, settings, facts)
    }

    fn plan(lines: &str, facts: &SiteFacts) -> Plan {
        resolved(lines, &settings(&[]), facts).expect("a plan")
    }

    fn problem(lines: &str, facts: &SiteFacts) -> String {
        resolved(lines, &settings(&[]), facts)
            .expect_err("a contradiction")
            .remove(0)
            .message
    }

    fn decision<'a>(plan: &'a Plan, what: &str) -> &'a Decision {
        plan.decisions
            .iter()
            .find(|decision| decision.what == what)
            .expect("it is decided")
    }

    #[test]
    fn a_found_scheduler_takes_the_job_and_none_is_said_loudly() {
        assert_eq!(plan("", &with_slurm(&[])).scheduler, SchedulerKind::Slurm);
        let local = plan("", &facts());
        assert_eq!(local.scheduler, SchedulerKind::Local);
        assert!(
            local.warnings[0].contains("THIS machine"),
            "{:?}",
            local.warnings
        );
    }

    #[test]
    fn script_runs_by_what_its_first_line_names() {
        let command = |interpreter: Option<&[&str]>| {
            let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            let script = ScriptFacts {
                path: "/home/u/a.sh".into(),
                interpreter: interpreter.map(words),
            };
            let facts = SiteFacts {
                script: Some(script),
                ..facts()
            };
            let spec = crate::job::parse("[run]\nscript = \"a.sh\"\n").expect("a valid job file");
            resolve(&spec, &settings(&[]), &facts)
                .expect("a plan")
                .command
        };
        assert_eq!(command(None), ["/home/u/a.sh"]);
        assert_eq!(command(Some(&[])), ["/bin/bash", "/home/u/a.sh"]);
        assert_eq!(command(Some(&["/bin/sh"])), ["/bin/sh", "/home/u/a.sh"]);
        assert_eq!(
            command(Some(&["/usr/bin/env", "-S bash -e"])),
            ["/usr/bin/env", "-S bash -e", "/home/u/a.sh"]
        );
    }

    #[test]
    fn flag_beats_job_file_beats_setting() {
        let flag = Origin::Flag {
            flag: "--scheduler".into(),
        };
        let file = Origin::File {
            path: "/etc/dlrun/dlrun.toml".into(),
            line: 1,
        };
        let job = "[scheduler]\nkind = \"slurm\"\n";
        let kind = |settings: &Settings, job: &str| {
            resolved(job, settings, &facts()).expect("a plan").scheduler
        };
        assert_eq!(
            kind(&settings(&[("scheduler.kind", "local", flag)]), job),
            SchedulerKind::Local
        );
        assert_eq!(
            kind(&settings(&[("scheduler.kind", "local", file.clone())]), job),
            SchedulerKind::Slurm
        );
        assert_eq!(
            kind(&settings(&[("scheduler.kind", "slurm", file)]), ""),
            SchedulerKind::Slurm
        );
    }

    #[test]
    fn the_file_name_becomes_a_usable_name() {
        let name = |file: &str| {
            plan(
                "",
                &SiteFacts {
                    job_file: file.into(),
                    ..facts()
                },
            )
            .name
        };
        assert_eq!(name("/home/u/my job.toml"), "my-job");
        assert_eq!(name("/home/u/..toml"), "job");
        assert_eq!(name("/home/u/-.toml"), "job");
    }

    #[test]
    fn auto_leaves_the_line_out_where_nothing_is_known_of_the_queue_and_says_so() {
        let plan = plan(
            "[resources]\nmemory = \"auto\"\nwalltime = \"auto\"\n",
            &with_slurm(&[]),
        );
        assert_eq!(
            (plan.resources.memory, plan.resources.walltime),
            (None, None)
        );
        assert!(
            decision(&plan, "memory")
                .why
                .contains("no run of this program is recorded")
        );
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
        let mut facts = SiteFacts {
            python: Some(python),
            ..facts()
        };
        let plan = plan("", &facts);
        let decision = decision(&plan, "environment");
        assert_eq!(decision.value, "python environment /home/u/env");
        assert!(
            decision.why.contains("no container runtime"),
            "{}",
            decision.why
        );
        assert_eq!(decision.rejected.len(), 2);

        // A name that is not clear keeps the environment: it may give the software.
        facts.images.frameworks.push("pytorch".to_owned());
        let unclear = self::plan("[framework]\nname = \"torch\"\n", &facts);
        assert_eq!(unclear.python_env.as_deref(), Some("/home/u/env"));
        assert!(
            unclear
                .warnings
                .iter()
                .any(|warning| warning.contains("`framework.name`"))
        );
    }

    #[test]
    fn the_way_to_the_daemon_travels_in_the_plan() {
        let asked = plan("", &facts());
        assert_eq!(
            asked.daemon_socket.as_deref(),
            Some("/run/dlrun/dlrund.sock")
        );
        let origin = Origin::Environment {
            variable: "DLRUN_MONITOR__DAEMON".into(),
        };
        let set = [
            ("monitor.daemon", "off", origin.clone()),
            ("monitor.process_interval_ms", "700", origin.clone()),
            ("monitor.nvml_library", "/opt/nvml.so", origin),
        ];
        let off = resolved("", &settings(&set), &facts()).expect("a plan");
        assert_eq!(
            (off.daemon_socket.as_deref(), off.process_interval_ms),
            (None, 700)
        );
        assert_eq!(off.nvml_library.as_deref(), Some("/opt/nvml.so"));
        assert!(
            decision(&off, "monitor").rejected[0]
                .why
                .contains("DLRUN_MONITOR__DAEMON")
        );
    }

    #[test]
    fn plans_from_before_the_daemon_are_read() {
        let mut json: serde_json::Value =
            serde_json::from_str(&plan("", &facts()).to_json()).expect("JSON");
        let fields = json.as_object_mut().expect("an object");
        for name in ["process_interval_ms", "daemon_socket", "nvml_library"] {
            assert!(fields.remove(name).is_some(), "{name}");
        }
        let old: Plan = serde_json::from_value(json).expect("a plan");
        assert_eq!(
            (old.daemon_socket, old.nvml_library, old.process_interval_ms),
            (None, None, 5000)
        );
    }

    #[test]
    fn tasks_are_named_and_overrides_are_kept_without_secrets() {
        let plan = plan("[resources]\ntasks = 3\n", &with_slurm(&[]));
        let decision = plan
            .decisions
            .iter()
            .find(|decision| decision.what == "tasks");
        assert_eq!(decision.map(|decision| decision.value.as_str()), Some("3"));
        let words = |words: &[&str]| {
            words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>()
        };
        let given = Overrides {
            set: words(&["run.env.API_TOKEN=abc", "run.env.LR=1"]),
            name: None,
            arguments: words(&[
                "--password=x",
                "--hf-token",
                "y",
                "--lr",
                "0.5",
                "--tokens",
                "7",
            ]),
        };
        let shown = shown_overrides(&given);
        let expected = [
            "--set run.env.API_TOKEN=***",
            "--set run.env.LR=1",
            "-- --password=*** --hf-token *** --lr 0.5 --tokens 7",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn contradictions_are_found_before_anything_is_queued() {
        assert!(problem("[resources]\nnodes = 2\n", &with_slurm(&[])).contains("need a launcher"));
        let spread = problem("[resources]\ntasks = 2\ntasks_per_node = 1\n", &facts());
        assert!(
            spread.contains("`resources.tasks = 2` with `tasks_per_node = 1` makes 2 nodes"),
            "{spread}"
        );
        assert!(
            problem("launcher = \"each\"\n[resources]\nnodes = 2\n", &facts())
                .contains("a local job has one node")
        );
        assert!(problem("[timing]\nepoch = \"(\"\n", &facts()).contains("timing.epoch"));
        assert!(
            problem(
                "[scheduler]\ndirectives = [\"--output=x\"]\n",
                &with_slurm(&[])
            )
            .contains("dlrun's own")
        );
        let pbs = "[scheduler]\ndirectives = [\"-W umask=022\"]\n";
        assert!(problem(pbs, &with_slurm(&[])).contains("is an option of PBS"));
        let twice = "[resources]\nwalltime = \"1h\"\n[scheduler]\ndirectives = [\"--time=5\"]\n";
        assert!(problem(twice, &with_slurm(&[])).contains("`--time=5` and `resources.walltime`"));
        assert!(
            problem(
                "[scheduler]\narguments = [\"--export\"]\n",
                &with_slurm(&[])
            )
            .contains("one word")
        );
        let long = format!("env = {{ A = \"{}\" }}\n", "x".repeat(MAX_PLAN_BYTES));
        assert!(problem(&long, &facts()).contains("is the limit"));
    }

    pub(in crate::plan) fn with_site(environment: &[(&str, &str)]) -> SiteFacts {
        let queue = |name: &str, hours: u64| Queue {
            name: name.into(),
            is_default: name == "batch",
            is_up: true,
            max_walltime: Some(Walltime(hours * 3600)),
            ..Queue::default()
        };
        let node = NodeType {
            count: 4,
            up: 2,
            cpus: Some(16),
            ..NodeType::default()
        };
        let site = SiteModel {
            format: SiteModel::FORMAT,
            scheduler: SchedulerKind::Slurm,
            version: None,
            asked_at_ms: 0,
            accounting: None,
            accounts_memory: None,
            max_array_index: Some(1000),
            max_array_elements: None,
            queues: vec![queue("batch", 24), queue("long", 168)],
            nodes: vec![node],
            licenses: Vec::new(),
        };
        SiteFacts {
            site: Some(site),
            ..with_slurm(environment)
        }
    }

    #[test]
    fn a_job_that_does_not_fit_the_site_is_refused_at_its_key() {
        let lines = "[resources]\nwalltime = \"48h\"\ncpus_per_task = 17\n";
        let faults = resolved(lines, &settings(&[]), &with_site(&[])).expect_err("it does not fit");
        let job = format!("[run]\ncommand = [\"true\"]\n{lines}");
        let told: Vec<(&str, &str)> = faults
            .iter()
            .map(|fault| (&job[fault.span.clone().expect("a place")], &*fault.message))
            .collect();
        assert_eq!(told[0].0, "\"48h\"");
        assert!(
            told[0].1.starts_with(
                "`resources.walltime`: 48h (2 days) is more than queue `batch` allows"
            ),
            "{told:?}"
        );
        assert_eq!(
            told[1],
            (
                "17",
                "`resources.cpus_per_task`: no node of queue `batch` has 17 CPUs; the most is 16"
            )
        );
        // What is in no line of the job file is told with where it comes from.
        let origin = Origin::Environment {
            variable: "DLRUN_DEFAULTS__QUEUE".into(),
        };
        let settings = settings(&[("defaults.queue", "lang", origin)]);
        let fault = resolved("", &settings, &with_site(&[]))
            .expect_err("there is none")
            .remove(0);
        assert_eq!(
            fault.message,
            "`resources.queue`: there is no queue `lang` ($DLRUN_DEFAULTS__QUEUE says so)"
        );
        assert!(fault.span.is_none() && fault.hint.is_some_and(|hint| hint.contains("`long`")));
    }

    #[test]
    fn what_decides_outside_of_the_job_file_is_minded() {
        let two_days = "[resources]\nwalltime = \"48h\"\n";
        let fits = |environment: &[(&str, &str)], lines: &str| {
            resolved(lines, &settings(&[]), &with_site(environment)).is_ok()
        };
        assert!(!fits(&[], two_days));
        assert!(fits(&[("SBATCH_PARTITION", "long")], two_days));
        assert!(fits(&[("SBATCH_CLUSTERS", "other")], two_days));
        assert!(fits(&[("SBATCH_QOS", "long")], two_days));
        for option in ["-plong", "--partition=long", "--qos=long", "-M other"] {
            let lines = format!("{two_days}[scheduler]\narguments = [\"{option}\"]\n");
            assert!(fits(&[], &lines), "{option}");
        }
        let local = settings(&[(
            "scheduler.kind",
            "local",
            Origin::Flag {
                flag: "--scheduler".into(),
            },
        )]);
        assert!(
            resolved(two_days, &local, &with_site(&[])).is_ok(),
            "another scheduler's site does not count"
        );
    }

    #[test]
    fn what_will_be_waited_for_is_a_note_and_does_not_travel() {
        let job = "launcher = \"each\"\n[resources]\nnodes = 3\narray = \"0-2000\"\n";
        let plan = plan(job, &with_site(&[]));
        assert!(
            plan.notes[0].contains("2 are up") && plan.notes[1].contains("1000"),
            "{:?}",
            plan.notes
        );
        assert!(!plan.to_json().contains("are up"));
    }

    #[test]
    fn what_a_local_job_has_no_use_for_is_named() {
        let plan = plan(
            "[resources]\nqueue = \"gpu\"\nqos = \"long\"\ncpus_per_task = 64\n",
            &facts(),
        );
        assert!(
            plan.warnings
                .iter()
                .any(|warning| warning.contains("queue, qos")),
            "{:?}",
            plan.warnings
        );
        assert!(
            plan.warnings
                .iter()
                .any(|warning| warning.contains("this machine has 2")),
            "{:?}",
            plan.warnings
        );
    }

    #[test]
    fn the_environment_that_slurm_listens_to_is_named_and_does_not_travel() {
        let facts = with_slurm(&[("SBATCH_JOB_NAME", "x"), ("SBATCH_PARTITION", "debug")]);
        let holds = plan("", &facts);
        assert!(
            holds.warnings[0].contains("SBATCH_PARTITION=debug"),
            "{:?}",
            holds.warnings
        );
        assert!(
            holds.notes[0].contains("`name` of the job holds"),
            "{:?}",
            holds.notes
        );
        assert!(!holds.to_json().contains("SBATCH_"));
        let beaten = plan("[resources]\nqueue = \"gpu\"\n", &facts);
        assert_eq!((beaten.warnings.len(), beaten.notes.len()), (0, 2));
        assert!(
            beaten.notes[1].contains("SBATCH_PARTITION=debug")
                && beaten.notes[1].contains("`queue`")
        );
    }
}
