//! Epochs and their metrics on the clock of the run.

use crate::record::{Epoch, Progress};
use crate::report::Run;
use crate::report::chart::clock::Clock;
use crate::report::chart::panel::{Mark, Panel, Shape, polyline};
use crate::report::chart::place;
use crate::report::chart::ticks::values;
use crate::report::metrics::ranked;
use crate::report::number::{duration, range, short};

/// Metrics that have a drawing of their own.
const MOST_METRICS: usize = 3;

/// Epochs over time, where their places are known.
pub(super) fn panels(run: &Run, clock: &Clock, id: &str) -> Vec<Panel> {
    let Some(progress) = run.progress() else {
        return Vec::new();
    };
    let mut times = figure(progress, clock, format!("{id}e"), known);
    if let Some((panel, times)) = times.as_mut().zip(run.epoch_times()) {
        panel.title = "Time of an epoch".to_owned();
        panel.unit = "s".to_owned();
        panel.class = "epochs";
        panel.summary = format!(
            "median {} · {}",
            duration(times.median_seconds),
            panel.summary
        );
    }
    let metrics = metrics(progress).into_iter().take(MOST_METRICS).enumerate();
    let metrics = metrics.filter_map(|(number, name)| {
        let of = |epoch: &Epoch| epoch.metrics.get(name).copied();
        let panel = figure(progress, clock, format!("{id}m{number}"), of)?;
        Some(Panel {
            title: name.chars().take(60).collect(),
            unit: "at the end of each epoch".to_owned(),
            ..panel
        })
    });
    times.into_iter().chain(metrics).collect()
}

fn known(epoch: &Epoch) -> Option<f64> {
    epoch
        .seconds()
        .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
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

/// A figure of the epochs, each at its end.
fn figure(
    progress: &Progress,
    clock: &Clock,
    id: String,
    of: impl Fn(&Epoch) -> Option<f64>,
) -> Option<Panel> {
    let points: Vec<(u64, f64)> = progress
        .epochs
        .iter()
        .filter_map(|epoch| Some((epoch.ended_at_ms?, of(epoch)?)))
        .filter(|(_, value)| value.is_finite())
        .collect();
    let (_, last) = *points.last()?;
    let (least, most) = range(points.iter().map(|(_, value)| *value));
    let ticks = values(least, most);
    let mark = |(at, value): &(u64, f64)| Mark {
        x: clock.percent(*at),
        y: place(1.0 - ticks.place(*value)),
    };
    let dots = points.iter().filter(|_| points.len() <= 60);
    let along = points.iter().map(|(at, value)| (clock.place(*at), *value));
    let [last, least, most] = [last, least, most].map(short);
    let summary = format!("last {last} · least {least} · most {most}");
    Some(Panel {
        id,
        description: format!("{summary}, over {} epochs.", points.len()),
        summary,
        class: "metric",
        height: 56,
        shapes: vec![Shape {
            class: "line",
            path: polyline(along, &ticks),
        }],
        marks: dots.map(mark).collect(),
        ticks,
        ..Panel::default()
    })
}
