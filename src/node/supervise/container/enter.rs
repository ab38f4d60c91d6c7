//! From the plan's container to the words that start it here.
//!
//! The node decides: what GPUs, namespaces and programs it has is known nowhere else. Where it cannot be asked, the words of
//! the submission do: a job never fails because of dlrun. What the job file asks for and cannot be had here is another matter.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::foundation::diagnostic::chain_text;
use crate::image::flags::{self, Container, Invocation, Reason, Refusal, Surroundings};
use crate::image::runtime::{ContainerError, HostView, examine, inspect};
use crate::job::{Bind, GpuMode};
use crate::node::supervise::events;
use crate::observe::monitor::gpu_driver_present;
use crate::record::{ContainerRecord, ContainerRuntime, FlagReason, ImageIdentity, RunImage};

/// Names of the variables that came from the job's `env_file`, for the rules. No command needs it.
const ENV_NAMES: &str = "DLRUN_ENV_NAMES";
/// A runtime on a file system that hangs must not hold the job up for ever. Its version alone is waited for 20 s.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command as it starts in its container on this node.
#[derive(Debug)]
pub struct Entry {
    /// The runtime's words and the command's.
    pub argv: Vec<OsString>,
    /// Variables to set.
    pub sets: Vec<(OsString, OsString)>,
    /// Variables to take away.
    pub removals: Vec<OsString>,
    /// All of it, for the record.
    pub record: ContainerRecord,
}

/// Why the container must not be started here, with what is known of it.
#[derive(Debug, thiserror::Error)]
#[error("the container is not started: {why}")]
pub struct NoEntry {
    /// Why.
    pub why: Closed,
    /// For the record.
    pub record: Box<ContainerRecord>,
}

/// What keeps a container from being started.
#[derive(Debug, thiserror::Error)]
pub enum Closed {
    /// Something of the job file cannot be had here.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// No runtime is here.
    #[error(transparent)]
    NoRuntime(ContainerError),
    /// The image is not here.
    #[error("the image {0} does not exist on this node")]
    NoImage(String),
}

/// Decides how `command` starts in `container`, in the current directory. `bare` are the words that start the container as
/// the submission has it; `variables` those that the command will see.
///
/// # Errors
/// When the container cannot be started here as the job file wants it. That the node cannot be asked is none.
pub(crate) fn enter(
    container: &Container,
    bare: &[OsString],
    command: &[OsString],
    variables: BTreeMap<String, String>,
) -> Result<Entry, NoEntry> {
    let mut record = ContainerRecord {
        image: RunImage {
            source: container.source.clone(),
            name: container.name.clone(),
            digest: container.digest.clone(),
        },
        ..ContainerRecord::default()
    };
    let mut container = container.clone();
    let named = by_its_true_name(&mut container);
    let events = show_events(&mut container, &variables);
    let decided = match decide(&container, bare, variables) {
        Ok(decided) => decided,
        Err(why) => {
            record.failure = Some(why.to_string());
            return Err(NoEntry {
                why,
                record: Box::new(record),
            });
        }
    };
    let invocation = decided.invocation;
    (record.runtime, record.identity) = (decided.runtime, decided.identity);
    record.words = invocation.argv.get(1..).unwrap_or_default().to_vec();
    let link = named.map(|named| format!("{}:{named}", container.workdir));
    let events = events.map(|dir| format!("{dir}:{dir}"));
    let is_for = |flag: &str, bind: &Option<String>| {
        bind.as_ref()
            .is_some_and(|bind| flag.ends_with(bind.as_str()))
    };
    let with_own_reason = |Reason { flag, why }: Reason| {
        let why = if is_for(&flag, &events) {
            "where the program may report its progress (DLRUN_EVENTS)".to_owned()
        } else if is_for(&flag, &link) {
            "the working directory by its name in the job file".to_owned()
        } else {
            why
        };
        FlagReason { flag, why }
    };
    record.flags = invocation
        .reasons
        .into_iter()
        .map(with_own_reason)
        .collect();
    record.warnings = invocation.warnings;
    record.gpu_missing = invocation.gpu_missing;
    if let Some(why) = decided.unasked {
        record.warnings.push(format!(
            "{why}; the container gets the flags of the submission"
        ));
        record.unasked = Some(why);
    }
    let (argv, sets) = (invocation.argv.into_iter(), invocation.sets.into_iter());
    let removals = invocation.removals.into_iter().map(OsString::from);
    Ok(Entry {
        argv: argv
            .map(OsString::from)
            .chain(command.iter().cloned())
            .collect(),
        sets: sets
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        removals: removals.chain([ENV_NAMES.into()]).collect(),
        record,
    })
}

/// Sets the working directory to the current one by its name without links: a link may lead to where nothing is seen in the
/// container, and the runtime then starts the command in the home directory, with a warning. Seen by the job file's name
/// it is too, for words of the command that hold that. Returns that name where it is another.
fn by_its_true_name(container: &mut Container) -> Option<String> {
    let here = std::env::current_dir().ok()?;
    let here = here.into_os_string().into_string().ok()?;
    let named = std::mem::replace(&mut container.workdir, here.clone());
    let is_link = named != here
        && named.starts_with('/')
        && std::fs::canonicalize(&named).is_ok_and(|found| found == Path::new(&here));
    if !is_link {
        return None;
    }
    container.binds.push(Bind {
        source: here,
        target: named.clone(),
        read_only: false,
    });
    Some(named)
}

/// Has the directory of the run's events seen in the container, under its own name: a file that is bound alone stays
/// seen when another takes its place. A rank on another node than the file's sees none. Returns the directory.
fn show_events(container: &mut Container, variables: &BTreeMap<String, String>) -> Option<String> {
    let dir = Path::new(variables.get(events::VARIABLE)?).parent()?;
    let name = dir
        .to_str()
        .filter(|_| dir.is_absolute() && dir.is_dir())?
        .to_owned();
    container.binds.push(Bind {
        source: name.clone(),
        target: name.clone(),
        read_only: false,
    });
    Some(name)
}

struct Decided {
    runtime: Option<ContainerRuntime>,
    identity: Option<ImageIdentity>,
    invocation: Invocation,
    unasked: Option<String>,
}

/// Asks the node on a separate thread, which may hang.
fn decide(
    container: &Container,
    bare: &[OsString],
    variables: BTreeMap<String, String>,
) -> Result<Decided, Closed> {
    let (sender, receiver) = channel();
    let asked = container.clone();
    let asking = std::thread::spawn(move || drop(sender.send(by_the_node(&asked, &variables))));
    let answer = receiver.recv_timeout(PATIENCE);
    if answer.is_ok() {
        // It is older than the supervisor's mask, and a signal that it took while it ends would end the process.
        let _ = asking.join();
    }
    let why = match answer {
        Ok(Ok(decided)) => return Ok(decided),
        Ok(Err(Closed::NoRuntime(error)))
            if !matches!(
                error,
                ContainerError::NoRuntime | ContainerError::RuntimeMissing { .. }
            ) =>
        {
            // No fault of the job's.
            chain_text(&error)
        }
        Ok(Err(why)) => return Err(why),
        Err(_) => "this node's facts could not be found out".to_owned(),
    };
    Ok(by_the_submission(bare, why))
}

fn by_the_node(
    container: &Container,
    variables: &BTreeMap<String, String>,
) -> Result<Decided, Closed> {
    let source = Path::new(&container.source);
    if source.is_absolute() && !source.exists() {
        return Err(Closed::NoImage(container.source.clone()));
    }
    let asked = container.runtime.as_deref().map(Path::new);
    // Without a driver nobody asks which of its libraries the linker knows: that costs a process at every start.
    let wants_gpu = container.gpu != GpuMode::None && gpu_driver_present(Path::new("/"));
    let node = examine(&HostView::of_this_machine(), asked, wants_gpu);
    let facts = node.map_err(Closed::NoRuntime)?.facts;
    let names: Vec<String> = variables
        .keys()
        .filter(|name| *name != ENV_NAMES)
        .cloned()
        .collect();
    let around = Surroundings {
        variables: &|name| variables.get(name).cloned(),
        names: &names,
        exists: &|path| Path::new(path).exists(),
        is_sandbox: source.is_dir(),
    };
    let product = facts.runtime.map(|runtime| runtime.product.as_str());
    Ok(Decided {
        invocation: flags::choose(container, &facts, &around)?,
        runtime: Some(ContainerRuntime {
            path: facts.command.clone(),
            product: product.map(str::to_owned),
            version: facts.runtime.map(|runtime| runtime.version.to_string()),
        }),
        identity: identity(source),
        unasked: None,
    })
}

/// What the image is, for the record; what is wrong with it the runtime says.
fn identity(source: &Path) -> Option<ImageIdentity> {
    let file = inspect(Some(source).filter(|source| source.is_absolute())?).ok()?;
    Some(ImageIdentity {
        form: file.form.to_owned(),
        uuid: file.uuid,
        size_bytes: file.size_bytes,
        modified_at_ms: Some(file.modified_ms),
    })
}

fn by_the_submission(bare: &[OsString], why: String) -> Decided {
    let words = bare.iter().map(|word| word.to_string_lossy().into_owned());
    let argv: Vec<String> = words.collect();
    Decided {
        runtime: argv.first().cloned().map(|path| ContainerRuntime {
            path,
            product: None,
            version: None,
        }),
        identity: None,
        invocation: Invocation {
            argv,
            ..Invocation::default()
        },
        unasked: Some(why),
    }
}
