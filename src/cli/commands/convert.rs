//! `dlrun convert`: other programs' job descriptions as job files.

use std::fs::OpenOptions;
use std::io::Write;
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
    let is_stdin = args.file == Path::new("-");
    let text = if is_stdin {
        from_stdin()?
    } else {
        read(&args.file)?
    };
    let place = if is_stdin {
        None
    } else {
        Some(script_place(args)?)
    };
    let shown = if is_stdin {
        "standard input".into()
    } else {
        args.file.to_string_lossy()
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
    let printed = if args.output.is_some() {
        ""
    } else {
        converted.job_file.as_str()
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

fn from_stdin() -> Result<String, Error> {
    read_text(std::io::stdin().lock(), "standard input")
}

/// How the job file names the script: by its place beside the job file, else in full.
fn script_place(args: &Convert) -> Result<ScriptPlace, Error> {
    let file = absolute(&args.file)?;
    let beside = match &args.output {
        Some(output) => absolute(output)?.parent() == file.parent(),
        // Printed, it is most likely kept here.
        None => absolute(".")?
            .components()
            .eq(file.parent().into_iter().flat_map(Path::components)),
    };
    let name = file
        .file_name()
        .filter(|_| beside)
        .map(Path::new)
        .unwrap_or(&file);
    let text = |path: &Path| path.to_string_lossy().into_owned();
    Ok(ScriptPlace {
        name: text(name),
        path: text(&file),
    })
}

/// A job file that is there is somebody's work: it is not written over.
fn write(path: &Path, text: &str) -> Result<(), Error> {
    let cannot = |error: std::io::Error| {
        let failed = Error::new(
            Kind::CannotWrite,
            format!("cannot write `{}`: {error}", path.display()),
        );
        match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                failed.hinted("remove it first, or name another file")
            }
            _ => failed,
        }
    };
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(cannot)?;
    file.write_all(text.as_bytes()).map_err(cannot)
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
