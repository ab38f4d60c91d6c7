//! `dlrun convert`: other programs' job descriptions as job files.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, absolute};

use serde_json::{Value, json};

use crate::app::error::{Error, Kind};
use crate::app::job::schedulers;
use crate::app::job::source::{read, read_text};
use crate::app::session::Session;
use crate::cli::args::Convert;
use crate::foundation::diagnostic::Problem;
use crate::job::convert::{Converted, Note, ScriptPlace, convert};
use crate::job::{self, JobId};
use crate::plan::{SiteFacts, TargetFacts, asked_scheduler, resolve};

/// More than a job file has keys and options that could be refused.
const MOST_LEFT_OUT: usize = 100;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &Convert) -> Result<u8, Error> {
    let output = session.output;
    let mut shown = args.file.to_string_lossy();
    let (text, place) = if args.file == Path::new("-") {
        shown = "standard input".into();
        (read_text(std::io::stdin().lock(), &shown)?, None)
    } else {
        (read(&args.file)?, Some(script_place(args)?))
    };
    let mut converted = convert(&text, place.as_ref())
        .map_err(|problems| Error::in_file(Kind::JobFile, &shown, &text, problems))?;
    make_acceptable(session, &mut converted);
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
    output.document(&to_json(&converted, &text), printed)
}

/// What `dlrun check` would refuse is left out: what no site takes, and where nothing names the scheduler, what the one of
/// this machine does not take.
fn make_acceptable(session: &Session, converted: &mut Converted) {
    for _ in 0..MOST_LEFT_OUT {
        let Ok(spec) = job::parse(&converted.job_file) else {
            return;
        };
        let asked = asked_scheduler(&spec, &session.settings).map(|(kind, _)| kind);
        let mut facts = SiteFacts::unknown("/job.toml".into());
        facts.schedulers = schedulers::look(session, asked).found;
        for depend in &spec.resources.depends {
            let target = depend.value.target.clone();
            let jobs = TargetFacts::Jobs(vec![JobId(target.clone())]);
            let _ = facts.targets.insert(target, jobs);
        }
        let Err(problems) = resolve(&spec, &session.settings, &facts) else {
            return;
        };
        if !problems.iter().any(|problem| converted.leave_out(problem)) {
            return;
        }
    }
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

fn to_json(converted: &Converted, text: &str) -> Value {
    let note = |note: &Note| {
        let place = Problem {
            span: note.span.clone(),
            message: String::new(),
            hint: None,
        }
        .position(text);
        json!({
            "about": note.about,
            "message": note.message,
            "line": place.map(|(line, _)| line),
            "column": place.map(|(_, column)| column),
            "refusal": note.is_refusal,
        })
    };
    let notes: Vec<Value> = converted.notes.iter().map(note).collect();
    json!({ "from": converted.format.as_str(), "job_file": converted.job_file, "notes": notes })
}
