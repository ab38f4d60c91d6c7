//! Images that are run to see what they are: `dlrun image check` and `add`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::app::error::{Error, Kind, failure};
use crate::app::interrupt::Interrupt;
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::config::Owner;
use crate::foundation::clock::now_ms;
use crate::image::catalogue::{Check, FileState, Place, write_check};
use crate::image::catalogue::{file_state, keep_description};
use crate::image::check::{self, Call, Claims, Findings};
use crate::image::flags::NodeFacts;
use crate::image::runtime::digest;
use crate::image::runtime::{ContainerError, inspect, node_facts};

/// Where images are tried: this machine with its runtime.
pub(crate) struct Bench {
    node: NodeFacts,
    host: String,
    interrupt: Interrupt,
}

/// What is to be tried.
pub(crate) struct Subject<'a> {
    /// Its name in the catalogue, or what else it is called.
    pub(crate) name: &'a str,
    pub(crate) place: &'a Place,
    pub(crate) claims: &'a Claims,
    /// `sha256:..` as it is said to be.
    pub(crate) digest: Option<&'a str>,
    /// The file is read whole for its digest.
    pub(crate) reads_digest: bool,
    pub(crate) needs_fakeroot: bool,
    pub(crate) patience: Duration,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Tried {
    /// For the catalogue.
    pub(crate) check: Check,
    pub(crate) findings: Findings,
}

impl Bench {
    /// Looks at this machine.
    pub(crate) fn open(session: &Session) -> Result<Self, Error> {
        let node = node_facts(session.settings.container_runtime(), true)?;
        Ok(Self {
            node,
            host: session.host.clone(),
            interrupt: Interrupt::take(),
        })
    }

    /// The runtime's command.
    pub(crate) fn runtime(&self) -> &Path {
        Path::new(&self.node.command)
    }

    /// Runs the image, and computes its digest where that is wanted.
    pub(crate) fn run(&self, subject: &Subject<'_>, display: &mut Display) -> Result<Tried, Error> {
        let (source, file) = match subject.place {
            Place::Path(path) => (path.to_string_lossy().into_owned(), file_state(path)),
            Place::Uri(uri) => (uri.clone(), FileState::NotLooked),
        };
        let (size_bytes, modified_ms) = match file {
            FileState::Missing(why) => return Err(Error::new(Kind::Missing, why)),
            FileState::NotLooked => (None, None),
            FileState::There {
                size_bytes,
                modified_ms,
            } => (size_bytes, Some(modified_ms)),
        };
        let is_sandbox = modified_ms.is_some() && size_bytes.is_none();
        let digest = match subject.place {
            Place::Path(path) if subject.reads_digest && !is_sandbox => {
                Some(digest_of(subject.name, path, display)?)
            }
            _ => None,
        };
        let call = Call {
            source: &source,
            is_sandbox,
            needs_fakeroot: subject.needs_fakeroot,
            claims: subject.claims,
            patience: subject.patience,
        };
        let fault = match subject.place {
            Place::Path(path) => file_fault(path, subject.claims)?,
            Place::Uri(_) => None,
        };
        display.now(&format!("{}: running it", subject.name), false);
        let mut was_interrupted = false;
        let findings = match fault {
            Some(fault) => Ok(Findings {
                problems: vec![fault],
                ..Findings::default()
            }),
            None => check::check(&call, &self.node, || {
                was_interrupted |= self.interrupt.came();
                !was_interrupted
            }),
        };
        if was_interrupted {
            return Err(interrupted());
        }
        let mut findings = findings?;
        if let (Some(found), Some(claimed)) = (&digest, subject.digest)
            && found != claimed
        {
            findings.problems.insert(
                0,
                format!("its digest is said to be {claimed}, and is {found}"),
            );
        }
        let check = Check {
            image: subject.name.to_owned(),
            at_ms: now_ms(),
            host: self.host.clone(),
            runtime: self.runtime_text(),
            size_bytes,
            modified_ms,
            digest,
            problems: findings.problems.clone(),
            versions: findings.versions.clone(),
            compilers: findings.compilers.clone(),
            gpus: findings.gpus,
            mpi_abi: findings.mpi_abi.clone(),
        };
        Ok(Tried { check, findings })
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
fn file_fault(path: &Path, claims: &Claims) -> Result<Option<String>, Error> {
    let file = match inspect(path) {
        Err(ContainerError::NotAnImage(_, why)) => {
            return Ok(Some(format!("it is no image: {why}")));
        }
        other => other?,
    };
    if let (Some(claimed), Some(found)) = (&claims.arch, &file.arch)
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

/// Puts a description into the catalogue of its owner.
pub(crate) fn keep(owner: Owner, file_name: &str, text: &str) -> Result<PathBuf, Error> {
    let dir = shelf_dir(owner)?;
    keep_description(&dir, file_name, text, owner == Owner::Site).map_err(|error| {
        // Its hints are about images; this is about the few lines that describe one.
        let error = Error::from(error).unhinted();
        match owner {
            Owner::Site => {
                error.hinted("the site's catalogue is root's; without `--site` it goes into yours")
            }
            Owner::User => error,
        }
    })
}

/// Puts a check into the catalogue, in the place of a former one.
pub(crate) fn keep_check(owner: Owner, check: &Check) -> Result<PathBuf, Error> {
    keep(
        owner,
        &format!("{}.check.toml", check.image),
        &write_check(check),
    )
}

/// Where the owner's descriptions lie.
pub(crate) fn shelf_dir(owner: Owner) -> Result<PathBuf, Error> {
    let dirs = Session::catalogue_dirs();
    match owner {
        Owner::Site => Ok(dirs.site),
        Owner::User => dirs.user.ok_or_else(|| {
            failure!(Config, "there is no place for your descriptions of images").hinted("set HOME")
        }),
    }
}

fn interrupted() -> Error {
    failure!(TryAgain, "it was interrupted; nothing was kept")
}
