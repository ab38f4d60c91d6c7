//! A matrix as one file of HTML.

use super::figures::Figures;
use super::rows::Rows;
use crate::report::html::{Document, table};
use crate::report::number::count;

/// Rows of a table on a page; `--json` has all.
const MOST_ROWS: usize = 2_000;
const ABOUT_EFFECTS: &str = "The effect of each value over all pairs of cells that differ by nothing else: the geometric \
                             mean of their time ratios, with the least and the largest of a pair.";
const ABOUT_CELLS: &str = "A run counts once, by the median of its steady epochs. Median and mean are over the runs of a \
                           cell, the interval is that of the mean (95 %, Student’s t over the runs).";

/// A part of the page: its id, its head, what its table is about, and the table.
type Part = (&'static str, &'static str, String, Rows);

/// The whole page.
pub(super) fn page(figures: &Figures) -> String {
    let about_comparisons = format!(
        "Each cell against that which differs from it by the value of one axis: geometric means of the runs, Welch’s interval of \
         the logarithms. {} comparisons are made; p is raised for that (Holm).",
        count(figures.comparisons.len() as u64)
    );
    let mut parts: Vec<Part> = Vec::new();
    if let Some(rows) = figures.effect_rows() {
        parts.push(("effects", "Effects", ABOUT_EFFECTS.to_owned(), rows));
    }
    parts.push((
        "cells",
        "Cells",
        ABOUT_CELLS.to_owned(),
        figures.cell_rows(),
    ));
    let comparisons = figures.comparison_rows();
    parts.push(("comparisons", "Comparisons", about_comparisons, comparisons));
    let failures = figures.failure_rows();
    if !failures.1.is_empty() {
        let about = "Runs that count for nothing.".to_owned();
        parts.push(("failures", "Failures", about, failures));
    }
    let ids = parts.iter().map(|(id, name, ..)| (*id, *name));
    let ids = ids.chain([("environment", "Environment")]);
    let contents: Vec<(String, String)> = ids
        .map(|(id, name)| (id.to_owned(), name.to_owned()))
        .collect();
    let document = Document {
        title: &figures.name,
        kind: "Measurements of a matrix",
        written_at_ms: figures.written_at_ms,
        remarks: &figures.remarks,
        contents: &contents,
    };
    document.write(|html| {
        for (id, name, about, (heads, rows)) in &parts {
            html.section(id, name, |html| {
                html.leaf("p", &[], about);
                if rows.is_empty() {
                    html.markup("<p>Nothing can be compared.</p>");
                    return;
                }
                table::write(html, name, heads, &rows[..rows.len().min(MOST_ROWS)]);
                if rows.len() > MOST_ROWS {
                    let more = count((rows.len() - MOST_ROWS) as u64);
                    html.leaf("p", &[], &format!("And {more} more, which `--json` has."));
                }
            });
        }
        html.section("environment", "Environment", |html| {
            table::pairs(html, &figures.facts())
        });
    })
}
