//! Images that are run to see what they are: `dlrun image check` and `add`.

use std::path::Path;
use std::time::Duration;

use crate::app::error::{Error, Kind, failure};
use crate::app::interrupt::Interrupt;
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::foundation::clock::now_ms;
use crate::image::catalogue::{Accelerator, Check, Entry, FileState, Place, file_state};
use crate::image::check::{self, Findings};
use crate::image::flags::NodeFacts;
use crate::image::runtime::{ContainerError, HostView, digest, examine, inspect, labels};
use crate::job::Provenance;

/// Where images are tried: this machine with its runtime.
pub(crate) struct Bench {
    node: NodeFacts,
    host: String,
    interrupt: Interrupt,
}

impl Bench {
    /// Looks at this machine.
    pub(crate) fn open(session: &Session) -> Result<Self, Error> {
        let asked = session.settings.container_runtime();
        let node = examine(&HostView::of_this_machine(), asked, true)?.facts;
        Ok(Self {
            node,
            host: session.host.clone(),
            interrupt: Interrupt::take(),
        })
    }

    /// Fills in what labels of the image say; an image without labels, or whose labels cannot be read, says nothing.
    pub(crate) fn read_labels(&self, entry: &mut Entry) {
        let Place::Path(path) = &entry.place else {
            return;
        };
        let labels = match labels(Path::new(&self.node.command), path) {
            Ok(labels) => labels,
            Err(error) => return tracing::warn!(%error, "the labels cannot be read"),
        };
        let label = |name: &str| {
            let value = labels.get(&format!("dlrun.{name}"))?.trim();
            let is_text = !value.is_empty() && !value.chars().any(char::is_control);
            is_text.then(|| value.to_owned())
        };
        for (text, name) in [
            (&mut entry.framework, "framework"),
            (&mut entry.version, "version"),
        ] {
            if text.is_empty() {
                text.extend(label(name).map(|text| text.to_lowercase()));
            }
        }
        for (text, name) in [
            (&mut entry.cuda, "cuda"),
            (&mut entry.microarch, "microarch"),
            (&mut entry.recipe, "recipe"),
        ] {
            *text = text.take().or_else(|| label(name));
        }
        if entry.accelerator == Accelerator::None {
            let word = label("accelerator").and_then(|word| Accelerator::from_word(&word));
            entry.accelerator = word.unwrap_or_default();
        }
        let provenance = || Provenance::from_word(&label("provenance")?);
        entry.provenance = entry.provenance.or_else(provenance);
        if entry.packages.is_empty() {
            let packages = label("packages").unwrap_or_default();
            entry.packages = packages.split_whitespace().map(str::to_owned).collect();
        }
        if entry.compilers.is_empty() {
            let compiler = label("compiler").filter(|compiler| compiler != "none");
            entry.compilers.extend(compiler);
        }
    }

    /// Runs the image that `entry` describes as far as that is known; the digest of its file is computed where `reads_digest`.
    pub(crate) fn run(
        &self,
        entry: &Entry,
        reads_digest: bool,
        patience: Duration,
        display: &mut Display,
    ) -> Result<Findings, Error> {
        let (mut size_bytes, mut modified_ms) = (None, None);
        let (mut digest, mut fault) = (None, None);
        if let Place::Path(path) = &entry.place {
            match file_state(path) {
                FileState::There {
                    size_bytes: size,
                    modified_ms: modified,
                } => (size_bytes, modified_ms) = (size, Some(modified)),
                FileState::Missing(why) => return Err(Error::new(Kind::Missing, why)),
                FileState::NotLooked => {}
            }
            if reads_digest && size_bytes.is_some() {
                digest = Some(digest_of(&entry.name, path, display)?);
            }
            fault = file_fault(path, &entry.arch)?;
        }
        let is_sandbox = modified_ms.is_some() && size_bytes.is_none();
        display.now(&format!("{}: running it", entry.name), false);
        let mut was_interrupted = false;
        let goes_on = || {
            was_interrupted |= self.interrupt.came();
            !was_interrupted
        };
        let findings = match &fault {
            Some(_) => Ok(Findings::default()),
            None => check::check(entry, is_sandbox, patience, &self.node, goes_on),
        };
        if was_interrupted {
            return Err(interrupted());
        }
        let mut findings = findings?;
        if let (Some(found), Some(claimed)) = (&digest, &entry.digest)
            && found != claimed
        {
            findings.problem(format!(
                "its digest is said to be {claimed}, and is {found}"
            ));
            findings.check.problems.rotate_right(1);
        }
        findings.check.problems.extend(fault);
        findings.check = Check {
            image: entry.name.clone(),
            at_ms: now_ms(),
            host: self.host.clone(),
            runtime: self.runtime_text(),
            size_bytes,
            modified_ms,
            digest,
            ..findings.check
        };
        Ok(findings)
    }

    fn runtime_text(&self) -> String {
        self.node
            .runtime
            .map_or_else(|| self.node.command.clone(), |runtime| runtime.to_string())
    }
}

/// The SHA-256 of a file, with progress; large ones take minutes, so Ctrl-C ends it.
pub(crate) fn digest_of(name: &str, path: &Path, display: &mut Display) -> Result<String, Error> {
    let found = digest(path, &mut |done, total| {
        let percent = done.saturating_mul(100).checked_div(total).unwrap_or(100);
        display.now(
            &format!("{name}: reading it for its digest, {percent} %"),
            false,
        );
        !Interrupt::has_come()
    });
    found?.ok_or_else(interrupted)
}

/// What is wrong with a file before it is run. An image for other machines is no fault, but cannot be tried here.
fn file_fault(path: &Path, claimed: &str) -> Result<Option<String>, Error> {
    let file = match inspect(path) {
        Err(ContainerError::NotAnImage(_, why)) => {
            return Ok(Some(format!("it is not an image: {why}")));
        }
        other => other?,
    };
    if let Some(found) = &file.arch
        && !claimed.is_empty()
        && claimed != found
    {
        return Ok(Some(format!(
            "it is said to be for {claimed}, and is made for {found}"
        )));
    }
    match file.arch_fault() {
        Some(why) => Err(ContainerError::NotTried(path.display().to_string(), why).into()),
        None => Ok(None),
    }
}

fn interrupted() -> Error {
    failure!(TryAgain, "it was interrupted; nothing was kept")
}
