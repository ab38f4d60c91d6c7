//! What a job runs in and on, as its identity keeps it.

use super::candidates::Prospect;
use super::compiler;
use super::decisions::{Resolver, text};
use super::similar_runs::Ladder;
use super::site_check::wanted;
use crate::image::fingerprint;
use crate::job::{Framework, Launcher, Provenance, kind_and_count};
use crate::launch::Roles;
use crate::record::{Asked, Identity};

impl Resolver<'_> {
    /// Chooses what the command runs in, completes with it what the job is a run of, and settles the limits that are left open.
    pub(super) fn surroundings(&mut self, mut identity: Identity, prospect: &mut Prospect) {
        (self.plan.image, self.plan.python_env) = self.environment(prospect);
        self.plan.framework = self.framework(prospect);
        identity.environment = self.described_environment();
        identity.environment.push_str(&self.added());
        identity.asked = self.asked();
        let ladder = Ladder::new(&identity, self.plan.scheduler, &self.facts.history);
        self.limits(&ladder);
        let shift = prospect.forecast().and_then(|forecast| forecast.shift);
        match (ladder.repeats(shift), ladder.longest_cut_off()) {
            (None, Some(seconds)) => prospect.takes_longer_than(seconds),
            (repeats, _) => prospect.cover(repeats),
        }
        prospect.widen(&ladder.unlike);
        let since = shift.and_then(|shift| ladder.changed(shift));
        let resources = &self.plan.resources;
        let memory = wanted(resources, None, None).memory_per_node();
        identity.asked.memory_bytes = memory.map(|bytes| bytes.0);
        identity.asked.walltime_seconds = resources.walltime.map(|walltime| walltime.0);
        self.decide_forecast(prospect, since);
        self.plan.identity = Some(identity);
    }

    /// Image, Python environment or host, and what is built there, in words.
    fn described_environment(&self) -> String {
        let mut words = match (&self.plan.image, self.plan.python_env.as_deref()) {
            (Some(image), _) => match &image.digest {
                Some(digest) => format!("image {digest}"),
                None => format!("image {}", image.source),
            },
            (None, Some(dir)) if self.spec.python.own.is_some() => format!("python {dir}"),
            (None, Some(dir)) => format!("python {}", dir.rsplit('/').next().unwrap_or(dir)),
            (None, None) => match self.spec.python.conda() {
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
            words.push_str(&format!("; build {}", &fingerprint(&build)[..16]));
        }
        words
    }

    /// What else the program meets there: software, modules, storage, and what the site adds.
    fn added(&self) -> String {
        let framework = &self.plan.framework;
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
        let mut attached = self.ahead();
        let on_gpus = self.plan.resources.gpus_on_node().is_some();
        compiler::add_variables(&mut attached.env, framework, on_gpus);
        let storage = attached.storage.iter();
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
                &fingerprint(hidden.expect("texts have a JSON form"))[..16]
            ));
        }
        parts.iter().map(|part| format!("; {part}")).collect()
    }

    /// Shape and place of the job.
    fn asked(&self) -> Asked {
        let (resources, launcher) = (&self.plan.resources, self.plan.launcher);
        let wanted = wanted(resources, None, self.elsewhere().queue);
        let mut else_asked = Vec::new();
        let mut add = |what: &str, value: Option<String>| {
            else_asked.extend(value.map(|value| format!("{what} {value}")));
        };
        add(
            "launcher",
            (launcher != Launcher::None).then(|| launcher.as_str().to_owned()),
        );
        let roles = Some(self.plan.roles).filter(|roles| *roles != Roles::default());
        add("roles", roles.map(|roles| roles.to_string()));
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
        let options = options.filter(|option| !self.is_local() && !is_of_waiting(&option.value));
        options.for_each(|option| add("option", Some(option.value.clone())));
        Asked {
            queue: wanted.queue.filter(|_| !self.is_local()).map(str::to_owned),
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
