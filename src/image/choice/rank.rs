//! Which of the images that fit is better: the order, criterion by criterion.
//!
//! What the order of compilers and provenances goes by was measured on one cluster (arXiv 2008.11675, figures 4 and 5): XLA
//! made TensorFlow 2.1 quicker on a GPU (9 %) and slower on CPUs (30 %), nGraph made it quicker on CPUs; frameworks that were
//! compiled for the machine beat those of a hub on CPUs (4 to 17 %), and hardly on GPUs (2 %).

use std::cmp::Ordering;

use crate::config::Owner;
use crate::image::catalogue::{Accelerator, Entry, Place};
use crate::image::choice::judge::may_switch_on;
use crate::image::choice::processor::Processor;
use crate::image::choice::wanted::{Device, Wanted, is_preview, release};
use crate::job::Provenance;

/// Numbers of a version that count.
const NUMBERS: usize = 8;

/// How an image stands in a criterion: the least is the best.
type Rank = [i64; NUMBERS];

/// How an image stands in each criterion, with what speaks for the better one.
#[derive(Debug, Clone)]
pub(crate) struct Standing<'a> {
    ranks: [(Rank, &'static str); 11],
    name: &'a str,
}

impl<'a> Standing<'a> {
    pub(crate) fn new(entry: &'a Entry, wanted: &Wanted, generation: (usize, usize)) -> Self {
        let is_for_cpus = wanted.device == Device::Cpu;
        let is_for_other_device = match (&wanted.device, entry.accelerator) {
            // GPUs that a job for CPUs leaves alone, or that are the less likely ones.
            (Device::Cpu, accelerator) => accelerator != Accelerator::None,
            (Device::Gpu { maker, .. }, Accelerator::Amd) => *maker == Accelerator::None,
            (Device::Gpu { .. }, _) => false,
        };
        let may_compile = wanted.compiler.as_deref() == Some("none") && may_switch_on(entry);
        let [features, ancestors] =
            [generation.0, generation.1].map(|count| i64::try_from(count).unwrap_or(i64::MAX));
        let provenance = match entry.provenance {
            Some(Provenance::Source) => -3,
            Some(Provenance::Pip) => -2,
            Some(Provenance::Hub) => -1,
            None => 0,
        };
        let version = newest_first(release(&entry.version));
        let is = |worse: bool| rank([i64::from(worse), 0]);
        let ranks = [
            (is(is_for_other_device), "it suits the device better"),
            (is(may_compile), "it has no graph compiler"),
            (is(entry.check.is_none()), "it was checked"),
            // `2.4.0rc1`: 2.3 goes before it.
            (is(is_preview(&entry.version)), "its version is a release"),
            // 2.10 against 2.9: what a newer line brings is more than how an older one was built.
            (rank([version[0], version[1]]), "its version is newer"),
            (
                // Where the processor is not known, the least demanding image is the safe one.
                rank(match wanted.processor {
                    Processor::Unknown => [features, ancestors],
                    _ => [-features, -ancestors],
                }),
                "its microarchitecture suits the nodes better",
            ),
            (
                rank([-merit(&entry.compilers, is_for_cpus), 0]),
                "its graph compilers suit the device better",
            ),
            (rank([provenance, 0]), "its provenance is preferred"),
            (version, "its version is newer"),
            (
                is(!matches!(entry.place, Place::Path(_))),
                "it is a file, and need not be fetched",
            ),
            (is(entry.owner != Owner::User), "it is the user's own"),
        ];
        Self {
            ranks,
            name: &entry.name,
        }
    }

    /// `Less`: this one is better. With it comes what decided.
    pub(crate) fn compare(&self, other: &Self) -> (Ordering, &'static str) {
        let mut pairs = self.ranks.iter().zip(&other.ranks);
        match pairs.find(|((own, _), (other, _))| own != other) {
            Some(((own, reason), (other, _))) => (own.cmp(other), *reason),
            None => match self.name.cmp(other.name) {
                Ordering::Equal => (Ordering::Equal, "nothing tells them apart"),
                order => (order, "its name comes first"),
            },
        }
    }
}

fn rank([first, second]: [i64; 2]) -> Rank {
    let mut rank = [0; NUMBERS];
    (rank[0], rank[1]) = (first, second);
    rank
}

/// 2.1 and 2.1.0 are the same.
fn newest_first(release: &str) -> Rank {
    let mut numbers = release
        .split('.')
        .map(|part| part.parse::<u32>().map_or(0, i64::from));
    std::array::from_fn(|_| -numbers.next().unwrap_or(0))
}

/// What speaks for the image, in the order of the criteria.
pub(crate) fn reasons(entry: &Entry, wanted: &Wanted) -> Vec<String> {
    let mut reasons = Vec::new();
    reasons.push(match &wanted.version {
        Some(range) => format!("{} {} is in {range}", entry.framework, entry.version),
        None => format!("{} {}", entry.framework, entry.version),
    });
    reasons.push(match (&wanted.device, entry.accelerator) {
        (Device::Cpu, Accelerator::None) => "made for CPUs".to_owned(),
        (Device::Cpu, _) => "made for GPUs, but nothing better fits this job for CPUs".to_owned(),
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

/// What the graph compilers of an image are worth on a device. Of others than XLA and nGraph nothing is measured.
fn merit(compilers: &[String], is_for_cpus: bool) -> i64 {
    let has = |name: &str| i64::from(compilers.iter().any(|compiler| compiler == name));
    if is_for_cpus {
        has("ngraph") - has("xla")
    } else {
        has("xla")
    }
}
