//! Rows of JSON Lines become runs again.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, stdin};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::app::error::{Error, failure};
use crate::app::imported::of_reading;
use crate::app::job::source::open_file;
use crate::app::session::Session;
use crate::app::track::Tracker;
use crate::foundation::clock::now_ms;
use crate::foundation::units::counted;
use crate::record::rundir::ImportCopy;
use crate::record::store::{Store, Taken, Writer};
use crate::record::{Incoming, MAX_LINE_BYTES};

/// The first id of a person's account, as `UID_MIN` of login.defs(5) has it by default.
const FIRST_USER: u32 = 1000;
/// Invalid lines that are reported one by one.
const SHOWN_PROBLEMS: usize = 20;

/// What came of an import.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Imported {
    store: PathBuf,
    pub(crate) files: Vec<FileTaken>,
}

/// What came of one file.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct FileTaken {
    pub(crate) file: String,
    #[serde(flatten)]
    pub(crate) counts: Counts,
}

/// What became of the lines of a file.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Counts {
    /// Lines, but for empty ones.
    pub(crate) lines: u64,
    /// Rows that are new, or replace older versions.
    new: u64,
    /// Rows that were known, in this version or a newer one.
    known: u64,
    /// Rows of runs that have their own directory here.
    own: u64,
    /// Rows that wait for their run, or for their measurement.
    waiting: u64,
    /// Rows of samples.
    skipped: u64,
    /// Invalid lines.
    pub(crate) wrong: u64,
    /// Valid rows by kind.
    #[serde(rename = "rows")]
    kinds: BTreeMap<&'static str, u64>,
    /// The first invalid lines.
    pub(crate) problems: Vec<Problem>,
}

/// An invalid line.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Problem {
    line: u64,
    message: String,
}

impl Counts {
    fn count_mut(&mut self, taken: Taken) -> &mut u64 {
        match taken {
            Taken::New => &mut self.new,
            Taken::Known => &mut self.known,
            Taken::Own => &mut self.own,
            Taken::Waits => &mut self.waiting,
            Taken::Skipped => &mut self.skipped,
        }
    }

    /// `3 lines: 1 new, 2 known`.
    pub(crate) fn to_text(&self) -> String {
        let counts = [
            (self.new, "new"),
            (self.known, "known"),
            (self.own, "of own runs, left alone"),
            (self.waiting, "waiting for what they belong to"),
            (self.skipped, "of samples, skipped"),
            (self.wrong, "invalid, skipped"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = counts
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        let lines = format!("{}: {}", counted(self.lines, "line"), parts.join(", "));
        lines.trim_end_matches(": ").to_owned()
    }
}

/// Takes files in: into the database `store`, else into the user's own records.
pub(crate) fn import(
    session: &Session,
    files: &[PathBuf],
    store: Option<&Path>,
) -> Result<Imported, Error> {
    // First, so that no database is made for files that are not there.
    let inputs = files.iter().map(|file| Input::open(session, file));
    let inputs: Vec<Input> = inputs.collect::<Result<_, _>>()?;
    let mut taken = Vec::new();
    let store = match store {
        Some(path) => {
            let is_new = path.symlink_metadata().is_err();
            let done = import_to_store(session, path, inputs, &mut taken);
            // An empty database would be taken for one that has what was to be in it.
            let has_rows = |file: &FileTaken| file.counts.new + file.counts.waiting > 0;
            if is_new && !taken.iter().any(has_rows) {
                let _ = std::fs::remove_file(path);
            }
            done?;
            path.to_owned()
        }
        None => {
            session.state()?;
            let mut tracker = Tracker::open(session)?;
            // Which runs are own ones.
            tracker.discover()?;
            for mut input in inputs {
                let counts = import_to_records(&mut tracker, &mut input)?;
                taken.push(input.reported(session, counts));
            }
            tracker.store.path().to_owned()
        }
    };
    Ok(Imported {
        store,
        files: taken,
    })
}

/// Into the database `path`; `taken` are the files that are in it, also where another one fails.
fn import_to_store(
    session: &Session,
    path: &Path,
    inputs: Vec<Input>,
    taken: &mut Vec<FileTaken>,
) -> Result<(), Error> {
    let mut store = Store::open(path).map_err(of_reading)?;
    if store.is_of_a_node().map_err(of_reading)? {
        let path = path.display();
        let error = failure!(NotPermitted, "`{path}` is the database of a node daemon");
        return Err(error.hinted("name another database with `--store`"));
    }
    for mut input in inputs {
        let counts = store.write(|writer| input.import(writer, None))?;
        taken.push(input.reported(session, counts));
    }
    Ok(())
}

/// All valid rows of a file, or nothing. The lines are kept too: what the index holds must be found again in files.
fn import_to_records(tracker: &mut Tracker<'_>, input: &mut Input) -> Result<Counts, Error> {
    let mut copy = ImportCopy::new()?;
    let (state, mut kept) = (&tracker.state, None);
    let done = tracker.store.write(|writer| {
        let counts = input.import(writer, Some(&mut copy))?;
        if counts.new + counts.waiting > 0 {
            let (name, is_new) = state.keep_import(copy)?;
            // A copy that an earlier import kept outlives the failure of this one.
            kept = is_new.then(|| name.clone());
            writer.note_import(
                &name,
                now_ms(),
                counts.lines - counts.wrong - counts.skipped,
            )?;
        }
        Ok(counts)
    });
    if let (Err(_), Some(name)) = (&done, kept) {
        let _ = state.forget_import(&name);
    }
    done
}

/// A file that is imported.
struct Input {
    file: String,
    lines: Box<dyn BufRead>,
    /// Whose runs it may contain; `None`: anybody's.
    owner: Option<u32>,
}

impl Input {
    /// Opens a file; `-` is standard input, whose content the user vouches for.
    fn open(session: &Session, path: &Path) -> Result<Self, Error> {
        if path.as_os_str() == "-" {
            return Ok(Self {
                file: "standard input".to_owned(),
                lines: Box::new(BufReader::new(stdin())),
                owner: None,
            });
        }
        let file = path.display().to_string();
        let opened = open_file(path, &format!("name the files in it: {file}/*.jsonl"))?;
        let owner = opened.metadata()?.uid();
        Ok(Self {
            file,
            lines: Box::new(BufReader::with_capacity(1 << 16, opened)),
            owner: Some(owner).filter(|uid| !is_trusted(session, *uid)),
        })
    }

    fn import(
        &mut self,
        writer: &Writer<'_>,
        copy: Option<&mut ImportCopy>,
    ) -> Result<Counts, Error> {
        import_lines(&mut self.lines, self.owner, writer, copy)
            .map_err(|error| error.hinted(format!("nothing of {} was imported", self.file)))
    }

    fn reported(self, session: &Session, counts: Counts) -> FileTaken {
        for Problem { line, message } in &counts.problems {
            session.warning(&format!("{}:{line}: {message}", self.file));
        }
        FileTaken {
            file: self.file,
            counts,
        }
    }
}

/// Who may add everybody's runs: the user who imports, accounts of the system, and the owner of the site's exports.
fn is_trusted(session: &Session, uid: u32) -> bool {
    let owns_exports = || {
        let about = session.settings.export_dir().symlink_metadata();
        about.is_ok_and(|about| about.is_dir() && about.uid() == uid)
    };
    uid < FIRST_USER || uid == nix::unistd::geteuid().as_raw() || owns_exports()
}

/// Takes all lines in. Those that were taken go into `copy` too. Invalid ones are skipped: anybody whose run is in a file could keep
/// all of it from being imported. `owner` may add only their own runs.
pub(crate) fn import_lines(
    from: &mut dyn BufRead,
    owner: Option<u32>,
    writer: &Writer<'_>,
    mut copy: Option<&mut ImportCopy>,
) -> Result<Counts, Error> {
    let (mut counts, mut line, mut number) = (Counts::default(), Vec::new(), 0);
    let waited = writer.last_waiting()?;
    // With the line's end and one byte by which it is seen to be longer.
    let limit = MAX_LINE_BYTES as u64 + 2;
    while from.take(limit).read_until(b'\n', &mut line)? > 0 {
        number += 1;
        let is_long = line.len() > MAX_LINE_BYTES + 1;
        if is_long && !line.ends_with(b"\n") {
            from.skip_until(b'\n')?;
        }
        let text = line.trim_ascii();
        if !text.is_empty() {
            counts.lines += 1;
            let row = match is_long {
                true => Err(format!("it is longer than {MAX_LINE_BYTES} bytes")),
                false => Incoming::read(text).and_then(|row| match owner {
                    Some(uid) => row.check_owner(uid).map(|()| row),
                    None => Ok(row),
                }),
            };
            match row {
                Ok(row) => {
                    let text = String::from_utf8_lossy(text);
                    *counts.kinds.entry(row.table.kind()).or_default() += 1;
                    let taken = writer.import(&row, &text)?;
                    *counts.count_mut(taken) += 1;
                    if let Some(copy) = copy.as_mut().filter(|_| taken != Taken::Skipped) {
                        copy.add(&text)?;
                    }
                }
                Err(message) => {
                    counts.wrong += 1;
                    if counts.problems.len() < SHOWN_PROBLEMS {
                        let line = number;
                        counts.problems.push(Problem { line, message });
                    }
                }
            }
        }
        line.clear();
    }
    let arrived = writer.import_waiting(waited)?;
    counts.waiting -= arrived;
    counts.new += arrived;
    Ok(counts)
}
