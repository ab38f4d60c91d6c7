//! The text of a job file, or of a description in MODAK's JSON that becomes one.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::app::error::{Error, Kind, failure};
use crate::foundation::diagnostic::Problem;
use crate::job::convert::{Converted, convert, looks_like_json};
use crate::job::{JobSpec, MAX_JOB_FILE_BYTES, Overrides, is_toml, parse_with};
use crate::learn::bench::Cell;

/// Notes beyond these are counted: the plan travels in one environment variable.
const MAX_NOTES: usize = 40;

/// A job file's text; of a description in MODAK's JSON, or of a matrix, what it becomes.
pub(crate) struct Source {
    shown: String,
    text: String,
    converted: Option<Converted>,
    cell: Option<Cell>,
    overrides: Overrides,
}

impl Source {
    /// Reads a file, and converts it where it is JSON.
    pub(crate) fn read(file: &Path) -> Result<Self, Error> {
        let text = read(file)?;
        let shown = file.to_string_lossy().into_owned();
        let overrides = Overrides::default();
        let mut source = Self {
            shown,
            text,
            converted: None,
            cell: None,
            overrides,
        };
        if looks_like_json(&source.text)
            || file
                .extension()
                .is_some_and(|extension| extension == "json")
        {
            let converted = convert(&source.text, None)
                .map_err(|faults| source.error(Kind::JobFile, faults))?;
            let refusals: Vec<Problem> = converted.refusals().collect();
            if !refusals.is_empty() {
                let hint = "`dlrun convert` makes a job file of the rest, to be completed by hand";
                return Err(source.error(Kind::JobFile, refusals).hinted(hint));
            }
            source.converted = Some(converted);
        }
        if let Some((what, hint)) = not_a_job_file(file)
            && !is_toml(&source.text)
        {
            return Err(
                failure!(JobFile, "`{}` is {what}, not a job file", file.display()).hinted(hint),
            );
        }
        Ok(source)
    }

    /// The job file of a cell of the matrix that `file` holds.
    pub(crate) fn of_cell(file: &Path, text: &str, cell: Cell) -> Self {
        let shown = file.to_string_lossy().into_owned();
        let overrides = Overrides::default();
        Self {
            shown,
            text: text.to_owned(),
            converted: None,
            cell: Some(cell),
            overrides,
        }
    }

    /// A job file that dlrun has written.
    pub(crate) fn of_text(file: &Path, text: String) -> Self {
        Self {
            shown: file.to_string_lossy().into_owned(),
            text,
            converted: None,
            cell: None,
            overrides: Overrides::default(),
        }
    }

    /// With what the command line says in its place.
    pub(crate) fn with(mut self, overrides: Overrides) -> Self {
        self.overrides = overrides;
        self
    }

    /// The job as file and command line have it.
    pub(crate) fn spec(&self) -> Result<JobSpec, Error> {
        parse_with(self.job_file(), &self.overrides)
            .map_err(|faults| self.error(Kind::JobFile, faults))
    }

    fn job_file(&self) -> &str {
        let converted = self.converted.as_ref().map(|converted| &converted.job_file);
        converted
            .or(self.cell.as_ref().map(|cell| &cell.job_file))
            .unwrap_or(&self.text)
    }

    /// Problems of the job file, as problems of the text that the user wrote.
    pub(crate) fn error(&self, kind: Kind, problems: Vec<Problem>) -> Error {
        let length = self.job_file().len();
        let given = |problem: &Problem| self.overrides.at(problem.span.as_ref()?, length);
        let shown = if problems.iter().all(|problem| given(problem).is_some()) {
            "the command line"
        } else {
            &self.shown
        };
        let place = |problem: Problem| match (given(&problem), &self.converted, &self.cell) {
            (Some(given), ..) => Problem {
                span: None,
                message: format!("`{given}`: {}", problem.message),
                ..problem
            },
            // The message names the key; the text that the user wrote has no such place.
            (None, Some(_), _) => Problem {
                span: None,
                ..problem
            },
            (None, None, Some(cell)) => cell.in_matrix(problem),
            (None, None, None) => problem,
        };
        if self.converted.is_none() && is_script(&self.text) {
            let error = Error::new(
                kind,
                format!("`{}` is a batch script, no job file", self.shown),
            );
            return error.hinted(format!(
                "`dlrun convert {} -o JOB.toml` makes a job file of it",
                self.shown
            ));
        }
        Error::in_file(
            kind,
            shown,
            &self.text,
            problems.into_iter().map(place).collect(),
        )
    }

    /// What became of the description's keys.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let notes = self.converted.iter().flat_map(|converted| &converted.notes);
        let mut warnings: Vec<String> = notes
            .map(|note| format!("{}: {}", note.about, note.message))
            .collect();
        if warnings.len() > MAX_NOTES {
            let more = warnings.len() - MAX_NOTES;
            warnings.truncate(MAX_NOTES);
            warnings.push(format!("and {more} more: `dlrun convert` shows them"));
        }
        warnings
    }
}

/// The job file that a word on the command line means: `train` is `train.toml` where that is a file and `train` is none.
pub(crate) fn job_file(named: &Path) -> PathBuf {
    let mut with_suffix = named.as_os_str().to_owned();
    with_suffix.push(".toml");
    let with_suffix = PathBuf::from(with_suffix);
    let is_meant =
        (!named.exists() || named.is_dir()) && named.file_name().is_some() && with_suffix.is_file();
    if is_meant {
        with_suffix
    } else {
        named.to_owned()
    }
}

/// What a file is that is no job file, with the next step; `None` where that is not known.
fn not_a_job_file(file: &Path) -> Option<(&'static str, String)> {
    let is = file.extension()?.to_str()?;
    let name = file.file_name()?.to_string_lossy();
    let command = |program: &str| {
        format!(
            "write a job file that runs it, such as train.toml with\n  [run]\n  command = [\"{program}\", \"{name}\"]\nand submit that"
        )
    };
    match is {
        "py" => Some(("a Python program", command("python3"))),
        "ipynb" => Some(("a notebook", "`jupyter nbconvert --to script` makes a program of it, which a job file can run".to_owned())),
        "yaml" | "yml" => Some(("YAML", "a job file is TOML: docs/job-file.md, or `dlrun check --schema`; if it is the program's configuration, name it in `run.command`".to_owned())),
        _ => None,
    }
}

/// Says whether a text that is no job file is a script. Directives may stand in a job file too, as comments.
fn is_script(text: &str) -> bool {
    let is_directive = |line: &str| line.starts_with("#SBATCH") || line.starts_with("#PBS");
    text.starts_with("#!")
        || (text.lines().any(is_directive) && !text.lines().any(|line| line.trim() == "[run]"))
}

/// What kind of failure a file is that cannot be read.
pub(crate) fn cannot_read(shown: impl std::fmt::Display, error: &std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::PermissionDenied => Kind::NotPermitted,
        std::io::ErrorKind::TimedOut | std::io::ErrorKind::StaleNetworkFileHandle => Kind::TryAgain,
        _ => Kind::Missing,
    };
    Error::new(kind, format!("cannot read `{shown}`: {error}"))
}

/// Opens a file that is no directory; of one `hint` is the next step.
pub(crate) fn open_file(path: &Path, hint: &str) -> Result<File, Error> {
    let shown = path.display();
    let file = open(path).map_err(|error| cannot_read(&shown, &error))?;
    match file.metadata() {
        Ok(found) if found.is_dir() => {
            Err(failure!(Missing, "`{shown}` is a directory").hinted(hint))
        }
        Ok(_) => Ok(file),
        Err(error) => Err(cannot_read(&shown, &error)),
    }
}

/// Opens a file, or standard input for `-`; also how messages name it.
pub(crate) fn open_input(path: &Path, hint: &str) -> Result<(Box<dyn Read>, String), Error> {
    if path == Path::new("-") {
        let stdin = Box::new(std::io::stdin().lock());
        return Ok((stdin, "standard input".to_owned()));
    }
    let file = open_file(path, hint)?;
    Ok((Box::new(file), path.display().to_string()))
}

/// The text of a job file, or of a description that becomes one.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    let example = path.join("train.toml");
    let hint = format!("name the job file in it, such as `{}`", example.display());
    read_text(open_file(path, &hint)?, &path.display().to_string())
}

/// Opens without waiting for somebody to write, as the opening of a pipe does. What is open is read as it comes: in
/// `dlrun submit <(make-job)` the writer is there, and may take its time.
pub(crate) fn open(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)?;
    fcntl(&file, FcntlArg::F_SETFL(OFlag::empty()))?;
    Ok(file)
}

/// Text of at most 1 MiB. `shown` names where it comes from.
pub(crate) fn read_text(from: impl Read, shown: &str) -> Result<String, Error> {
    let mut bytes = Vec::with_capacity(8 << 10);
    from.take(MAX_JOB_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| cannot_read(shown, &error))?;
    if bytes.len() as u64 > MAX_JOB_FILE_BYTES {
        return Err(failure!(
            JobFile,
            "`{shown}` is larger than 1 MiB, which no job file is"
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        failure!(JobFile, "`{shown}` is not UTF-8 text: byte {at}")
    })
}
