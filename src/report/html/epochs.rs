//! Epochs and their metrics on the clock of the run.

use super::Html;
use crate::record::{Epoch, Progress};
use crate::report::Run;
use crate::report::chart::clock::{Clock, span_of};
use crate::report::chart::panel::{Mark, Panel, Path, Shape, envelope};
use crate::report::chart::ticks::{Ticks, values};
use crate::report::chart::{HEIGHT, WIDTH, place};
use crate::report::html::table::{self, number, text};
use crate::report::metrics::ranked;
use crate::report::number::{UNKNOWN, decimals, duration, fixed, or_unknown, short};
use crate::report::timeline::{Curve, Unit};

/// Epochs that are drawn one by one; of more, the least, the mean and the most of several together.
const MOST_BARS: usize = 240;
/// Metrics that have a drawing of their own.
const MOST_METRICS: usize = 3;
/// Metrics that have a column of their own.
const MOST_COLUMNS: usize = 8;
/// Rows of the table of epochs.
const MOST_ROWS: usize = 200;

/// Epochs over time, where their places are known.
pub(super) fn panels<'a>(run: &Run, clock: &Clock, id: &str, backdrop: &'a str) -> Vec<Panel<'a>> {
    let Some(progress) = run.progress() else {
        return Vec::new();
    };
    let placed: Vec<(&Epoch, (u64, u64), f64)> = progress
        .epochs
        .iter()
        .filter_map(|epoch| Some((epoch, span_of(epoch)?, known(epoch)?)))
        .collect();
    if placed.is_empty() {
        return Vec::new();
    }
    let mut panels = vec![durations(run, clock, id, backdrop, &placed)];
    for (number, name) in metrics(progress).iter().take(MOST_METRICS).enumerate() {
        panels.extend(metric(
            progress,
            clock,
            &format!("{id}m{number}"),
            backdrop,
            name,
        ));
    }
    panels
}

fn known(epoch: &Epoch) -> Option<f64> {
    epoch
        .seconds()
        .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
}

fn durations<'a>(
    run: &Run,
    clock: &Clock,
    id: &str,
    backdrop: &'a str,
    placed: &[(&Epoch, (u64, u64), f64)],
) -> Panel<'a> {
    let longest = placed
        .iter()
        .map(|(.., seconds)| *seconds)
        .fold(0.0, f64::max);
    let ticks = values(0.0, longest);
    let shapes = if placed.len() > MOST_BARS {
        together(clock, placed, &ticks)
    } else {
        bars(clock, placed, &ticks)
    };
    let times = run.timing().and_then(|timing| timing.epochs.as_ref());
    let steady = times.map_or_else(String::new, |times| {
        format!(" · median {}", duration(times.median_seconds))
    });
    let first = times.and_then(|times| times.first_seconds);
    let first = first.map_or_else(String::new, |first| format!(" · first {}", duration(first)));
    let said = format!("{} epochs{steady}{first}", placed.len());
    let description = format!("{said}; longest {}.", duration(longest));
    Panel {
        id: format!("{id}e"),
        title: "Time of an epoch".to_owned(),
        unit: "s".to_owned(),
        said,
        description,
        class: "epochs",
        height: 56,
        ticks,
        limit: None,
        shapes,
        backdrop: Some(backdrop),
        marks: Vec::new(),
    }
}

fn bars(clock: &Clock, placed: &[(&Epoch, (u64, u64), f64)], ticks: &Ticks) -> Vec<Shape> {
    let (mut warm, mut steady) = (Path::default(), Path::default());
    for (epoch, (from, to), seconds) in placed {
        let path = if epoch.warmup { &mut warm } else { &mut steady };
        let (left, right) = (WIDTH * clock.place(*from), WIDTH * clock.place(*to));
        // A hair of space between two of them, and never nothing.
        let right = (right - 8.0).max(left + 4.0);
        let top = HEIGHT * (1.0 - ticks.place(*seconds));
        path.begin(left, HEIGHT);
        path.to(left, top);
        path.to(right, top);
        path.to(right, HEIGHT);
        path.close();
    }
    let shapes = [("coldbar", warm), ("bar", steady)].map(|(class, path)| Shape {
        class,
        path: path.into_text(),
    });
    shapes
        .into_iter()
        .filter(|shape| !shape.path.is_empty())
        .collect()
}

/// Several epochs as one point each.
fn together(clock: &Clock, placed: &[(&Epoch, (u64, u64), f64)], ticks: &Ticks) -> Vec<Shape> {
    let each = placed.len().div_ceil(MOST_BARS);
    let mut curve = Curve {
        name: "epoch_seconds",
        unit: Unit::Number,
        low: Vec::new(),
        value: Vec::new(),
        high: Vec::new(),
        mean: None,
    };
    let mut spans = Vec::new();
    for several in placed.chunks(each) {
        let seconds = || several.iter().map(|(.., seconds)| *seconds);
        curve.low.push(seconds().reduce(f64::min));
        curve.high.push(seconds().reduce(f64::max));
        curve
            .value
            .push(Some(seconds().sum::<f64>() / several.len() as f64));
        spans.push((several[0].1.0, several[several.len() - 1].1.1));
    }
    envelope(clock, &spans, &curve, ticks, 1.0)
}

/// Names of metrics, losses before others.
fn metrics(progress: &Progress) -> Vec<&str> {
    ranked(
        progress
            .epochs
            .iter()
            .flat_map(|epoch| epoch.metrics.keys())
            .map(String::as_str)
            .collect(),
    )
}

fn metric<'a>(
    progress: &Progress,
    clock: &Clock,
    id: &str,
    backdrop: &'a str,
    name: &str,
) -> Option<Panel<'a>> {
    let points: Vec<(u64, f64)> = progress
        .epochs
        .iter()
        .filter_map(|epoch| Some((epoch.ended_at_ms?, *epoch.metrics.get(name)?)))
        .filter(|(_, value)| value.is_finite())
        .collect();
    let (first, last) = (points.first()?, points.last()?);
    let least = points
        .iter()
        .map(|(_, value)| *value)
        .fold(f64::INFINITY, f64::min);
    let most = points
        .iter()
        .map(|(_, value)| *value)
        .fold(f64::NEG_INFINITY, f64::max);
    let ticks = values(least, most);
    let mut path = Path::default();
    path.begin(
        WIDTH * clock.place(first.0),
        HEIGHT * (1.0 - ticks.place(first.1)),
    );
    points.iter().for_each(|(at, value)| {
        path.to(
            WIDTH * clock.place(*at),
            HEIGHT * (1.0 - ticks.place(*value)),
        )
    });
    let mark = |(at, value): &(u64, f64)| Mark {
        x: clock.percent(*at),
        y: place(1.0 - ticks.place(*value)),
        bounds: None,
    };
    let dots = if points.len() <= 60 {
        points.iter().map(mark).collect()
    } else {
        Vec::new()
    };
    let said = format!(
        "last {} · least {} · most {}",
        short(last.1),
        short(least),
        short(most)
    );
    Some(Panel {
        id: id.to_owned(),
        title: name.chars().take(60).collect(),
        unit: "at the end of each epoch".to_owned(),
        description: format!("{said}, over {} epochs.", points.len()),
        said,
        class: "metric",
        height: 56,
        limit: None,
        shapes: vec![Shape {
            class: "line",
            path: path.into_text(),
        }],
        backdrop: Some(backdrop),
        marks: dots,
        ticks,
    })
}

/// Every epoch as a row.
pub(super) fn table(html: &mut Html, run: &Run) {
    let Some(progress) = run
        .progress()
        .filter(|progress| !progress.epochs.is_empty())
    else {
        return;
    };
    let metrics: Vec<&str> = metrics(progress).into_iter().take(MOST_COLUMNS).collect();
    let has = |of: fn(&Epoch) -> bool| progress.epochs.iter().any(of);
    let (evaluated, checkpointed) = (
        has(|epoch| epoch.evaluation_seconds.is_some()),
        has(|epoch| epoch.checkpoint_seconds.is_some()),
    );
    let mut columns = vec![number("Epoch"), number("Time, s"), text("Source"), text("")];
    columns.extend(evaluated.then(|| number("Evaluation, s")));
    columns.extend(checkpointed.then(|| number("Checkpoint, s")));
    let names: Vec<String> = metrics
        .iter()
        .map(|name| name.chars().take(60).collect())
        .collect();
    columns.extend(names.iter().map(|name| number(name)));
    let digits = progress
        .epochs
        .iter()
        .filter_map(known)
        .fold(f64::INFINITY, f64::min);
    let digits = if digits.is_finite() {
        decimals(digits)
    } else {
        2
    };
    let seconds = |value: Option<f64>| or_unknown(value, |value| fixed(value, digits));
    let row = |epoch: &Epoch| {
        let source = epoch.time().map_or(UNKNOWN, |(_, source)| source.as_str());
        let warm = if epoch.warmup { "warm-up" } else { "" };
        let mut cells = vec![
            epoch.epoch.to_string(),
            seconds(known(epoch)),
            source.to_owned(),
            warm.to_owned(),
        ];
        cells.extend(evaluated.then(|| seconds(epoch.evaluation_seconds)));
        cells.extend(checkpointed.then(|| seconds(epoch.checkpoint_seconds)));
        let metric = |name: &&str| or_unknown(epoch.metrics.get(*name).copied(), short);
        cells.extend(metrics.iter().map(metric));
        cells
    };
    let left_out = progress.epochs.len().saturating_sub(MOST_ROWS);
    let shown = progress
        .epochs
        .iter()
        .take(1)
        .chain(progress.epochs.iter().skip(1 + left_out));
    let rows: Vec<Vec<String>> = shown.map(row).collect();
    html.element("details", &[], |html| {
        html.leaf(
            "summary",
            &[],
            &format!("All {} epochs as a table", progress.epochs_completed),
        );
        if left_out > 0 {
            html.leaf(
                "p",
                &[("class", "muted")],
                &format!("The first and the last {} are shown.", MOST_ROWS - 1),
            );
        }
        table::write(html, "Epochs", &columns, &rows);
    });
}
