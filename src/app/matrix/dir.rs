//! What is kept of a matrix, in `benches/NAME-HASH` of the state directory: the matrix itself, a head, and a journal. The hash
//! is that of all job files that it makes, so that a matrix of which a cell was changed is another one.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::app::error::{Error, Kind, failure};
use crate::app::progress::in_brackets;
use crate::app::session::Session;
use crate::foundation::clock::now_ms;
use crate::foundation::diagnostic::chain;
use crate::foundation::lock::{Lock, acquire_now};
use crate::foundation::private::{PrivateDir, if_there};
use crate::foundation::units::hex;
use crate::job::SchedulerKind;
use crate::learn::bench::{Cell, Entry, Header, Journal, Matrix};

const BENCHES: &str = "benches";
const HEAD: &str = "bench.json";
const MATRIX: &str = "matrix.toml";
const JOURNAL: &str = "journal.jsonl";
const LOCK: &str = "lock";
/// Bytes of a journal at most: a line of some hundred for each start of 100,000 runs.
const MOST_JOURNAL: usize = 512 << 20;
const MOST_HEAD: usize = 1 << 20;
/// Hexadecimal digits of the hash.
const DIGITS: usize = 12;

/// What is kept of a matrix.
pub(crate) struct BenchDir {
    dir: PrivateDir,
    /// The directory's name.
    pub(crate) id: String,
    pub(crate) header: Header,
    pub(crate) journal: Journal,
    /// Open to add to, and the right to do so; of a matrix that is only looked at neither.
    writer: Option<(File, Lock)>,
}

/// What a matrix is begun or continued with.
pub(crate) struct Order<'a> {
    pub(crate) matrix: &'a Matrix,
    /// The matrix as it was read.
    pub(crate) text: &'a str,
    /// Absolute.
    pub(crate) file: &'a Path,
    pub(crate) scheduler: SchedulerKind,
    pub(crate) repeats: u32,
    /// All job files that it makes.
    pub(crate) cells: &'a mut dyn Iterator<Item = Result<Cell, Error>>,
}

impl BenchDir {
    /// Begins a matrix or continues it; nobody else may be at it. `restart`: what was measured before is set aside.
    pub(crate) fn begin(
        session: &Session,
        mut order: Order<'_>,
        restart: bool,
    ) -> Result<Self, Error> {
        let name = order.matrix.name.clone();
        let id = format!("{name}-{}", hash(&mut order)?);
        let state = session.state()?;
        let dir = PrivateDir::create(&state.path().join(BENCHES))?.ensure_dir(&id)?;
        let lock = lock(session, &dir, &name)?;
        let kept = read_header(&dir)?;
        let journal_is_there = if_there(dir.open_file(JOURNAL))?.is_some();
        let mut header = Header {
            format: Header::FORMAT,
            name,
            file: order.file.to_string_lossy().into_owned(),
            began_at_ms: now_ms(),
            scheduler: order.scheduler,
            repeats: order.repeats,
        };
        match &kept {
            Some(kept) if restart && journal_is_there => {
                let aside = format!("journal-{}-{}.jsonl", kept.began_at_ms, header.began_at_ms);
                dir.rename(JOURNAL, &aside)?;
                session.note(&format!(
                    "what was measured before is set aside as {}",
                    dir.path().join(aside).display()
                ));
            }
            Some(kept) if !restart => header.began_at_ms = kept.began_at_ms,
            _ => {}
        }
        let text = serde_json::to_vec_pretty(&header)
            .map_err(|error| Error::new(Kind::Internal, error))?;
        dir.replace(MATRIX, order.text.as_bytes())?;
        dir.replace(HEAD, &text)?;
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

    /// What is kept of a matrix of this name, or under this id; of several the one that was begun last. Also its text.
    pub(crate) fn find(session: &Session, wanted: Option<&str>) -> Result<(Self, String), Error> {
        let path = session.existing_state()?.path().join(BENCHES);
        let nothing = || {
            let what = wanted.map_or_else(
                || "no matrix was measured".to_owned(),
                |name| format!("no matrix `{name}` was measured"),
            );
            Error::new(Kind::Missing, what)
        };
        let Some(benches) = if_there(PrivateDir::open(&path))? else {
            return Err(nothing().hinted("`dlrun bench run FILE` measures one"));
        };
        let mut found: Option<(PrivateDir, String, Header)> = None;
        let mut names = BTreeSet::new();
        for id in benches.names()? {
            let Ok(dir) = benches.open_dir(&id) else {
                continue;
            };
            let Ok(Some(header)) = read_header(&dir) else {
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
            return Err(nothing().hinted(format!("measured were: {}", names.join(", "))));
        };
        let text = dir.read(MATRIX, 1 << 20)?;
        let text = String::from_utf8(text).map_err(|_| {
            failure!(
                Data,
                "`{}` is not UTF-8 text",
                dir.path().join(MATRIX).display()
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
    pub(crate) fn note(&mut self, entry: Entry) -> Result<(), Error> {
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
                failure!(CannotWrite, "cannot write `{}`: {error}", path.display())
                    .hinted("submitted jobs continue; the same command continues the matrix")
            })?;
        self.journal.add(entry);
        Ok(())
    }
}

fn lock(session: &Session, dir: &PrivateDir, name: &str) -> Result<Lock, Error> {
    let path = dir.path().join(LOCK);
    let lock = acquire_now(&path)
        .map_err(|error| failure!(CannotWrite, "cannot lock `{}`: {error}", path.display()))?;
    match lock {
        Ok(lock) => {
            if !lock.is_exclusive() {
                session.warning("the file system has no locks: run this matrix once at a time");
            }
            Ok(lock)
        }
        Err(owner) => {
            let who = in_brackets(owner.as_ref());
            Err(
                failure!(TryAgain, "another dlrun{who} runs the matrix `{name}`")
                    .hinted("`dlrun bench show` shows how far it is"),
            )
        }
    }
}

/// The hash of what decides the measurements: where relative paths begin, the scheduler, the epochs that are left out, and all
/// job files.
fn hash(order: &mut Order<'_>) -> Result<String, Error> {
    let mut hasher = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    let dir = order.file.parent().unwrap_or(Path::new("/"));
    part(dir.as_os_str().as_encoded_bytes());
    part(order.scheduler.as_str().as_bytes());
    part(&order.matrix.warm_up.to_le_bytes());
    for cell in &mut *order.cells {
        part(cell?.job_file.as_bytes());
    }
    Ok(hex(&hasher.finalize())[..DIGITS].to_owned())
}

fn read_header(dir: &PrivateDir) -> Result<Option<Header>, Error> {
    let Some(bytes) = if_there(dir.read(HEAD, MOST_HEAD))? else {
        return Ok(None);
    };
    let path = dir.path().join(HEAD);
    let header: Header = serde_json::from_slice(&bytes)
        .map_err(|error| failure!(Data, "cannot read `{}`: {error}", path.display()))?;
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

fn read_journal(session: &Session, dir: &PrivateDir) -> Result<Journal, Error> {
    let Some(bytes) = if_there(dir.read(JOURNAL, MOST_JOURNAL))? else {
        return Ok(Journal::default());
    };
    let journal = Journal::read(&String::from_utf8_lossy(&bytes));
    if journal.unread > 0 {
        let path = dir.path().join(JOURNAL);
        let unread = journal.unread;
        session.warning(&format!(
            "{unread} lines of `{}` cannot be read and count for nothing",
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
        failure!(CannotWrite, "cannot write `{}`: {why}", path.display())
    })
}
