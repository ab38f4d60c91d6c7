//! From the path on the command line to a plan: reads the job file, gathers the facts of site and files, resolves.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::{AccessFlags, access};
use serde::Serialize;

use crate::app::error::{Error, Kind};
use crate::app::images::facts as image_facts;
use crate::app::images::making::{self, Order};
use crate::app::images::recipes;
use crate::app::job::dependencies;
use crate::app::job::history;
use crate::app::job::schedulers;
use crate::app::job::source::{self, Source};
use crate::app::models;
use crate::app::session::{Session, user_name};
use crate::app::site::{self, Known};
use crate::config::{Rule, Settings, Subject};
use crate::foundation::command::{Tool, find};
use crate::foundation::diagnostic::Problem;
use crate::image::python::{self, EnvFacts};
use crate::image::runtime::{HostView, find_runtime};
use crate::job::{
    Command, EnvVar, JobSpec, Launcher, Located, Overrides, OwnPython, SchedulerKind,
};
use crate::launch::MpiLibrary;
use crate::learn::model::Hardware;
use crate::observe::monitor::{allowed_cpus, cpus_effective, host_facts};
use crate::plan::{self, Decision, ModelFacts, Plan, ScriptFacts, SiteFacts};
use crate::scheduler::script;

/// Libraries may lie on a network.
const LDD_TIMEOUT: Duration = Duration::from_secs(5);
/// More than the kernel reads of a script's first line.
const MAX_FIRST_LINE: u64 = 256;

/// A job file with all that follows from it.
pub(crate) struct Job {
    pub(crate) plan: Plan,
    /// The Python environment that the job wants.
    pub(crate) python: Option<EnvFacts>,
    /// The site that the job was compared with.
    pub(crate) site: Option<Known>,
    /// The image that has to be built before it runs.
    pub(crate) to_build: Option<Order>,
}

/// The site that a job was compared with.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SiteAsked<'a> {
    scheduler: SchedulerKind,
    version: Option<&'a str>,
    asked_at_ms: u64,
}

/// A job file that is to be loaded.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobRequest {
    pub(crate) file: PathBuf,
    /// Neither files and programs are checked nor the site.
    pub(crate) no_check: bool,
    /// What the command line says in the job file's place.
    pub(crate) overrides: Overrides,
}

/// Whether the job is compared with the site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Against {
    /// Against what its scheduler says of it, now or some time ago.
    Site,
    /// Against nothing, and no scheduler is asked.
    Nothing,
}

impl Job {
    /// Reads and resolves the job file.
    pub(crate) fn load(
        session: &Session,
        request: &JobRequest,
        against: Against,
    ) -> Result<Self, Error> {
        let request = JobRequest {
            file: source::job_file(&request.file),
            ..request.clone()
        };
        let source = Source::read(&request.file)?.with(request.overrides.clone());
        Self::of_source(session, &source, &request, against)
    }

    /// Resolves a job file that was read. Its relative paths begin where `request.file` lies.
    pub(crate) fn of_source(
        session: &Session,
        source: &Source,
        request: &JobRequest,
        against: Against,
    ) -> Result<Self, Error> {
        let settings = &session.settings;
        let spec = source.spec()?;
        let file = std::path::absolute(&request.file)?;
        let place = Place::of(&spec, &file);
        let mut images =
            image_facts::facts(session, &spec, place.image.as_deref(), !request.no_check)?;
        images.script_dir = image_facts::script_dir(place.script.as_deref(), &place.workdir);
        let contains = image_facts::may_contain(&spec.image, &images);
        if !request.no_check {
            let mut missing = place.missing(&spec, contains);
            let job_dir = file.parent().unwrap_or(Path::new("/"));
            missing.extend(image_facts::missing_sources(&spec.image, job_dir, settings));
            if !missing.is_empty() {
                return Err(source.error(Kind::Missing, missing));
            }
        }
        let (python, env_dir) = (settings.python_interpreter(), settings.python_env_dir());
        let requirements = place.requirements.as_ref();
        let python = requirements
            .map(|path| python::inspect(path, python, &env_dir))
            .transpose()?;
        let mut facts = place.facts(session, &spec, file, python.as_ref())?;
        facts.images = images;
        facts.model = model_facts(session, &spec, &facts);
        facts.history = history::history(session, &spec, &facts);
        if !spec.resources.depends.is_empty() {
            let scheduler = plan::scheduler_of(&spec, &session.settings, &facts);
            let check = !request.no_check;
            facts.targets = dependencies::targets(session, source, &spec, scheduler, check)?;
        }
        let against = if request.no_check {
            Against::Nothing
        } else {
            against
        };
        let (mut tried, mut site) = resolved(session, &spec, facts.clone(), against);
        while !request.no_check
            && let Ok(plan) = &tried
            && image_facts::set_aside(&mut facts.images, plan, &session.settings)
        {
            (tried, site) = resolved(session, &spec, facts.clone(), against);
        }
        let image = place.image.as_deref().filter(|_| !request.no_check);
        let fault = image_facts::file_fault(&spec.image, image, tried.as_ref().ok(), settings);
        if let Some(fault) = fault {
            return Err(source.error(Kind::JobFile, vec![fault]));
        }
        let mut to_build = None;
        if let Ok(Plan {
            no_image: Some(none),
            image: None,
            ..
        }) = &tried
        {
            let order = recipes::order_of_plan(session, none)?;
            facts.images.built = Some((order.entry.name.clone(), making::file_of(&order.entry)?));
            (tried, site) = resolved(session, &spec, facts, against);
            to_build = Some(order);
        }
        let mut plan = tried
            .map_err(|faults| with_site(source.error(Kind::JobFile, faults), site.as_ref()))?;
        plan.warnings.extend(source.warnings());
        if !request.no_check {
            plan.warnings.extend(image_facts::not_there_yet(&plan));
            let missing = (plan.image.is_none() && contains)
                .then(|| place.program_problem(&spec, false))
                .flatten();
            plan.warnings
                .extend(missing.map(|why| format!("{why}, and the job runs in no image")));
        }
        Ok(Self {
            // Where the command runs in a container, none is made.
            python: python.filter(|_| plan.python_env.is_some()),
            plan,
            site,
            to_build,
        })
    }
}

/// The error, with the site that the job does not fit, where there is one.
fn with_site(error: Error, site: Option<&Known>) -> Error {
    let hint = |site: &Known| {
        format!(
            "the numbers are the site's own ({}); `--no-check` goes without them",
            site.shown()
        )
    };
    match site {
        Some(site) => error.hinted(hint(site)),
        None => error,
    }
}

impl Job {
    /// Builds the image of a job that is about to be handed over, where the plan says so and it does not exist.
    pub(crate) fn build_image(&mut self, session: &Session) -> Result<(), Error> {
        let Some(order) = self.to_build.take() else {
            return Ok(());
        };
        let made = making::make(session, &order)?;
        let why = match made.made_now {
            true => "built before the run was submitted",
            false => "it existed already",
        };
        if let Some(image) = &mut self.plan.image {
            image.digest.clone_from(&made.digest);
        }
        self.plan.decisions.push(Decision {
            what: "image build".to_owned(),
            value: made.name,
            why: why.to_owned(),
            rejected: Vec::new(),
        });
        Ok(())
    }

    /// The batch script, without what is known of it at submission only.
    pub(crate) fn script(&self) -> String {
        script::render(&self.plan)
    }

    /// The site that the job was compared with, for programs.
    pub(crate) fn site_asked(&self) -> Option<SiteAsked<'_>> {
        let model = &self.site.as_ref()?.model;
        Some(SiteAsked {
            scheduler: model.scheduler,
            version: model.version.as_deref(),
            asked_at_ms: model.asked_at_ms,
        })
    }
}

/// Resolves the job, with what is known of the site. Nobody is refused for an old answer of a scheduler: it is
/// asked again. With problems comes the site only where some of them are against it.
fn resolved(
    session: &Session,
    spec: &JobSpec,
    mut facts: SiteFacts,
    against: Against,
) -> (Result<Plan, Vec<Problem>>, Option<Known>) {
    let settings = &session.settings;
    let kind = plan::scheduler_of(spec, settings, &facts);
    let held = against == Against::Site;
    let asks = held
        || facts.model.is_some()
        || facts.mpi.is_some()
        || goes_by_queue(spec, settings)
        || spec.resources.has_open_limits();
    let mut known = if asks {
        site::known(session, kind)
    } else {
        None
    };
    facts.site = known.as_ref().map(|known| known.model.clone());
    facts.hold_against_site = held;
    let mut tried = plan::resolve(spec, settings, &facts);
    if tried.is_err() && !held {
        known = None;
    }
    if tried.is_err() && known.is_some() {
        let without = plan::resolve(
            spec,
            settings,
            &SiteFacts {
                site: None,
                ..facts.clone()
            },
        );
        if without != tried && known.as_ref().is_some_and(|known| known.is_kept) {
            known = site::asked(session, kind);
            facts.site = known.as_ref().map(|known| known.model.clone());
            tried = plan::resolve(spec, settings, &facts);
        }
        if tried.is_err() && without == tried {
            known = None;
        }
    }
    (tried, known)
}

/// The performance model, where there is one, with what it must know of this moment.
fn model_facts(session: &Session, spec: &JobSpec, facts: &SiteFacts) -> Option<ModelFacts> {
    let (model, origin) = models::current(session)?;
    let is_local = plan::scheduler_of(spec, &session.settings, facts).is_local();
    let here = is_local.then(|| Hardware {
        cpu_model: host_facts(None).cpu_model,
        threads: cpus_effective(std::process::id()),
        ..Hardware::default()
    });
    let here = here.unwrap_or_default();
    let meant = session.asked_hardware.clone();
    Some(ModelFacts {
        model: Arc::new(model),
        origin: origin.to_string(),
        here,
        meant,
    })
}

/// Says whether the default queue decides what the job becomes: rules and storage may go by it. Then the scheduler is asked
/// for it in any case, so that `render` and `submit --no-check` make of the job what `submit` does.
fn goes_by_queue(spec: &JobSpec, settings: &Settings) -> bool {
    let tables = settings.tables();
    let is_named = spec.resources.queue.is_some() || settings.default_queue().is_some();
    let by_queue = |rule: &Rule| rule.when.iter().any(|one| one.subject == Subject::Queue);
    !is_named
        && (tables.rules.iter().any(by_queue)
            || tables.storage.iter().any(|place| !place.queues.is_empty()))
}

/// Absolute paths of what a job file names.
struct Place {
    workdir: PathBuf,
    script: Option<PathBuf>,
    env_file: Option<PathBuf>,
    requirements: Option<PathBuf>,
    image: Option<PathBuf>,
    venv: Option<PathBuf>,
}

impl Place {
    fn of(spec: &JobSpec, file: &Path) -> Self {
        let dir = file.parent().unwrap_or(Path::new("/"));
        let workdir = match &spec.run.workdir {
            Some(workdir) => tidy(&dir.join(&workdir.value)),
            None => dir.to_owned(),
        };
        let script = match &spec.run.command.value {
            Command::Script(script) => Some(tidy(&workdir.join(script))),
            Command::Argv(_) => None,
        };
        let beside = |named: &Located<PathBuf>| tidy(&dir.join(&named.value));
        let image = spec.image.path.as_ref().map(beside);
        Self {
            script,
            workdir,
            env_file: spec.run.env_file.as_ref().map(beside),
            image: image.map(without_parents),
            requirements: spec.python.requirements.as_ref().map(beside),
            venv: spec.python.own.as_ref().and_then(|own| match &own.value {
                OwnPython::Venv(path) => Some(tidy(&dir.join(path))),
                OwnPython::Conda(_) => None,
            }),
        }
    }

    /// What the job names and does not exist. What only the nodes may have (programs of modules) is not looked for.
    fn missing(&self, spec: &JobSpec, may_contain: bool) -> Vec<Problem> {
        let mut problems = Vec::new();
        if let Some(workdir) = spec.run.workdir.as_ref().filter(|_| !self.workdir.is_dir()) {
            let message = format!(
                "`run.workdir`: {} is not a directory",
                self.workdir.display()
            );
            problems.push(Problem::at(workdir.span.clone(), message));
        }
        let span = spec.run.command.span.clone();
        let elsewhere = spec.run.output.is_some();
        if !elsewhere && self.workdir.is_dir() && access(&self.workdir, AccessFlags::W_OK).is_err()
        {
            let problem = Problem::of_file(format!(
                "the job's output goes to {}, which cannot be written",
                self.workdir.display()
            ));
            problems.push(problem.hinted("set `run.workdir` to a directory that you may write to"));
        }
        let program = self
            .program_problem(spec, may_contain)
            .or_else(|| self.script_argument_problem(spec));
        if let Some(message) = program {
            let hint = "if it exists on the compute nodes only, submit with `--no-check`";
            let hint = match &spec.framework.name {
                Some(framework) if !may_contain && !spec.image.none => format!(
                    "the catalogue has no image of {framework} that would have it: `dlrun image build {framework}` builds one, `dlrun image add FILE` adds one; {hint}"
                ),
                _ => hint.to_owned(),
            };
            problems.push(Problem::at(span, message).hinted(hint));
        }
        if let (Some(path), Some(named)) = (&self.requirements, &spec.python.requirements)
            && !path.is_file()
        {
            let message = format!("`python.requirements`: {} is not a file", path.display());
            problems.push(Problem::at(named.span.clone(), message));
        }
        // Of a venv `python` is a link, which may lead to what only the nodes have.
        if let (Some(path), Some(named)) = (&self.venv, &spec.python.own)
            && path.join("bin/python").symlink_metadata().is_err()
        {
            let message = format!(
                "`python.venv`: {} is not a virtual environment",
                path.display()
            );
            let hint = "make it with `python3 -m venv`; if it exists on the compute nodes only, submit with `--no-check`";
            problems.push(Problem::at(named.span.clone(), message).hinted(hint));
        }
        // A sandbox is a directory.
        if let (Some(path), Some(named)) = (&self.image, &spec.image.path)
            && !path.exists()
        {
            let message = format!("`image.path`: {} does not exist", path.display());
            problems.push(Problem::at(named.span.clone(), message));
        }
        if let (Some(path), Some(named)) = (&self.env_file, &spec.run.env_file) {
            let problem = env_file_problem(path)
                .map(|why| format!("`run.env_file`: {} {why}", path.display()));
            problems.extend(problem.map(|message| Problem::at(named.span.clone(), message)));
        }
        problems
    }

    /// `may_contain`: the command may run in a container, which has its own programs; only what lies in the working
    /// directory is looked for then.
    fn program_problem(&self, spec: &JobSpec, may_contain: bool) -> Option<String> {
        let argv = match &spec.run.command.value {
            Command::Script(_) => {
                let script = self.script.as_ref()?;
                return (!script.is_file())
                    .then(|| format!("the script {} is not a file", script.display()));
            }
            Command::Argv(argv) => argv,
        };
        let program = argv.first()?;
        if program.starts_with('/') && may_contain {
            return None;
        }
        if program.contains('/') {
            let path = self.workdir.join(program);
            return (!is_executable(&path))
                .then(|| format!("{} is not an executable file", tidy(&path).display()));
        }
        if argv.len() == 1 && program.contains(' ') {
            let words: Vec<String> = program
                .split_whitespace()
                .map(|word| format!("{word:?}"))
                .collect();
            return Some(format!(
                "{program:?} is one word; write command = [{}]",
                words.join(", ")
            ));
        }
        let from_environment = may_contain
            || self.requirements.is_some()
            || spec.python.own.is_some()
            || !spec.run.modules.is_empty();
        (!from_environment && find(program, &[]).is_none())
            .then(|| format!("the program {program:?} is not in PATH"))
    }

    /// The MPI that a program of this machine needs. `ldd` starts nothing of it.
    fn mpi_library(&self, spec: &JobSpec) -> Option<MpiLibrary> {
        let Command::Argv(argv) = &spec.run.command.value else {
            return None;
        };
        let program = argv.first()?;
        let is_path = |variable: &EnvVar| variable.name == "PATH";
        let same_path = spec.run.modules.is_empty()
            && spec.python.own.is_none()
            && self.requirements.is_none()
            && !spec.run.env.iter().any(is_path);
        let path = match program.contains('/') {
            true => Some(self.workdir.join(program)),
            false => find(program, &[]).filter(|_| same_path),
        };
        let ldd = Tool::new("ldd").arg(path?).timeout(LDD_TIMEOUT);
        MpiLibrary::of(&ldd.run().ok()?.stdout)
    }

    /// `python train.py`: the training program is what people forget to copy.
    fn script_argument_problem(&self, spec: &JobSpec) -> Option<String> {
        let Command::Argv(argv) = &spec.run.command.value else {
            return None;
        };
        let [program, argument, ..] = &argv[..] else {
            return None;
        };
        let name = Path::new(program).file_name()?.to_str()?;
        let interpreter = ["python", "bash", "sh", "perl", "julia", "Rscript"]
            .iter()
            .any(|known| name.starts_with(known));
        let is_file_name =
            interpreter && !argument.starts_with('-') && Path::new(argument).extension().is_some();
        let path = self.workdir.join(argument);
        (is_file_name && !path.is_file())
            .then(|| format!("{} is not a file", tidy(&path).display()))
    }

    fn facts(
        &self,
        session: &Session,
        spec: &JobSpec,
        job_file: PathBuf,
        python: Option<&EnvFacts>,
    ) -> Result<SiteFacts, Error> {
        let script = self.script.as_ref().map(|path| ScriptFacts {
            path: path.clone(),
            interpreter: interpreter_of(path),
        });
        let wants_mpi = spec
            .run
            .launcher
            .as_ref()
            .is_some_and(|asked| asked.value == Launcher::Mpi);
        let runtime = session.settings.container_runtime();
        let asked = plan::asked_scheduler(spec, &session.settings).map(|(kind, _)| kind);
        let schedulers = schedulers::look(session, asked);
        Ok(SiteFacts {
            job_file,
            workdir: self.workdir.clone(),
            script,
            env_file: self.env_file.clone(),
            schedulers: schedulers.found,
            passed_over: schedulers.passed_over,
            image: self.image.clone(),
            // Looked for where its absence is a reason: `PATH` may be long, and its directories far away.
            container_runtime: (!spec.image.none && python.is_some())
                .then(|| find_runtime(&HostView::of_this_machine(), runtime).ok())
                .flatten(),
            python: python.cloned(),
            cpus: allowed_cpus().map(|cpus| cpus.len() as u64),
            mpi: wants_mpi.then(|| self.mpi_library(spec)).flatten(),
            mpirun: wants_mpi.then(|| find("mpirun", &[])).flatten(),
            named: history::named(spec, &self.workdir),
            user: user_name(),
            dlrun: std::env::current_exe()?,
            ..SiteFacts::default()
        })
    }
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// What runs a script that is not executable: its first line's words, as the kernel reads them (`execve(2)`, "Interpreter
/// scripts": all behind the interpreter is one argument).
fn interpreter_of(script: &Path) -> Option<Vec<String>> {
    if is_executable(script) {
        return None;
    }
    let mut head = Vec::new();
    let file = source::open(script).ok()?;
    let _ = file.take(MAX_FIRST_LINE).read_to_end(&mut head);
    let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let first = String::from_utf8_lossy(first.strip_prefix(b"#!").unwrap_or_default())
        .trim()
        .to_owned();
    let words = first
        .splitn(2, [' ', '\t'])
        .map(str::trim)
        .filter(|word| !word.is_empty());
    Some(words.map(str::to_owned).collect())
}

fn env_file_problem(path: &Path) -> Option<String> {
    match fs::metadata(path) {
        Err(error) => Some(format!("cannot be read: {error}")),
        Ok(metadata) if !metadata.is_file() => Some("is not a file".to_owned()),
        Ok(metadata) if metadata.permissions().mode() & 0o077 != 0 => {
            Some("can be read by others; it holds secrets, so `chmod 600` it".to_owned())
        }
        Ok(_) => None,
    }
}

/// A path with `..` is written as `dlrun image add` writes it, so that the catalogue knows it. Others stay as they are written,
/// since the nodes may see a directory by that name only.
pub(crate) fn without_parents(path: PathBuf) -> PathBuf {
    if !path
        .components()
        .any(|part| part == std::path::Component::ParentDir)
    {
        return path;
    }
    let dir = path.parent().and_then(|dir| dir.canonicalize().ok());
    match (dir, path.file_name()) {
        (Some(dir), Some(name)) => dir.join(name),
        _ => path,
    }
}

/// Takes `.` out of an absolute path by its text alone; a `..` stays, since it may follow a link.
fn tidy(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| !matches!(part, std::path::Component::CurDir))
        .collect()
}
