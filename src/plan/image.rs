//! The image: the one that the job file names, else the catalogue's best.

use std::path::Path;

use super::candidates::{Fitting, Prospect};
use super::decisions::{Resolver, text};
use super::{ImageCandidate, NoImage};
use crate::config::{GpuTable, Origin, QueueTable, VersionRange};
use crate::foundation::diagnostic::Problem;
use crate::image::catalogue::{Accelerator, Entry, Place, fetched};
use crate::image::choice::choose;
use crate::image::choice::{Candidate, Choice, Device, Processor, Wanted, capability_of, meant};
use crate::image::flags::{self, Container};
use crate::image::runtime;
use crate::job::{Bind, BuildMode, Fakeroot, GpuMode, Located, is_share, kind_and_count};

/// More images are not named in a decision: it travels in the script.
const MAX_NAMED: usize = 20;

/// What to do where a job file names both.
pub(super) const OWN_OR_IMAGE: &str = "take out `[python]` or `[image]`";

impl<'a> Resolver<'a> {
    /// The container; `Err` with why there is none.
    pub(super) fn image(&mut self, prospect: &Prospect) -> Result<Container, String> {
        let image = &self.spec.image;
        if image.none {
            return Err("the job file says `[image] none = true`".to_owned());
        }
        if image.path.is_some() || image.uri.is_some() {
            return self.named_image().ok_or_else(String::new);
        }
        let known_problems = self.problems.len();
        self.unclear_framework();
        let is_clear = self.problems.len() == known_problems;
        let found = match &prospect.fitting {
            Some(Ok(fitting)) => self.best_of_catalogue(fitting, prospect),
            Some(Err(why)) => Err(why.clone()),
            None => Err("the job names no image".to_owned()),
        };
        if let Err(why) = &found
            && is_clear
        {
            self.missing_image(why);
        }
        found
    }

    fn named_image(&mut self) -> Option<Container> {
        let place = self.named_place()?;
        let found = self.source_of(&place).map_err(|unknown| {
            self.problems.push(Problem {
                span: self.spec.image.uri.as_ref().map(|uri| uri.span.clone()),
                message: format!("`image.uri`: {}", unknown.message),
                ..unknown
            });
        });
        let (source, replaced) = found.ok()?;
        let described = self.described();
        let mut whys = vec!["the job file names the image".to_owned()];
        whys.extend(replaced);
        whys.extend(described.map(|entry| {
            let Entry { name, origin, .. } = entry;
            format!("the catalogue describes it as `{name}` ({origin})")
        }));
        self.decide(
            "environment",
            format!("container {source}"),
            whys.join("; "),
        );
        if self.facts.python.is_some() {
            self.reject("python environment", "the job file names an image");
        }
        Some(self.container(source, described))
    }

    /// The image that the job file names.
    pub(super) fn named_place(&self) -> Option<Place> {
        let uri = || Some(Place::Uri(self.spec.image.uri.as_ref()?.value.clone()));
        self.facts.image.clone().map(Place::Path).or_else(uri)
    }

    /// What is entered or fetched for an image: its file; of a URI the file that was pulled of it, else the URI as the site
    /// has it. With it, what was replaced.
    fn source_of(&self, place: &Place) -> Result<(String, Vec<String>), Problem> {
        let uri = match place {
            Place::Path(path) => return Ok((text(path), Vec::new())),
            Place::Uri(uri) => uri,
        };
        let found = fetched(uri, self.settings.tables())?;
        let mut reasons = found.reasons;
        Ok(match self.facts.images.pulled.get(&found.uri) {
            Some(pulled) => {
                reasons.push(format!("{} was pulled", found.uri));
                (text(pulled), reasons)
            }
            None => (found.uri, reasons),
        })
    }

    /// The images of the catalogue, compared with the job, in the order of the rules; `None`: the job takes none of them.
    pub(super) fn fitting(&self) -> Option<Result<Fitting, String>> {
        let image = &self.spec.image;
        if image.none || image.path.is_some() || image.uri.is_some() {
            return None;
        }
        let framework = self.spec.framework.name.clone()?;
        let entries = &self.facts.images.entries;
        if entries.is_empty() && image.build != BuildMode::Auto {
            return Some(Err(format!(
                "the job names no image, and the catalogue knows none of {framework}"
            )));
        }
        Some(self.wanted(framework).map(|wanted| {
            let choice = choose(entries, &wanted);
            Fitting { wanted, choice }
        }))
    }

    /// What keeps the catalogue's images from the job although it asks for them is an error, unless something else may give
    /// the software: the host would run something else.
    fn unclear_framework(&mut self) {
        let asked = &self.spec.framework;
        let is_known =
            !self.facts.images.entries.is_empty() || self.spec.image.build == BuildMode::Auto;
        let has_other = self.facts.python.is_some() || !self.spec.run.modules.is_empty();
        let is_error = self.key_of_containers().is_some() || !has_other;
        let mut tell = |message: String, hint: &str| {
            let hint = format!("{hint}; `[image] none = true` runs it without an image");
            match is_error {
                true => self.problems.push(Problem::of_file(message).hinted(hint)),
                false => self
                    .plan
                    .warnings
                    .push(format!("{message}: no image is chosen; {hint}")),
            }
        };
        if let Some(Err(why)) = asked.version.as_deref().map(VersionRange::parse)
            && is_known
        {
            tell(
                format!("`framework.version`: {why}"),
                "leave it out for the newest that fits",
            );
        }
        let Some(name) = asked
            .name
            .as_deref()
            .filter(|_| self.facts.images.entries.is_empty())
        else {
            return;
        };
        if let Some(meant) = meant(
            name,
            self.facts.images.frameworks.iter().map(String::as_str),
        ) {
            let message = format!(
                "`framework.name`: the catalogue has no image of {name:?}, but it has of {meant:?}"
            );
            tell(message, &format!("write `name = {meant:?}`"));
        }
    }

    /// The description of the image that the job file names.
    pub(super) fn described(&self) -> Option<&'a Entry> {
        let place = self.named_place()?;
        let mut entries = self.facts.images.entries.iter();
        entries.find(|entry| entry.place == place)
    }

    /// What an image is known by in records: its digest, else where it comes from; of an unknown scheme the URI itself.
    pub(super) fn identity(&self, place: &Place, described: Option<&Entry>) -> String {
        described.and_then(digest_of).unwrap_or_else(|| {
            let source = self.source_of(place);
            source.map_or_else(|_| place.to_string(), |(source, _)| source)
        })
    }

    fn best_of_catalogue(
        &mut self,
        fitting: &Fitting,
        prospect: &Prospect,
    ) -> Result<Container, String> {
        let facts = self.facts;
        let Fitting { wanted, choice } = fitting;
        self.plan.candidates = candidates(&facts.images.entries, choice);
        let winner = choice.winner.map(|winner| &facts.images.entries[winner]);
        let Some(entry) = winner else {
            let why = match choice.candidates.len() {
                0 => format!("the catalogue has no image of {}", wanted.framework),
                _ => format!("no image of {} in the catalogue fits", wanted.framework),
            };
            if self.spec.image.build == BuildMode::Auto {
                return self.image_to_build(NoImage {
                    wanted: wanted.clone(),
                    why,
                });
            }
            return Err(why);
        };
        let (source, replaced) = self
            .source_of(&entry.place)
            .map_err(|unknown| format!("image `{}`: {}", entry.name, unknown.message))?;
        let first = &choice.candidates[0];
        let fits = choice
            .candidates
            .iter()
            .filter(|candidate| candidate.rejected.is_empty())
            .count();
        let by = match prospect.reason(|other| other.image.as_ref() != Some(&entry.name)) {
            Some(reason) => Some(format!("by the performance model: {reason}")),
            None => (fits > 1).then(|| format!("by rules, for {}", prospect.without_model())),
        };
        let mut whys = vec![format!(
            "`{}` of the catalogue ({})",
            entry.name, entry.origin
        )];
        whys.extend(by);
        whys.extend(first.reasons.iter().chain(&replaced).cloned());
        self.decide(
            "environment",
            format!("container {source}"),
            whys.join("; "),
        );
        self.reject_candidates();
        if facts.python.is_some() {
            self.reject("python environment", "an image of the catalogue fits");
        }
        self.plan.notes.extend(
            first
                .unknown
                .iter()
                .map(|unknown| format!("image `{}`: not known: {unknown}", entry.name)),
        );
        Ok(self.container(source, Some(entry)))
    }

    /// The place of the image that is built, where the caller has found one; else the caller gets what to build.
    fn image_to_build(&mut self, no_image: NoImage) -> Result<Container, String> {
        let Some((name, path)) = &self.facts.images.built else {
            let why = no_image.why.clone();
            self.plan.no_image = Some(no_image);
            return Err(why);
        };
        let why = format!(
            "`image.build` is `auto`, and {}: `{name}` is built before the run",
            no_image.why
        );
        self.decide("environment", format!("container {}", path.display()), why);
        self.reject_candidates();
        let mut container = self.container(text(path), None);
        container.name = Some(name.clone());
        self.plan.no_image = Some(no_image);
        Ok(container)
    }

    /// Names the images beside the chosen one, behind the decision.
    pub(super) fn reject_candidates(&mut self) {
        let candidates = std::mem::take(&mut self.plan.candidates);
        let others: Vec<&ImageCandidate> = candidates
            .iter()
            .filter(|candidate| !candidate.chosen)
            .collect();
        for candidate in others.iter().take(MAX_NAMED) {
            let why = match &candidate.beaten {
                Some(beaten) => format!("it fits, but {beaten}"),
                None => candidate.rejected.join("; "),
            };
            self.reject(&format!("image {}", candidate.name), why);
        }
        if let Some(more) = others.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
            self.reject(
                &format!("{more} more images"),
                "`dlrun plan --json` lists them",
            );
        }
        self.plan.candidates = candidates;
    }

    /// A key of the job file that only a container has a use for.
    fn key_of_containers(&self) -> Option<&'static str> {
        let image = &self.spec.image;
        let asks = [
            (!image.bind.is_empty(), "bind"),
            (image.gpu != GpuMode::Auto, "gpu"),
            (image.require_gpu, "require_gpu"),
            (image.fakeroot != Fakeroot::Auto, "fakeroot"),
            (image.cleanenv, "cleanenv"),
            (!image.options.is_empty(), "options"),
            (
                image.build == BuildMode::Auto && self.plan.no_image.is_none(),
                "build",
            ),
        ];
        asks.into_iter().find(|(asks, _)| *asks).map(|(_, key)| key)
    }

    /// No image was found; that is an error only where the job file wants one.
    pub(super) fn missing_image(&mut self, why: &str) {
        let image = &self.spec.image;
        let Some(key) = self.key_of_containers() else {
            // They say which image is meant, as the framework does, and nothing of how it is entered.
            if !self.plan.candidates.is_empty() || !image.packages.is_empty() {
                self.plan
                    .warnings
                    .push(format!("no image is chosen: {why}"));
            }
            return;
        };
        if self.plan.no_image.is_some() {
            return;
        }
        let hint = match &self.spec.framework.name {
            _ if self.spec.python.own.is_some() => OWN_OR_IMAGE,
            Some(_) => {
                "`dlrun image list` shows the catalogue; name an image by `image.path` or `image.uri`"
            }
            None => {
                "name it by `image.path` or `image.uri`, or by `[framework] name` one of the catalogue"
            }
        };
        let span = image.bind.first().map(|bind| bind.span.clone());
        let span = span.or_else(|| image.options.first().map(|option| option.span.clone()));
        let message = format!("`image.{key}` is for a container, and there is no image: {why}");
        self.problems.push(Problem {
            span,
            message,
            hint: Some(hint.to_owned()),
        });
    }

    /// What the job wants of an image.
    fn wanted(&self, framework: String) -> Result<Wanted, String> {
        let asked = &self.spec.framework;
        let version = asked.version.as_deref().map(VersionRange::parse);
        let version = version
            .transpose()
            .map_err(|why| format!("`framework.version` cannot be compared: {why}"))?;
        let is_local = self.is_local();
        let here = &self.facts.images.here;
        let tables = self.settings.tables();
        let table = tables
            .queues
            .iter()
            .find(|table| !is_local && Some(&table.name) == self.queue.as_ref());
        // The queue's word before the site's, with who says so.
        let said = |of_queue: fn(&QueueTable) -> Option<&String>,
                    of_site: Option<&(String, Origin)>| {
            let of_queue = table.and_then(|table| Some((of_queue(table)?, &table.origin)));
            let of_site = of_site.filter(|_| !is_local);
            of_queue
                .or(of_site.map(|(word, origin)| (word, origin)))
                .map(|(word, origin)| (word.clone(), origin.to_string()))
        };
        let assumed = if is_local {
            "this machine"
        } else {
            "as this machine; the configuration does not say"
        };
        let arch = said(|table| table.arch.as_ref(), tables.arch.as_ref())
            .or_else(|| (!here.arch.is_empty()).then(|| (here.arch.clone(), assumed.to_owned())));
        let named = said(|table| table.microarch.as_ref(), tables.microarch.as_ref());

        let processor = match named {
            Some((name, says)) => Processor::Named(name, says),
            None if is_local && !here.features.is_empty() => Processor::Here(here.features.clone()),
            None => Processor::Unknown,
        };
        let device = self.device();
        Ok(Wanted {
            framework,
            version,
            packages: self.spec.image.packages.clone(),
            compiler: asked.compiler.clone(),
            provenance: asked.provenance,
            arch,
            processor,
            device,
        })
    }

    pub(super) fn device(&self) -> Device {
        let is_local = self.is_local();
        let Some(asked) = self.spec.resources.gpus_on_node() else {
            return Device::Cpu;
        };
        // A share is of any GPU.
        let kind = kind_and_count(&asked).0.filter(|_| !is_share(&asked));
        let tables = self.settings.tables();
        // Without a type, any that the queue may have.
        let meant: Vec<&GpuTable> = match kind {
            Some(kind) => tables.gpu(kind).into_iter().collect(),
            None => tables
                .gpus
                .iter()
                .filter(|gpu| gpu.queue.is_none() || gpu.queue == self.queue)
                .collect(),
        };
        let here = &self.facts.images.here;
        let amd = |gpu: &&GpuTable| gpu.accelerator.as_deref() == Some("amd");
        let maker = match self.spec.image.gpu {
            GpuMode::None => return Device::Cpu,
            GpuMode::Nvidia => Accelerator::Nvidia,
            GpuMode::Amd => Accelerator::Amd,
            GpuMode::Auto if is_local => here.accelerator,
            GpuMode::Auto if meant.is_empty() => Accelerator::None,
            GpuMode::Auto if meant.iter().all(amd) => Accelerator::Amd,
            GpuMode::Auto if meant.iter().any(amd) => Accelerator::None,
            GpuMode::Auto => Accelerator::Nvidia,
        };
        let driver = if is_local {
            here.driver
                .clone()
                .map(|driver| (driver, "this machine".to_owned()))
        } else {
            oldest_driver(&meant)
        };
        let capabilities = match (is_local, kind) {
            (true, _) => here
                .capabilities
                .iter()
                .map(|found| (found.clone(), "this machine".to_owned()))
                .collect(),
            (false, Some(kind)) if meant.is_empty() => capability_of(kind)
                .map(|known| (known.to_owned(), format!("a {kind}")))
                .into_iter()
                .collect(),
            (false, _) => meant.iter().filter_map(|gpu| capability(gpu)).collect(),
        };
        Device::Gpu {
            maker,
            driver,
            capabilities,
        }
    }

    fn container(&self, source: String, entry: Option<&Entry>) -> Container {
        let image = &self.spec.image;
        let gpus_asked = self.spec.resources.gpus_on_node().is_some();
        let is_amd = entry.is_some_and(|entry| entry.accelerator == Accelerator::Amd);
        let (nv, rocm) = match image.gpu {
            GpuMode::Auto => (gpus_asked && !is_amd, gpus_asked && is_amd),
            GpuMode::Nvidia => (true, false),
            GpuMode::Amd => (false, true),
            GpuMode::None => (false, false),
        };
        let fakeroot = match image.fakeroot {
            Fakeroot::Auto => entry.is_some_and(|entry| entry.needs_fakeroot),
            Fakeroot::Yes => true,
            Fakeroot::No => false,
        };
        Container {
            source,
            nv,
            rocm,
            name: entry.map(|entry| entry.name.clone()),
            digest: entry.and_then(digest_of),
            gpu: image.gpu,
            gpus_asked,
            require_gpu: image.require_gpu,
            fakeroot,
            binds: self.binds(),
            cleanenv: image.cleanenv,
            options: super::decisions::values(&image.options),
            workdir: text(&self.facts.workdir),
            runtime: self.settings.container_runtime().map(text),
            ..Container::default()
        }
    }

    /// The job's, and the directory of its script where that lies outside of the working directory.
    fn binds(&self) -> Vec<Bind> {
        let mut binds: Vec<Bind> = self
            .spec
            .image
            .bind
            .iter()
            .map(|bind| self.absolute_bind(bind))
            .collect();
        let is_seen = |dir: &Path| binds.iter().any(|bind| dir.starts_with(&bind.target));
        let script = self.facts.images.script_dir.as_deref();
        if let Some(dir) = script.filter(|dir| !is_seen(dir)).map(text) {
            binds.push(Bind {
                source: dir.clone(),
                target: dir,
                read_only: true,
            });
        }
        binds
    }

    /// Sources are relative to the job file's directory.
    fn absolute_bind(&self, bind: &Located<Bind>) -> Bind {
        let mut bind = bind.value.clone();
        if !bind.source.starts_with(['/', '$']) {
            let is_both = bind.source == bind.target;
            bind.source = text(&self.facts.job_file.with_file_name("").join(&bind.source));
            if is_both {
                bind.target.clone_from(&bind.source);
            }
        }
        bind
    }

    /// The flags as they are expected; the node decides.
    pub(super) fn flags(&mut self) {
        let variables = self.plan.env.iter().map(|variable| variable.name.clone());
        let variables = variables.collect();
        let Some(container) = &mut self.plan.image else {
            return;
        };
        container.variables = variables;
        let command = container
            .runtime
            .as_deref()
            .unwrap_or(runtime::commands()[0]);
        match flags::preview(container, None, command) {
            Ok(expected) => {
                for reason in expected.reasons {
                    self.decide("flag", reason.flag, reason.why);
                }
                self.plan.warnings.extend(expected.warnings);
            }
            // Of the runtime on the nodes nothing is known here: what an unknown one cannot do, theirs may.
            Err(refusal) => {
                self.plan
                    .warnings
                    .push(format!("the nodes decide, and may refuse: {refusal}"));
            }
        }
    }
}

/// The compute capability of a kind of GPU, as the configuration says it or by its name, with who says so.
fn capability(gpu: &GpuTable) -> Option<(String, String)> {
    let known = gpu
        .compute_capability
        .clone()
        .map(|known| (known, gpu.origin.to_string()));
    known.or_else(|| {
        Some((
            capability_of(&gpu.kind)?.to_owned(),
            format!("a {}", gpu.kind),
        ))
    })
}

/// The oldest driver among kinds of GPUs, with who says so; `None` where one of them does not say.
fn oldest_driver(kinds: &[&GpuTable]) -> Option<(String, String)> {
    let known: Option<Vec<(&str, String)>> = kinds
        .iter()
        .map(|gpu| Some((gpu.driver.as_deref()?, gpu.origin.to_string())))
        .collect();
    let is_older = |left: &str, right: &str| {
        VersionRange::parse(&format!("<{right}"))
            .is_ok_and(|range| VersionRange::parse(left).is_ok_and(|left| range.holds(&left)))
    };
    let oldest = known?.into_iter().reduce(|left, right| {
        if is_older(right.0, left.0) {
            right
        } else {
            left
        }
    });
    oldest.map(|(driver, says)| (driver.to_owned(), says))
}

fn digest_of(entry: &Entry) -> Option<String> {
    entry
        .digest
        .clone()
        .or_else(|| entry.check.as_ref()?.digest.clone())
}

fn candidates(entries: &[Entry], choice: &Choice) -> Vec<ImageCandidate> {
    let winner = choice.winner.map_or("", |at| &entries[at].name);
    let behind = |decided| format!("`{winner}` goes before it: {decided}");
    let shown = |candidate: &Candidate| {
        let entry = &entries[candidate.index];
        ImageCandidate {
            name: entry.name.clone(),
            place: entry.place.to_string(),
            origin: entry.origin.to_string(),
            chosen: choice.winner == Some(candidate.index),
            rejected: candidate.rejected.clone(),
            reasons: candidate.reasons.clone(),
            unknown: candidate.unknown.clone(),
            beaten: candidate.beaten.map(behind),
        }
    };
    choice.candidates.iter().map(shown).collect()
}
