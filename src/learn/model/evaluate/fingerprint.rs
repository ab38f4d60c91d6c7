//! Runs, workloads and configurations as numbers, which are the same on every machine and in every version: evaluations of two
//! versions hold back the same runs.

use std::fmt::Write as _;

use crate::learn::model::{Observation, Situation};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_kept_apart_and_numbers_do_not_change_with_versions() {
        let with = |model: Option<&str>, dataset: Option<&str>| {
            let mut situation = Situation::default();
            situation.workload.model = model.map(str::to_owned);
            situation.workload.dataset = dataset.map(str::to_owned);
            situation
        };
        assert_ne!(
            workload(&with(Some("ab"), Some("c"))),
            workload(&with(Some("a"), Some("bc")))
        );
        assert_ne!(
            workload(&with(Some(""), None)),
            workload(&with(None, Some("")))
        );
        // Folds of two versions of dlrun must be the same, or their evaluations could not be compared.
        assert_eq!(
            workload(&with(Some("resnet50"), None)),
            3_975_342_714_084_884_304
        );
    }

    #[test]
    fn a_repeat_shares_everything_and_another_compiler_only_the_place() {
        let first = Situation {
            nodes: 1,
            ..Situation::default()
        };
        let mut other = Situation {
            nodes: 0,
            ..Situation::default()
        };
        assert_eq!(configuration(&first), configuration(&other));
        other.framework.compiler = Some("xla".to_owned());
        assert_eq!(place(&first), place(&other));
        assert_ne!(configuration(&first), configuration(&other));
    }
}
