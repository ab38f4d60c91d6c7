//! The epochs of several runs on one scale: each epoch a tick, the mean with its bounds below it.

use super::ticks::{Ticks, between, values};
use super::{WHOLE_HEIGHT, axis, describe, line, place};
use crate::foundation::statistics::Spread;
use crate::report::html::Html;
use crate::report::number::{duration, short};

/// Ticks of a run at most; more of them are one grey bar.
const MOST_TICKS: usize = 300;

/// One run.
pub(in crate::report) struct Strip {
    /// An id that no other has on the page.
    pub(in crate::report) id: String,
    pub(in crate::report) name: String,
    /// What the times are of, in the plural.
    pub(in crate::report) of: &'static str,
    /// Times of its epochs, in seconds; true: it is warm-up.
    pub(in crate::report) epochs: Vec<(f64, bool)>,
    pub(in crate::report) spread: Option<Spread>,
}

/// The scale of all of them: from 0 where they lie far apart, else close around them, or a small difference would not be seen.
pub(in crate::report) fn scale<'a>(strips: impl Iterator<Item = &'a Strip> + Clone) -> Ticks {
    let all = strips.clone().flat_map(|strip| &strip.epochs);
    let times = || {
        all.clone()
            .filter(|(_, is_warmup)| !is_warmup)
            .map(|(seconds, _)| *seconds)
    };
    let (least, steady) = (
        times().fold(f64::INFINITY, f64::min),
        times().fold(0.0, f64::max),
    );
    if least > 0.6 * steady && steady > least {
        let spare = 0.05 * (steady - least);
        return between(least - spare, steady + spare);
    }
    let bounds = strips
        .filter_map(|strip| strip.spread?.bounds())
        .map(|(_, high)| high)
        .fold(0.0, f64::max);
    let longest = all.clone().map(|(seconds, _)| *seconds).fold(0.0, f64::max);
    // A first epoch that is far longer than all others would press those into a corner.
    let most = if longest <= 3.0 * steady {
        longest
    } else {
        steady
    };
    values(0.0, most.max(bounds.min(3.0 * most)))
}

/// Draws the strips, one below the other, on one scale.
pub(in crate::report) fn write(html: &mut Html, strips: &[Strip], ticks: &Ticks) {
    html.element("div", &[("class", "strips")], |html| {
        for strip in strips {
            html.element("div", &[("class", "strip")], |html| {
                html.leaf("span", &[("class", "of")], &strip.name);
                strip.write(html, ticks);
            });
        }
        let name = (&[("class", "of")][..], "seconds");
        axis(html, "strip axis", name, "20", |html| {
            ticks.labels(html, "14")
        });
    });
}

impl Strip {
    fn write(&self, html: &mut Html, ticks: &Ticks) {
        let label = format!("{id}t {id}d", id = self.id);
        let svg = [
            ("class", "plot"),
            ("width", "100%"),
            ("height", "34"),
            ("role", "img"),
            ("aria-labelledby", label.as_str()),
        ];
        html.element("svg", &svg, |html| {
            let title = format!("Times of the {} of {}", self.of, self.name);
            describe(html, &self.id, &title, &self.described());
            for (at, _) in &ticks.marks {
                let x = place(ticks.place(*at));
                line(html, "grid", [&x, &x], WHOLE_HEIGHT);
            }
            self.marks(html, ticks);
            if let Some(spread) = &self.spread {
                mean(html, ticks, spread);
            }
        });
    }

    fn marks(&self, html: &mut Html, ticks: &Ticks) {
        let steady: Vec<f64> = self
            .epochs
            .iter()
            .filter(|(_, is_warmup)| !is_warmup)
            .map(|(seconds, _)| *seconds)
            .collect();
        if steady.len() > MOST_TICKS {
            let least = steady.iter().copied().fold(f64::INFINITY, f64::min);
            let (from, to) = (
                ticks.place(least),
                ticks.place(steady.iter().copied().fold(0.0, f64::max)),
            );
            let (x, width) = (place(from), place(to - from));
            html.shape(
                "rect",
                &[
                    ("class", "range"),
                    ("x", &x),
                    ("width", &width),
                    ("y", "4"),
                    ("height", "12"),
                ],
            );
        }
        let is_drawn = |(seconds, is_warmup): &&(f64, bool)| {
            (*is_warmup || steady.len() <= MOST_TICKS)
                && (ticks.begin..=ticks.end).contains(seconds)
        };
        let ticked = self.epochs.iter().filter(is_drawn);
        for (seconds, is_warmup) in ticked.take(2 * MOST_TICKS) {
            let x = place(ticks.place(*seconds));
            let class = if *is_warmup { "epoch cold" } else { "epoch" };
            line(html, class, [&x, &x], ["3", "17"]);
        }
    }

    fn described(&self) -> String {
        let Some(spread) = &self.spread else {
            return format!("None of the {} has a time.", self.of);
        };
        let bounds = spread.bounds().map_or_else(String::new, |(low, high)| {
            format!(
                ", in 95 % of all cases between {} and {}",
                duration(low),
                duration(high)
            )
        });
        format!(
            "Mean of {} {} {}{bounds}.",
            short(spread.n as f64),
            self.of,
            duration(spread.mean)
        )
    }
}

fn mean(html: &mut Html, ticks: &Ticks, spread: &Spread) {
    if let Some((low, high)) = spread.bounds() {
        let (from, to) = (place(ticks.place(low)), place(ticks.place(high)));
        line(html, "bounds", [&from, &to], ["25", "25"]);
        for x in [&from, &to] {
            line(html, "bounds", [x, x], ["21", "29"]);
        }
    }
    let x = place(ticks.place(spread.mean));
    html.shape(
        "circle",
        &[("class", "mean"), ("cx", &x), ("cy", "25"), ("r", "4")],
    );
}
