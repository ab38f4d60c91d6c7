//! The figures of a matrix for people and programs, and as files.

use std::fs::create_dir_all;
use std::path::Path;

use serde_json::json;

use crate::app::error::{Error, Kind};
use crate::app::matrix::BenchDir;
use crate::app::replaced_file::{may_write, write_over};
use crate::app::session::Session;
use crate::cli::table::{fitted, table};
use crate::foundation::clock::now_ms;
use crate::learn::bench::Matrix;
use crate::report::{Figures, Rows};

/// Comparisons and cells that a terminal is shown.
const MOST_ROWS: usize = 60;

/// The files of a matrix.
const FILES: [&str; 2] = ["bench.html", "bench.json"];

/// Makes the directory and looks whether the files can be written there: before hours of measuring, not behind them.
pub(crate) fn may_write_into(dir: &Path) -> Result<(), Error> {
    create_dir_all(dir).map_err(|error| {
        let message = format!("cannot create `{}`: {error}", dir.display());
        let error = Error::new(Kind::CannotWrite, message);
        error.hinted("name another directory with `--output-dir`")
    })?;
    FILES
        .iter()
        .try_for_each(|file| may_write(&dir.join(file)).map(drop))
}

/// What was printed.
pub(crate) struct Printed {
    pub(crate) figures: Figures,
    /// Why the files could not be written: what was measured in hours is printed all the same.
    pub(crate) unwritten: Option<Kind>,
}

/// Writes the files and prints the figures.
pub(crate) fn print(
    session: &Session,
    matrix: &Matrix,
    bench: &BenchDir,
    output_dir: Option<&Path>,
) -> Result<Printed, Error> {
    let figures = Figures::new(matrix, &bench.header, &bench.journal, now_ms());
    let mut value = json!(figures);
    value["id"] = json!(bench.id);
    value["records"] = json!(bench.path().to_string_lossy());
    let mut text = text(&figures);
    let mut unwritten = None;
    if let Some(dir) = output_dir {
        let contents = [figures.to_html(), session.output.envelope(&value)?];
        match write(dir, contents) {
            Ok(written) => {
                value["files"] = json!(written);
                text.push_str(&format!("\nwrote {}\n", written.join(", ")));
            }
            Err(error) => {
                value["files_error"] = error.to_json();
                let (why, id) = (error.message(), &bench.id);
                session.warning(&format!(
                    "{why}; `dlrun bench show {id} --output-dir DIR` writes the files"
                ));
                unwritten = Some(error.kind);
            }
        }
    }
    session.output.sentences(&value, &text)?;
    Ok(Printed { figures, unwritten })
}

/// Writes the files; says where they are.
fn write(dir: &Path, contents: [String; 2]) -> Result<Vec<String>, Error> {
    let mut written = Vec::new();
    for (file, content) in FILES.iter().zip(contents) {
        let path = dir.join(file);
        write_over(&path, content.as_bytes())?;
        written.push(path.display().to_string());
    }
    Ok(written)
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
        format!(
            "\n{count} comparisons of single cells are in --json and in the files of --output-dir\n"
        )
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
