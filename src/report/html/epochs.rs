//! Epochs and their metrics on the clock of the run.

use crate::record::{Epoch, Progress};
use crate::report::Run;
use crate::report::chart::clock::Clock;
use crate::report::chart::panel::{Panel, Shape, polyline};
use crate::report::chart::ticks::values;
use crate::report::number::{duration, range, short};

/// Metrics that have a drawing of their own.
const MOST_METRICS: usize = 3;

/// Epochs over time, where their places are known.
pub(super) fn panels(run: &Run, clock: &Clock) -> Vec<Panel> {
    let Some(progress) = run.progress() else {
        return Vec::new();
    };
    let mut times = figure(progress, clock, known);
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
    let names = progress
        .epochs
        .iter()
        .flat_map(|epoch| epoch.metrics.keys());
    let names = ranked(names.map(String::as_str).collect()).into_iter();
    let metrics = names.take(MOST_METRICS).filter_map(|name| {
        let of = |epoch: &Epoch| epoch.metrics.get(name).copied();
        let panel = figure(progress, clock, of)?;
        // Of an epoch that did not end.
        let ended = progress.epochs.iter().rev().find_map(of);
        let later = progress.last_metrics.get(name).copied();
        let later = later.filter(|later| later.is_finite() && Some(*later) != ended);
        let summary = match later {
            Some(later) => format!("{} · printed last {}", panel.summary, short(later)),
            None => panel.summary,
        };
        Some(Panel {
            title: name.chars().take(60).collect(),
            unit: "at the end of each epoch".to_owned(),
            summary,
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
pub(super) fn ranked(mut names: Vec<&str>) -> Vec<&str> {
    names.sort_unstable();
    names.dedup();
    let rank = |name: &str| match name.to_ascii_lowercase() {
        name if name == "loss" => 0,
        name if name.contains("loss") => 1,
        name if name.contains("acc") => 2,
        _ => 3,
    };
    names.sort_by_key(|name| rank(name));
    names
}

/// A figure of the epochs, each at its end; `None` of a single one.
fn figure(progress: &Progress, clock: &Clock, of: impl Fn(&Epoch) -> Option<f64>) -> Option<Panel> {
    let points: Vec<(u64, f64)> = progress
        .epochs
        .iter()
        .filter_map(|epoch| Some((epoch.ended_at_ms?, of(epoch)?)))
        .filter(|(_, value)| value.is_finite())
        .collect();
    let (_, last) = *points.last().filter(|_| points.len() > 1)?;
    let (least, most) = range(points.iter().map(|(_, value)| *value));
    let ticks = values(least, most);
    let along = points.iter().map(|(at, value)| (clock.place(*at), *value));
    let [last, least, most] = [last, least, most].map(short);
    let summary = format!("last {last} · least {least} · most {most}");
    Some(Panel {
        summary,
        class: "metric",
        height: 56,
        shapes: vec![Shape {
            class: "line",
            path: polyline(along, &ticks),
        }],
        ticks,
        ..Panel::default()
    })
}
