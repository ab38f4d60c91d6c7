//! Which of the images that fit is better: the order, criterion by criterion.
//!
//! What the order of compilers and provenances goes by was measured on one cluster (arXiv 2008.11675, figures 4 and 5): XLA
//! made TensorFlow 2.1 quicker on a GPU (9 %) and slower on CPUs (30 %), nGraph made it quicker on CPUs; frameworks that were
//! compiled for the machine beat those of a hub on CPUs (4 to 17 %), and hardly on GPUs (2 %).

use std::cmp::{Ordering, Reverse};

use crate::config::Owner;
use crate::image::catalogue::{Accelerator, Entry, Place};
use crate::image::choice::judge::{is_older_than_gpus, may_switch_on};
use crate::image::choice::processor::Processor;
use crate::image::choice::wanted::{Device, Wanted, is_preview, release};
use crate::job::Provenance;

/// How an image stands in each criterion.
#[derive(Debug, Clone)]
pub(crate) struct Standing<'a> {
    score: Option<f64>,
    /// 0: made for the job's device; 1: for GPUs that a job for CPUs leaves alone, or that are the less likely ones.
    device: u8,
    /// Its CUDA came out before the GPUs.
    is_older_than_gpus: bool,
    /// It may switch a graph compiler on where the job wants none.
    may_compile: bool,
    is_checked: bool,
    /// `2.4.0rc1`: 2.3 goes before it.
    is_preview: bool,
    generation: (usize, usize),
    compiler: i8,
    provenance: u8,
    version: Vec<u64>,
    is_file: bool,
    is_users: bool,
    name: &'a str,
}

impl<'a> Standing<'a> {
    pub(crate) fn of(
        entry: &'a Entry,
        wanted: &Wanted,
        score: Option<f64>,
        come: (usize, usize),
    ) -> Self {
        let is_for_cpus = wanted.device == Device::Cpu;
        let release = release(&entry.version);
        Self {
            score: score.filter(|score| !score.is_nan()),
            device: match (&wanted.device, entry.accelerator) {
                (Device::Cpu, accelerator) => u8::from(accelerator != Accelerator::None),
                (
                    Device::Gpu {
                        maker: Accelerator::None,
                        ..
                    },
                    Accelerator::Amd,
                ) => 1,
                (Device::Gpu { .. }, _) => 0,
            },
            is_older_than_gpus: is_older_than_gpus(entry, &wanted.device),
            may_compile: wanted.compiler.as_deref() == Some("none") && may_switch_on(entry),
            is_checked: entry.check.is_some(),
            is_preview: is_preview(&entry.version),
            // Where the processor is not known, the least demanding image is the safe one.
            generation: match wanted.processor {
                Processor::Unknown => (usize::MAX - come.0, usize::MAX - come.1),
                _ => come,
            },
            compiler: merit(&entry.compilers, is_for_cpus),
            provenance: match entry.provenance {
                Some(Provenance::Source) => 3,
                Some(Provenance::Pip) => 2,
                Some(Provenance::Hub) => 1,
                None => 0,
            },
            version: release
                .split('.')
                .map(|part| part.parse().unwrap_or(0))
                .collect(),
            is_file: matches!(entry.place, Place::Path(_)),
            is_users: entry.owner == Owner::User,
            name: &entry.name,
        }
    }

    /// `Less`: this one is better. With it comes what decided.
    pub(crate) fn compare(&self, other: &Self) -> (Ordering, &'static str) {
        let score = match (self.score, other.score) {
            (Some(own), Some(other)) => other.total_cmp(&own),
            (own, other) => other.is_some().cmp(&own.is_some()),
        };
        let criteria = [
            (score, "the performance model puts it first"),
            (self.device.cmp(&other.device), "it suits the device better"),
            (
                self.is_older_than_gpus.cmp(&other.is_older_than_gpus),
                "its CUDA knows the GPUs",
            ),
            (
                self.may_compile.cmp(&other.may_compile),
                "it has no graph compiler",
            ),
            (other.is_checked.cmp(&self.is_checked), "it was checked"),
            (
                self.is_preview.cmp(&other.is_preview),
                "its version is a release",
            ),
            // 2.10 against 2.9: what a newer line brings is more than how an older one was built.
            (
                versions(line(&other.version), line(&self.version)),
                "its version is newer",
            ),
            (
                other.generation.cmp(&self.generation),
                "its microarchitecture suits the nodes better",
            ),
            (
                other.compiler.cmp(&self.compiler),
                "its graph compilers suit the device better",
            ),
            (
                other.provenance.cmp(&self.provenance),
                "its provenance is preferred",
            ),
            (
                versions(&other.version, &self.version),
                "its version is newer",
            ),
            (
                Reverse(self.is_file).cmp(&Reverse(other.is_file)),
                "it is a file, and need not be fetched",
            ),
            (
                Reverse(self.is_users).cmp(&Reverse(other.is_users)),
                "it is the user's own",
            ),
            (self.name.cmp(other.name), "its name comes first"),
        ];
        let decided = criteria.into_iter().find(|(order, _)| order.is_ne());
        decided.unwrap_or((Ordering::Equal, "nothing tells them apart"))
    }

    /// What speaks for the image, in the order of the criteria.
    pub(crate) fn reasons(&self, entry: &Entry, wanted: &Wanted) -> Vec<String> {
        let mut reasons = Vec::new();
        reasons.push(match &wanted.version {
            Some(range) => format!("{} {} is in {range}", entry.framework, entry.version),
            None => format!("{} {}", entry.framework, entry.version),
        });
        reasons.push(match (&wanted.device, entry.accelerator) {
            (Device::Cpu, Accelerator::None) => "made for CPUs".to_owned(),
            (Device::Cpu, _) => {
                "made for GPUs, but nothing better fits this job for CPUs".to_owned()
            }
            (Device::Gpu { .. }, accelerator) => {
                format!("made for GPUs of {}", accelerator.as_str())
            }
        });
        reasons.push(match &entry.check {
            Some(check) => format!("checked on {}", check.host),
            None => "never checked".to_owned(),
        });
        reasons.extend(
            entry
                .microarch
                .as_ref()
                .map(|built| format!("built for {built}")),
        );
        if !entry.compilers.is_empty() {
            reasons.push(format!("has {}", entry.compilers.join(" and ")));
        }
        let provenance = entry
            .provenance
            .map(|provenance| format!("provenance {}", provenance.as_str()));
        reasons.extend(provenance);
        reasons
    }
}

/// What the graph compilers of an image are worth on a device. Of others than XLA and nGraph nothing is measured.
fn merit(compilers: &[String], is_for_cpus: bool) -> i8 {
    let has = |name: &str| i8::from(compilers.iter().any(|compiler| compiler == name));
    if is_for_cpus {
        has("ngraph") - has("xla")
    } else {
        has("xla")
    }
}

/// The first two numbers of a version: releases of one line are made to be exchanged.
fn line(version: &[u64]) -> &[u64] {
    &version[..version.len().min(2)]
}

/// 2.1 and 2.1.0 are the same.
fn versions(left: &[u64], right: &[u64]) -> Ordering {
    let at = |numbers: &[u64], place: usize| numbers.get(place).copied().unwrap_or(0);
    let mut places = 0..left.len().max(right.len());
    let order = |place| at(left, place).cmp(&at(right, place));
    places
        .find_map(|place| Some(order(place)).filter(|order| order.is_ne()))
        .unwrap_or(Ordering::Equal)
}
