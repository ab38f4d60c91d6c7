//! Speed-up over the number of workers, beside the line of those that lose nothing.

use super::panel::{Mark, Panel, Shape, polyline};
use super::ticks::values;
use super::{axis, place};
use crate::report::html::Html;
use crate::report::number::{percent, range, real, short};
use crate::report::scaling::{Point, Scaling};

/// Draws it.
pub(in crate::report) fn write(html: &mut Html, scaling: &Scaling) {
    let points = &scaling.points;
    let (Some(first), workers) = (points.first(), scaling.workers.as_str()) else {
        return;
    };
    let (fewest, (_, most)) = (
        real(first.workers),
        range(points.iter().map(|point| real(point.workers))),
    );
    let ideal = most / fewest;
    let ratios = points.iter().map(|point| point.speed_up.ratio);
    let highest = ratios.fold(ideal, f64::max);
    let bounds = points.iter().filter_map(|point| point.speed_up.bounds);
    // Bounds of few epochs may reach anywhere.
    let reached = bounds.fold(highest, |reached, (_, high)| reached.max(high));
    let (mut x, y) = (values(0.0, most), values(0.0, reached.min(1.5 * highest)));
    x.end = most;
    // Marks where there is something.
    let mut counts: Vec<u64> = points.iter().map(|point| point.workers).collect();
    counts.insert(0, 0);
    counts.dedup();
    let mark = |count: u64| (real(count), count.to_string());
    x.marks = counts.into_iter().map(mark).collect();
    let height = |ratio: f64| place(1.0 - y.place(ratio));
    let dot = |point: &Point| Mark {
        x: place(x.place(real(point.workers))),
        y: height(point.speed_up.ratio),
        bounds: point
            .speed_up
            .bounds
            .map(|(low, high)| (height(high), height(low))),
    };
    let described = |point: &Point| {
        let (speed_up, efficiency) = (short(point.speed_up.ratio), percent(point.efficiency));
        let count = point.workers;
        format!("{count} {workers}: {speed_up} times as fast, efficiency {efficiency}")
    };
    let line = [(x.place(fewest), 1.0), (x.place(most), ideal)];
    let panel = Panel {
        id: "scaling".to_owned(),
        title: "Speed-up".to_owned(),
        unit: format!("times the baseline, over {workers}; dashed: nothing lost"),
        description: points.iter().map(described).collect::<Vec<_>>().join("; "),
        class: "scaling",
        height: 220,
        shapes: vec![Shape {
            class: "ideal",
            path: polyline(line.into_iter(), &y),
        }],
        marks: points.iter().map(dot).collect(),
        ticks: y.clone(),
        ..Panel::default()
    };
    html.element("div", &[("class", "narrow")], |html| {
        panel.write(html);
        axis(html, workers, |html| x.labels(html));
    });
}
