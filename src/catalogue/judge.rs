//! What an image must be for a job: hard constraints. An image that fails one of them never wins.

use std::collections::HashMap;

use super::cuda;
use super::entry::{Accelerator, Entry, FileState};
use super::processor::{Runs, generation, runs};
use super::wanted::{Device, Wanted, release};
use crate::config::VersionRange;
use crate::job::Provenance;

/// Why an image cannot be taken, and what remains unknown of one that can.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) rejected: Vec<String>,
    pub(super) unknown: Vec<String>,
}

/// Judges images for one job; thousands of them share a few microarchitectures, versions and kinds of CUDA.
pub(super) struct Judge<'a> {
    wanted: &'a Wanted,
    processors: HashMap<&'a str, Runs>,
    generations: HashMap<Option<&'a str>, (usize, usize)>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(wanted: &'a Wanted) -> Self {
        Self { wanted, processors: HashMap::new(), generations: HashMap::new() }
    }

    pub(super) fn verdict(&mut self, entry: &'a Entry) -> Verdict {
        let mut verdict = Verdict::default();
        let wanted = self.wanted;
        if entry.framework != wanted.framework {
            verdict.rejected.push(format!("it has {}, not {}", entry.framework, wanted.framework));
            return verdict;
        }
        let rejections = [
            wanted.version.as_ref().and_then(|range| outside(&entry.version, range)),
            wanted.provenance.and_then(|provenance| other_provenance(entry.provenance, provenance)),
            wanted.compiler.as_deref().and_then(|compiler| lacks_compiler(entry, compiler)),
            wrong_device(entry.accelerator, &wanted.device),
            unusable(entry),
        ];
        verdict.rejected.extend(rejections.into_iter().flatten());
        self.processor(entry, &mut verdict);
        driver(entry, &wanted.device, &mut verdict);
        verdict
    }

    /// How far the processor has come that an image is built for.
    pub(super) fn generation(&mut self, entry: &'a Entry) -> (usize, usize) {
        let built = entry.microarch.as_deref();
        *self.generations.entry(built).or_insert_with(|| generation(built))
    }

    fn processor(&mut self, entry: &'a Entry, verdict: &mut Verdict) {
        match &self.wanted.arch {
            Some((arch, says)) if *arch != entry.arch => {
                verdict.rejected.push(format!("it is for {}, and the nodes are {arch} ({says})", entry.arch));
                return;
            }
            Some(_) => {}
            None => verdict.unknown.push(format!("whether the nodes are {}", entry.arch)),
        }
        let Some(built) = entry.microarch.as_deref() else { return };
        let wanted = self.wanted;
        match self.processors.entry(built).or_insert_with(|| runs(built, &wanted.processor)) {
            Runs::Yes => {}
            Runs::No(why) => verdict.rejected.push(why.clone()),
            Runs::Unknown(why) => verdict.unknown.push(why.clone()),
        }
    }
}

fn outside(version: &str, range: &VersionRange) -> Option<String> {
    match VersionRange::parse(release(version)) {
        Ok(version) if range.holds(&version) => None,
        _ => Some(format!("version {version} is not in {range}")),
    }
}

fn other_provenance(found: Option<Provenance>, wanted: Provenance) -> Option<String> {
    let found_word = found.map_or("not said", Provenance::as_str);
    (found != Some(wanted))
        .then(|| format!("its provenance is {found_word}, and {} is wanted", wanted.as_str()))
}

fn lacks_compiler(entry: &Entry, wanted: &str) -> Option<String> {
    if wanted == "none" || entry.compilers.iter().any(|compiler| compiler == wanted) {
        return None;
    }
    Some(match entry.compilers.is_empty() {
        true => format!("it has no graph compiler, and {wanted} is wanted"),
        false => format!("it compiles with {}, and {wanted} is wanted", entry.compilers.join(" and ")),
    })
}

/// A job for CPUs may take an image for GPUs: frameworks fall back.
fn wrong_device(found: Accelerator, device: &Device) -> Option<String> {
    let Device::Gpu { maker, .. } = device else { return None };
    match (found, maker) {
        (Accelerator::None, _) => Some("it computes on CPUs alone, and the job asks for GPUs".to_owned()),
        (_, Accelerator::None) => None,
        (found, maker) if found != *maker => {
            Some(format!("it is for GPUs of {}, and the job's are of {}", found.as_str(), maker.as_str()))
        }
        _ => None,
    }
}

fn driver(entry: &Entry, device: &Device, verdict: &mut Verdict) {
    let (Device::Gpu { driver, .. }, Accelerator::Nvidia) = (device, entry.accelerator) else { return };
    let Some(cuda) = entry.cuda.as_deref() else {
        verdict.unknown.push("its CUDA version is not said".to_owned());
        return;
    };
    let Some((driver, says)) = driver else {
        let least = cuda::least_driver(release(cuda)).map(|least| format!(" (at least {least})"));
        let least = least.unwrap_or_default();
        verdict.unknown.push(format!("whether the nodes' driver serves CUDA {cuda}{least}"));
        return;
    };
    match cuda::serves(driver, release(cuda)) {
        Some(true) => {}
        Some(false) => {
            let least = cuda::least_driver(release(cuda)).unwrap_or_default();
            verdict
                .rejected
                .push(format!("CUDA {cuda} needs driver {least}, and the nodes have {driver} ({says})"));
        }
        None => verdict.unknown.push(format!("whether driver {driver} serves CUDA {cuda}")),
    }
}

/// What is wrong with the image itself, whatever the job wants.
fn unusable(entry: &Entry) -> Option<String> {
    if let FileState::Missing(why) = &entry.file {
        return Some(why.clone());
    }
    let check = entry.check.as_ref()?;
    if entry.changed_since_check() == Some(true) {
        return Some(format!(
            "its file has changed since it was checked; `dlrun image check {}` looks again",
            entry.name
        ));
    }
    let first = check.problems.first()?;
    let more = match check.problems.len() {
        1 => String::new(),
        many => format!(" (and {} more)", many - 1),
    };
    Some(format!("its check on {} failed: {first}{more}", check.host))
}
