//! A matrix as one file of HTML.

use super::MOST_ROWS;
use super::figures::{CellFigures, Comparison, Figures};
use super::rows::{self, Unit};
use crate::foundation::statistics::Spread;
use crate::report::chart::strip::{self, Strip};
use crate::report::html::table::{self, Column, Section, number, text};
use crate::report::html::{self, Html};
use crate::report::number::{count, counted, instant};

pub(super) const SUBTITLE: &str = "Measurements of a matrix";
pub(super) const ABOUT_EFFECTS: &str = "The effect of each value over all pairs of cells that differ by nothing else: the geometric \
                                        mean of their time ratios, with the least and the largest of a pair.";
pub(super) const ABOUT_CELLS: &str = "A run counts once, by the median of its steady epochs. Median and mean are over the runs of a \
                                      cell, the interval is that of the mean (95 %, Student’s t over the runs).";
/// Cells that are drawn.
const MOST_STRIPS: usize = 200;
/// Axes that have a column of their own.
const MOST_AXES: usize = 3;

/// Of one axis, or of single pairs, the effects are the comparisons.
pub(super) fn shows_effects(figures: &Figures) -> bool {
    figures.effects.iter().any(|effect| effect.effect.pairs > 1)
}

pub(super) fn about_comparisons(figures: &Figures) -> String {
    format!(
        "Each cell against that which differs from it by the value of one axis: geometric means of the runs, Welch’s interval of \
         the logarithms. {} comparisons are made; p is raised for that (Holm).",
        count(figures.comparisons.len() as u64)
    )
}

pub(super) fn beyond(rows: usize) -> Option<String> {
    (rows > MOST_ROWS).then(|| {
        format!(
            "And {} more, which `--json` has.",
            count((rows - MOST_ROWS) as u64)
        )
    })
}

/// What was asked for, and the conditions.
pub(super) fn facts(figures: &Figures) -> Vec<(&'static str, String)> {
    let asked = &figures.asked;
    let whole = if asked.exclusive {
        "nodes not shared"
    } else {
        "nodes may be shared"
    };
    let design = format!(
        "{}, {}, {} of warm-up left out, order by seed {}, {whole}, {} at a time, by {}",
        counted(figures.cells.len() as u64, "cell"),
        counted(asked.repeats.into(), "repeat"),
        counted(asked.warm_up_epochs.into(), "epoch"),
        asked.seed,
        counted(asked.max_jobs.into(), "job"),
        asked.scheduler.as_str()
    );
    let runs = format!(
        "{} of {} count, {} failed",
        figures.runs_measured, figures.runs_asked, figures.runs_failed
    );
    let own = [
        ("Matrix", asked.file.clone()),
        ("Begun", format!("{} UTC", instant(figures.began_at_ms))),
        ("Design", design),
        ("Runs", runs),
    ];
    own.into_iter().chain(figures.environment.facts()).collect()
}

/// The whole page.
pub(super) fn page(figures: &Figures) -> String {
    let at = instant(figures.written_at_ms);
    let failures: Vec<Vec<String>> = rows::failures(figures)
        .into_iter()
        .take(MOST_ROWS)
        .collect();
    html::document(&figures.name, SUBTITLE, &at, &figures.remarks, |html| {
        contents(html, figures, !failures.is_empty());
        if shows_effects(figures) {
            section(html, "effects", "Effects", |html| effects(html, figures));
        }
        section(html, "cells", "Cells", |html| cells(html, figures));
        section(html, "comparisons", "Comparisons", |html| {
            comparisons(html, figures)
        });
        if !failures.is_empty() {
            section(html, "failures", "Failures", |html| failed(html, failures));
        }
        section(html, "environment", "Environment", |html| {
            table::pairs(html, &facts(figures))
        });
    })
}

fn section(html: &mut Html, id: &'static str, name: &'static str, inner: impl FnOnce(&mut Html)) {
    html.element("section", &[("aria-labelledby", id)], |html| {
        html.leaf("h2", &[("id", id)], name);
        inner(html);
    });
}

fn contents(html: &mut Html, figures: &Figures, is_any_failed: bool) {
    let parts = [
        (shows_effects(figures), "#effects", "Effects"),
        (true, "#cells", "Cells"),
        (true, "#comparisons", "Comparisons"),
        (is_any_failed, "#failures", "Failures"),
        (true, "#environment", "Environment"),
    ];
    html.element("nav", &[("aria-label", "Contents")], |html| {
        html.element("ul", &[], |html| {
            for (_, place, name) in parts.into_iter().filter(|(is_there, ..)| *is_there) {
                html.element("li", &[], |html| html.leaf("a", &[("href", place)], name));
            }
        });
    });
}

/// How many of the first axes are told above the rows: columns are for the last ones.
fn told_above(figures: &Figures) -> usize {
    figures.axes.len().saturating_sub(MOST_AXES)
}

/// `network=mnist-cnn software=jax`.
fn common(figures: &Figures, cell: &CellFigures) -> Option<String> {
    let told = figures
        .axes
        .iter()
        .zip(&cell.values)
        .take(told_above(figures));
    let told: Vec<String> = told
        .map(|(axis, value)| format!("{}={value}", axis.short))
        .collect();
    (!told.is_empty()).then(|| told.join(" "))
}

/// Cells that have the same values on the first axes: they stand together.
fn alike(figures: &Figures, most: usize) -> Vec<Vec<&CellFigures>> {
    let told = told_above(figures);
    let mut cells = figures.begun();
    cells.truncate(most);
    cells
        .chunk_by(|one, other| one.values[..told] == other.values[..told])
        .map(<[_]>::to_vec)
        .collect()
}

fn cells(html: &mut Html, figures: &Figures) {
    html.leaf("p", &[], ABOUT_CELLS);
    drawn(html, figures);
    let (told, unit) = (told_above(figures), Unit::of(figures));
    let heads: Vec<String> = rows::cell_heads(figures);
    let columns: Vec<Column<'_>> = heads
        .iter()
        .enumerate()
        .filter(|(place, _)| *place == 0 || *place > told)
        .map(|(place, head)| {
            if (1..=figures.axes.len()).contains(&place) {
                text(head)
            } else {
                number(head)
            }
        })
        .collect();
    let section = |cells: Vec<&CellFigures>| Section {
        head: common(figures, cells[0]),
        rows: cells.iter().map(|cell| cell.row(unit, told)).collect(),
    };
    let all: Vec<Section> = alike(figures, MOST_ROWS).into_iter().map(section).collect();
    table::sections(html, "Steady epochs of each cell", &columns, &all);
    beyond(figures.begun().len())
        .into_iter()
        .for_each(|more| html.leaf("p", &[], &more));
}

/// The runs of the cells on one scale.
fn drawn(html: &mut Html, figures: &Figures) {
    let told = told_above(figures);
    let groups = alike(figures, MOST_STRIPS).into_iter().map(|cells| {
        let measured = cells.iter().filter(|cell| !cell.results.is_empty());
        (
            common(figures, cells[0]),
            measured
                .map(|cell| strip(cell, told))
                .collect::<Vec<Strip>>(),
        )
    });
    let groups: Vec<(Option<String>, Vec<Strip>)> =
        groups.filter(|(_, strips)| !strips.is_empty()).collect();
    if groups.is_empty() {
        return;
    }
    let scale = strip::scale(groups.iter().flat_map(|(_, strips)| strips));
    html.element("figure", &[], |html| {
        let axes: Vec<&str> = figures.axes.iter().skip(told).map(|axis| axis.short.as_str()).collect();
        let rows = if axes.is_empty() { String::new() } else { format!(": {}", axes.join(", ")) };
        html.element("figcaption", &[], |html| {
            html.text(&format!(
                "Each tick is a run; the dot is the mean of the runs, with its 95 % interval. Beside it the cell{rows}."
            ));
            if scale.begin > 0.0 {
                html.markup(" <strong>The axis does not begin at 0.</strong>");
            }
        });
        for (common, strips) in &groups {
            if let Some(common) = common {
                html.element("h3", &[], |html| html.breakable(common, table::WHOLE));
            }
            strip::write(html, strips, &scale);
        }
    });
}

/// The runs of a cell, a tick each.
fn strip(cell: &CellFigures, told: usize) -> Strip {
    let seconds: Vec<f64> = cell
        .results
        .iter()
        .map(|result| result.epoch_seconds)
        .collect();
    let values = cell.values[told..].join(", ");
    Strip {
        id: format!("c{}", cell.cell),
        name: if values.is_empty() {
            cell.cell.to_string()
        } else {
            format!("{}: {values}", cell.cell)
        },
        of: "runs",
        spread: Spread::of(&seconds),
        epochs: seconds
            .into_iter()
            .map(|seconds| (seconds, false))
            .collect(),
    }
}

/// Columns of comparisons behind those that say what is compared.
fn columns<'a>(first: &[&'a str]) -> Vec<Column<'a>> {
    let texts = first.iter().map(|head| text(head));
    let figures = &rows::COMPARISON_HEADS[2..];
    let last = figures.len() - 1;
    let of_figures = figures.iter().enumerate().map(|(place, head)| {
        if place == last {
            text(head)
        } else {
            number(head)
        }
    });
    texts.chain(of_figures).collect()
}

fn effects(html: &mut Html, figures: &Figures) {
    html.leaf("p", &[], ABOUT_EFFECTS);
    let rows = figures
        .effects
        .iter()
        .take(MOST_ROWS)
        .map(Comparison::row)
        .collect();
    let all = [Section { head: None, rows }];
    table::sections(
        html,
        "Effect of each value against its baseline",
        &columns(&["Axis", "Value"]),
        &all,
    );
}

/// Each pair of cells, those that differ by the same values together.
fn comparisons(html: &mut Html, figures: &Figures) {
    html.leaf("p", &[], &about_comparisons(figures));
    let all = &figures.comparisons[..figures.comparisons.len().min(MOST_ROWS)];
    if all.is_empty() {
        html.markup("<p>Nothing can be compared.</p>");
        return;
    }
    let caption = "Each cell against its baseline";
    if all.iter().all(|comparison| comparison.others.is_empty()) {
        let rows = all.iter().map(Comparison::row).collect();
        let all = [Section { head: None, rows }];
        return table::sections(html, caption, &columns(&["Axis", "Value"]), &all);
    }
    let of = |one: &Comparison| (one.axis.clone(), one.value.clone(), one.baseline.clone());
    let row = |one: &Comparison| {
        std::iter::once(one.others.clone())
            .chain(one.effect.row())
            .collect()
    };
    let sections: Vec<Section> = all
        .chunk_by(|one, other| of(one) == of(other))
        .map(|pairs| Section {
            head: Some(format!("{}: {}", pairs[0].axis, pairs[0].values())),
            rows: pairs.iter().map(row).collect(),
        })
        .collect();
    table::sections(html, caption, &columns(&["At"]), &sections);
    beyond(figures.comparisons.len())
        .into_iter()
        .for_each(|more| html.leaf("p", &[], &more));
}

fn failed(html: &mut Html, rows: Vec<Vec<String>>) {
    let column = |place: usize, head| if place == 2 { number(head) } else { text(head) };
    let columns: Vec<Column<'_>> = rows::FAILURE_HEADS
        .iter()
        .enumerate()
        .map(|(place, head)| column(place, head))
        .collect();
    let all = [Section { head: None, rows }];
    table::sections(html, "Runs that count for nothing", &columns, &all);
}
