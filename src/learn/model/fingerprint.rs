//! Runs, workloads and configurations as numbers, which are the same on every machine and in every version: evaluations of two
//! versions hold back the same runs.

use std::fmt::Write as _;

use super::{Observation, Situation};

/// FNV-1a with a last mixing, so that neighbouring names do not get neighbouring numbers.
struct Fingerprint(u64);

impl Fingerprint {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// A field, apart from the next one.
    fn text(mut self, text: Option<&str>) -> Self {
        match text {
            Some(text) => {
                self.bytes(&[1]);
                self.bytes(text.as_bytes());
                self.bytes(&[0xff]);
            }
            None => self.bytes(&[0]),
        }
        self
    }

    fn number(mut self, number: Option<u64>) -> Self {
        self.bytes(&[u8::from(number.is_some())]);
        self.bytes(&number.unwrap_or_default().to_le_bytes());
        self
    }

    fn done(self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 33)
    }
}

/// One start of a run.
pub(super) fn start(observation: &Observation) -> u64 {
    let (element, attempt) = (
        u64::from(observation.element),
        u64::from(observation.attempt),
    );
    let run = Fingerprint::new().text(Some(observation.run_id.as_str()));
    run.number(Some(element)).number(Some(attempt)).done()
}

/// What is trained, whatever the sizes of steps.
pub(super) fn workload(situation: &Situation) -> u64 {
    let workload = &situation.workload;
    Fingerprint::new()
        .text(workload.model.as_deref())
        .text(workload.dataset.as_deref())
        .number(workload.samples)
        .number(workload.parameters)
        .done()
}

/// With what.
fn software(situation: &Situation) -> u64 {
    let framework = &situation.framework;
    Fingerprint::new()
        .text(framework.name.as_deref())
        .text(framework.version.as_deref())
        .text(framework.compiler.as_deref())
        .text(framework.provenance.map(crate::job::Provenance::as_str))
        .text(situation.image.as_deref())
        .done()
}

/// Everything but the software: runs that share it differ in what a plan may choose.
fn place(situation: &Situation) -> u64 {
    let hardware = &situation.hardware;
    let mut threads = String::new();
    if let Some(count) = hardware.threads {
        let _ = write!(threads, "{count:.0}");
    }
    Fingerprint::new()
        .number(Some(workload(situation)))
        .number(situation.workload.batch_size)
        .text(situation.workload.precision.as_deref())
        .text(hardware.cpu_model.as_deref())
        .text(Some(&threads))
        .text(hardware.gpu_model.as_deref())
        .number(Some(u64::from(hardware.gpus)))
        .number(Some(u64::from(situation.nodes.max(1))))
        .number(Some(u64::from(situation.tasks_per_node.max(1))))
        .text(situation.storage.map(crate::job::StorageClass::as_str))
        .done()
}

/// Runs that share it are repeats.
pub(super) fn configuration(situation: &Situation) -> u64 {
    Fingerprint::new()
        .number(Some(place(situation)))
        .number(Some(software(situation)))
        .done()
}
