//! What a submission must know of images, and what of `[image]` can be seen to be wrong before anything is queued.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::app::error::Error;
use crate::app::session::Session;
use crate::config::Settings;
use crate::foundation::diagnostic::{Problem, chain};
use crate::image::build::{is_vouched_for, pulled_path};
use crate::image::catalogue::look_at_files;
use crate::image::catalogue::{Catalogue, FileState, Place, fetched};
use crate::image::runtime::{HostView, inspect, runs_on, this_machine};
use crate::job::{Image, JobSpec};
use crate::plan::{ImageFacts, Plan};

/// Directories whose content is each node's own.
const NODE_LOCAL: [&str; 6] = [
    "/tmp",
    "/var/tmp",
    "/dev/shm",
    "/local",
    "/localscratch",
    "/scratch/local",
];

/// The directory of a script, links followed, where it lies outside of the working directory.
pub(crate) fn script_dir(script: Option<&Path>, workdir: &Path) -> Option<PathBuf> {
    let dir = script?.canonicalize().ok()?.parent()?.to_owned();
    let workdir = workdir.canonicalize().ok()?;
    (!dir.starts_with(workdir)).then_some(dir)
}

/// Gathers the facts; the catalogue is read only where a job may take something from it. `looks`: whether the images' files
/// are looked at.
pub(crate) fn facts(
    session: &Session,
    spec: &JobSpec,
    path: Option<&Path>,
    looks: bool,
) -> Result<ImageFacts, Error> {
    let image = &spec.image;
    if image.none {
        return Ok(ImageFacts::default());
    }
    if let Some(path) = path {
        // The file is named, so a fault of the catalogue must not stop the job; its description is of use.
        let catalogue = Session::quiet_catalogue().unwrap_or_default();
        let entries = catalogue
            .entries
            .into_iter()
            .filter(|entry| entry.place == Place::Path(path.to_owned()));
        return Ok(ImageFacts {
            entries: entries.collect(),
            ..ImageFacts::default()
        });
    }
    if let Some(uri) = &image.uri {
        let pulled = pulled(&session.settings, [&uri.value[..]].into_iter());
        return Ok(ImageFacts {
            pulled,
            ..ImageFacts::default()
        });
    }
    let Some(framework) = &spec.framework.name else {
        return Ok(ImageFacts::default());
    };
    let Catalogue { mut entries, .. } = session.catalogue()?;
    let frameworks: BTreeSet<String> = entries
        .iter()
        .map(|entry| entry.framework.clone())
        .collect();
    entries.retain(|entry| entry.framework == *framework);
    if looks {
        look_at_files(&mut entries);
    }
    let uris = entries.iter().filter_map(|entry| match &entry.place {
        Place::Uri(uri) => Some(&uri[..]),
        Place::Path(_) => None,
    });
    let pulled = pulled(&session.settings, uris);
    let here = this_machine(&HostView::of_this_machine());
    let frameworks = frameworks.into_iter().collect();
    Ok(ImageFacts {
        entries,
        frameworks,
        pulled,
        here,
        ..ImageFacts::default()
    })
}

/// The files of those URIs that were pulled by somebody who is trusted, by the URI that was fetched.
fn pulled<'a>(
    settings: &Settings,
    uris: impl Iterator<Item = &'a str>,
) -> BTreeMap<String, PathBuf> {
    let dirs = [settings.own_image_dir(), settings.image_dir()];
    let fetched = uris.filter_map(|uri| fetched(uri, settings.tables()).ok());
    let is_there = |path: &PathBuf| path.is_file() && is_vouched_for(path);
    let found = |uri: &str| dirs.iter().map(|dir| pulled_path(dir, uri)).find(is_there);
    fetched
        .filter_map(|fetched| Some((fetched.uri.clone(), found(&fetched.uri)?)))
        .collect()
}

/// Says whether the command may run in a container: then its programs are the container's.
pub(crate) fn may_contain(image: &Image, facts: &ImageFacts) -> bool {
    image.path.is_some()
        || image.uri.is_some()
        || !facts.entries.is_empty()
        || image.build == crate::job::BuildMode::Auto
}

/// Sources of binds that are not there. Those of the nodes' own directories are seen on the nodes only.
pub(crate) fn missing_sources(image: &Image, job_dir: &Path, settings: &Settings) -> Vec<Problem> {
    let storage = settings
        .tables()
        .storage
        .iter()
        .filter_map(|storage| storage.path.split_once('$'));
    let varying: Vec<&str> = storage
        .map(|(before, _)| before)
        .filter(|before| before.len() > 1)
        .collect();
    let is_nodes_own = |source: &Path| {
        NODE_LOCAL.iter().any(|dir| source.starts_with(dir))
            || varying
                .iter()
                .any(|before| source.starts_with(before.trim_end_matches('/')))
    };
    let mut problems = Vec::new();
    for bind in image.bind.iter().filter(|bind| !bind.value.has_variable()) {
        let source: PathBuf = job_dir.join(&bind.value.source);
        let is_missing = |error: &std::io::Error| {
            matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            )
        };
        // What is relative lies beside the job file, which is here.
        let may_be_elsewhere = bind.value.source.starts_with('/') && is_nodes_own(&source);
        if may_be_elsewhere || !source.metadata().as_ref().is_err_and(is_missing) {
            continue;
        }
        let message = format!("`image.bind`: {} does not exist", source.display());
        let hint = "if it exists on the compute nodes only, submit with `--no-check`";
        problems.push(Problem::at(bind.span.clone(), message).hinted(hint));
    }
    problems
}

/// What is wrong with the image file that the job names, as far as a look at it shows.
pub(crate) fn file_fault(
    image: &Image,
    path: Option<&Path>,
    plan: Option<&Plan>,
    settings: &Settings,
) -> Option<Problem> {
    let (path, named) = (path?, image.path.as_ref()?);
    let why = fault_of(path, plan, settings)?;
    let problem = Problem::at(named.span.clone(), format!("`image.path`: {why}"));
    Some(problem.hinted("`--no-check` submits without a look at it"))
}

/// Sets the plan's image of the catalogue aside where its file turns out to be unusable; then another may be chosen. Only the
/// chosen one is looked into: a catalogue may hold thousands.
pub(crate) fn set_aside(facts: &mut ImageFacts, plan: &Plan, settings: &Settings) -> bool {
    let chosen = plan.candidates.iter().find(|candidate| candidate.chosen);
    let Some(chosen) = chosen else { return false };
    let Some(entry) = facts
        .entries
        .iter_mut()
        .find(|entry| entry.name == chosen.name)
    else {
        return false;
    };
    let (Place::Path(path), FileState::There { .. }) = (&entry.place, &entry.file) else {
        return false;
    };
    let Some(why) = fault_of(path, Some(plan), settings) else {
        return false;
    };
    entry.file = FileState::Missing(why);
    true
}

/// What an image costs that no node has yet, or that the nodes may not see.
pub(crate) fn not_there_yet(plan: &Plan) -> Option<String> {
    let source = &plan.image.as_ref()?.source;
    if source.contains("://") {
        let pull = format!("`dlrun image pull {source}` fetches it once, beforehand");
        return Some(format!(
            "no node has the image yet: the job fetches and converts {source} as it starts; {pull}"
        ));
    }
    let is_local = plan.scheduler.is_local();
    let dir = NODE_LOCAL
        .iter()
        .find(|dir| !is_local && Path::new(source).starts_with(dir))?;
    Some(format!(
        "the image {source} is in {dir}, which is each machine's own: the nodes may not have it"
    ))
}

/// No image, or one for other processors than those of the plan's queue, or than any of the site.
fn fault_of(path: &Path, plan: Option<&Plan>, settings: &Settings) -> Option<String> {
    let file = match inspect(path) {
        Ok(file) => file,
        Err(error) => return Some(chain(&error).join(": ")),
    };
    let tables = settings.tables();
    let of_queues = || {
        tables
            .queues
            .iter()
            .filter_map(|queue| queue.arch.as_deref())
    };
    let of_site = tables.arch.iter().map(|(arch, _)| &arch[..]);
    let queue = plan.and_then(|plan| plan.resources.queue.as_deref());
    let of_plan = tables
        .queues
        .iter()
        .find(|table| Some(&table.name[..]) == queue);
    let archs: Vec<&str> = match of_plan.and_then(|table| table.arch.as_deref()) {
        _ if plan.is_some_and(|plan| plan.scheduler.is_local()) => Vec::new(),
        Some(arch) => vec![arch],
        None if queue.is_some() && tables.arch.is_some() => of_site.collect(),
        None => of_queues().chain(of_site).collect(),
    };
    if archs.is_empty() {
        return Some(format!("{}: {}", path.display(), file.arch_fault()?));
    }
    let arch = file.arch.as_deref()?;
    let runs = archs.iter().any(|machine| runs_on(arch, machine));
    (!runs).then(|| {
        format!(
            "{}: it is made for {arch}, and the nodes are {}",
            path.display(),
            archs.join(", ")
        )
    })
}
