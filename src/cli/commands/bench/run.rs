//! `dlrun bench run`: a matrix of trainings as jobs.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::figures::print;
use crate::app::error::Error;
use crate::app::exit_of_run::code_of_state;
use crate::app::job::source::read;
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::app::study::{
    Conductor, Detached, MatrixWork, Source, begin_matrix, load_cell, may_detach,
};
use crate::cli::args::BenchRun;
use crate::cli::commands::submit::show_submitted;
use crate::cli::table::{fitted, table};
use crate::job::{ArraySpec, JobState};
use crate::learn::bench::{Matrix, USUAL_REPEATS, parse};

/// Runs the verb; returns the exit code.
pub(crate) fn run(session: &Session, args: &BenchRun) -> Result<u8, Error> {
    let source = Source {
        file: args.how.file.clone(),
        text: read(&args.how.file)?,
        no_check: args.how.no_check,
    };
    let stem = args.how.file.file_stem().unwrap_or_default();
    let stem = stem.to_string_lossy();
    let mut matrix = parse(&source.text, &stem).map_err(|problems| source.error(problems))?;
    matrix.max_jobs = args.how.max_jobs.unwrap_or(matrix.max_jobs);
    let repeats = args.repeats.unwrap_or(matrix.repeats);
    if let Some(problem) = matrix.too_many_runs(repeats) {
        return Err(source.error(vec![problem]));
    }
    if repeats < USUAL_REPEATS {
        let text =
            format!("{repeats} repeats are few: from {USUAL_REPEATS} on intervals say something");
        session.warning(&text);
    }
    let first = load_cell(session, &matrix, &source, 0)?;
    check(session, &matrix, &source)?;
    if args.how.dry_run {
        return planned(session, &matrix, &source, repeats);
    }
    let detached = args.how.detach.as_deref().map(|walltime| Detached {
        walltime,
        scheduler: first.plan.scheduler,
        packed: None,
    });
    if let Some(detached) = &detached {
        may_detach(first.plan.scheduler)?;
        detached.check::<crate::learn::bench::Journal>(session, &matrix.name, &source)?;
    }
    let how = (first.plan.scheduler, repeats, args.how.restart);
    let mut bench = begin_matrix(session, &matrix, &source, how)?;
    session.note(&format!(
        "{}, kept in {}",
        size(&matrix, repeats),
        bench.path().display()
    ));
    if let Some(detached) = detached {
        let (record, run) = detached.submit(session, bench, &source)?;
        return show_submitted(session, &record, run.path());
    }
    let work = MatrixWork::new(&matrix, &source, &mut bench);
    let went_on = Conductor::new(session, work, matrix.max_jobs, None)?.run()?;
    let figures = print(session, &matrix, &bench)?;
    if !went_on {
        let mut failures = figures.cells.iter().flat_map(|cell| &cell.failures);
        let last = failures
            .next_back()
            .map(|failure| &failure.run_id.as_str()[..6]);
        let last = last.unwrap_or("RUN");
        session.warning(&format!(
            "nothing succeeded, so the rest was not started; `dlrun logs {last}` shows why one of them failed, and the same command \
             continues"
        ));
    }
    let is_whole = figures.cells.iter().all(|cell| {
        let results = cell.results.iter();
        results.filter(|result| result.repeat <= repeats).count() == repeats as usize
    });
    Ok(match is_whole {
        true => 0,
        false => code_of_state(JobState::Failed),
    })
}

/// `mnist: 32 cells, 5 repeats, 160 runs, 1 at a time`.
fn size(matrix: &Matrix, repeats: u32) -> String {
    let (name, max_jobs, count) = (&matrix.name, matrix.max_jobs, matrix.len());
    let runs = count * repeats as usize;
    format!("{name}: {count} cells, {repeats} repeats, {runs} runs, {max_jobs} at a time")
}

/// Checks every cell as `dlrun check` does, before the first is submitted; shows warnings, each once with its cells.
fn check(session: &Session, matrix: &Matrix, source: &Source) -> Result<(), Error> {
    let mut display = Display::new(session.output);
    let mut warnings: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let count = matrix.len();
    for (number, shown) in (0..count).zip(1..) {
        display.now(&format!("checking cell {shown} of {count}"), false);
        let plan = load_cell(session, matrix, source, number)?.plan;
        for warning in BTreeSet::from_iter(plan.warnings) {
            warnings.entry(warning).or_default().push(shown);
        }
    }
    drop(display);
    for (warning, of) in &warnings {
        session.warning(&format!("{}{warning}", whose(of, count)));
    }
    Ok(())
}

/// `cells 3,5-8: `; empty if it is all of them.
fn whose(cells: &[u32], all: usize) -> String {
    match cells.len() {
        count if count == all => String::new(),
        _ => format!("cells {}: ", ArraySpec::of(cells, None)),
    }
}

/// What would run, for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PlannedMatrix<'a> {
    name: &'a str,
    axes: Vec<&'a str>,
    repeats: u32,
    runs: usize,
    max_jobs: u32,
    exclusive: bool,
    cells: Vec<PlannedCell>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PlannedCell {
    cell: usize,
    name: String,
    /// Its value of each axis.
    values: Vec<String>,
    job_file: String,
}

/// What would run.
fn planned(session: &Session, matrix: &Matrix, source: &Source, repeats: u32) -> Result<u8, Error> {
    let mut cells: Vec<PlannedCell> = Vec::new();
    let mut shown = table();
    let axes = matrix.axes.iter().map(|axis| axis.short.to_uppercase());
    shown.set_header(std::iter::once("CELL".to_owned()).chain(axes));
    for number in 0..matrix.len() {
        let cell = matrix.cell(number);
        let cell = cell.map_err(|problems| source.error(problems))?;
        let labels = matrix.axes.iter().zip(matrix.at(number));
        let labels = labels.map(|(axis, at)| axis.values[*at].label.clone());
        let labels: Vec<String> = labels.collect();
        shown.add_row(std::iter::once((number + 1).to_string()).chain(labels.iter().cloned()));
        cells.push(PlannedCell {
            cell: number + 1,
            name: cell.name,
            values: labels,
            job_file: cell.job_file,
        });
    }
    let axes = matrix.axes.iter();
    let answer = PlannedMatrix {
        name: &matrix.name,
        axes: axes.map(|axis| axis.name.as_str()).collect(),
        repeats,
        runs: matrix.len() * repeats as usize,
        max_jobs: matrix.max_jobs,
        exclusive: matrix.exclusive,
        cells,
    };
    session.answer(
        &answer,
        &format!("{}\n\n{}", size(matrix, repeats), fitted(shown)),
    )
}
