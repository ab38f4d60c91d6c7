//! What an image must be for a job: hard constraints. An image that fails one of them never wins.

use crate::config::VersionRange;
use crate::image::catalogue::{Accelerator, Entry, FileState};
use crate::image::choice::cuda::{self, Serves};
use crate::image::choice::processor::{Runs, family, runs};
use crate::image::choice::wanted::{Device, Wanted, release};
use crate::job::Provenance;

/// Why an image cannot be taken, and what remains unknown of one that can.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) rejected: Vec<String>,
    pub(crate) unknown: Vec<String>,
}

impl Verdict {
    fn reject(&mut self, why: impl Into<String>) {
        self.rejected.push(why.into());
    }

    fn leave_open(&mut self, what: impl Into<String>) {
        self.unknown.push(what.into());
    }
}

pub(crate) fn verdict(entry: &Entry, wanted: &Wanted) -> Verdict {
    let mut verdict = Verdict::default();
    if entry.framework != wanted.framework {
        verdict.reject(format!(
            "it has {}, not {}",
            entry.framework, wanted.framework
        ));
        return verdict;
    }
    let (version, compiler) = (wanted.version.as_ref(), wanted.compiler.as_deref());
    let rejections = [
        version.and_then(|range| outside(entry, range)),
        wanted
            .provenance
            .and_then(|provenance| other_provenance(entry.provenance, provenance)),
        compiler.and_then(|compiler| lacks_compiler(entry, compiler)),
        lacks_packages(entry, &wanted.packages),
        wrong_device(entry.accelerator, &wanted.device),
        unusable(entry),
    ];
    verdict.rejected.extend(rejections.into_iter().flatten());
    processor(entry, wanted, &mut verdict);
    driver(entry, &wanted.device, &mut verdict);
    capabilities(entry, &wanted.device, &mut verdict);
    if compiler == Some("none") && may_switch_on(entry) {
        let compilers = entry.compilers.join(" and ");
        verdict.leave_open(format!("whether it switches {compilers} on by itself"));
    }
    verdict
}

fn processor(entry: &Entry, wanted: &Wanted, verdict: &mut Verdict) {
    match &wanted.arch {
        Some((arch, says)) if *arch != entry.arch => {
            return verdict.reject(format!(
                "it is for {}, and the nodes are {arch} ({says})",
                entry.arch
            ));
        }
        Some(_) => {}
        None => verdict.leave_open(format!("whether the nodes are {}", entry.arch)),
    }
    let Some(built) = entry.microarch.as_deref() else {
        return;
    };
    if let Some(family) = family(built).filter(|family| *family != entry.arch) {
        return verdict.reject(format!(
            "`microarch` {built} is of {family}, and `arch` is {}",
            entry.arch
        ));
    }
    match runs(built, &wanted.processor) {
        Runs::Yes => {}
        Runs::No(why) => verdict.reject(why),
        Runs::Unknown(why) => verdict.leave_open(why),
    }
}

fn outside(entry: &Entry, range: &VersionRange) -> Option<String> {
    let version = &entry.version;
    let (numbers, suffix) = crate::config::release(version);
    let parsed = VersionRange::parse(&format!("{numbers}{}", suffix.unwrap_or_default()));
    if !parsed.is_ok_and(|parsed| range.holds(&parsed)) {
        return Some(format!("version {version} is not in {range}"));
    }
    let local = range.local()?;
    let is_build = match version.split_once('+') {
        Some((_, own)) => own.eq_ignore_ascii_case(local),
        None => build_of(entry) == local,
    };
    (!is_build).then(|| format!("version {version} is not known to be the build +{local}"))
}

/// What PyTorch would call the build of an image whose version names none: `cpu`, `cu118` or `rocm6.1`.
fn build_of(entry: &Entry) -> String {
    let short = |version: &Option<String>| {
        let numbers = release(version.as_deref().unwrap_or_default()).split('.');
        numbers.take(2).collect::<Vec<_>>().join(".")
    };
    match entry.accelerator {
        Accelerator::None => "cpu".to_owned(),
        Accelerator::Nvidia => format!("cu{}", short(&entry.cuda).replace('.', "")),
        Accelerator::Amd => format!("rocm{}", short(&entry.rocm)),
    }
}

/// A package's name in one spelling, without version and extras: of `Scikit_Learn[x]>=1.5` it is `scikit-learn`.
fn package_name(requirement: &str) -> String {
    let end = requirement.find(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c)));
    let name = requirement[..end.unwrap_or(requirement.len())].to_lowercase();
    name.split(['.', '_', '-'])
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("-")
}

fn lacks_packages(entry: &Entry, wanted: &[String]) -> Option<String> {
    let found = entry.check.iter().flat_map(|check| check.versions.keys());
    let has: Vec<String> = entry
        .packages
        .iter()
        .chain(found)
        .map(|name| package_name(name))
        .collect();
    let missing: Vec<&str> = wanted
        .iter()
        .filter(|name| !has.contains(&package_name(name)))
        .map(String::as_str)
        .collect();
    (!missing.is_empty()).then(|| format!("it is not said to have {}", missing.join(", ")))
}

/// Whether an image may compile what its program did not ask to be compiled. PyTorch's compiler is asked for by the program,
/// and JAX has no other way.
pub(crate) fn may_switch_on(entry: &Entry) -> bool {
    !entry.compilers.is_empty() && !["pytorch", "jax"].contains(&entry.framework.as_str())
}

/// Images of dlrun's recipes switch on what they were built with. A recipe is `NAME HASH`; a URI or the path of a definition
/// file is none.
fn switches_on(entry: &Entry) -> bool {
    may_switch_on(entry)
        && entry
            .recipe
            .as_ref()
            .is_some_and(|recipe| !recipe.contains(['/', ':']))
}

fn other_provenance(found: Option<Provenance>, wanted: Provenance) -> Option<String> {
    let found_word = found.map_or("not said", Provenance::as_str);
    (found != Some(wanted)).then(|| {
        format!(
            "its provenance is {found_word}, and {} is wanted",
            wanted.as_str()
        )
    })
}

fn lacks_compiler(entry: &Entry, wanted: &str) -> Option<String> {
    if wanted == "none" {
        let compilers = entry.compilers.join(" and ");
        return switches_on(entry)
            .then(|| format!("it switches {compilers} on, and none is wanted"));
    }
    if entry.compilers.iter().any(|compiler| compiler == wanted) {
        return None;
    }
    Some(match entry.compilers.is_empty() {
        true => format!("it has no graph compiler, and {wanted} is wanted"),
        false => format!(
            "it compiles with {}, and {wanted} is wanted",
            entry.compilers.join(" and ")
        ),
    })
}

/// A job for CPUs may take an image for GPUs: frameworks fall back.
fn wrong_device(found: Accelerator, device: &Device) -> Option<String> {
    let Device::Gpu { maker, .. } = device else {
        return None;
    };
    match (found, maker) {
        (Accelerator::None, _) => {
            Some("it computes on CPUs alone, and the job asks for GPUs".to_owned())
        }
        (_, Accelerator::None) => None,
        (found, maker) if found != *maker => Some(format!(
            "it is for GPUs of {}, and the job's are of {}",
            found.as_str(),
            maker.as_str()
        )),
        _ => None,
    }
}

fn driver(entry: &Entry, device: &Device, verdict: &mut Verdict) {
    let (Device::Gpu { driver, .. }, Accelerator::Nvidia) = (device, entry.accelerator) else {
        return;
    };
    let Some(cuda) = entry.cuda.as_deref() else {
        verdict.leave_open("its CUDA version is not said".to_owned());
        return;
    };
    let Some((driver, says)) = driver else {
        let least = cuda::least_driver(release(cuda)).map(|least| format!(" (at least {least})"));
        let least = least.unwrap_or_default();
        verdict.leave_open(format!(
            "whether the nodes' driver serves CUDA {cuda}{least}"
        ));
        return;
    };
    match cuda::serves(driver, release(cuda)) {
        Some(true) => {}
        Some(false) => {
            let least = cuda::least_driver(release(cuda)).unwrap_or_default();
            verdict.reject(format!(
                "CUDA {cuda} needs driver {least}, and the nodes have {driver} ({says})"
            ));
        }
        None => verdict.leave_open(format!("whether driver {driver} serves CUDA {cuda}")),
    }
}

/// Whether the image's code runs on the GPUs that may be meant.
fn capabilities(entry: &Entry, device: &Device, verdict: &mut Verdict) {
    let (Device::Gpu { capabilities, .. }, Accelerator::Nvidia) = (device, entry.accelerator)
    else {
        return;
    };
    for (capability, says) in capabilities {
        let gpus = format!("GPUs of compute capability {capability} ({says})");
        if let Some(range) = &entry.compute_capability {
            let serves =
                VersionRange::parse(capability).is_ok_and(|capability| range.holds(&capability));
            if !serves {
                verdict.reject(format!(
                    "its code is for compute capability {range}, not for {gpus}"
                ));
            }
            continue;
        }
        let Some(cuda) = entry.cuda.as_deref() else {
            continue;
        };
        match cuda::makes_for(release(cuda), capability) {
            Some(Serves::Yes) => {}
            Some(Serves::Dropped(least)) => {
                verdict.reject(format!(
                    "CUDA {cuda} needs compute capability {least}, not {gpus}"
                ));
            }
            Some(Serves::TooOld(first)) => {
                verdict.leave_open(format!(
                    "whether it runs on {gpus}: CUDA {first} is the first that knows them"
                ));
            }
            None => verdict.leave_open(format!("whether CUDA {cuda} serves {gpus}")),
        }
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
