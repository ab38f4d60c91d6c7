//! `dlrun bench run`: a matrix of trainings as jobs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::figures::{Told, may_write_into, tell};
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
use crate::plan::Plan;

/// Runs the verb; returns the exit code.
pub(crate) fn run(session: &Session, args: &BenchRun) -> Result<u8, Error> {
    let source = Source {
        file: args.file.clone(),
        text: read(&args.file)?,
        no_check: args.no_check,
    };
    let stem = args
        .file
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default();
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
    let Told { figures, unwritten } = tell(session, &matrix, &bench, args.output_dir.as_deref())?;
    if end == End::Hopeless {
        let failures = figures.cells.iter().flat_map(|cell| &cell.failures);
        let last = failures
            .map(|failure| &failure.run_id.as_str()[..6])
            .next_back()
            .unwrap_or("RUN");
        session.warning(&format!(
            "nothing succeeded, so the rest was not begun; `dlrun logs {last}` tells why one of them failed, and the same command \
             goes on"
        ));
    }
    if let Some(kind) = unwritten {
        return Ok(kind.code());
    }
    let is_whole = |cell: &usize| {
        let wanted = figures.cells[*cell]
            .results
            .iter()
            .filter(|result| result.repeat <= repeats);
        wanted.count() == repeats as usize
    };
    Ok(if cells.iter().all(is_whole) {
        0
    } else {
        code_of_state(JobState::Failed)
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
        let Self {
            matrix: Matrix { name, max_jobs, .. },
            cells,
            repeats,
            ..
        } = self;
        let all = if cells.len() == self.matrix.len() {
            String::new()
        } else {
            format!(" of {}", self.matrix.len())
        };
        let runs = cells.len() * *repeats as usize;
        format!(
            "{name}: {}{all} cells, {repeats} repeats, {runs} runs, {max_jobs} at a time",
            cells.len()
        )
    }
}

/// Choices that a user must not miss, before anything is queued.
const TOLD: [&str; 3] = ["scheduler", "environment", "compiler"];

/// Checks every cell as `dlrun check` does, before the first is handed over; says how long all of it will take.
fn check(session: &Session, part: &Part<'_>) -> Result<Option<ExpectedDuration>, Error> {
    let Part {
        matrix,
        source,
        cells,
        repeats,
    } = *part;
    let mut display = Display::new(session.output);
    let mut warned: Vec<(String, Vec<usize>)> = Vec::new();
    let mut choices: BTreeMap<&str, Choices> = BTreeMap::new();
    let mut forecasts = Vec::new();
    for (place, number) in cells.iter().copied().enumerate() {
        display.now(
            &format!("checking cell {} of {}", place + 1, cells.len()),
            false,
        );
        let Plan {
            decisions,
            warnings,
            forecast,
            ..
        } = load_cell(session, matrix, source, number)?.plan;
        forecasts.push(forecast.and_then(|forecast| forecast.total_seconds));
        for what in TOLD {
            let of = decisions.iter().filter(|decision| decision.what == what);
            let counts = choices.entry(what).or_default();
            for one in of {
                let (whys, count) = counts.entry(one.value.clone()).or_default();
                whys.insert(one.why.clone());
                *count += 1;
            }
        }
        for warning in BTreeSet::from_iter(warnings) {
            match warned.iter_mut().find(|(known, _)| *known == warning) {
                Some((_, cells)) => cells.push(number + 1),
                None => warned.push((warning, vec![number + 1])),
            }
        }
    }
    drop(display);
    for what in TOLD {
        tell_choice(session, what, &choices[what], cells.len());
    }
    for (warning, of) in &warned {
        session.warning(&format!("{}{warning}", whose(of, cells.len())));
    }
    let foreseen = ExpectedDuration::of(forecasts.into_iter(), repeats, matrix.max_jobs);
    if let Some(foreseen) = &foreseen {
        session.note(&format!("forecast: {}", in_words(foreseen, part)));
    }
    Ok(foreseen)
}

/// What was chosen: why, and in how many cells.
type Choices = BTreeMap<String, (BTreeSet<String>, usize)>;

fn tell_choice(session: &Session, what: &str, choices: &Choices, cells: usize) {
    for (value, (whys, count)) in choices {
        let why = match whys.first().filter(|_| whys.len() == 1) {
            Some(why) => format!(" ({why})"),
            None => String::new(),
        };
        let of = if *count == cells {
            String::new()
        } else {
            format!(", in {count} of {cells} cells")
        };
        session.note(&format!("{what}: {value}{why}{of}"));
    }
}

/// `cells 3, 4 and 2 more: `; of all of them nothing is said.
fn whose(cells: &[usize], all: usize) -> String {
    const NAMED: usize = 6;
    let named: Vec<String> = cells.iter().take(NAMED).map(ToString::to_string).collect();
    match (cells.len(), cells.len().saturating_sub(NAMED)) {
        (count, _) if count == all => String::new(),
        (1, _) => format!("cell {}: ", named[0]),
        (_, 0) => format!("cells {}: ", named.join(", ")),
        (_, more) => format!("cells {} and {more} more: ", named.join(", ")),
    }
}

/// `160 runs take 27 min (18 min to 44 min, ...), waiting in queues apart`.
fn in_words(foreseen: &ExpectedDuration, part: &Part<'_>) -> String {
    let ExpectedDuration {
        cells,
        mean_seconds,
        low_seconds,
        high_seconds,
    } = *foreseen;
    let runs = cells * part.repeats as usize;
    let of = match part.cells.len() - cells {
        0 => format!("{runs} runs"),
        without => format!("{runs} runs, without those of {without} cells that have no forecast,"),
    };
    let max_jobs = part.matrix.max_jobs;
    let jobs = if max_jobs > 1 {
        format!(" with {max_jobs} at a time")
    } else {
        String::new()
    };
    let [mean, low, high] =
        [mean_seconds, low_seconds, high_seconds].map(|seconds| display_seconds(seconds.max(0.0)));
    format!(
        "{of} take {mean}{jobs} ({low} to {high}: the ends of the cells' 90 % intervals added up), waiting apart"
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
    let heads = std::iter::once("CELL".to_owned())
        .chain(matrix.axes.iter().map(|axis| axis.short.to_uppercase()));
    shown.set_header(heads);
    for number in part.cells.iter().copied() {
        let cell = matrix
            .cell(number)
            .map_err(|problems| source.error(problems))?;
        let labels = matrix
            .axes
            .iter()
            .zip(matrix.at(number))
            .map(|(axis, at)| axis.values[*at].label.clone());
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
