//! Rows of JSON Lines become runs again.

use std::io::{BufRead, BufReader, stdin};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};

use crate::app::error::{Error, Kind, failure};
use crate::app::imported::open_store;
use crate::app::incoming::{Counts, Problem, Stop, take_lines};
use crate::app::job::source::open_file;
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::app::track::Tracker;
use crate::foundation::clock::now_ms;
use crate::record::rundir::StateDir;
use crate::record::store::{Filter, Store, StoreError, StoreFault};

/// The first id of a person's account, as `UID_MIN` of login.defs(5) has it by default.
const FIRST_USER: u32 = 1000;

/// Where the rows go.
enum Target<'a> {
    /// The user's own records: their index, and copies in their state directory.
    Own(Box<Tracker<'a>>),
    /// A database that is the truth itself.
    Database(Store),
}

/// What is imported, and where to.
pub(crate) struct ImportRequest {
    /// `-` is standard input.
    pub(crate) files: Vec<PathBuf>,
    /// A database instead of one's own records.
    pub(crate) store: Option<PathBuf>,
    /// Change nothing.
    pub(crate) dry_run: bool,
}

/// What came of an import.
#[derive(Serialize)]
pub(crate) struct Imported {
    store: Option<String>,
    dry_run: bool,
    pub(crate) files: Vec<FileTaken>,
    /// The exit code of the worst file.
    #[serde(skip)]
    pub(crate) exit_code: u8,
}

/// What came of one file.
#[derive(Serialize)]
pub(crate) struct FileTaken {
    pub(crate) file: String,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

/// Rows, or why there are none.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Outcome {
    Taken(Box<Counts>),
    LeftOut { error: Value },
}

/// Takes files in.
pub(crate) fn import(session: &Session, request: &ImportRequest) -> Result<Imported, Error> {
    let made = request
        .store
        .as_ref()
        .filter(|path| !request.dry_run && path.symlink_metadata().is_err());
    let done = take_all(session, request);
    let is_well = done.as_ref().is_ok_and(|done| done.exit_code == 0);
    // An empty database would be taken for one that has what was to be in it.
    if let Some(path) = made.filter(|_| !is_well)
        && open_store(path).is_ok_and(|store| {
            store
                .list(1, &Filter::default())
                .is_ok_and(|runs| runs.is_empty())
        })
    {
        let _ = std::fs::remove_file(path);
    }
    done
}

/// Takes all files in.
fn take_all(session: &Session, request: &ImportRequest) -> Result<Imported, Error> {
    let mut target: Option<Target<'_>> = None;
    let (mut files, mut exit_code) = (Vec::new(), 0);
    for path in &request.files {
        let file = if is_stdin(path) {
            "standard input".to_owned()
        } else {
            path.display().to_string()
        };
        let taken = input(session, path).and_then(|(from, owner)| {
            // Only now, so that no empty database is made for files that are not there.
            let target = match &mut target {
                Some(target) => target,
                none => none.insert(Target::open(session, request)?),
            };
            take_file(session, request, target, (from, owner), &file)
        });
        let outcome = match taken {
            Ok(counts) => {
                for problem in &counts.problems {
                    session.warning(&problem.text(&file));
                }
                if counts.wrong > 0 {
                    exit_code = exit_code.max(Kind::Data.code());
                }
                Outcome::Taken(Box::new(counts))
            }
            // Of several files one that is wrong hides no other.
            Err(error) if request.files.len() > 1 && error.kind != Kind::CannotWrite => {
                session.warning(&format!("{file} is left out: {}", error.message()));
                exit_code = exit_code.max(error.kind.code());
                let error = error.to_json();
                Outcome::LeftOut { error }
            }
            Err(error) => return Err(error),
        };
        files.push(FileTaken { file, outcome });
    }
    Ok(Imported {
        store: target.map(|target| target.path().to_string_lossy().into_owned()),
        dry_run: request.dry_run,
        files,
        exit_code,
    })
}

fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

impl<'a> Target<'a> {
    fn open(session: &'a Session, request: &ImportRequest) -> Result<Self, Error> {
        let Some(path) = &request.store else {
            if request.dry_run
                && session
                    .existing_state()
                    .is_err_and(|error| error.kind == Kind::Missing)
            {
                return Ok(Self::Database(Store::in_memory()?));
            }
            session.state()?;
            let mut tracker = Tracker::open(session)?;
            // Which runs are own ones.
            tracker.discover()?;
            return Ok(Self::Own(Box::new(tracker)));
        };
        // One that is empty or older would be written to, if only to bring it up to date.
        let is_empty = path
            .symlink_metadata()
            .is_ok_and(|about| about.is_file() && about.len() == 0);
        let is_new = is_empty || path.symlink_metadata().is_err();
        if request.dry_run && !is_new {
            open_store(path).map_err(|error| match error.kind {
                Kind::Config => {
                    error.hinted("without `--dry-run` an older one is brought up to date")
                }
                _ => error,
            })?;
        }
        let store = if request.dry_run && is_new {
            Store::in_memory()
        } else {
            Store::open(path)
        };
        let store = store.map_err(|error| of_database(error, path))?;
        if store
            .is_of_a_node()
            .map_err(|error| of_database(error, path))?
        {
            return Err(failure!(
                NotPermitted,
                "`{}` is the database of a node daemon, which alone writes it",
                path.display()
            )
            .hinted("name another database with `--store`"));
        }
        Ok(Self::Database(store))
    }

    fn path(&self) -> PathBuf {
        match self {
            Self::Own(tracker) => tracker.store.path().to_owned(),
            Self::Database(store) => store.path().to_owned(),
        }
    }

    fn parts(&mut self) -> (&mut Store, Option<&StateDir>) {
        match self {
            Self::Own(tracker) => (&mut tracker.store, Some(&tracker.state)),
            Self::Database(store) => (store, None),
        }
    }
}

/// A separate database is no index that could be rebuilt.
fn of_database(error: StoreError, path: &Path) -> Error {
    let kind = match &error.kind {
        StoreFault::NotOurs => Kind::NotPermitted,
        StoreFault::Busy => Kind::TryAgain,
        StoreFault::Newer | StoreFault::Foreign | StoreFault::Damaged => Kind::Data,
        _ => Kind::CannotWrite,
    };
    let hint = match &error.kind {
        StoreFault::Newer => "use the newer dlrun".to_owned(),
        StoreFault::Busy => "try again".to_owned(),
        _ => format!(
            "`--store` names the database; `{}` is left as it is",
            path.display()
        ),
    };
    Error::new(kind, error).hinted(hint)
}

fn take_file(
    session: &Session,
    request: &ImportRequest,
    target: &mut Target<'_>,
    from: (impl BufRead, Option<u32>),
    shown: &str,
) -> Result<Counts, Error> {
    let mut display = Display::timed(session.output);
    let is_database = matches!(target, Target::Database(_));
    match take(from, request, target, (&mut display, shown)) {
        Ok(counts) => Ok(counts),
        Err(Stop::DryRun(counts)) => Ok(*counts),
        Err(Stop::Wrong(problem)) => Err(wrong(&problem, shown)),
        Err(Stop::Unreadable(error)) => Err(failure!(Missing, "cannot read `{shown}`: {error}")),
        Err(Stop::Copy(error)) => Err(error.into()),
        Err(Stop::Store(error)) if is_database => Err(of_database(error, &target.path())),
        Err(Stop::Store(error)) => Err(error.into()),
    }
}

/// One transaction: all rows of a file, or nothing.
fn take(
    (from, owner): (impl BufRead, Option<u32>),
    request: &ImportRequest,
    target: &mut Target<'_>,
    progress: (&mut Display, &str),
) -> Result<Counts, Stop> {
    let (store, state) = target.parts();
    let mut copy = match state.filter(|_| !request.dry_run) {
        Some(state) => Some(state.begin_import()?),
        None => None,
    };
    let mut kept = None;
    let done = store.write(|writer| {
        let mut importer = writer.importer()?;
        let counts = take_lines(from, owner, &mut importer, copy.as_mut(), Some(progress))?;
        importer.finish()?;
        if request.dry_run {
            return Err(Stop::DryRun(Box::new(counts)));
        }
        // The copy first: what the index holds must be found again in files.
        if let Some(copy) = copy.take().filter(|_| counts.is_news()) {
            let id = copy.id();
            writer.note_import(id.as_str(), now_ms(), counts.lines - counts.wrong)?;
            if copy.keep()? {
                kept = Some(id);
            }
        }
        Ok(counts)
    });
    if let (Err(_), Some(state), Some(id)) = (&done, state, kept) {
        // It was not taken in, so it was not imported.
        let _ = state.forget_import(&id);
    }
    done
}

/// The lines of a file, and whose it is where they are believed of that user's own runs only. What comes through standard input the
/// one who imports vouches for.
fn input(session: &Session, file: &Path) -> Result<(Box<dyn BufRead>, Option<u32>), Error> {
    if is_stdin(file) {
        return Ok((Box::new(stdin().lock()), None));
    }
    let hint = format!("name the files in it: {}/*.jsonl", file.display());
    let opened = open_file(file, &hint)?;
    let owner = opened
        .metadata()
        .ok()
        .map(|about| about.uid())
        .filter(|uid| !is_believed(session, *uid));
    Ok((Box::new(BufReader::with_capacity(1 << 16, opened)), owner))
}

/// Who may tell of everybody's runs: who imports, accounts of the system, and who keeps the site's exports.
fn is_believed(session: &Session, uid: u32) -> bool {
    let keeps_exports = || {
        let about = session.settings.export_dir().symlink_metadata();
        about.is_ok_and(|about| about.is_dir() && about.uid() == uid)
    };
    uid < FIRST_USER || uid == nix::unistd::geteuid().as_raw() || keeps_exports()
}

fn wrong(problem: &Problem, shown: &str) -> Error {
    let mut error = Error::new(Kind::Data, problem.text(shown)).with_problems(json!([problem]));
    if let Some(hint) = problem.hint() {
        error = error.hinted(hint);
    }
    error.hinted("no line of it is a row, so nothing was imported")
}
