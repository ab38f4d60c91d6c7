//! What a job runs in and on, as its identity keeps it.

use super::candidates::Prospect;
use super::identity::hex;
use super::resolver::{Resolver, text};
use super::similar_runs::Ladder;
use super::site_check::wanted;
use super::{PlannedResources, compiler};
use crate::image::flags::Container;
use crate::job::{Framework, Launcher, Provenance, SchedulerKind, kind_and_count};
use crate::record::{Asked, Identity};

/// Who takes the job, and how its command gets onto the nodes.
pub(super) struct Going<'a> {
    pub(super) launcher: Launcher,
    pub(super) scheduler: SchedulerKind,
    pub(super) queue: Option<&'a str>,
}

/// What was chosen to run the command in, and what it is a run of there.
pub(super) struct Surroundings {
    pub(super) image: Option<Container>,
    pub(super) python_env: Option<String>,
    pub(super) framework: Framework,
    pub(super) identity: Identity,
}

impl Resolver<'_> {
    /// Chooses what the command runs in, completes with it what the job is a run of, and settles the limits that are left open.
    pub(super) fn surroundings(
        &mut self,
        mut identity: Identity,
        going: &Going<'_>,
        resources: &mut PlannedResources,
        prospect: &mut Prospect,
    ) -> Surroundings {
        let (image, python_env) = self.environment(prospect);
        let framework = self.framework(prospect);
        let on_gpus = resources.gpus_on_node().is_some();
        identity.environment = self.described_environment(image.as_ref(), python_env.as_deref());
        identity
            .environment
            .push_str(&self.added(&framework, going, on_gpus));
        identity.asked = self.asked(going, resources);
        let ladder = Ladder::new(&identity, going.scheduler, &self.facts.history);
        self.limits(resources, &ladder, going.scheduler, going.queue);
        prospect.cover(ladder.repeats());
        identity.asked.memory_bytes = wanted(resources, None, None)
            .memory_per_node()
            .map(|bytes| bytes.0);
        identity.asked.walltime_seconds = resources.walltime.map(|walltime| walltime.0);
        self.told(prospect);
        Surroundings {
            image,
            python_env,
            framework,
            identity,
        }
    }

    /// Image, Python environment or host, and what is built there, in words.
    fn described_environment(&self, image: Option<&Container>, python_env: Option<&str>) -> String {
        let mut words = match (image, python_env) {
            (Some(image), _) => match &image.digest {
                Some(digest) => format!("image {digest}"),
                None => format!("image {}", image.source),
            },
            (None, Some(dir)) if self.spec.own_python.is_some() => format!("python {dir}"),
            (None, Some(dir)) => format!("python {}", dir.rsplit('/').next().unwrap_or(dir)),
            (None, None) => match self.spec.conda() {
                Some(conda) => format!("conda {}", conda.name),
                None => "host".to_owned(),
            },
        };
        if let Some(build) = &self.spec.build {
            let build = (
                &build.source.value,
                &build.command,
                build.parallelism,
                &build.checksum,
            );
            let build = serde_json::to_vec(&build).expect("texts have a JSON form");
            words.push_str(&format!("; build {}", &hex(&build)[..16]));
        }
        words
    }

    /// What else the program meets there: software, modules, storage, and what the site adds.
    fn added(&self, framework: &Framework, going: &Going<'_>, on_gpus: bool) -> String {
        let Framework {
            name,
            version,
            compiler,
            provenance,
        } = framework;
        let mut parts: Vec<String> = name.iter().chain(version).cloned().collect();
        parts.extend(
            compiler
                .as_ref()
                .map(|compiler| format!("compiler {compiler}")),
        );
        parts.extend(provenance.map(Provenance::as_str).map(str::to_owned));
        // Rules and storage tell their reasons later; what they come to is needed now.
        let mut ahead = Resolver::new(self.spec, self.settings, self.facts);
        let storage = ahead.storage(going.queue);
        let mut attached = ahead.rules(going.scheduler, going.queue, storage.as_ref());
        compiler::add_variables(&mut attached.env, framework, on_gpus);
        parts.extend(storage.map(|storage| format!("storage {}", storage.name)));
        if !attached.modules.is_empty() {
            parts.push(format!("modules {}", attached.modules.join(" ")));
        }
        parts.extend(
            self.facts
                .env_file
                .as_deref()
                .map(|path| format!("variables of {}", text(path))),
        );
        // The job's own variables are among its arguments.
        attached.env.retain(|variable| {
            self.spec
                .run
                .env
                .iter()
                .all(|own| own.name != variable.name)
        });
        let inherit = &self.spec.run.inherit;
        if !attached.env.is_empty() || !attached.prologue.is_empty() || inherit.is_some() {
            let hidden = serde_json::to_vec(&(&attached.env, &attached.prologue, inherit));
            parts.push(format!(
                "site {}",
                &hex(&hidden.expect("texts have a JSON form"))[..16]
            ));
        }
        parts.iter().map(|part| format!("; {part}")).collect()
    }

    /// Shape and place of the job.
    fn asked(&self, going: &Going<'_>, resources: &PlannedResources) -> Asked {
        let Going {
            launcher,
            scheduler,
            ..
        } = *going;
        let wanted = wanted(resources, None, self.elsewhere(resources, scheduler).queue);
        let mut else_asked = Vec::new();
        let mut add = |what: &str, value: Option<String>| {
            else_asked.extend(value.map(|value| format!("{what} {value}")));
        };
        add(
            "launcher",
            (launcher != Launcher::None).then(|| launcher.as_str().to_owned()),
        );
        add("tasks", resources.tasks.map(|tasks| tasks.to_string()));
        add("array", resources.array.as_ref().map(ToString::to_string));
        add("constraint", resources.constraint.clone());
        add("nodelist", resources.nodelist.clone());
        add("exclusive", resources.exclusive.then(|| "nodes".to_owned()));
        add(
            "memory per CPU",
            resources.memory_per_cpu.map(|memory| memory.to_string()),
        );
        let section = &self.spec.scheduler;
        let options = section.directives.iter().chain(&section.arguments);
        // They decide nothing of a local job.
        let options =
            options.filter(|option| !scheduler.is_local() && !is_of_waiting(&option.value));
        options.for_each(|option| add("option", Some(option.value.clone())));
        Asked {
            queue: wanted
                .queue
                .filter(|_| !scheduler.is_local())
                .map(str::to_owned),
            nodes: resources.nodes,
            tasks_per_node: resources.tasks_per_node,
            cpus_per_task: resources.cpus_per_task,
            gpus_per_node: resources.gpus_on_node(),
            else_asked,
            memory_bytes: None,
            walltime_seconds: None,
            gpus: resources
                .gpus_on_node()
                .map(|gpus| u64::from(kind_and_count(&gpus).1) * u64::from(resources.nodes)),
            account: resources.account.clone(),
            qos: resources.qos.clone(),
        }
    }
}

/// Says whether an option decides only when a job starts and who hears of it.
fn is_of_waiting(option: &str) -> bool {
    const WAITING: [&str; 9] = [
        "--hold",
        "-H",
        "--comment",
        "--mail-",
        "--begin",
        "--dependency",
        "--nice",
        "--priority",
        "--parsable",
    ];
    WAITING.iter().any(|name| option.starts_with(name))
}
