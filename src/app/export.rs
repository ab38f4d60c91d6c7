//! Rows for other programs: to standard output, to files, or to a consumer that gets each row once.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::app::error::{Error, Kind, failure, fault_kind};
use crate::app::imported::{of_reading, open_store};
use crate::app::output::Output;
use crate::app::replaced_file::{cannot_write, replace_file};
use crate::app::session::Session;
use crate::app::times::parse_time;
use crate::app::track::{Tracker, found};
use crate::foundation::clock::now_ms;
use crate::foundation::named_enum;
use crate::foundation::private::{FileError, PrivateDir};
use crate::record::Table;
use crate::record::export::{
    Consumer, ConsumerError, ConsumerFault, Csv, JsonLines, Parquet, RowWriter, SeriesWriter,
    series_families,
};
use crate::record::store::{Order, Pages, Selection, Store, StoreError};

const ELSEWHERE: &str = "name another place with `--output` or `--output-dir`";

named_enum! {
    /// How rows are written.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Format {
        Csv = "csv",
        Jsonl = "jsonl",
        Parquet = "parquet",
        Openmetrics = "openmetrics",
    }
}

impl Format {
    /// How names of its files end.
    fn extension(self) -> &'static str {
        match self {
            Self::Openmetrics => "om",
            other => other.as_str(),
        }
    }
}

/// What is exported, and where to.
#[derive(Debug)]
pub(crate) struct ExportRequest {
    /// Each once.
    pub(crate) tables: Vec<Table>,
    pub(crate) format: Format,
    pub(crate) since: Option<String>,
    pub(crate) until: Option<String>,
    pub(crate) user: Option<String>,
    /// Only rows of these, as they are named.
    pub(crate) runs: Vec<String>,
    /// `None`: standard output, or a directory.
    pub(crate) output: Option<PathBuf>,
    pub(crate) output_dir: Option<PathBuf>,
    /// The consumer that gets each row once.
    pub(crate) since_last: Option<String>,
    /// A database instead of one's own records.
    pub(crate) store: Option<PathBuf>,
}

/// What was written.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Exported {
    pub(crate) files: Vec<Written>,
    rows: u64,
}

/// Writes rows; `None` where they went to standard output.
pub(crate) fn export(
    session: &Session,
    request: &ExportRequest,
) -> Result<Option<Exported>, Error> {
    check(session, request)?;
    // Before anything is looked at: an error costs no waiting.
    let consumer = request.since_last.as_deref();
    let consumer = consumer.map(|name| turn(session, name)).transpose()?;
    let source = Source::open(session, request)?;
    // The site may have set where files for a consumer go.
    let of_site = consumer.as_ref().map(|_| session.settings.export_dir());
    let files = match &request.output_dir.clone().or(of_site) {
        None => to_one(request, &source)?.map(|file| vec![file]),
        Some(dir) => {
            // Of a consumer it may lie on what is not mounted now.
            if consumer.is_none() {
                std::fs::create_dir_all(dir)
                    .map_err(|source| no_dir(FileError::cannot("create", dir, source)))?;
            }
            let dir = PrivateDir::open_shared(dir).map_err(no_dir)?;
            Some(match consumer {
                Some(consumer) => since_last(request, source, consumer, &dir)?,
                None => whole(request, &source, &dir)?,
            })
        }
    };
    Ok(files.map(|files| Exported {
        rows: files.iter().filter_map(|file| file.rows).sum(),
        files,
    }))
}

/// What goes together.
fn check(session: &Session, request: &ExportRequest) -> Result<(), Error> {
    let tables = &request.tables;
    let one_file = request.output_dir.is_none() && request.since_last.is_none();
    if one_file && tables.len() > 1 && request.format != Format::Jsonl {
        return Err(failure!(
            Usage,
            "rows of several tables do not fit into one file of this format"
        )
        .hinted("`--format jsonl` takes them, or `--output-dir DIR` makes a file of each"));
    }
    if request.format == Format::Openmetrics
        && let Some(table) = tables
            .iter()
            .find(|table| series_families(**table).is_empty())
    {
        return Err(
            failure!(Usage, "{} make no series for OpenMetrics", table.as_str()).hinted(
                "runs, usage, timings, gpus and samples do; the other formats take all tables",
            ),
        );
    }
    if one_file && request.output.is_none() {
        if session.output.json {
            return Err(
                failure!(Usage, "with --json there must be a file for the rows")
                    .hinted("name `--output FILE`; `--format jsonl` alone prints rows as JSON"),
            );
        }
        if request.format == Format::Parquet && io::stdout().is_terminal() {
            return Err(failure!(Usage, "Parquet is nothing for a terminal")
                .hinted("name `--output FILE`, or write it into a pipe"));
        }
    }
    Ok(())
}

/// The consumer's turn, with what was on its way to him settled.
fn turn(session: &Session, name: &str) -> Result<Consumer, Error> {
    let cursors = session.state()?.path().join("exports");
    let mut consumer = Consumer::open(&cursors, name)?;
    if let Some(path) = consumer.recover()? {
        session.note(&format!(
            "delivered `{}`, which an export before had written",
            path.display()
        ));
    }
    Ok(consumer)
}

/// A database and what is wanted of it.
struct Source {
    store: Store,
    /// Of any table.
    wanted: Selection,
}

impl Source {
    fn open(session: &Session, request: &ExportRequest) -> Result<Self, Error> {
        let now = now_ms();
        let time = |text: &Option<String>| {
            text.as_deref()
                .map(|text| parse_time(text, now))
                .transpose()
        };
        let usage = |text: String| Error::new(Kind::Usage, text);
        let mut wanted = Selection {
            user: request.user.clone(),
            since_ms: time(&request.since).map_err(usage)?,
            until_ms: time(&request.until).map_err(usage)?,
            ..Selection::all(Table::Runs)
        };
        let each = request.runs.iter();
        let store = match &request.store {
            Some(path) => {
                let store = open_store(path)?;
                let runs = each.map(|text| found(store.find(text)?, text));
                wanted.runs = runs.collect::<Result<_, _>>()?;
                store
            }
            None => {
                let mut tracker = Tracker::open(session)?;
                tracker.refresh_unfinished(false)?;
                let runs = each.map(|text| tracker.find(text));
                wanted.runs = runs.collect::<Result<_, _>>()?;
                tracker.store
            }
        };
        Ok(Self { store, wanted })
    }

    fn selection(&self, table: Table) -> Selection {
        Selection {
            table,
            ..self.wanted.clone()
        }
    }
}

/// A file that was written.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Written {
    /// What is no UTF-8 in it is replaced.
    pub(crate) path: String,
    what: String,
    /// `None` where they were written by an export before.
    rows: Option<u64>,
    /// The changes that are in it: after this one, up to that.
    after: Option<u64>,
    upto: Option<u64>,
}

impl Written {
    fn new(path: &Path, what: String, rows: u64) -> Self {
        Self {
            path: path.to_string_lossy().into_owned(),
            what,
            rows: Some(rows),
            after: None,
            upto: None,
        }
    }
}

/// To a file, or to standard output: at least once.
fn to_one(request: &ExportRequest, source: &Source) -> Result<Option<Written>, Error> {
    let tables = request.tables.iter();
    let selections: Vec<Selection> = tables.map(|table| source.selection(*table)).collect();
    let write =
        |to: &mut (dyn Write + Send)| write_all(request.format, &source.store, &selections, to);
    let Some(path) = &request.output else {
        return match write(&mut io::stdout()) {
            // A reader that went away is no error.
            Err(Failure::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(None),
            other => other
                .map(|_| None)
                .map_err(|failure| failure.at(Path::new("standard output"))),
        };
    };
    let rows = if path.metadata().is_ok_and(|about| !about.is_file()) {
        let mut file = File::options()
            .write(true)
            .open(path)
            .map_err(|error| cannot_write(path, &error, ELSEWHERE))?;
        write(&mut file).map_err(|failure| failure.at(path))?
    } else {
        replace(path, |file| write(file))?
    };
    let words: Vec<&str> = request.tables.iter().map(|table| table.as_str()).collect();
    Ok(Some(Written::new(path, words.join(","), rows)))
}

/// A file for each table, in place of what is there.
fn whole(
    request: &ExportRequest,
    source: &Source,
    dir: &PrivateDir,
) -> Result<Vec<Written>, Error> {
    let one = |table: Table| {
        let path = dir
            .path()
            .join(format!("{}.{}", table.as_str(), request.format.extension()));
        let selections = [source.selection(table)];
        let rows = replace(&path, |mut file| {
            write_all(request.format, &source.store, &selections, &mut file)
        })?;
        Ok(Written::new(&path, table.as_str().to_owned(), rows))
    };
    request.tables.iter().copied().map(one).collect()
}

/// Puts a file in its place once it is whole.
fn replace(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<u64, Failure>,
) -> Result<u64, Error> {
    if path.file_name().is_none_or(|name| name.to_str().is_none()) {
        return Err(
            failure!(Usage, "`{}` is not a file name in UTF-8", path.display()).hinted(ELSEWHERE),
        );
    }
    replace_file(path, 0o640, ELSEWHERE, |file| {
        write(file).map_err(|failure| failure.at(path))
    })
}

/// What a consumer has not got yet.
fn since_last(
    request: &ExportRequest,
    mut source: Source,
    mut consumer: Consumer,
    dir: &PrivateDir,
) -> Result<Vec<Written>, Error> {
    let store = source.store.identity()?.store;
    // No number is handed out that a power failure could give to another row.
    let upto = source.store.durable_change()?;
    consumer.bind(&store, upto, source.wanted.user.as_deref())?;
    let mut files = Vec::new();
    for table in request.tables.iter().copied() {
        let after = consumer.reached(table);
        if after >= upto {
            continue;
        }
        let selection = Selection {
            after,
            upto,
            settled: true,
            ..source.selection(table)
        };
        let extension = request.format.extension();
        let written = consumer.export(dir, table, upto, extension, |file| {
            write_all(request.format, &source.store, &[selection], file)
                .map_err(|failure| failure.at(dir.path()))
        })?;
        if let Some((path, rows)) = written {
            files.push(Written {
                after: Some(after),
                upto: Some(upto),
                ..Written::new(&path, table.as_str().to_owned(), rows)
            });
        }
    }
    Ok(files)
}

/// Why rows could not be written.
enum Failure {
    Store(StoreError),
    Write(io::Error),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl Failure {
    fn at(self, path: &Path) -> Error {
        match self {
            Self::Store(error) => of_reading(error),
            Self::Write(error) => cannot_write(path, &error, ELSEWHERE),
        }
    }
}

/// Writes rows; returns their number.
fn write_all(
    format: Format,
    store: &Store,
    selections: &[Selection],
    mut to: &mut (dyn Write + Send),
) -> Result<u64, Failure> {
    let mut rows = 0;
    for selection in selections {
        rows += match format {
            Format::Csv => write_rows(store, selection, Csv::new(&mut to, selection.table))?,
            Format::Jsonl => {
                write_rows(store, selection, JsonLines::new(&mut to, selection.table))?
            }
            Format::Parquet => {
                write_rows(store, selection, Parquet::new(&mut to, selection.table)?)?
            }
            Format::Openmetrics => write_series(store, selection, &mut to)?,
        };
    }
    Ok(rows)
}

/// Page by page: nothing is locked while a reader takes its time.
fn write_rows(
    store: &Store,
    selection: &Selection,
    mut writer: impl RowWriter,
) -> Result<u64, Failure> {
    let mut pages = Pages::new(store, selection.clone())?;
    let mut rows = 0;
    while pages.next(store, |cells| {
        rows += 1;
        Ok::<_, Failure>(writer.row(cells)?)
    })? {
        writer.flush()?;
    }
    writer.finish()?;
    warn_of_damaged(selection.table, pages.damaged());
    Ok(rows)
}

fn warn_of_damaged(table: Table, blocks: u64) {
    if blocks > 0 {
        Output::new(false, "export").warning(&format!(
            "{blocks} damaged blocks of {} are left out",
            table.as_str()
        ));
    }
}

/// Family by family; returns the rows of one.
fn write_series(store: &Store, selection: &Selection, to: impl Write) -> Result<u64, Failure> {
    let mut writer = SeriesWriter::new(to);
    let (mut most, mut damaged) = (0, 0);
    for family in series_families(selection.table) {
        let mut pages = Pages::new(
            store,
            Selection {
                order: Order::ByMeasurement,
                ..selection.clone()
            },
        )?;
        let mut rows = 0;
        writer.begin(&family)?;
        while pages.next(store, |cells| {
            rows += 1;
            Ok::<_, Failure>(writer.row(&family, cells)?)
        })? {
            writer.flush()?;
        }
        (most, damaged) = (most.max(rows), pages.damaged());
    }
    writer.finish()?;
    warn_of_damaged(selection.table, damaged);
    Ok(most)
}

fn no_dir(error: FileError) -> Error {
    Error::new(fault_kind(error.kind), error).hinted(
        "it must exist, and you must be able to write to it; `--output-dir` or `export.dir` names another",
    )
}

impl From<ConsumerError> for Error {
    fn from(error: ConsumerError) -> Self {
        let (kind, hint) = match error.kind {
            ConsumerFault::Usage => (
                Kind::Usage,
                "a name is up to 64 letters, digits and `._-`; another name begins a new consumer",
            ),
            ConsumerFault::Busy => (Kind::TryAgain, "try again later"),
            ConsumerFault::Cursor => (
                Kind::Config,
                "another name begins a new consumer, which gets all rows",
            ),
            ConsumerFault::Denied => (
                Kind::NotPermitted,
                "nothing was delivered; the next export continues from there",
            ),
            ConsumerFault::Write => (
                Kind::CannotWrite,
                "nothing is lost and nothing comes twice: the next export continues from there",
            ),
        };
        Self::new(kind, error).hinted(hint)
    }
}
