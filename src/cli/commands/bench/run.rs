//! `dlrun bench run`: a matrix of trainings as jobs.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::bench::{Matrix, USUAL_REPEATS, parse};
use crate::cli::args::BenchRun;
use crate::cli::benches::{BenchDir, Conductor, End, Former, Order, Source, load_cell, may_write_into, tell};
use crate::cli::commands::submit::tell_plan;
use crate::cli::error::Error;
use crate::cli::outcome::code_of_state;
use crate::cli::progress::Display;
use crate::cli::session::Session;
use crate::cli::source::read;
use crate::cli::table::{rendered, table};
use crate::job::{JobState, SchedulerKind};

const OPERATION: &str = "bench run";

/// Runs the verb; returns the exit code.
pub(crate) fn run(session: &Session, args: &BenchRun) -> Result<u8, Error> {
    let source = Source { file: args.file.clone(), text: read(&args.file)?, no_check: args.no_check };
    let stem = args.file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let mut matrix = parse(&source.text, &stem).map_err(|problems| source.error(problems))?;
    matrix.max_jobs = args.max_jobs.unwrap_or(matrix.max_jobs);
    let repeats = args.repeats.unwrap_or(matrix.repeats);
    if let Some(problem) = matrix.too_many_runs(repeats) {
        return Err(source.error(vec![problem]));
    }
    matrix.notes.iter().for_each(|note| session.output.warning(note));
    if repeats < USUAL_REPEATS {
        let text = format!("{repeats} repeats are few: from {USUAL_REPEATS} on intervals say something");
        session.output.warning(&text);
    }
    let first = load_cell(session, &matrix, &source, 0)?;
    matrix.is_on_one_machine = first.plan.scheduler == SchedulerKind::Local;
    check(session, &matrix, &source)?;
    if args.dry_run {
        return planned(session, &matrix, &source, repeats);
    }
    if let Some(dir) = &args.output_dir {
        may_write_into(dir)?;
    }
    let former = match (args.resume, args.restart) {
        (true, _) => Former::Need,
        (_, true) => Former::SetAside,
        _ => Former::Continue,
    };
    let file = std::path::absolute(&args.file)?;
    let order = Order {
        matrix: &matrix,
        text: &source.text,
        file: &file,
        scheduler: first.plan.scheduler,
        repeats,
        cells: &mut (0..matrix.len())
            .map(|number| matrix.cell(number).map_err(|problems| source.error(problems))),
    };
    let mut bench = BenchDir::begin(session, order, former)?;
    session.output.note(&format!("{}, kept in {}", size(&matrix, repeats), bench.path().display()));
    let end = Conductor::new(session, &matrix, &source, &mut bench)?.run()?;
    let figures = tell(session, OPERATION, &matrix, &bench, args.output_dir.as_deref())?;
    if end == End::Hopeless {
        let name = &matrix.name;
        session.output.warning(&format!(
            "nothing succeeded, so the rest was not begun; `dlrun list` has the runs of `{name}`, `dlrun logs` their output, and the \
             same command goes on"
        ));
    }
    Ok(if figures.runs_measured == figures.runs_asked { 0 } else { code_of_state(JobState::Failed) })
}

/// `mnist: 32 cells, 5 repeats, 160 runs, 1 at a time`.
fn size(matrix: &Matrix, repeats: u32) -> String {
    let (name, cells, jobs) = (&matrix.name, matrix.len(), matrix.max_jobs);
    format!("{name}: {cells} cells, {repeats} repeats, {} runs, {jobs} at a time", cells * repeats as usize)
}

/// Checks every cell as `dlrun check` does, before the first is handed over.
fn check(session: &Session, matrix: &Matrix, source: &Source) -> Result<(), Error> {
    let mut display = Display::new(session.output);
    let mut warned = BTreeSet::new();
    for number in 0..matrix.len() {
        display.now(&format!("checking cell {} of {}", number + 1, matrix.len()), false);
        let job = load_cell(session, matrix, source, number)?;
        if number == 0 {
            tell_plan(session, &job.plan);
            warned.extend(job.plan.warnings);
            continue;
        }
        for warning in job.plan.warnings {
            if !warned.contains(&warning) {
                display.line(&format!("warning: cell {}: {warning}", number + 1));
                warned.insert(warning);
            }
        }
    }
    Ok(())
}

/// What would run.
fn planned(session: &Session, matrix: &Matrix, source: &Source, repeats: u32) -> Result<u8, Error> {
    let mut cells: Vec<Value> = Vec::new();
    let mut shown = table();
    let heads =
        std::iter::once("CELL".to_owned()).chain(matrix.axes.iter().map(|axis| axis.short.to_uppercase()));
    shown.set_header(heads);
    for number in 0..matrix.len() {
        let cell = matrix.cell(number).map_err(|problems| source.error(problems))?;
        let labels =
            matrix.axes.iter().zip(matrix.at(number)).map(|(axis, at)| axis.values[*at].label.clone());
        let labels: Vec<String> = labels.collect();
        cells.push(json!({
            "cell": number + 1, "name": cell.name, "values": labels, "job_file": cell.job_file,
        }));
        shown.add_row(std::iter::once((number + 1).to_string()).chain(labels));
    }
    let axes: Vec<&str> = matrix.axes.iter().map(|axis| axis.name.as_str()).collect();
    let value = json!({
        "name": matrix.name,
        "axes": axes,
        "repeats": repeats,
        "runs": matrix.len() * repeats as usize,
        "max_jobs": matrix.max_jobs,
        "exclusive": matrix.exclusive,
        "cells": cells,
    });
    session.output.result(OPERATION, &value, &format!("{}\n\n{}", size(matrix, repeats), rendered(shown)))?;
    Ok(0)
}
