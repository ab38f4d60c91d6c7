//! Drawings, as SVG: figures over time, the gain by more nodes.

pub(super) mod clock;
pub(super) mod panel;
pub(super) mod speed_up;
pub(super) mod ticks;

use super::html::Html;

/// Units of a drawing from its left to its right side, and from its top to its bottom.
pub(super) const WIDTH: f64 = 6000.0;
pub(super) const HEIGHT: f64 = 1000.0;

/// A share of 1 as a place in a drawing, in percent.
pub(super) fn place(share: f64) -> String {
    let text = format!("{:.3}", share * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A line between two places.
fn line(html: &mut Html, class: &str, x: [&str; 2], y: [&str; 2]) {
    html.shape("line", &line_attributes(class, x, y));
}

fn line_attributes<'a>(
    class: &'a str,
    x: [&'a str; 2],
    y: [&'a str; 2],
) -> [(&'static str, &'a str); 5] {
    [
        ("class", class),
        ("x1", x[0]),
        ("x2", x[1]),
        ("y1", y[0]),
        ("y2", y[1]),
    ]
}

/// From the top of a drawing to its bottom.
const WHOLE_HEIGHT: [&str; 2] = ["0", "100%"];

/// The axis below drawings: its name on the left, and the texts of its marks.
fn axis(html: &mut Html, name: &str, texts: impl FnOnce(&mut Html)) {
    let hidden = [("class", "panel axis"), ("aria-hidden", "true")];
    html.element("div", &hidden, |html| {
        html.leaf("span", &[], name);
        let plot = [("class", "plot"), ("width", "100%"), ("height", "22")];
        html.element("svg", &plot, texts);
    });
}
