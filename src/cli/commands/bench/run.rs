//! `dlrun bench run`: a matrix of trainings as jobs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::figures::{Printed, may_write_into, print};
use crate::app::error::{Error, Kind};
use crate::app::exit_code::code_of_state;
use crate::app::job::source::read;
use crate::app::matrix::{BenchDir, Conductor, End, Former, Order, Source, load_cell};
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::cli::args::BenchRun;
use crate::cli::table::{fitted, table};
use crate::foundation::units::display_seconds;
use crate::job::JobState;
use crate::learn::bench::{ExpectedDuration, Matrix, USUAL_REPEATS, parse};

/// Runs the verb; returns the exit code.
pub(crate) fn run(session: &Session, args: &BenchRun) -> Result<u8, Error> {
    let source = Source {
        file: args.file.clone(),
        text: read(&args.file)?,
        no_check: args.no_check,
    };
    let stem = args.file.file_stem().unwrap_or_default();
    let stem = stem.to_string_lossy();
    let mut matrix = parse(&source.text, &stem).map_err(|problems| source.error(problems))?;
    matrix.max_jobs = args.max_jobs.unwrap_or(matrix.max_jobs);
    let repeats = args.repeats.unwrap_or(matrix.repeats);
    if let Some(problem) = matrix.too_many_runs(repeats) {
        return Err(source.error(vec![problem]));
    }
    matrix.notes.iter().for_each(|note| session.warning(note));
    if repeats < USUAL_REPEATS {
        let text =
            format!("{repeats} repeats are few: from {USUAL_REPEATS} on intervals say something");
        session.warning(&text);
    }
    let cells = matrix.only(&args.only).map_err(|problem| {
        let error = Error::new(Kind::Usage, problem.message);
        problem.hint.into_iter().fold(error, Error::hinted)
    })?;
    let first = load_cell(session, &matrix, &source, cells[0])?;
    let part = Part {
        matrix: &matrix,
        source: &source,
        cells: &cells,
        repeats,
    };
    let foreseen = check(session, &part)?;
    if args.dry_run {
        return planned(session, &part, foreseen.as_ref());
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
        cells: &mut (0..matrix.len()).map(|number| {
            matrix
                .cell(number)
                .map_err(|problems| source.error(problems))
        }),
    };
    let mut bench = BenchDir::begin(session, order, former)?;
    session.note(&format!(
        "{}, kept in {}",
        part.size(),
        bench.path().display()
    ));
    let end = Conductor::new(session, &matrix, &source, &mut bench, &cells)?.run()?;
    let Printed { figures, unwritten } =
        print(session, &matrix, &bench, args.output_dir.as_deref())?;
    if end == End::Hopeless {
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
    if let Some(kind) = unwritten {
        return Ok(kind.code());
    }
    let is_whole = |cell: &usize| {
        let results = figures.cells[*cell].results.iter();
        let wanted = results.filter(|result| result.repeat <= repeats);
        wanted.count() == repeats as usize
    };
    Ok(match cells.iter().all(is_whole) {
        true => 0,
        false => code_of_state(JobState::Failed),
    })
}

/// What of a matrix a command runs.
struct Part<'a> {
    matrix: &'a Matrix,
    source: &'a Source,
    /// The cells.
    cells: &'a [usize],
    repeats: u32,
}

impl Part<'_> {
    /// `mnist: 4 of 32 cells, 5 repeats, 20 runs, 1 at a time`.
    fn size(&self) -> String {
        let (matrix, repeats) = (self.matrix, self.repeats);
        let (name, max_jobs) = (&matrix.name, matrix.max_jobs);
        let (count, all) = (self.cells.len(), matrix.len());
        let runs = count * repeats as usize;
        let of = match count == all {
            true => String::new(),
            false => format!(" of {all}"),
        };
        format!("{name}: {count}{of} cells, {repeats} repeats, {runs} runs, {max_jobs} at a time")
    }
}

/// Choices that a user must not miss, before anything is queued.
const CHOICES: [&str; 3] = ["scheduler", "environment", "compiler"];

/// Checks every cell as `dlrun check` does, before the first is submitted; shows warnings and choices, each once with its
/// cells, and how long all of it will take.
fn check(session: &Session, part: &Part<'_>) -> Result<Option<ExpectedDuration>, Error> {
    let mut display = Display::new(session.output);
    let mut notes: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut warnings: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut forecasts = Vec::new();
    let count = part.cells.len();
    for (place, number) in part.cells.iter().copied().enumerate() {
        display.now(&format!("checking cell {} of {count}", place + 1), false);
        let plan = load_cell(session, part.matrix, part.source, number)?.plan;
        let total = plan.forecast.and_then(|forecast| forecast.total_seconds);
        forecasts.push(total);
        let decisions = plan.decisions.iter();
        let choices = decisions.filter(|one| CHOICES.contains(&&*one.what));
        for choice in choices {
            let text = format!("{}: {} ({})", choice.what, choice.value, choice.why);
            notes.entry(text).or_default().push(number + 1);
        }
        for warning in BTreeSet::from_iter(plan.warnings) {
            warnings.entry(warning).or_default().push(number + 1);
        }
    }
    drop(display);
    for (note, of) in &notes {
        session.note(&format!("{}{note}", whose(of, count)));
    }
    for (warning, of) in &warnings {
        session.warning(&format!("{}{warning}", whose(of, count)));
    }
    let foreseen = ExpectedDuration::of(forecasts.into_iter(), part.repeats, part.matrix.max_jobs);
    if let Some(foreseen) = &foreseen {
        session.note(&format!("forecast: {}", forecast_text(foreseen, part)));
    }
    Ok(foreseen)
}

/// `cells 3, 4 and 2 more: `; empty if it is all of them.
fn whose(cells: &[usize], all: usize) -> String {
    const NAMED: usize = 6;
    let named: Vec<String> = cells.iter().take(NAMED).map(ToString::to_string).collect();
    let named = named.join(", ");
    match (cells.len(), cells.len().saturating_sub(NAMED)) {
        (count, _) if count == all => String::new(),
        (1, _) => format!("cell {named}: "),
        (_, 0) => format!("cells {named}: "),
        (_, more) => format!("cells {named} and {more} more: "),
    }
}

/// `160 runs take 27 min (18 min to 44 min, ...), waiting in queues apart`.
fn forecast_text(foreseen: &ExpectedDuration, part: &Part<'_>) -> String {
    let runs = foreseen.cells * part.repeats as usize;
    let without = match part.cells.len() - foreseen.cells {
        0 => String::new(),
        without => format!(", without those of {without} cells that have no forecast,"),
    };
    let jobs = match part.matrix.max_jobs {
        0 | 1 => String::new(),
        jobs => format!(" with {jobs} at a time"),
    };
    let shown = |seconds: f64| display_seconds(seconds.max(0.0));
    let (mean, low) = (shown(foreseen.mean_seconds), shown(foreseen.low_seconds));
    let high = shown(foreseen.high_seconds);
    format!(
        "{runs} runs{without} take {mean}{jobs} ({low} to {high}: the ends of the cells' 90 % intervals added up), waiting apart"
    )
}

/// What would run.
fn planned(
    session: &Session,
    part: &Part<'_>,
    foreseen: Option<&ExpectedDuration>,
) -> Result<u8, Error> {
    let Part {
        matrix,
        source,
        repeats,
        ..
    } = *part;
    let mut cells: Vec<Value> = Vec::new();
    let mut shown = table();
    let axes = matrix.axes.iter().map(|axis| axis.short.to_uppercase());
    shown.set_header(std::iter::once("CELL".to_owned()).chain(axes));
    for number in part.cells.iter().copied() {
        let cell = matrix.cell(number);
        let cell = cell.map_err(|problems| source.error(problems))?;
        let labels = matrix.axes.iter().zip(matrix.at(number));
        let labels = labels.map(|(axis, at)| axis.values[*at].label.clone());
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
        "runs": part.cells.len() * repeats as usize,
        "max_jobs": matrix.max_jobs,
        "exclusive": matrix.exclusive,
        "forecast": foreseen,
        "cells": cells,
    });
    session.answer(&value, &format!("{}\n\n{}", part.size(), fitted(shown)))
}
