//! What a plan must know of the job's arguments and of runs before it: the files that they name, and the user's own records.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::app::error::{Error, Kind};
use crate::app::session::Session;
use crate::app::track::Tracker;
use crate::image::fingerprint;
use crate::job::{JobSpec, SchedulerVariables};
use crate::plan::{History, Named, SiteFacts, identity_of, texts_of};
use crate::record::store::Store;

/// Arguments that are looked at, and files whose content is read.
const MOST: usize = 64;
const MOST_READ: usize = 32;
/// More entries of a directory are not counted.
const MOST_ENTRIES: usize = 10_000;
/// Longer files are distinguished by their length.
const LONGEST: u64 = 1 << 20;

/// What the arguments of the job name.
pub(crate) fn named(spec: &JobSpec, workdir: &Path) -> BTreeMap<String, Named> {
    let mut named = BTreeMap::new();
    let mut read = 0;
    let mut scripts: Vec<Vec<u8>> = Vec::new();
    for text in texts_of(spec).into_iter().take(MOST) {
        if named.contains_key(text) {
            continue;
        }
        let path: std::path::PathBuf = workdir
            .join(text)
            .components()
            .filter(|part| !matches!(part, std::path::Component::CurDir))
            .collect();
        let found = match path.metadata() {
            Ok(about) if about.is_file() => {
                let is_short = about.len() <= LONGEST && read < MOST_READ;
                read += usize::from(is_short);
                let content = if is_short {
                    content(&path, &about)
                } else {
                    None
                };
                let digest = content.as_deref().map(fingerprint);
                scripts.extend(content);
                let executable = about.permissions().mode() & 0o111 != 0;
                Named::File {
                    path,
                    bytes: about.len(),
                    digest,
                    executable,
                }
            }
            Ok(about) if about.is_dir() => {
                let entries = path
                    .read_dir()
                    .map_or(0, |entries| entries.take(MOST_ENTRIES).count());
                Named::Directory(path, entries as u64)
            }
            _ => Named::Absent,
        };
        named.insert(text.to_owned(), found);
    }
    named.extend(variables(&scripts));
    named
}

/// Variables that say nothing of what a job does.
const OF_THE_SESSION: [&str; 16] = [
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "LANG", "TERM", "TMPDIR", "TMP",
    "TEMP", "HOSTNAME", "MAIL", "DISPLAY", "SHLVL",
];
const OF_PROGRAMS: [&str; 6] = ["DLRUN_", "SSH_", "XDG_", "LC_", "BASH", "APPTAINER_"];

fn is_of_scheduler(name: &str) -> bool {
    SchedulerVariables::ALL.iter().any(|variables| {
        let mut prefixes = variables.prefixes.iter().chain(&variables.of_submission);
        prefixes.any(|prefix| name.starts_with(prefix))
    })
}

/// Variables of this shell that a file among the arguments names: `EPOCHS=9 dlrun submit train.toml` is another job.
fn variables(files: &[Vec<u8>]) -> Vec<(String, Named)> {
    let is_asked = |name: &str| {
        name.len() > 2
            && name
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
            && !OF_THE_SESSION.contains(&name)
            && !OF_PROGRAMS.iter().any(|prefix| name.starts_with(prefix))
            && !is_of_scheduler(name)
            && files.iter().any(|file| names(file, name.as_bytes()))
    };
    let set =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let asked = set.filter(|(name, _)| is_asked(name));
    asked
        .map(|(name, value)| {
            (
                format!("${name}"),
                Named::Variable(value.to_string_lossy().into_owned()),
            )
        })
        .collect()
}

/// Whether a text holds a name as a whole word.
fn names(text: &[u8], name: &[u8]) -> bool {
    let is_word =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    memchr::memmem::find_iter(text, name).any(|at| {
        !is_word(at.checked_sub(1).and_then(|at| text.get(at)))
            && !is_word(text.get(at + name.len()))
    })
}

/// A short file; `None` where it cannot be read, or grows.
fn content(path: &Path, about: &Metadata) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(about.len()).ok()? + 1);
    File::open(path)
        .ok()?
        .take(LONGEST + 1)
        .read_to_end(&mut bytes)
        .ok()?;
    (bytes.len() as u64 <= LONGEST).then_some(bytes)
}

/// The user's own runs that may be like the job. Where limits are left open what ended since is taken in first, as `dlrun list`
/// does; a forecast is compared with what the index knows already.
pub(crate) fn history(session: &Session, spec: &JobSpec, facts: &SiteFacts) -> History {
    let is_open = spec.resources.has_open_limits();
    let mut history = History {
        host: session.host.clone(),
        ..History::default()
    };
    if !is_open && facts.model.is_none() {
        return history;
    }
    let identity = identity_of(spec, facts);
    let past = store(session, is_open).and_then(|store| match store {
        Some(store) => Ok(store.history(&identity.program, &identity.key)?),
        None => Ok(Vec::new()),
    });
    match past {
        Ok(past) => history.past = past,
        Err(error) => history.unread = Some(error.message()),
    }
    history
}

/// The index; `None` where nothing is recorded yet.
fn store(session: &Session, fresh: bool) -> Result<Option<Store>, Error> {
    if session
        .existing_state()
        .is_err_and(|error| error.kind == Kind::Missing)
    {
        return Ok(None);
    }
    let mut tracker = Tracker::open(session)?;
    if fresh {
        tracker.refresh_unfinished(false)?;
    }
    Ok(Some(tracker.store))
}
