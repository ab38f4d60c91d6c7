//! A matrix as Markdown.

use std::fmt::Write as _;

use super::figures::{Comparison, Figures};
use super::{MOST_ROWS, page, rows};
use crate::report::markdown::{inline, table};
use crate::report::number::instant;

pub(super) fn page(figures: &Figures) -> String {
    let mut text = format!("# {}\n\n", inline(&figures.name));
    let at = instant(figures.written_at_ms);
    let _ = writeln!(
        text,
        "{}, written {at} UTC by dlrun {}.\n",
        page::SUBTITLE,
        env!("CARGO_PKG_VERSION")
    );
    for remark in &figures.remarks {
        let _ = writeln!(text, "> {}\n", inline(remark));
    }
    if page::shows_effects(figures) {
        let _ = writeln!(text, "## Effects\n\n{}\n", page::ABOUT_EFFECTS);
        text.push_str(&comparisons(&figures.effects));
    }
    let _ = writeln!(text, "## Cells\n\n{}\n", page::ABOUT_CELLS);
    text.push_str(&cells(figures));
    let _ = writeln!(
        text,
        "## Comparisons\n\n{}\n",
        inline(&page::about_comparisons(figures))
    );
    text.push_str(&comparisons(&figures.comparisons));
    let failures = failures(figures);
    if !failures.is_empty() {
        text.push_str("## Failures\n\n");
        text.push_str(&table(&rows::FAILURE_HEADS, &[0, 2], &failures));
    }
    text.push_str("## Environment\n\n");
    text.push_str(&table(&["What", "Which"], &[], &figures.facts()));
    text
}

fn cells(figures: &Figures) -> String {
    let heads = rows::cell_heads(figures);
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let first = 1 + figures.axes.len();
    let numbers: Vec<usize> = std::iter::once(0).chain(first..heads.len()).collect();
    let rows: Vec<Vec<String>> = rows::cell_rows(figures)
        .into_iter()
        .take(MOST_ROWS)
        .collect();
    table(&heads, &numbers, &rows)
        + &page::beyond(figures.begun().len()).map_or_else(String::new, |more| more + "\n\n")
}

fn comparisons(all: &[Comparison]) -> String {
    let rows: Vec<Vec<String>> = all.iter().take(MOST_ROWS).map(Comparison::row).collect();
    table(&rows::COMPARISON_HEADS, &[2, 3, 4, 5, 6], &rows)
        + &page::beyond(all.len()).map_or_else(String::new, |more| more + "\n\n")
}

fn failures(figures: &Figures) -> Vec<Vec<String>> {
    rows::failures(figures)
        .into_iter()
        .take(MOST_ROWS)
        .collect()
}
