//! Where an axis has its marks, and what they are called.

use super::place as place_text;
use crate::report::html::Html;
use crate::report::number::{short, short_or_tiny};

/// Marks of an axis.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::report) struct Ticks {
    /// Where the axis begins: at 0, or below the least value.
    pub(in crate::report) begin: f64,
    /// Where it ends: at or above the largest value.
    pub(in crate::report) end: f64,
    /// The marks, with their texts.
    pub(in crate::report) marks: Vec<(f64, String)>,
}

impl Ticks {
    /// How far along the axis a value is, 0 to 1; what is beyond is at its end.
    pub(in crate::report) fn place(&self, value: f64) -> f64 {
        ((value - self.begin) / (self.end - self.begin)).clamp(0.0, 1.0)
    }

    /// Writes the texts of the marks below an axis; the first and the last stay within the drawing.
    pub(in crate::report) fn labels(&self, html: &mut Html) {
        let last = self.marks.len().saturating_sub(1);
        for (number, (at, text)) in self.marks.iter().enumerate() {
            let share = self.place(*at);
            let anchor = match number {
                0 => "start",
                _ if number == last && share > 0.95 => "end",
                _ => "middle",
            };
            let attributes = [
                // On a narrow screen each second one is left out.
                ("class", if number % 2 == 1 { "odd" } else { "even" }),
                ("x", &place_text(share)),
                ("y", "15"),
                ("text-anchor", anchor),
            ];
            html.leaf("text", &attributes, text);
        }
    }
}

/// Marks for values from 0, or from less than it, to `most`, at 1, 2 or 5 times a power of ten; few of them.
pub(in crate::report) fn values(least: f64, most: f64) -> Ticks {
    let least = if least.is_finite() {
        least.min(0.0)
    } else {
        0.0
    };
    let most = if most.is_finite() { most.max(0.0) } else { 0.0 };
    let most = if most > least { most } else { 1.0 };
    let step = step_of(most - least);
    let (first, last) = ((least / step + 1e-9).floor(), (most / step - 1e-9).ceil());
    let mut marks = Vec::new();
    let mut place = first;
    while place <= last && marks.len() < 9 {
        marks.push((place * step, short_or_tiny(place * step)));
        place += 1.0;
    }
    Ticks {
        begin: first * step,
        end: last * step,
        marks,
    }
}

/// A step of 1, 2 or 5 times a power of ten, of which four cover the span.
fn step_of(span: f64) -> f64 {
    let power = 10_f64.powf((span / 4.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps
        .into_iter()
        .find(|step| span / step <= 4.0 + 1e-9)
        .unwrap_or(10.0 * power)
}

/// Steps of a time axis that people count in, in seconds.
const STEPS: [f64; 24] = [
    0.001, 0.01, 0.1, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0,
    3600.0, 7200.0, 10_800.0, 21_600.0, 43_200.0, 86_400.0, 172_800.0, 604_800.0, 1.2096e6,
];

/// Marks for a time from 0 to `span` seconds, nine at most; the axis ends at the span itself.
pub(in crate::report) fn times(span: f64) -> Ticks {
    let end = if span.is_finite() && span > 0.0 {
        span
    } else {
        1.0
    };
    let step = STEPS
        .into_iter()
        .find(|step| end / step <= 8.0)
        .unwrap_or_else(|| (end / 8.0).ceil());
    let mut marks = Vec::new();
    let mut place = 0.0;
    while place * step <= end * (1.0 + 1e-9) {
        marks.push((place * step, clock(place * step, step)));
        place += 1.0;
    }
    Ticks {
        begin: 0.0,
        end,
        marks,
    }
}

/// A mark of a time axis of these steps: `0`, `30 s`, `5 min`, `1 h 30`, `2 d`.
fn clock(seconds: f64, step: f64) -> String {
    let whole = seconds.round();
    let (days, hours) = ((whole / 86_400.0).floor(), (whole / 3600.0).floor());
    let (minutes, rest) = ((whole / 60.0).floor(), whole % 60.0);
    if seconds == 0.0 {
        "0".to_owned()
    } else if step < 60.0 && minutes < 2.0 {
        format!("{} s", short(seconds))
    } else if step < 60.0 {
        format!("{minutes}:{rest:02} min")
    } else if step >= 86_400.0 {
        format!("{days} d")
    } else if hours < 1.0 {
        format!("{minutes} min")
    } else if minutes % 60.0 == 0.0 {
        format!("{hours} h")
    } else {
        format!("{hours}:{:02} h", minutes % 60.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_in_ones_twos_and_fives() {
        let texts = |most| {
            values(0.0, most)
                .marks
                .into_iter()
                .map(|(_, text)| text)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(texts(7.9), "0 2 4 6 8");
        assert_eq!(texts(100.0), "0 50 100");
        assert_eq!(texts(0.3), "0 0.1 0.2 0.3");
        assert_eq!(texts(64.0), "0 20 40 60 80");
        assert_eq!(
            (texts(0.0), texts(f64::NAN)),
            ("0 0.5 1".to_owned(), "0 0.5 1".to_owned())
        );
    }

    #[test]
    fn every_value_is_on_the_axis_and_marks_are_few() {
        for most in [1e-9, 0.17, 1.0, 3.0, 5.1, 9.99, 1e3, 123_456.0, 8e15] {
            let Ticks { end, marks, .. } = values(0.0, most);
            assert!(
                end >= most * (1.0 - 1e-9) && end <= most * 2.0,
                "{most}: {end}"
            );
            assert!((2..=5).contains(&marks.len()), "{most}: {marks:?}");
        }
        for span in [0.0, 0.4, 1.0, 59.0, 61.0, 3600.0, 86_400.0, 3e6, 1e9] {
            let Ticks { end, marks, .. } = times(span);
            assert!((1..=10).contains(&marks.len()), "{span}: {marks:?}");
            assert!(
                marks.iter().all(|(at, _)| *at <= end * 1.001),
                "{span}: {marks:?}"
            );
        }
    }

    #[test]
    fn values_below_zero_are_on_the_axis_too() {
        let ticks = values(-3.2, 1.0);
        assert_eq!((ticks.begin, ticks.end), (-4.0, 2.0));
        assert_eq!(
            (ticks.place(-4.0), ticks.place(-1.0), ticks.place(9.0)),
            (0.0, 0.5, 1.0)
        );
        assert_eq!(values(-5.0, -1.0).end, 0.0);
        assert!(values(f64::NEG_INFINITY, f64::INFINITY).end > 0.0);
    }

    #[test]
    fn times_are_counted_as_on_a_clock() {
        let texts = |span| {
            times(span)
                .marks
                .into_iter()
                .map(|(_, text)| text)
                .collect::<Vec<_>>()
                .join(", ")
        };
        assert_eq!(texts(35.0), "0, 5 s, 10 s, 15 s, 20 s, 25 s, 30 s, 35 s");
        assert_eq!(
            texts(180.0),
            "0, 30 s, 60 s, 90 s, 2:00 min, 2:30 min, 3:00 min"
        );
        assert_eq!(texts(3000.0), "0, 10 min, 20 min, 30 min, 40 min, 50 min");
        assert_eq!(texts(9000.0), "0, 30 min, 1 h, 1:30 h, 2 h, 2:30 h");
        assert_eq!(
            texts(86_400.0),
            "0, 3 h, 6 h, 9 h, 12 h, 15 h, 18 h, 21 h, 24 h"
        );
        assert_eq!(texts(400_000.0), "0, 1 d, 2 d, 3 d, 4 d");
    }
}
