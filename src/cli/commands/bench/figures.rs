//! The figures of a matrix for people and programs.

use std::borrow::Cow;

use serde::Serialize;

use crate::app::error::Error;
use crate::app::session::Session;
use crate::app::study::BenchDir;
use crate::cli::table::{fitted, table};
use crate::foundation::clock::now_ms;
use crate::learn::bench::Matrix;
use crate::report::{Figures, Rows};

/// Comparisons and cells that a terminal is shown.
const MOST_ROWS: usize = 60;

/// The figures of a matrix with its place.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ShownFigures<'a> {
    #[serde(flatten)]
    figures: &'a Figures,
    id: &'a str,
    records: Cow<'a, str>,
}

/// Prints the figures.
pub(crate) fn print(
    session: &Session,
    matrix: &Matrix,
    bench: &BenchDir,
) -> Result<Figures, Error> {
    let figures = Figures::new(matrix, &bench.header, &bench.journal, now_ms());
    let path = bench.path();
    let answer = ShownFigures {
        figures: &figures,
        id: &bench.id,
        records: path.to_string_lossy(),
    };
    session.output.sentences(&answer, &text(&figures))?;
    Ok(figures)
}

/// The figures for a terminal.
fn text(figures: &Figures) -> String {
    let mut text = format!("{}\n", figures.name);
    for (name, fact) in figures.facts() {
        text.push_str(&format!("  {name}: {fact}\n"));
    }
    for remark in &figures.remarks {
        text.push_str(&format!("  note: {remark}\n"));
    }
    text.push_str(&section("\n", figures.cell_rows()));
    let effects = figures.effect_rows();
    let has_effects = effects.is_some();
    let title = "\nEffects, over all pairs of cells that differ by nothing else\n";
    text.extend(effects.map(|rows| section(title, rows)));
    // Of each pair only where there are few: the values' effects over all of them say most.
    let count = figures.comparisons.len();
    text.push_str(&if has_effects && count > MOST_ROWS / 3 {
        format!("\n{count} comparisons of single cells are in --json\n")
    } else {
        let title = "\nEach cell against its baseline\n";
        section(title, figures.comparison_rows())
    });
    let title = "\nFailures: `dlrun logs RUN` shows what a run wrote\n";
    text + &section(title, figures.failure_rows())
}

fn section(title: &str, (heads, rows): Rows) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut shown = table();
    shown.set_header(heads.iter().map(|head| head.to_uppercase()));
    let beyond = rows.len().saturating_sub(MOST_ROWS);
    shown.add_rows(rows.into_iter().take(MOST_ROWS));
    let more = match beyond {
        0 => String::new(),
        beyond => format!("and {beyond} more, which --json has\n"),
    };
    format!("{title}{}{more}", fitted(shown))
}
