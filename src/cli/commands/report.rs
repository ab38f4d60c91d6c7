//! `dlrun report`: what is known of runs, as a page that people look at.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::app::error::Error;
use crate::app::replaced_file::{OTHER_OUTPUT, may_write, write_over};
use crate::app::report::report_of;
use crate::app::session::Session;
use crate::cli::args::{Report as Arguments, ReportFormat};
use crate::foundation::units::Bytes;
use crate::job::RunId;
use crate::report::Report;

/// The file that was written.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct WrittenReport<'a> {
    file: Cow<'a, str>,
    format: ReportFormat,
    bytes: usize,
    runs: Vec<&'a RunId>,
}

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &Arguments) -> Result<u8, Error> {
    let (format, target) = target(session, args);
    // Before anything is read: reading takes a while.
    if let Some(path) = target.as_deref() {
        may_write(path, OTHER_OUTPUT)?;
    }
    let report = report_of(session, &args.runs, args.history)?;
    let written = match format {
        ReportFormat::Html => report.to_html(),
        ReportFormat::Json => session.output.envelope(&report.to_json())?,
    };
    let path = match target {
        // Of a file that is not written yet the first run names it.
        Some(path) if path.as_os_str().is_empty() => default_path(&report),
        Some(path) => path,
        None => {
            session.output.raw(written.as_bytes())?;
            return Ok(0);
        }
    };
    write_over(&path, written.as_bytes())?;
    let runs = report.runs.iter();
    let answer = WrittenReport {
        file: path.to_string_lossy(),
        format,
        bytes: written.len(),
        runs: runs.map(|run| &run.record.run_id).collect(),
    };
    let text = format!(
        "wrote {} ({})\n",
        path.display(),
        Bytes(written.len() as u64)
    );
    session.answer(&answer, &text)
}

/// What is written, and where to; no place: standard output; an empty one: named after the run.
fn target(session: &Session, args: &Arguments) -> (ReportFormat, Option<PathBuf>) {
    let ending = args.output.as_ref().and_then(|path| path.extension());
    let by_ending = ending.map(|ending| match ending.to_str() {
        Some("json") => ReportFormat::Json,
        _ => ReportFormat::Html,
    });
    // For programs that name neither: the object that `--json` promises.
    let by_flag = (session.output.json && args.output.is_none()).then_some(ReportFormat::Json);
    let asked = args.format.or(by_ending).or(by_flag);
    let format = asked.unwrap_or(ReportFormat::Html);
    let target = match &args.output {
        Some(path) if path == Path::new("-") => None,
        Some(path) => Some(path.clone()),
        None => (format == ReportFormat::Html).then(PathBuf::new),
    };
    (format, target)
}

fn default_path(report: &Report) -> PathBuf {
    let name = report.runs.first().map_or("", |run| run.prefix.as_str());
    let more = match report.runs.len() {
        0 | 1 => String::new(),
        count => format!("-and-{}-more", count - 1),
    };
    PathBuf::from(format!("dlrun-report-{name}{more}.html"))
}
