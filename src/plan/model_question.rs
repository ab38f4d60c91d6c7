//! What the performance model is asked: the job as far as it decides how long a training takes.

use super::decisions::Resolver;
use super::facts::ModelFacts;
use super::hardware::Wish;
use super::{Plan, PlannedResources};
use crate::job::{EnvVar, SchedulerKind};
use crate::learn::model::{Hardware, Likely, Situation};
use crate::record::Identity;

/// What the performance model is asked.
pub(super) struct Question {
    /// The job; image, compiler, version and nodes are those of a candidate.
    pub(super) situation: Situation,
    /// What it may run on, where that is not known; else it is in the situation.
    pub(super) kinds: Vec<Likely>,
    /// How that is known, for people.
    pub(super) assumed: Option<String>,
}

impl Resolver<'_> {
    /// What to ask of the job.
    pub(super) fn question(&self, facts: &ModelFacts, identity: &Identity) -> Question {
        let resources = &self.plan.resources;
        let Plan { env, storage, .. } = self.ahead();
        let wish = Wish::new(resources, threads_asked(&env, resources));
        let (hardware, kinds, assumed) = if let Some(meant) = &facts.meant {
            (meant_hardware(meant, &wish), Vec::new(), None)
        } else if self.is_local() {
            let here = hardware_here(facts, self.plan.scheduler, &wish);
            (here, Vec::new(), None)
        } else {
            let (kinds, assumed) = self.likely(facts, &wish);
            (Hardware::default(), kinds, assumed)
        };
        let situation = Situation {
            workload: identity.completed(&self.spec.workload),
            framework: self.spec.framework.clone(),
            image: None,
            hardware,
            nodes: resources.nodes,
            tasks_per_node: resources.tasks_per_node,
            storage: storage.map(|storage| storage.class),
            numbers: identity.other_numbers(),
        };
        Question {
            situation,
            kinds,
            assumed,
        }
    }
}

/// CPUs that the program keeps busy on a node by `OMP_NUM_THREADS`, which holds for each task. Of a list for nested regions
/// (`4,2`) the first counts.
fn threads_asked(env: &[EnvVar], resources: &PlannedResources) -> Option<f64> {
    let variable = env
        .iter()
        .rev()
        .find(|variable| variable.name == "OMP_NUM_THREADS")?;
    let threads: u32 = variable.value.split(',').next()?.trim().parse().ok()?;
    (threads > 0).then_some(f64::from(threads) * f64::from(resources.tasks_per_node))
}

/// Hardware that is asked about in place of the job's.
fn meant_hardware(meant: &str, wish: &Wish<'_>) -> Hardware {
    let name = Some(meant.to_owned());
    let (cpu_model, gpu_model) = if wish.gpus > 0 {
        (None, name)
    } else {
        (name, None)
    };
    let threads = wish.threads.or(wish.cpus);
    Hardware {
        cpu_model,
        threads,
        gpu_model,
        gpus: wish.gpus,
        ..Hardware::default()
    }
}

/// This machine. GPUs, and what was measured of it, are as runs here had them.
fn hardware_here(facts: &ModelFacts, local: SchedulerKind, wish: &Wish<'_>) -> Hardware {
    let usual = |on_gpus: bool| {
        let met = facts.model.hardware_met(local, &[None], on_gpus);
        met.kinds.into_iter().map(|kind| kind.hardware)
    };
    let asked = wish.gpu_type.map(str::to_ascii_lowercase);
    let is_asked = |model: &String| {
        asked
            .as_ref()
            .is_none_or(|asked| model.to_ascii_lowercase().contains(asked))
    };
    let gpu_model = usual(true)
        .find_map(|usual| usual.gpu_model)
        .filter(|model| wish.gpus > 0 && is_asked(model));
    let cpu_model = facts
        .here
        .cpu_model
        .clone()
        .or_else(|| usual(false).find_map(|usual| usual.cpu_model));
    // What was measured of another machine says nothing of this one.
    let same = usual(false).find(|usual| usual.cpu_model == cpu_model);
    Hardware {
        threads: wish.threads_of(facts.here.threads),
        figures: same.and_then(|usual| usual.figures),
        cpu_model,
        gpu_model,
        gpus: wish.gpus,
        ..Hardware::default()
    }
}
