//! What the performance model is asked: the job as far as it decides how long a training takes.

use super::facts::ModelFacts;
use super::resolve::Resolver;
use super::{PlannedResources, PlannedStorage};
use crate::job::{EnvVar, SchedulerKind};
use crate::model::{Hardware, Situation};

impl Resolver<'_> {
    /// The situation of the job on `resources`; image, compiler, version and nodes are those of a candidate.
    pub(super) fn situation(
        &self,
        facts: &ModelFacts,
        scheduler: SchedulerKind,
        queue: Option<&str>,
        resources: &PlannedResources,
    ) -> Situation {
        // Rules and storage are decided later and tell their reasons then; what they come to is needed now.
        let mut ahead = Resolver::new(self.spec, self.settings, self.facts);
        let storage = ahead.storage(queue);
        let env = ahead.rules(scheduler, queue, storage.as_ref()).env;
        Situation {
            workload: self.spec.workload.clone(),
            framework: self.spec.framework.clone(),
            image: None,
            hardware: hardware(facts, scheduler, resources, threads_asked(&env, resources)),
            nodes: resources.nodes,
            tasks_per_node: resources.tasks_per_node,
            storage: storage.map(|PlannedStorage { class, .. }| class),
        }
    }
}

/// CPUs that the program keeps busy on a node by `OMP_NUM_THREADS`, which holds for each task. Of a list for nested regions
/// (`4,2`) the first counts.
fn threads_asked(env: &[EnvVar], resources: &PlannedResources) -> Option<f64> {
    let variable = env.iter().rev().find(|variable| variable.name == "OMP_NUM_THREADS")?;
    let threads: u32 = variable.value.split(',').next()?.trim().parse().ok()?;
    (threads > 0).then_some(f64::from(threads) * f64::from(resources.tasks_per_node))
}

/// What the job will run on: this machine, or what jobs that named this queue ran on before.
fn hardware(
    facts: &ModelFacts,
    scheduler: SchedulerKind,
    resources: &PlannedResources,
    threads_asked: Option<f64>,
) -> Hardware {
    let is_local = scheduler == SchedulerKind::Local;
    let queue = resources.queue.as_deref().filter(|_| !is_local);
    let usual = facts.model.usual_hardware(scheduler, queue).cloned().unwrap_or_default();
    let (kind, gpus) = match resources.gpus_per_node.as_deref() {
        None => (None, 0),
        Some(asked) => match asked.rsplit_once(':') {
            Some((kind, count)) => (Some(kind.to_ascii_lowercase()), count.parse().unwrap_or(1)),
            None => (None, asked.parse().unwrap_or(1)),
        },
    };
    if let Some(meant) = &facts.meant {
        let asked = resources.cpus_per_task.map(|cpus| f64::from(cpus) * f64::from(resources.tasks_per_node));
        let (cpu_model, gpu_model) = if gpus > 0 { (None, Some(meant)) } else { (Some(meant), None) };
        return Hardware {
            cpu_model: cpu_model.cloned(),
            threads: threads_asked.or(asked),
            gpu_model: gpu_model.cloned(),
            gpus,
            figures: None,
        };
    }
    let is_kind = |model: &String| kind.as_ref().is_none_or(|kind| model.to_ascii_lowercase().contains(kind));
    let gpu_model = usual.gpu_model.filter(|model| gpus > 0 && is_kind(model));
    let (cpu_model, cpus) = if is_local {
        (facts.here.cpu_model.clone().or(usual.cpu_model.clone()), facts.here.threads)
    } else {
        let asked = resources.cpus_per_task.map(|cpus| f64::from(cpus) * f64::from(resources.tasks_per_node));
        (usual.cpu_model.clone(), asked.or(usual.threads))
    };
    let threads = match (cpus, threads_asked) {
        (Some(cpus), Some(threads)) => Some(cpus.min(threads)),
        (cpus, threads) => cpus.or(threads),
    };
    // What was measured of another machine says nothing of this one.
    let figures = usual.figures.filter(|_| usual.cpu_model == cpu_model);
    Hardware { cpu_model, threads, gpu_model, gpus, figures }
}
