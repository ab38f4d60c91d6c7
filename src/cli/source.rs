//! The text of a job file, or of a description in MODAK's JSON that becomes one.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::error::{Error, Kind};
use crate::bench::Cell;
use crate::convert::{Converted, convert, looks_like_json};
use crate::diagnostic::Problem;
use crate::job::MAX_JOB_FILE_BYTES;

/// Notes beyond these are counted: the plan travels in one environment variable.
const MAX_NOTES: usize = 40;

/// A job file's text; of a description in MODAK's JSON, or of a matrix, what it becomes.
pub(crate) struct Source {
    shown: String,
    text: String,
    converted: Option<Converted>,
    cell: Option<Cell>,
}

impl Source {
    /// Reads a file, and converts it where it is JSON.
    pub(crate) fn read(file: &Path) -> Result<Self, Error> {
        let text = read(file)?;
        let shown = file.to_string_lossy().into_owned();
        let mut source = Self { shown, text, converted: None, cell: None };
        if looks_like_json(&source.text) || file.extension().is_some_and(|extension| extension == "json") {
            let converted =
                convert(&source.text, None).map_err(|faults| source.error(Kind::JobFile, faults))?;
            let refusals: Vec<Problem> = converted.refusals().collect();
            if !refusals.is_empty() {
                let hint = "`dlrun convert` makes a job file of the rest, to be completed by hand";
                return Err(source.error(Kind::JobFile, refusals).hinted(hint));
            }
            source.converted = Some(converted);
        }
        Ok(source)
    }

    /// The job file of a cell of the matrix that `file` holds.
    pub(crate) fn of_cell(file: &Path, text: &str, cell: Cell) -> Self {
        let shown = file.to_string_lossy().into_owned();
        Self { shown, text: text.to_owned(), converted: None, cell: Some(cell) }
    }

    pub(crate) fn job_file(&self) -> &str {
        let converted = self.converted.as_ref().map(|converted| &converted.job_file);
        converted.or(self.cell.as_ref().map(|cell| &cell.job_file)).unwrap_or(&self.text)
    }

    /// Problems of the job file, as problems of the text that the user wrote.
    pub(crate) fn error(&self, kind: Kind, problems: Vec<Problem>) -> Error {
        let place = |problem| match (&self.converted, &self.cell) {
            (Some(converted), _) => converted.in_description(problem),
            (None, Some(cell)) => cell.in_matrix(problem),
            (None, None) => problem,
        };
        if self.converted.is_none() && is_script(&self.text) {
            let error = Error::new(kind, format!("`{}` is a batch script, no job file", self.shown));
            return error
                .hinted(format!("`dlrun convert {} -o JOB.toml` makes a job file of it", self.shown));
        }
        Error::in_file(kind, &self.shown, &self.text, problems.into_iter().map(place).collect())
    }

    /// What became of the description's keys.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let notes = self.converted.iter().flat_map(|converted| &converted.notes);
        let mut warnings: Vec<String> =
            notes.map(|note| format!("{}: {}", note.about, note.message)).collect();
        if warnings.len() > MAX_NOTES {
            let more = warnings.len() - MAX_NOTES;
            warnings.truncate(MAX_NOTES);
            warnings.push(format!("and {more} more: `dlrun convert` tells them"));
        }
        warnings
    }
}

/// Says whether a text that is no job file is a script. Directives may stand in a job file too, as comments.
fn is_script(text: &str) -> bool {
    let is_directive = |line: &str| line.starts_with("#SBATCH") || line.starts_with("#PBS");
    text.starts_with("#!")
        || (text.lines().any(is_directive) && !text.lines().any(|line| line.trim() == "[run]"))
}

/// The text of a job file, or of a description that becomes one.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| {
        let denied = error.kind() == std::io::ErrorKind::PermissionDenied;
        let kind = if denied { Kind::NotPermitted } else { Kind::Missing };
        Error::new(kind, format!("cannot read `{shown}`: {error}"))
    };
    let file = open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.is_dir() {
        let error = Error::new(Kind::Missing, format!("`{shown}` is a directory"));
        return Err(
            error.hinted(format!("name the job file in it, such as `{}`", path.join("train.toml").display()))
        );
    }
    let text = read_text(file, &shown.to_string())?;
    if text.is_empty() && metadata.file_type().is_fifo() {
        return Err(Error::new(Kind::Missing, format!("`{shown}` is a pipe, and nobody writes to it")));
    }
    Ok(text)
}

/// Opens without waiting for somebody to write, as the opening of a pipe does. What is open is read as it comes: in
/// `dlrun submit <(make-job)` the writer is there, and may take its time.
pub(crate) fn open(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    fcntl(&file, FcntlArg::F_SETFL(OFlag::empty()))?;
    Ok(file)
}

/// Text of at most 1 MiB. `shown` names where it comes from.
pub(crate) fn read_text(from: impl Read, shown: &str) -> Result<String, Error> {
    let unreadable =
        |error: std::io::Error| Error::new(Kind::Missing, format!("cannot read `{shown}`: {error}"));
    let mut bytes = Vec::with_capacity(8 << 10);
    from.take(MAX_JOB_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_JOB_FILE_BYTES {
        let message = format!("`{shown}` is larger than 1 MiB, which no job file is");
        return Err(Error::new(Kind::JobFile, message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::new(Kind::JobFile, format!("`{shown}` is not UTF-8 text: byte {at}"))
    })
}
