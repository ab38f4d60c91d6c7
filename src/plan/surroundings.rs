//! What a job runs in and on, as its identity keeps it.

use super::fit::wanted;
use super::identity::hex;
use super::resolve::{Resolver, text};
use super::{PlannedResources, compiler};
use crate::flags::Container;
use crate::job::{Framework, Launcher, Provenance, SchedulerKind};
use crate::record::Asked;

/// What was chosen to run the command in.
pub(super) struct Surroundings<'a> {
    pub(super) image: Option<&'a Container>,
    pub(super) python_env: Option<&'a str>,
    pub(super) framework: &'a Framework,
}

impl Resolver<'_> {
    /// Image, Python environment or host, and what else the program meets there, in words.
    pub(super) fn surroundings(
        &self,
        chosen: &Surroundings<'_>,
        scheduler: SchedulerKind,
        queue: Option<&str>,
        resources: &PlannedResources,
    ) -> String {
        let mut parts = vec![match (chosen.image, chosen.python_env) {
            (Some(image), _) => match &image.digest {
                Some(digest) => format!("image {digest}"),
                None => format!("image {}", image.source),
            },
            (None, Some(dir)) => format!("python {}", dir.rsplit('/').next().unwrap_or(dir)),
            (None, None) => "host".to_owned(),
        }];
        let Framework { name, version, compiler, provenance } = chosen.framework;
        parts.extend(name.clone());
        parts.extend(version.clone());
        parts.extend(compiler.as_ref().map(|compiler| format!("compiler {compiler}")));
        parts.extend(provenance.map(Provenance::as_str).map(str::to_owned));
        // Rules and storage tell their reasons later; what they come to is needed now.
        let mut ahead = Resolver::new(self.spec, self.settings, self.facts);
        let storage = ahead.storage(queue);
        let mut attached = ahead.rules(scheduler, queue, storage.as_ref());
        compiler::add_variables(&mut attached.env, chosen.framework, resources.gpus_per_node.is_some());
        parts.extend(storage.map(|storage| format!("storage {}", storage.name)));
        if !attached.modules.is_empty() {
            parts.push(format!("modules {}", attached.modules.join(" ")));
        }
        parts.extend(self.facts.env_file.as_deref().map(|path| format!("variables of {}", text(path))));
        // The job's own variables are among its arguments.
        attached.env.retain(|variable| self.spec.run.env.iter().all(|own| own.name != variable.name));
        let hidden = (&attached.env, &attached.prologue, &self.spec.run.inherit);
        let hidden = serde_json::to_vec(&hidden).expect("texts have a JSON form");
        if !attached.env.is_empty() || !attached.prologue.is_empty() || self.spec.run.inherit.is_some() {
            parts.push(format!("site {}", &hex(&hidden)[..16]));
        }
        if let Some(build) = &self.spec.build {
            let build = (&build.source.value, &build.command, build.parallelism, &build.checksum);
            let build = serde_json::to_vec(&build).expect("texts have a JSON form");
            parts.push(format!("build {}", &hex(&build)[..16]));
        }
        parts.join("; ")
    }

    /// Shape and place of the job.
    pub(super) fn asked(
        &self,
        resources: &PlannedResources,
        scheduler: SchedulerKind,
        queue: Option<&str>,
        launcher: Launcher,
    ) -> Asked {
        let wanted = wanted(resources, self.elsewhere(resources, scheduler).queue.or(queue));
        let mut else_asked = Vec::new();
        let mut add = |what: &str, value: Option<String>| {
            else_asked.extend(value.map(|value| format!("{what} {value}")));
        };
        add("launcher", (launcher != Launcher::None).then(|| launcher.as_str().to_owned()));
        add("array", resources.array.as_ref().map(ToString::to_string));
        add("constraint", resources.constraint.clone());
        add("nodelist", resources.nodelist.clone());
        add("exclusive", resources.exclusive.then(|| "nodes".to_owned()));
        add("memory per CPU", resources.memory_per_cpu.map(|memory| memory.to_string()));
        let section = &self.spec.scheduler;
        let options = section.directives.iter().chain(&section.arguments);
        // They decide nothing of a local job.
        let options = options.filter(|_| scheduler != SchedulerKind::Local);
        options.for_each(|option| add("option", Some(option.value.clone())));
        Asked {
            queue: wanted.queue.filter(|_| scheduler != SchedulerKind::Local).map(str::to_owned),
            nodes: resources.nodes,
            tasks_per_node: resources.tasks_per_node,
            cpus_per_task: resources.cpus_per_task,
            gpus_per_node: resources.gpus_per_node.clone(),
            else_asked,
            memory_bytes: None,
            walltime_seconds: None,
        }
    }
}

/// Adds the limits, once they are settled.
pub(super) fn add_limits(asked: &mut Asked, resources: &PlannedResources) {
    asked.memory_bytes = wanted(resources, None).memory_per_node().map(|bytes| bytes.0);
    asked.walltime_seconds = resources.walltime.map(|walltime| walltime.0);
}
