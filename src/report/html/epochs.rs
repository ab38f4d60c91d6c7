//! Epochs and their metrics on the clock of the run.

use super::{Html, table};
use crate::record::{Epoch, Progress};
use crate::report::Run;
use crate::report::chart::clock::{Clock, Span, span_of};
use crate::report::chart::panel::{Mark, Panel, Path, Shape, curve, polyline};
use crate::report::chart::ticks::{Ticks, values};
use crate::report::chart::{HEIGHT, WIDTH, place};
use crate::report::metrics::ranked;
use crate::report::number::{UNKNOWN, decimals, duration, fixed, or_unknown, range, real, short};
use crate::report::timeline::{Curve, Unit};

/// Epochs that are drawn one by one; of more, the least, the mean and the most of several together.
const MOST_BARS: usize = 240;
/// Metrics that have a drawing of their own.
const MOST_METRICS: usize = 3;
/// Metrics that have a column of their own.
const MOST_COLUMNS: usize = 8;
/// Rows of the table of epochs.
const MOST_ROWS: usize = 200;

/// An epoch whose place on the clock is known, with its seconds.
type Placed<'a> = (&'a Epoch, Span, f64);

/// Epochs over time, where their places are known.
pub(super) fn panels<'a>(run: &Run, clock: &Clock, id: &str, backdrop: &'a str) -> Vec<Panel<'a>> {
    let Some(progress) = run.progress() else {
        return Vec::new();
    };
    let placed: Vec<Placed<'_>> = progress
        .epochs
        .iter()
        .filter_map(|epoch| Some((epoch, span_of(epoch)?, known(epoch)?)))
        .collect();
    if placed.is_empty() {
        return Vec::new();
    }
    let metrics = metrics(progress).into_iter().take(MOST_METRICS).enumerate();
    let metrics = metrics
        .filter_map(|(number, name)| metric(progress, clock, format!("{id}m{number}"), name));
    std::iter::once(durations(run, clock, id, &placed))
        .chain(metrics)
        .map(|panel| Panel {
            backdrop: Some(backdrop),
            height: 56,
            ..panel
        })
        .collect()
}

fn known(epoch: &Epoch) -> Option<f64> {
    epoch
        .seconds()
        .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
}

fn durations<'a>(run: &Run, clock: &Clock, id: &str, placed: &[Placed<'_>]) -> Panel<'a> {
    let (_, longest) = range(placed.iter().map(|(.., seconds)| *seconds));
    let ticks = values(0.0, longest);
    let shapes = if placed.len() > MOST_BARS {
        together(clock, placed, &ticks)
    } else {
        bars(clock, placed, &ticks)
    };
    let mut summary = format!("{} epochs", placed.len());
    if let Some(times) = run.epoch_times() {
        summary = format!("{summary} · median {}", duration(times.median_seconds));
        if let Some(first) = times.first_seconds {
            summary = format!("{summary} · first {}", duration(first));
        }
    }
    Panel {
        id: format!("{id}e"),
        title: "Time of an epoch".to_owned(),
        unit: "s".to_owned(),
        description: format!("{summary}; longest {}.", duration(longest)),
        summary,
        class: "epochs",
        ticks,
        shapes,
        ..Panel::default()
    }
}

fn bars(clock: &Clock, placed: &[Placed<'_>], ticks: &Ticks) -> Vec<Shape> {
    let (mut warm, mut steady) = (Path::default(), Path::default());
    for (epoch, (from, to), seconds) in placed {
        let path = if epoch.warmup { &mut warm } else { &mut steady };
        let (left, right) = (WIDTH * clock.place(*from), WIDTH * clock.place(*to));
        // A hair of space between two of them, and never nothing.
        let right = (right - 8.0).max(left + 4.0);
        let top = HEIGHT * (1.0 - ticks.place(*seconds));
        path.through([(left, HEIGHT), (left, top), (right, top), (right, HEIGHT)]);
        path.close();
    }
    [("coldbar", warm), ("bar", steady)]
        .into_iter()
        .map(|(class, path)| Shape {
            class,
            path: path.into_text(),
        })
        .filter(|shape| !shape.path.is_empty())
        .collect()
}

/// Several epochs as one point each.
fn together(clock: &Clock, placed: &[Placed<'_>], ticks: &Ticks) -> Vec<Shape> {
    let chunks: Vec<&[Placed<'_>]> = placed.chunks(placed.len().div_ceil(MOST_BARS)).collect();
    let each = |of: fn((f64, f64), f64) -> f64| {
        let value = |several: &&[Placed<'_>]| {
            let seconds = || several.iter().map(|(.., seconds)| *seconds);
            let mean = seconds().sum::<f64>() / real(several.len() as u64);
            Some(of(range(seconds()), mean))
        };
        chunks.iter().map(value).collect()
    };
    let figure = Curve {
        name: "epoch_seconds",
        unit: Unit::Number,
        low: each(|(least, _), _| least),
        value: each(|_, mean| mean),
        high: each(|(_, most), _| most),
        mean: None,
    };
    let span = |place: usize| {
        let several = chunks[place];
        (several[0].1.0, several[several.len() - 1].1.1)
    };
    curve(clock, span, &figure, ticks, 1.0)
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

fn metric<'a>(progress: &Progress, clock: &Clock, id: String, name: &str) -> Option<Panel<'a>> {
    let points: Vec<(u64, f64)> = progress
        .epochs
        .iter()
        .filter_map(|epoch| Some((epoch.ended_at_ms?, *epoch.metrics.get(name)?)))
        .filter(|(_, value)| value.is_finite())
        .collect();
    let (_, last) = *points.last()?;
    let (least, most) = range(points.iter().map(|(_, value)| *value));
    let ticks = values(least, most);
    let mark = |(at, value): &(u64, f64)| Mark {
        x: clock.percent(*at),
        y: place(1.0 - ticks.place(*value)),
        bounds: None,
    };
    let dots = points.iter().filter(|_| points.len() <= 60);
    let along = points.iter().map(|(at, value)| (clock.place(*at), *value));
    let [last, least, most] = [last, least, most].map(short);
    let summary = format!("last {last} · least {least} · most {most}");
    Some(Panel {
        id,
        title: name.chars().take(60).collect(),
        unit: "at the end of each epoch".to_owned(),
        description: format!("{summary}, over {} epochs.", points.len()),
        summary,
        class: "metric",
        shapes: vec![Shape {
            class: "line",
            path: polyline(along, &ticks),
        }],
        marks: dots.map(mark).collect(),
        ticks,
        ..Panel::default()
    })
}

/// A column of seconds: its head, and what it is of.
type Seconds = (&'static str, fn(&Epoch) -> Option<f64>);

/// Every epoch as a row.
pub(super) fn table(html: &mut Html, run: &Run) {
    let Some(progress) = run
        .progress()
        .filter(|progress| !progress.epochs.is_empty())
    else {
        return;
    };
    let metrics: Vec<&str> = metrics(progress).into_iter().take(MOST_COLUMNS).collect();
    // Columns that some epoch fills.
    let parts: [Seconds; 2] = [
        ("Evaluation, s", |epoch| epoch.evaluation_seconds),
        ("Checkpoint, s", |epoch| epoch.checkpoint_seconds),
    ];
    let is_filled = |(_, of): &Seconds| progress.epochs.iter().any(|epoch| of(epoch).is_some());
    let parts: Vec<Seconds> = parts.into_iter().filter(is_filled).collect();
    let first = ["Epoch", "Time, s", "Source", ""].map(str::to_owned);
    let heads: Vec<String> = first
        .into_iter()
        .chain(parts.iter().map(|(head, _)| (*head).to_owned()))
        .chain(metrics.iter().map(|name| name.chars().take(60).collect()))
        .collect();
    let (shortest, _) = range(progress.epochs.iter().filter_map(known));
    let digits = Some(shortest).filter(|shortest| shortest.is_finite());
    let digits = digits.map_or(2, decimals);
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
        cells.extend(parts.iter().map(|(_, of)| seconds(of(epoch))));
        let metric = |name: &&str| or_unknown(epoch.metrics.get(*name).copied(), short);
        cells.extend(metrics.iter().map(metric));
        cells
    };
    let left_out = progress.epochs.len().saturating_sub(MOST_ROWS);
    let (first, others) = progress.epochs.split_at(1);
    let shown = first.iter().chain(&others[left_out..]);
    let rows: Vec<Vec<String>> = shown.map(row).collect();
    html.element("details", &[], |html| {
        let summary = format!("All {} epochs as a table", progress.epochs_completed);
        html.leaf("summary", &[], &summary);
        if left_out > 0 {
            let shown = format!("The first and the last {} are shown.", MOST_ROWS - 1);
            html.paragraph("muted", &shown);
        }
        table::write(html, "Epochs", &heads, &rows);
    });
}
