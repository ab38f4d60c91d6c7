//! Runs, workloads and configurations as numbers, which are the same on every machine and in every version: evaluations of two
//! versions hold back the same runs.

use std::fmt::Write as _;

use super::hash::Hash;
use super::{Observation, Situation};

/// One start of a run.
pub(super) fn start(observation: &Observation) -> u64 {
    let (element, attempt) = (
        u64::from(observation.element),
        u64::from(observation.attempt),
    );
    let run = Hash::plain().optional(Some(observation.run_id.as_str()));
    run.field(Some(element)).field(Some(attempt)).plain_end()
}

/// What is trained, whatever the sizes of steps.
pub(super) fn workload(situation: &Situation) -> u64 {
    let workload = &situation.workload;
    Hash::plain()
        .optional(workload.model.as_deref())
        .optional(workload.dataset.as_deref())
        .field(workload.samples)
        .field(workload.parameters)
        .plain_end()
}

/// With what.
fn software(situation: &Situation) -> u64 {
    let framework = &situation.framework;
    Hash::plain()
        .optional(framework.name.as_deref())
        .optional(framework.version.as_deref())
        .optional(framework.compiler.as_deref())
        .optional(framework.provenance.map(crate::job::Provenance::as_str))
        .optional(situation.image.as_deref())
        .plain_end()
}

/// Everything but the software: runs that share it differ in what a plan may choose.
fn place(situation: &Situation) -> u64 {
    let hardware = &situation.hardware;
    let mut threads = String::new();
    if let Some(count) = hardware.threads {
        let _ = write!(threads, "{count:.0}");
    }
    Hash::plain()
        .field(Some(workload(situation)))
        .field(situation.workload.batch_size)
        .optional(situation.workload.precision.as_deref())
        .optional(hardware.cpu_model.as_deref())
        .optional(Some(&threads))
        .optional(hardware.gpu_model.as_deref())
        .field(Some(u64::from(hardware.gpus)))
        .field(Some(u64::from(situation.nodes.max(1))))
        .field(Some(u64::from(situation.tasks_per_node.max(1))))
        .optional(situation.storage.map(crate::job::StorageClass::as_str))
        .plain_end()
}

/// Runs that share it are repeats.
pub(super) fn configuration(situation: &Situation) -> u64 {
    Hash::plain()
        .field(Some(place(situation)))
        .field(Some(software(situation)))
        .plain_end()
}
