//! `dlrun report`: what is known of runs, as a page that people look at.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::app::error::{Error, Kind, failure};
use crate::app::replaced_file::{OTHER_OUTPUT, may_write, write_over};
use crate::app::report::{ScalingOrder, report_of, scaling_of};
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
    if args.scaling {
        return scaling(session, args, format, target);
    }
    let report = report_of(session, &args.runs, args.history)?;
    let written = match format {
        ReportFormat::Html => report.to_html(),
        ReportFormat::Json => session.output.envelope(&report.to_json())?,
        ReportFormat::Markdown | ReportFormat::Csv => {
            return Err(
                failure!(Usage, "a report has this form with `--scaling` only")
                    .hinted("write `--format html` or `--format json`"),
            );
        }
    };
    // Of a file that is not written yet the first run names it.
    let target = target.map(|path| match path.as_os_str().is_empty() {
        true => default_path(&report),
        false => path,
    });
    let runs = report.runs.iter().map(|run| &run.record.run_id);
    write(session, format, target, &written, runs.collect())
}

/// How trainings scale.
fn scaling(
    session: &Session,
    args: &Arguments,
    format: ReportFormat,
    target: Option<PathBuf>,
) -> Result<u8, Error> {
    let order = ScalingOrder {
        runs: &args.runs,
        matrices: &args.matrices,
        published: &args.published,
        target: args.target.as_ref(),
        history: args.history,
    };
    let study = scaling_of(session, &order)?;
    let written = match format {
        ReportFormat::Html => study.to_html(),
        ReportFormat::Json => session.output.envelope(&study)?,
        ReportFormat::Markdown => study.to_markdown(),
        ReportFormat::Csv => study
            .to_csv()
            .map_err(|error| Error::new(Kind::Internal, error))?,
    };
    let target = target.map(|path| match path.as_os_str().is_empty() {
        true => PathBuf::from("dlrun-report-scaling.html"),
        false => path,
    });
    let points = study.series.iter().flat_map(|series| &series.points);
    let runs = points.flat_map(|point| &point.runs);
    let runs: BTreeSet<&RunId> = runs.collect();
    write(
        session,
        format,
        target,
        &written,
        runs.into_iter().collect(),
    )
}

fn write(
    session: &Session,
    format: ReportFormat,
    target: Option<PathBuf>,
    written: &str,
    runs: Vec<&RunId>,
) -> Result<u8, Error> {
    let Some(path) = target else {
        session.output.raw(written.as_bytes())?;
        return Ok(0);
    };
    write_over(&path, written.as_bytes())?;
    let answer = WrittenReport {
        file: path.to_string_lossy(),
        format,
        bytes: written.len(),
        runs,
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
        Some("md") => ReportFormat::Markdown,
        Some("csv") => ReportFormat::Csv,
        _ => ReportFormat::Html,
    });
    // For programs that name neither: the object that `--json` promises.
    let by_flag = (session.output.json && args.output.is_none()).then_some(ReportFormat::Json);
    let asked = args.format.or(by_ending).or(by_flag);
    let format = asked.unwrap_or(match args.scaling && args.output.is_none() {
        true => ReportFormat::Markdown,
        false => ReportFormat::Html,
    });
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
