//! One small drawing of a figure over time: its scale on the left, its curve, and its most important numbers above.

use std::ops::Range;

use super::clock::{Clock, Span};
use super::ticks::Ticks;
use super::{HEIGHT, WIDTH, place};
use crate::report::html::Html;
use crate::report::timeline::Curve;

/// What a panel shows.
#[derive(Default)]
pub(in crate::report) struct Panel {
    /// What it is of.
    pub(in crate::report) title: String,
    /// The unit of its scale.
    pub(in crate::report) unit: String,
    /// Its numbers in short.
    pub(in crate::report) summary: String,
    /// Which colour.
    pub(in crate::report) class: &'static str,
    /// Its height, in pixels.
    pub(in crate::report) height: u32,
    pub(in crate::report) ticks: Ticks,
    /// A value that the curve is compared with.
    pub(in crate::report) limit: Option<f64>,
    pub(in crate::report) shapes: Vec<Shape>,
}

/// Something drawn, as SVG path data in units of [`WIDTH`] and [`HEIGHT`].
pub(in crate::report) struct Shape {
    pub(in crate::report) class: &'static str,
    pub(in crate::report) path: String,
}

impl Panel {
    /// Draws it.
    pub(in crate::report) fn write(&self, html: &mut Html) {
        html.element("div", &[("class", "panel")], |html| {
            html.element("div", &[("class", "head")], |html| {
                html.leaf("b", &[], &self.title);
                html.markup(" ");
                html.leaf("span", &[("class", "unit")], &self.unit);
                html.leaf("span", &[("class", "summary")], &self.summary);
            });
            let height = self.height.to_string();
            scale(html, &self.ticks, self.height);
            let label = format!("{}, {}: {}", self.title, self.unit, self.summary);
            let plot = [
                ("class", "plot"),
                ("width", "100%"),
                ("height", height.as_str()),
                ("role", "img"),
                ("aria-label", &label),
            ];
            html.element("svg", &plot, |html| {
                self.lines(html);
                let inner = [
                    ("class", self.class),
                    ("viewBox", "0 0 6000 1000"),
                    ("preserveAspectRatio", "none"),
                    ("width", "100%"),
                    ("height", "100%"),
                ];
                html.element("svg", &inner, |html| {
                    for shape in &self.shapes {
                        html.shape("path", &[("class", shape.class), ("d", &shape.path)]);
                    }
                });
            });
        });
    }

    fn lines(&self, html: &mut Html) {
        let marks = self.ticks.marks.iter().map(|(value, _)| match *value {
            0.0 => ("base", 0.0),
            value => ("grid", value),
        });
        let limit = self.limit.filter(|limit| *limit <= self.ticks.end);
        for (class, value) in marks.chain(limit.map(|limit| ("limit", limit))) {
            let y = place(1.0 - self.ticks.place(value));
            let line = [
                ("class", class),
                ("x1", "0"),
                ("x2", "100%"),
                ("y1", &y),
                ("y2", &y),
            ];
            html.shape("line", &line);
        }
    }
}

/// The numbers beside a panel.
fn scale(html: &mut Html, ticks: &Ticks, height: u32) {
    let shown = height.to_string();
    let svg = [
        ("class", "scale"),
        ("width", "100%"),
        ("height", shown.as_str()),
        ("aria-hidden", "true"),
    ];
    html.element("svg", &svg, |html| {
        // Where there is no room for all of them, the least and the most are there.
        let crowded = f64::from(height) / ticks.marks.len().max(1) as f64;
        let every = if crowded < 13.0 {
            ticks.marks.len().saturating_sub(1).max(1)
        } else {
            1
        };
        for (value, text) in ticks.marks.iter().step_by(every) {
            let height = f64::from(height);
            let y = height * (1.0 - ticks.place(*value));
            let y = format!("{:.1}", (y + 3.0).clamp(9.0, height - 1.0));
            html.leaf(
                "text",
                &[("x", "100%"), ("y", &y), ("text-anchor", "end")],
                text,
            );
        }
    });
}

/// The axis below panels.
pub(in crate::report) fn axis_below(html: &mut Html, ticks: &Ticks) {
    let hidden = [("class", "panel axis"), ("aria-hidden", "true")];
    html.element("div", &hidden, |html| {
        html.leaf("span", &[], "");
        let plot = [("class", "plot"), ("width", "100%"), ("height", "22")];
        html.element("svg", &plot, |html| ticks.labels(html));
    });
}

/// A curve over spans of time: the band from the least to the most of each, and a line through the values.
pub(in crate::report) fn curve(
    clock: &Clock,
    span: impl Fn(usize) -> Span,
    curve: &Curve,
    ticks: &Ticks,
    per: f64,
) -> Vec<Shape> {
    let (mut band, mut line) = (Path::default(), Path::default());
    for run in runs(&curve.value) {
        let (first, last) = (run.start, run.end - 1);
        let left = WIDTH * clock.place(span(first).0);
        let right = WIDTH * clock.place(span(last).1);
        // From the left end of the run to its right end, through the middle of each point.
        let along = |values: &[Option<f64>]| -> Vec<(f64, f64)> {
            let y = |place: usize| {
                let value = values[place].or(curve.value[place]).unwrap_or(0.0);
                HEIGHT * (1.0 - ticks.place(value / per))
            };
            let middle = |place: usize| {
                let (begin, end) = span(place);
                (WIDTH * clock.place(u64::midpoint(begin, end)), y(place))
            };
            let ends = ([(left, y(first))], [(right, y(last))]);
            ends.0
                .into_iter()
                .chain(run.clone().map(middle))
                .chain(ends.1)
                .collect()
        };
        line.through(along(&curve.value));
        if run
            .clone()
            .any(|place| curve.high[place] > curve.low[place])
        {
            let back = along(&curve.low).into_iter().rev();
            band.through(along(&curve.high).into_iter().chain(back));
            band.0.push('z');
        }
    }
    [("area", band), ("line", line)]
        .into_iter()
        .map(|(class, path)| Shape {
            class,
            path: path.0,
        })
        .filter(|shape| !shape.path.is_empty())
        .collect()
}

/// A line through points: how far from the left each is, 0 to 1, and its value.
pub(in crate::report) fn polyline(
    points: impl Iterator<Item = (f64, f64)>,
    ticks: &Ticks,
) -> String {
    let mut path = Path::default();
    path.through(points.map(|(x, value)| (WIDTH * x, HEIGHT * (1.0 - ticks.place(value)))));
    path.0
}

/// The places of values that follow each other without a hole.
fn runs(values: &[Option<f64>]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (place, _) in values
        .iter()
        .enumerate()
        .filter(|(_, value)| value.is_some())
    {
        match runs.last_mut() {
            Some(run) if run.end == place => run.end += 1,
            _ => runs.push(place..place + 1),
        }
    }
    runs
}

/// SVG path data of whole numbers.
#[derive(Debug, Default)]
struct Path(String);

impl Path {
    /// Begins at the first of these places and goes through all of them.
    fn through(&mut self, places: impl IntoIterator<Item = (f64, f64)>) {
        for (number, (x, y)) in places.into_iter().enumerate() {
            let before = if number == 0 { 'M' } else { ' ' };
            self.0
                .push_str(&format!("{before}{} {}", whole(x), whole(y)));
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "places of a drawing, a few thousand"
)]
fn whole(value: f64) -> i64 {
    value.round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart::ticks::values;
    use crate::report::timeline::{Timeline, Unit};

    fn drawn(low: &[Option<f64>], value: &[Option<f64>], high: &[Option<f64>]) -> Vec<Shape> {
        let clock = Clock::over(std::iter::once((0, 6000))).expect("a span");
        let timeline = Timeline {
            begin_ms: 0,
            interval_ms: 1000,
            points: 6,
            ..Timeline::default()
        };
        let [low, value, high] = [low, value, high].map(<[_]>::to_vec);
        let figure = Curve {
            unit: Unit::Cpus,
            low,
            value,
            high,
            mean: None,
        };
        let span = |place| (timeline.edge_ms(place), timeline.edge_ms(place + 1));
        curve(&clock, span, &figure, &values(0.0, 10.0), 1.0)
    }

    #[test]
    fn a_curve_is_a_line_within_the_band_of_its_readings() {
        let some = |values: [f64; 3]| values.map(Some).to_vec();
        let shapes = drawn(
            &some([0.0, 0.0, 5.0]),
            &some([5.0, 5.0, 5.0]),
            &some([10.0, 5.0, 5.0]),
        );
        assert_eq!(shapes[1].path, "M0 500 500 500 1500 500 2500 500 3000 500");
        assert_eq!(
            shapes[0].path,
            "M0 0 500 0 1500 500 2500 500 3000 500 3000 500 2500 500 1500 1000 500 1000 0 1000z"
        );
        // Without any difference there is no band.
        assert_eq!(
            drawn(&some([1.0; 3]), &some([1.0; 3]), &some([1.0; 3])).len(),
            1
        );
    }

    #[test]
    fn holes_stay_open_and_values_beyond_the_axis_are_at_its_end() {
        let values = [Some(2.0), None, Some(99.0), None, None, Some(0.0)];
        let shapes = drawn(&values, &values, &values);
        assert_eq!(
            shapes[0].path,
            "M0 800 500 800 1000 800M2000 0 2500 0 3000 0M5000 1000 5500 1000 6000 1000"
        );
        assert!(drawn(&[None; 4], &[None; 4], &[None; 4]).is_empty());
    }
}
