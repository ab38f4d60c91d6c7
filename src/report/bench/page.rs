//! A matrix as one file of HTML, and the words that it shares with the Markdown.

use super::MOST_ROWS;
use super::figures::{CellFigures, Comparison, Effect, Figures};
use crate::report::chart::strip::{self, Strip};
use crate::report::html::table::{self, Column, number, text};
use crate::report::html::{self, Html};
use crate::report::number::{UNKNOWN, count, duration, instant, percent, probability, short};
use crate::report::stats::Spread;

pub(super) const SUBTITLE: &str = "Measurements of a matrix";
pub(super) const ABOUT_EFFECTS: &str = "The effect of each value over all pairs of cells that differ by nothing else: the geometric \
                                        mean of their time ratios, with the least and the largest of a pair.";
pub(super) const ABOUT_CELLS: &str = "A run counts once, by the median of its steady epochs. Median and mean are over the runs of a \
                                      cell, the interval is that of the mean (95 %, Student’s t over the runs).";
/// Cells that are drawn.
const MOST_STRIPS: usize = 200;

pub(super) const COMPARISON_HEADS: [&str; 8] =
    ["Axis", "Value", "Time ratio", "95 % interval", "Rate ratio", "95 % interval", "p", "In words"];
pub(super) const FAILURE_HEADS: [&str; 5] = ["Cell", "Repeat", "Run", "What happened", "Then"];

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
    (rows > MOST_ROWS).then(|| format!("And {} more, which `--json` has.", count((rows - MOST_ROWS) as u64)))
}

pub(super) fn cell_heads(figures: &Figures) -> Vec<String> {
    let heads = ["n", "Median epoch", "Mean", "95 % interval", "First longer by", "Samples/s", "Failed"];
    let axes = figures.axes.iter().map(|axis| axis.short.clone());
    std::iter::once("Cell".to_owned()).chain(axes).chain(heads.map(str::to_owned)).collect()
}

impl CellFigures {
    /// Its cells in a table.
    pub(super) fn row(&self) -> Vec<String> {
        let or_unknown = |value: Option<f64>| value.map_or_else(|| UNKNOWN.to_owned(), duration);
        let signed =
            |seconds: f64| if seconds < 0.0 { format!("-{}", duration(-seconds)) } else { duration(seconds) };
        let figures = [
            count(self.runs as u64),
            or_unknown(self.epoch_seconds_median),
            or_unknown(self.epoch_seconds_mean),
            interval(self.epoch_seconds_low.zip(self.epoch_seconds_high), &duration),
            self.first_extra_seconds_median.map_or_else(|| UNKNOWN.to_owned(), signed),
            self.samples_per_second.map_or_else(|| UNKNOWN.to_owned(), short),
            count(self.failures.iter().filter(|failure| !failure.mended).count() as u64),
        ];
        std::iter::once(self.cell.to_string()).chain(self.values.iter().cloned()).chain(figures).collect()
    }
}

fn interval(bounds: Option<(f64, f64)>, shown: &dyn Fn(f64) -> String) -> String {
    bounds.map_or_else(|| UNKNOWN.to_owned(), |(low, high)| format!("{} – {}", shown(low), shown(high)))
}

impl Comparison {
    /// Its cells in a table.
    pub(super) fn row(&self) -> Vec<String> {
        let Effect { time_ratio, rate_ratio, p_adjusted, .. } = self.effect;
        let three = |value: f64| format!("{value:.3}");
        let on = if self.others.is_empty() { String::new() } else { format!(", at {}", self.others) };
        vec![
            self.axis.clone(),
            format!("{} against {}{on}", self.value, self.baseline),
            three(time_ratio),
            interval(self.effect.time_ratio_low.zip(self.effect.time_ratio_high), &three),
            rate_ratio.map_or_else(|| UNKNOWN.to_owned(), three),
            interval(self.effect.rate_ratio_low.zip(self.effect.rate_ratio_high), &three),
            p_adjusted.map_or_else(|| UNKNOWN.to_owned(), probability),
            self.effect.in_words(),
        ]
    }
}

impl Effect {
    /// The effect in words.
    #[must_use]
    pub fn in_words(&self) -> String {
        let by = percent((self.time_ratio - 1.0).abs());
        let way = if self.time_ratio > 1.0 { format!("{by} longer") } else { format!("{by} shorter") };
        let way = match self.pairs {
            0 | 1 => way,
            _ => {
                format!("{way} on average, {:.2} to {:.2} fold", self.least_time_ratio, self.most_time_ratio)
            }
        };
        match self.p_adjusted {
            None => format!("{way}, of too few runs to tell by how much it varies"),
            Some(_) if self.significant => format!("{way}: significant"),
            Some(_) => "no difference that so few runs could show".to_owned(),
        }
    }
}

/// Failures as rows: cell, repeat, run, what happened, what then.
pub(super) fn failures(figures: &Figures) -> Vec<Vec<String>> {
    let of = |cell: &CellFigures| {
        let row = |failure: &super::Failure| {
            let then = if failure.mended { "another try counts" } else { "it counts for nothing" };
            let (repeat, run) = (failure.repeat.to_string(), failure.run_id.to_string());
            vec![cell.cell.to_string(), repeat, run, failure.why.clone(), then.to_owned()]
        };
        cell.failures.iter().map(row).collect::<Vec<_>>()
    };
    figures.cells.iter().flat_map(of).collect()
}

/// `1 cell`, `2 cells`.
fn counted(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{} {what}s", count(number as u64)) }
}

/// What was asked for, and the conditions.
pub(super) fn facts(figures: &Figures) -> Vec<Vec<String>> {
    let asked = &figures.asked;
    let whole = if asked.exclusive { "nodes not shared" } else { "nodes may be shared" };
    let design = format!(
        "{}, {}, {} of warm-up left out, order by seed {}, {whole}, {} at a time, by {}",
        counted(figures.cells.len(), "cell"),
        counted(asked.repeats as usize, "repeat"),
        counted(asked.warm_up_epochs as usize, "epoch"),
        asked.seed,
        counted(asked.max_jobs as usize, "job"),
        asked.scheduler.as_str()
    );
    let runs =
        format!("{} of {} count, {} failed", figures.runs_measured, figures.runs_asked, figures.runs_failed);
    let own = [
        ("Matrix", asked.file.clone()),
        ("Begun", format!("{} UTC", instant(figures.began_at_ms))),
        ("Design", design),
        ("Runs", runs),
    ];
    let facts = own.into_iter().chain(figures.environment.facts());
    facts.map(|(name, what)| vec![name.to_owned(), what]).collect()
}

/// The whole page.
pub(super) fn page(figures: &Figures) -> String {
    let at = instant(figures.written_at_ms);
    html::document(&figures.name, SUBTITLE, &at, &figures.remarks, |html| {
        if shows_effects(figures) {
            html.element("section", &[("aria-labelledby", "effects")], |html| {
                html.markup("<h2 id=\"effects\">Effects</h2>");
                html.leaf("p", &[], ABOUT_EFFECTS);
                comparisons(html, "Effect of each value against its baseline", &figures.effects);
            });
        }
        html.element("section", &[("aria-labelledby", "cells")], |html| cells(html, figures));
        html.element("section", &[("aria-labelledby", "comparisons")], |html| {
            html.markup("<h2 id=\"comparisons\">Comparisons</h2>");
            html.leaf("p", &[], &about_comparisons(figures));
            comparisons(html, "Each cell against its baseline", &figures.comparisons);
        });
        failed(html, figures);
        html.element("section", &[("aria-labelledby", "environment")], |html| {
            html.markup("<h2 id=\"environment\">Environment</h2>");
            table::write(
                html,
                "What was asked for, and the conditions",
                &[text("What"), text("Which")],
                &facts(figures),
            );
        });
    })
}

fn cells(html: &mut Html, figures: &Figures) {
    html.markup("<h2 id=\"cells\">Cells</h2>");
    html.leaf("p", &[], ABOUT_CELLS);
    let strips: Vec<Strip> = figures.cells.iter().take(MOST_STRIPS).map(strip).collect();
    if strips.iter().any(|strip| strip.spread.is_some()) {
        strip::write(html, &strips, &strip::scale(&strips));
    }
    let heads = cell_heads(figures);
    let of_axes = 1..=figures.axes.len();
    let column = |(place, head)| if of_axes.contains(&place) { text(head) } else { number(head) };
    let columns: Vec<Column<'_>> = heads.iter().map(String::as_str).enumerate().map(column).collect();
    let rows: Vec<Vec<String>> = figures.cells.iter().take(MOST_ROWS).map(CellFigures::row).collect();
    table::write(html, "Steady epochs of each cell", &columns, &rows);
    beyond(figures.cells.len()).into_iter().for_each(|more| html.leaf("p", &[], &more));
}

/// The runs of a cell, a tick each.
fn strip(cell: &CellFigures) -> Strip {
    let seconds: Vec<f64> = cell.results.iter().map(|result| result.epoch_seconds).collect();
    Strip {
        id: format!("c{}", cell.cell),
        name: format!("{} {}", cell.cell, cell.values.join(" ")),
        of: "runs",
        spread: Spread::of(&seconds),
        epochs: seconds.into_iter().map(|seconds| (seconds, false)).collect(),
    }
}

fn comparisons(html: &mut Html, caption: &str, all: &[Comparison]) {
    if all.is_empty() {
        html.markup("<p>Nothing can be compared.</p>");
        return;
    }
    let is_text = |place: usize| matches!(place, 0 | 1 | 7);
    let column =
        |(place, head): (usize, &&'static str)| if is_text(place) { text(head) } else { number(head) };
    let columns: Vec<Column<'_>> = COMPARISON_HEADS.iter().enumerate().map(column).collect();
    let rows: Vec<Vec<String>> = all.iter().take(MOST_ROWS).map(Comparison::row).collect();
    table::write(html, caption, &columns, &rows);
    beyond(all.len()).into_iter().for_each(|more| html.leaf("p", &[], &more));
}

fn failed(html: &mut Html, figures: &Figures) {
    let rows: Vec<Vec<String>> = failures(figures).into_iter().take(MOST_ROWS).collect();
    if rows.is_empty() {
        return;
    }
    html.element("section", &[("aria-labelledby", "failures")], |html| {
        html.markup("<h2 id=\"failures\">Failures</h2>");
        let columns = FAILURE_HEADS.map(text);
        table::write(html, "Runs that count for nothing", &columns, &rows);
    });
}
