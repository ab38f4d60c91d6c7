//! What a plan must know of the job's arguments and of runs before it: the files that they name, and the user's own records.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::error::{Error, Kind};
use super::session::Session;
use super::track::Tracker;
use crate::job::{Asked, JobSpec};
use crate::plan::{History, Named, SiteFacts, hex, identity_of, texts_of};
use crate::store::Store;

/// Arguments that are looked at, and files whose content is read.
const MOST: usize = 64;
const MOST_READ: usize = 32;
/// Longer files are told apart by their length.
const LONGEST: u64 = 1 << 20;

/// What the arguments of the job name.
pub(crate) fn named(spec: &JobSpec, workdir: &Path) -> BTreeMap<String, Named> {
    let mut named = BTreeMap::new();
    let mut read = 0;
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
                let digest = if is_short { digest(&path, &about) } else { None };
                let executable = about.permissions().mode() & 0o111 != 0;
                Named::File { path, bytes: about.len(), digest, executable }
            }
            Ok(about) if about.is_dir() => Named::Directory(path),
            _ => Named::Absent,
        };
        named.insert(text.to_owned(), found);
    }
    named
}

/// The SHA-256 of a short file; `None` where it cannot be read, or grows.
fn digest(path: &Path, about: &Metadata) -> Option<String> {
    let mut bytes = Vec::with_capacity(usize::try_from(about.len()).ok()? + 1);
    File::open(path).ok()?.take(LONGEST + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= LONGEST).then(|| hex(&bytes))
}

/// The user's own runs that may be like the job. Where limits are left open what ended since is taken in first, as `dlrun list`
/// does; a forecast is held against what the index knows already.
pub(crate) fn history(session: &Session, spec: &JobSpec, facts: &SiteFacts) -> History {
    let asked = &spec.resources;
    let is_open = asked.walltime == Some(Asked::Auto) || asked.memory == Some(Asked::Auto);
    let mut history = History { host: session.host.clone(), ..History::default() };
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
    if session.existing_state().is_err_and(|error| error.kind == Kind::Missing) {
        return Ok(None);
    }
    let mut tracker = Tracker::open(session)?;
    if fresh {
        tracker.refresh_unfinished(false)?;
    }
    Ok(Some(tracker.store))
}
