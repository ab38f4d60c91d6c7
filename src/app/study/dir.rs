//! What is kept of a matrix, in `benches/NAME-HASH` of the state directory, or of a sweep, in `sweeps/NAME`: its file, a head, and
//! a journal. The hash is that of all job files that a matrix makes, so that one of which a cell was changed is another one.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::app::error::{Error, Kind, failure};
use crate::app::progress::in_brackets;
use crate::app::session::Session;
use crate::foundation::clock::now_ms;
use crate::foundation::diagnostic::chain;
use crate::foundation::lock::{Lock, acquire_now};
use crate::foundation::private::{PrivateDir, if_there};
use crate::foundation::units::counted;
use crate::job::SchedulerKind;
use crate::learn::bench::{Header, Journal, Lines};
use crate::learn::sweep::Study;

const JOURNAL: &str = "journal.jsonl";
const LOCK: &str = "lock";
/// What to do where nothing can be written.
const UNWRITABLE: &str =
    "make it writable for you again, or keep records elsewhere with --state-dir";
/// Bytes of a journal at most: a line of some hundred for each start of 100,000 runs.
const MOST_JOURNAL: usize = 512 << 20;
const MOST_HEAD: usize = 1 << 20;

/// What has a journal: where it is kept, and what it is called.
pub(crate) trait Kept: Lines {
    /// The directory of all of them.
    const ALL: &'static str;
    /// The name of its file there.
    const FILE: &'static str;
    /// What it is, and the verb that runs it.
    const NOUN: &'static str;
    const VERB: &'static str;
}

impl Kept for Journal {
    const ALL: &'static str = "benches";
    const FILE: &'static str = "matrix.toml";
    const NOUN: &'static str = "matrix";
    const VERB: &'static str = "bench";
}

impl Kept for Study {
    const ALL: &'static str = "sweeps";
    const FILE: &'static str = "sweep.toml";
    const NOUN: &'static str = "sweep";
    const VERB: &'static str = "sweep";
}

/// What is kept of a matrix.
pub(crate) type BenchDir = StudyDir<Journal>;

/// What is kept of a matrix or a sweep.
pub(crate) struct StudyDir<J: Kept> {
    dir: PrivateDir,
    /// The directory's name.
    pub(crate) id: String,
    pub(crate) header: Header,
    pub(crate) journal: J,
    /// Open to add to, and the right to do so; of a matrix that is only looked at neither.
    writer: Option<(File, Lock)>,
}

/// What a matrix or sweep is begun or continued with.
pub(crate) struct Order<'a> {
    pub(crate) name: &'a str,
    /// The name of its directory.
    pub(crate) id: String,
    /// Its file as it was read.
    pub(crate) text: &'a str,
    /// Absolute.
    pub(crate) file: &'a Path,
    pub(crate) scheduler: SchedulerKind,
    pub(crate) repeats: u32,
}

impl<J: Kept> StudyDir<J> {
    /// Begins or continues; nobody else may be at it. `restart`: what was measured before is set aside. `may_continue` looks at the
    /// file that was run before.
    pub(crate) fn begin(
        session: &Session,
        order: Order<'_>,
        restart: bool,
        may_continue: impl FnOnce(&Header, &str) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let (name, id) = (order.name.to_owned(), order.id);
        let state = session.state()?;
        let dir = PrivateDir::create(&state.path().join(J::ALL))?.ensure_dir(&id)?;
        let lock = lock::<J>(session, &dir, &name)?;
        let kept = match read_header::<J>(&dir) {
            Err(_) if restart => None,
            kept => kept?,
        };
        let journal_is_there = if_there(dir.open_file(JOURNAL))?.is_some();
        let mut header = Header {
            format: Header::FORMAT,
            name,
            file: order.file.to_string_lossy().into_owned(),
            began_at_ms: now_ms(),
            scheduler: order.scheduler,
            repeats: order.repeats,
        };
        if restart && journal_is_there {
            set_aside::<J>(session, &dir, header.began_at_ms)?;
        } else if let Some(kept) = &kept {
            let before = dir.read(J::FILE, MOST_HEAD)?;
            may_continue(kept, &String::from_utf8_lossy(&before))?;
            header.began_at_ms = kept.began_at_ms;
        }
        let text = serde_json::to_vec_pretty(&header)
            .map_err(|error| Error::new(Kind::Internal, error))?;
        dir.replace(J::FILE, order.text.as_bytes())?;
        dir.replace(&head::<J>(), &text)?;
        let journal = read_journal(session, &dir)?;
        let file = open_journal(&dir)?;
        dir.sync()?;
        Ok(Self {
            dir,
            id,
            header,
            journal,
            writer: Some((file, lock)),
        })
    }

    /// Writes another file beside the journal.
    pub(super) fn keep(&self, name: &str, text: &str) -> Result<PathBuf, Error> {
        self.dir.replace(name, text.as_bytes())?;
        Ok(self.dir.path().join(name))
    }

    /// What [`StudyDir::keep`] wrote.
    pub(super) fn kept(&self, name: &str) -> Result<Option<String>, Error> {
        let text = if_there(self.dir.read(name, MOST_HEAD))?;
        Ok(text.map(|text| String::from_utf8_lossy(&text).into_owned()))
    }

    pub(super) fn journal_path(&self) -> PathBuf {
        self.dir.path().join(JOURNAL)
    }

    /// What is kept of a matrix of this name, or under this id; of several the one that was begun last. Also its text.
    pub(crate) fn find(session: &Session, wanted: Option<&str>) -> Result<(Self, String), Error> {
        let path = session.existing_state()?.path().join(J::ALL);
        let nothing = || {
            let what = wanted.map_or_else(
                || format!("no {} was run", J::NOUN),
                |name| format!("no {} `{name}` was run", J::NOUN),
            );
            Error::new(Kind::Missing, what)
        };
        let Some(benches) = if_there(PrivateDir::open(&path))? else {
            return Err(nothing().hinted(format!("`dlrun {} run FILE` runs one", J::VERB)));
        };
        let mut found: Option<(PrivateDir, String, Header)> = None;
        let mut names = BTreeSet::new();
        for id in benches.names()? {
            let Ok(dir) = benches.open_dir(&id) else {
                continue;
            };
            let Ok(Some(header)) = read_header::<J>(&dir) else {
                continue;
            };
            let is_meant = wanted.is_none_or(|wanted| wanted == header.name || wanted == id);
            let is_later = || {
                found
                    .as_ref()
                    .is_none_or(|(.., known)| known.began_at_ms < header.began_at_ms)
            };
            if is_meant && is_later() {
                found = Some((dir, id, header));
            } else {
                names.insert(header.name);
            }
        }
        let Some((dir, id, header)) = found else {
            let names: Vec<String> = names.into_iter().collect();
            return Err(nothing().hinted(format!("there are: {}", names.join(", "))));
        };
        let text = dir.read(J::FILE, MOST_HEAD)?;
        let text = String::from_utf8(text).map_err(|_| {
            failure!(
                Data,
                "`{}` is not UTF-8 text",
                dir.path().join(J::FILE).display()
            )
        })?;
        let journal = read_journal(session, &dir)?;
        Ok((
            Self {
                dir,
                id,
                header,
                journal,
                writer: None,
            },
            text,
        ))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// Adds a line to the journal; it is on the disk before this returns.
    pub(crate) fn note(&mut self, entry: J::Line) -> Result<(), Error> {
        let Some((file, _)) = &mut self.writer else {
            return Err(failure!(Internal, "a journal that is only read"));
        };
        let mut line =
            serde_json::to_vec(&entry).map_err(|error| Error::new(Kind::Internal, error))?;
        line.push(b'\n');
        file.write_all(&line)
            .and_then(|()| file.sync_data())
            .map_err(|error| {
                let path = self.dir.path().join(JOURNAL);
                failure!(CannotWrite, "cannot write `{}`: {error}", path.display()).hinted(format!(
                    "submitted jobs continue; the same command continues the {}",
                    J::NOUN
                ))
            })?;
        self.journal.add(entry);
        Ok(())
    }
}

fn lock<J: Kept>(session: &Session, dir: &PrivateDir, name: &str) -> Result<Lock, Error> {
    let path = dir.path().join(LOCK);
    let lock = acquire_now(&path).map_err(|error| {
        failure!(CannotWrite, "cannot lock `{}`: {error}", path.display()).hinted(UNWRITABLE)
    })?;
    match lock {
        Ok(lock) => {
            if !lock.is_exclusive() {
                let noun = J::NOUN;
                session.warning(&format!(
                    "the file system has no locks: run this {noun} once at a time"
                ));
            }
            Ok(lock)
        }
        Err(owner) => {
            let who = in_brackets(owner.as_ref());
            Err(
                failure!(TryAgain, "another dlrun{who} runs the {} `{name}`", J::NOUN)
                    .hinted(format!("`dlrun {} show` shows how far it is", J::VERB)),
            )
        }
    }
}

/// The name of the head: `bench.json`.
fn head<J: Kept>() -> String {
    format!("{}.json", J::VERB)
}

/// Renames the journal. Jobs that it has as running are the user's to end.
fn set_aside<J: Kept>(session: &Session, dir: &PrivateDir, now_ms: u64) -> Result<(), Error> {
    let open: Vec<String> = read_journal::<J>(session, dir)?
        .open_runs()
        .iter()
        .map(|run| run.as_str()[..6].to_owned())
        .collect();
    if !open.is_empty() {
        session.warning(&format!(
            "jobs from before may still run beside the new ones; `dlrun cancel {}` ends them",
            open.join(" ")
        ));
    }
    let aside = format!("journal-{now_ms}.jsonl");
    dir.rename(JOURNAL, &aside)?;
    let path = dir.path().join(aside);
    session.note(&format!("earlier results are kept in {}", path.display()));
    Ok(())
}

fn read_header<J: Kept>(dir: &PrivateDir) -> Result<Option<Header>, Error> {
    let Some(bytes) = if_there(dir.read(&head::<J>(), MOST_HEAD))? else {
        return Ok(None);
    };
    let path = dir.path().join(head::<J>());
    let header: Header = serde_json::from_slice(&bytes).map_err(|error| {
        failure!(Data, "cannot read `{}`: {error}", path.display()).hinted(format!(
            "`dlrun {} run FILE --restart` begins again",
            J::VERB
        ))
    })?;
    if header.format > Header::FORMAT {
        return Err(failure!(
            Data,
            "`{}` has format {}, which a later dlrun wrote",
            path.display(),
            header.format
        )
        .hinted("use that one"));
    }
    Ok(Some(header))
}

fn read_journal<J: Kept>(session: &Session, dir: &PrivateDir) -> Result<J, Error> {
    let Some(bytes) = if_there(dir.read(JOURNAL, MOST_JOURNAL))? else {
        return Ok(J::default());
    };
    let (journal, unread) = J::read(&String::from_utf8_lossy(&bytes));
    if unread > 0 {
        let path = dir.path().join(JOURNAL);
        session.warning(&format!(
            "{} of `{}` cannot be read and are ignored; where they were damaged, a run is missing, and --restart begins again",
            counted(unread as u64, "line"),
            path.display()
        ));
    }
    Ok(journal)
}

/// Opens the journal at its end. A line that a killed dlrun left half written is closed first.
fn open_journal(dir: &PrivateDir) -> Result<File, Error> {
    let path = dir.path().join(JOURNAL);
    let opened = || -> std::io::Result<File> {
        let mut file = dir.open_or_create(JOURNAL)?;
        let end = file.seek(SeekFrom::End(0))?;
        if end > 0 {
            let mut last = [0];
            file.seek(SeekFrom::Start(end - 1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
            }
        }
        Ok(file)
    };
    opened().map_err(|error| {
        let why = chain(&error).join(": ");
        failure!(CannotWrite, "cannot write `{}`: {why}", path.display()).hinted(UNWRITABLE)
    })
}
