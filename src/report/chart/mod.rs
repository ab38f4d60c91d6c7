//! Drawings, as SVG: figures over time.

pub(super) mod clock;
pub(super) mod panel;
pub(super) mod ticks;

/// Units of a drawing from its left to its right side, and from its top to its bottom.
pub(super) const WIDTH: f64 = 6000.0;
pub(super) const HEIGHT: f64 = 1000.0;

/// A share of 1 as a place in a drawing, in percent.
pub(super) fn place(share: f64) -> String {
    let text = format!("{:.3}", share * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}
