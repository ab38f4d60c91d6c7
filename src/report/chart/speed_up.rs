//! Speed-up over the number of workers, beside the line of those that lose nothing.

use super::panel::{Mark, Panel, Path, Shape};
use super::ticks::{Ticks, values};
use super::{HEIGHT, WIDTH, axis, place};
use crate::report::html::Html;
use crate::report::number::{percent as in_percent, real, short};
use crate::report::scaling::{Point, Scaling};

const PIXELS: u32 = 220;

/// Draws it.
pub(in crate::report) fn write(html: &mut Html, scaling: &Scaling) {
    let Some(first) = scaling.points.first() else {
        return;
    };
    let most_workers = scaling
        .points
        .iter()
        .map(|point| real(point.workers))
        .fold(1.0, f64::max);
    let ideal = most_workers / real(first.workers);
    let reached = scaling.points.iter().map(|point| {
        point
            .speed_up
            .bounds
            .map_or(point.speed_up.ratio, |bounds| bounds.1)
    });
    // Bounds of few epochs may reach anywhere.
    let highest = scaling
        .points
        .iter()
        .map(|point| point.speed_up.ratio)
        .fold(ideal, f64::max);
    let (mut x, y) = (
        values(0.0, most_workers),
        values(0.0, reached.fold(highest, f64::max).min(1.5 * highest)),
    );
    x.end = most_workers;
    // Marks where there is something.
    let mut counts: Vec<u64> = scaling.points.iter().map(|point| point.workers).collect();
    counts.dedup();
    x.marks = std::iter::once(0)
        .chain(counts)
        .map(|count| (real(count), count.to_string()))
        .collect();
    let point = |workers: f64, speed_up: f64| {
        (WIDTH * x.place(workers), HEIGHT * (1.0 - y.place(speed_up)))
    };
    let mut line = Path::default();
    let from = point(real(first.workers), 1.0);
    line.begin(from.0, from.1);
    let to = point(most_workers, ideal);
    line.to(to.0, to.1);
    let panel = Panel {
        id: "scaling".to_owned(),
        title: "Speed-up".to_owned(),
        unit: format!(
            "times the baseline, over {}; dashed: nothing lost",
            scaling.workers.as_str()
        ),
        said: String::new(),
        description: described(scaling),
        class: "scaling",
        height: PIXELS,
        ticks: y.clone(),
        limit: None,
        shapes: vec![Shape {
            class: "ideal",
            path: line.into_text(),
        }],
        backdrop: None,
        marks: marks(scaling, &x, &y),
    };
    html.element("div", &[("class", "narrow")], |html| {
        panel.write(html);
        let workers = (&[][..], scaling.workers.as_str());
        axis(html, "panel axis", workers, "22", |html| {
            x.labels(html, "15")
        });
    });
}

/// Dots with their bounds: position in percent, so that they stay round.
fn marks(scaling: &Scaling, x: &Ticks, y: &Ticks) -> Vec<Mark> {
    let mark = |point: &Point| Mark {
        x: place(x.place(real(point.workers))),
        y: place(1.0 - y.place(point.speed_up.ratio)),
        bounds: point
            .speed_up
            .bounds
            .map(|(low, high)| (place(1.0 - y.place(high)), place(1.0 - y.place(low)))),
    };
    scaling.points.iter().map(mark).collect()
}

fn described(scaling: &Scaling) -> String {
    let point = |point: &Point| {
        format!(
            "{} {}: {} times as fast, efficiency {}",
            point.workers,
            scaling.workers.as_str(),
            short(point.speed_up.ratio),
            in_percent(point.efficiency)
        )
    };
    scaling
        .points
        .iter()
        .map(point)
        .collect::<Vec<_>>()
        .join("; ")
}
