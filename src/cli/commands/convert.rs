//! `dlrun convert`: other programs' job descriptions as job files.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, absolute};

use serde::Serialize;

use crate::app::error::{Error, Kind};
use crate::app::job::source::{read, read_text};
use crate::app::output::Output;
use crate::cli::args::Convert;
use crate::foundation::diagnostic::line_and_column;
use crate::job::convert::{Note, ScriptPlace, convert};

/// A job file with what has no place in it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ConvertedJob<'a> {
    from: &'static str,
    job_file: &'a str,
    notes: Vec<ConvertedNote<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ConvertedNote<'a> {
    about: &'a str,
    message: &'a str,
    line: Option<usize>,
    column: Option<usize>,
    /// Whether it is a fault that must be mended.
    refusal: bool,
}

/// Runs the verb.
pub(crate) fn run(output: Output, args: &Convert) -> Result<u8, Error> {
    let mut name = args.file.to_string_lossy();
    let (text, place) = if args.file == Path::new("-") {
        name = "standard input".into();
        (read_text(std::io::stdin().lock(), &name)?, None)
    } else {
        (read(&args.file)?, Some(script_place(args)?))
    };
    let converted = convert(&text, place.as_ref())
        .map_err(|problems| Error::in_file(Kind::JobFile, &name, &text, problems))?;
    if let Some(path) = &args.output {
        write(path, &converted.job_file)?;
    }
    if !output.json {
        for note in &converted.notes {
            output.note(&format!("note: {}: {}", note.about, note.message));
        }
    }
    let printed = match &args.output {
        Some(_) => "",
        None => &converted.job_file,
    };
    let notes = converted.notes.iter();
    let answer = ConvertedJob {
        from: converted.format.as_str(),
        job_file: &converted.job_file,
        notes: notes.map(|note| shown(note, &text)).collect(),
    };
    output.document(&answer, printed)
}

/// How the job file names the script: by its place beside the job file, else in full.
fn script_place(args: &Convert) -> Result<ScriptPlace, Error> {
    let file = absolute(&args.file)?;
    let dir = match &args.output {
        Some(output) => absolute(output)?.parent().map(Path::to_owned),
        // Printed, it is most likely kept here.
        None => Some(absolute(".")?.components().collect()),
    };
    let beside = file.file_name().filter(|_| dir.as_deref() == file.parent());
    Ok(ScriptPlace {
        name: beside
            .unwrap_or(file.as_os_str())
            .to_string_lossy()
            .into_owned(),
        path: file.to_string_lossy().into_owned(),
    })
}

/// An existing job file is somebody's work: it is not written over.
fn write(path: &Path, text: &str) -> Result<(), Error> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        let message = format!("cannot write `{}`: {error}", path.display());
        let failed = Error::new(Kind::CannotWrite, message);
        match error.kind() {
            ErrorKind::AlreadyExists => failed.hinted("remove it first, or name another file"),
            _ => failed,
        }
    })
}

fn shown<'a>(note: &'a Note, text: &str) -> ConvertedNote<'a> {
    let at = note.span.as_ref().map(|span| span.start);
    let (line, column) = at.and_then(|at| line_and_column(at, text)).unzip();
    ConvertedNote {
        about: &note.about,
        message: &note.message,
        line,
        column,
        refusal: note.is_refusal,
    }
}
