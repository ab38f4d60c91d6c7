//! `dlrun import`: rows of JSON Lines become runs again.

use std::io::{BufRead, BufReader, ErrorKind, stdin};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::app::error::{Error, Kind};
use crate::app::incoming::{Counts, Problem, Stop, take_lines};
use crate::app::job::source::open;
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::app::track::Tracker;
use crate::cli::args::Import;
use crate::cli::imported::open_store;
use crate::foundation::clock::now_ms;
use crate::record::rundir::StateDir;
use crate::record::store::{Filter, Store, StoreError};

/// The first id of a person's account, as `UID_MIN` of login.defs(5) has it by default.
const FIRST_USER: u32 = 1000;

/// Where the rows go.
enum Target<'a> {
    /// The user's own records: their index, and copies in their state directory.
    Own(Box<Tracker<'a>>),
    /// A database that is the truth itself.
    Database(Store),
}

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &Import) -> Result<u8, Error> {
    let made = args
        .store
        .as_ref()
        .filter(|path| !args.dry_run && path.symlink_metadata().is_err());
    let done = take_all(session, args);
    // An empty database would be taken for one that has what was to be in it.
    if let Some(path) = made.filter(|_| !matches!(done, Ok(0)))
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
fn take_all(session: &Session, args: &Import) -> Result<u8, Error> {
    let mut target: Option<Target<'_>> = None;
    let mut files: Vec<Value> = Vec::new();
    let (mut text, mut worst) = (String::new(), 0);
    for file in &args.files {
        let shown = if is_stdin(file) {
            "standard input".to_owned()
        } else {
            file.display().to_string()
        };
        let taken = match input(session, file) {
            Ok((from, owner)) => {
                // Only now, so that no empty database is made for files that are not there.
                let target = match &mut target {
                    Some(target) => target,
                    none => none.insert(Target::open(session, args)?),
                };
                take_file(session, args, target, (from, owner), &shown)
            }
            Err(error) => Err(error),
        };
        match taken {
            Ok(counts) => {
                counts
                    .problems
                    .iter()
                    .for_each(|problem| session.output.warning(&problem.text(&shown)));
                if counts.wrong > 0 {
                    worst = worst.max(Kind::Data.code());
                }
                text.push_str(&format!("{shown}: {}\n", counts.to_text()));
                files.push(counts.to_json(&shown));
            }
            // Of several files one that is wrong hides no other.
            Err(error) if args.files.len() > 1 && error.kind != Kind::CannotWrite => {
                session
                    .output
                    .warning(&format!("{shown} is left out: {}", error.message()));
                worst = worst.max(error.kind.code());
                files.push(json!({ "file": shown, "error": error.to_json() }));
            }
            Err(error) => return Err(error),
        }
    }
    if args.dry_run {
        text.push_str("nothing was changed\n");
    }
    let store = target.map(|target| target.path().to_string_lossy().into_owned());
    let value = json!({ "store": store, "dry_run": args.dry_run, "files": files });
    session.output.result(
        "import",
        &value,
        &crate::foundation::diagnostic::printable(&text),
    )?;
    Ok(worst)
}

fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

impl<'a> Target<'a> {
    fn open(session: &'a Session, args: &Import) -> Result<Self, Error> {
        let Some(path) = &args.store else {
            if args.dry_run
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
        if args.dry_run && !is_new {
            open_store(path).map_err(|error| match error.kind {
                Kind::Config => {
                    error.hinted("without `--dry-run` an older one is brought up to date")
                }
                _ => error,
            })?;
        }
        let store = if args.dry_run && is_new {
            Store::in_memory()
        } else {
            Store::open(path)
        };
        let store = store.map_err(|error| of_database(error, path))?;
        if store
            .is_of_a_node()
            .map_err(|error| of_database(error, path))?
        {
            let message = format!(
                "`{}` is the database of a node daemon, which alone writes it",
                path.display()
            );
            return Err(Error::new(Kind::NotPermitted, message)
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

/// A database of its own is no index that could be made anew.
fn of_database(error: StoreError, path: &Path) -> Error {
    let kind = match &error {
        StoreError::NotOurs { .. } => Kind::NotPermitted,
        StoreError::Busy { .. } => Kind::TryAgain,
        StoreError::Newer { .. } | StoreError::Foreign { .. } | StoreError::Damaged { .. } => {
            Kind::Data
        }
        _ => Kind::CannotWrite,
    };
    let hint = match &error {
        StoreError::Newer { .. } => "use the newer dlrun".to_owned(),
        StoreError::Busy { .. } => "try again".to_owned(),
        _ => format!(
            "`--store` names the database; `{}` is left as it is",
            path.display()
        ),
    };
    Error::new(kind, error).hinted(hint)
}

fn take_file(
    session: &Session,
    args: &Import,
    target: &mut Target<'_>,
    from: (impl BufRead, Option<u32>),
    shown: &str,
) -> Result<Counts, Error> {
    let mut display = Display::timed(session.output);
    let is_database = matches!(target, Target::Database(_));
    match take(from, args, target, (&mut display, shown)) {
        Ok(counts) => Ok(counts),
        Err(Stop::DryRun(counts)) => Ok(*counts),
        Err(Stop::Wrong(problem)) => Err(wrong(&problem, shown)),
        Err(Stop::Unreadable(error)) => Err(Error::new(
            Kind::Missing,
            format!("cannot read `{shown}`: {error}"),
        )),
        Err(Stop::Copy(error)) => Err(error.into()),
        Err(Stop::Store(error)) if is_database => Err(of_database(error, &target.path())),
        Err(Stop::Store(error)) => Err(error.into()),
    }
}

/// One transaction: all rows of a file, or nothing.
fn take(
    (from, owner): (impl BufRead, Option<u32>),
    args: &Import,
    target: &mut Target<'_>,
    told: (&mut Display, &str),
) -> Result<Counts, Stop> {
    let (store, state) = target.parts();
    let mut copy = match state.filter(|_| !args.dry_run) {
        Some(state) => Some(state.begin_import()?),
        None => None,
    };
    let mut kept = None;
    let done = store.write(|writer| {
        let mut importer = writer.importer()?;
        let counts = take_lines(from, owner, &mut importer, copy.as_mut(), Some(told))?;
        importer.finish()?;
        if args.dry_run {
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
    let opened = opened(file)?;
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

fn opened(file: &Path) -> Result<std::fs::File, Error> {
    let shown = file.display();
    let unreadable = |error: std::io::Error| {
        let denied = error.kind() == ErrorKind::PermissionDenied;
        let kind = if denied {
            Kind::NotPermitted
        } else {
            Kind::Missing
        };
        Error::new(kind, format!("cannot read `{shown}`: {error}"))
    };
    let opened = open(file).map_err(unreadable)?;
    if opened.metadata().map_err(unreadable)?.is_dir() {
        let error = Error::new(Kind::Missing, format!("`{shown}` is a directory"));
        return Err(error.hinted(format!("name the files in it: {shown}/*.jsonl")));
    }
    Ok(opened)
}

fn wrong(problem: &Problem, shown: &str) -> Error {
    let mut error =
        Error::new(Kind::Data, problem.text(shown)).with_problems(json!([problem.to_json()]));
    if let Some(hint) = problem.hint() {
        error = error.hinted(hint);
    }
    error.hinted("no line of it is a row, so nothing was imported")
}
