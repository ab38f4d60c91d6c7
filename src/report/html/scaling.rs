//! A study of scaling as a page: for each series its figure, its table, and what supports them.

use super::{Html, head, table};
use crate::report::chart::panel::{Panel, Shape, axis_below, polyline};
use crate::report::chart::ticks::{Ticks, values};
use crate::report::number::{count, instant, range, real, short};
use crate::report::scaling::{NO_CLAIM, Point, Series, Study};

impl Study {
    /// One file of HTML, with all that it shows in it.
    #[must_use]
    pub fn to_html(&self) -> String {
        let mut html = Html::default();
        html.markup("<!DOCTYPE html>\n");
        html.element("html", &[("lang", "en")], |html| {
            html.element("head", &[], |html| head(html, "Scaling"));
            html.element("body", &[], |html| {
                html.markup("<a class=\"skip\" href=\"#main\">Skip to the report</a>\n");
                html.element("header", &[], |html| header(html, self));
                html.element("main", &[("id", "main")], |html| {
                    for (place, series) in (1..).zip(&self.series) {
                        html.section(&format!("series{place}"), &series.heading(), |html| {
                            self::series(html, series);
                        });
                    }
                    comparison(html, self);
                });
            });
        });
        html.into_text()
    }
}

fn header(html: &mut Html, study: &Study) {
    html.paragraph("kind", "Scaling report");
    html.leaf("h1", &[], "Scaling");
    let (written, version) = (instant(study.written_at_ms), env!("CARGO_PKG_VERSION"));
    let written = format!("Written {written} UTC by dlrun {version}.");
    html.paragraph("muted", &written);
    for remark in &study.remarks {
        html.paragraph("remark", remark);
    }
}

fn series(html: &mut Html, series: &Series) {
    for (place, note) in series.notes().iter().enumerate() {
        let is_doubt = place == 0 && !series.not_a_scaling_measurement.is_empty();
        html.paragraph(if is_doubt { "unlike" } else { "muted" }, note);
    }
    drawing(html, series);
    let (heads, rows) = series.rows();
    table::write(html, &caption(series, "All sizes"), &heads, &rows);
    html.markup("<h3>What supports it</h3>");
    table::pairs(html, &series.facts());
}

/// Every table and figure says what its figures are not.
fn caption(series: &Series, what: &str) -> String {
    match series.not_a_scaling_measurement.is_empty() {
        true => what.to_owned(),
        false => format!("{what}; {NO_CLAIM}, at some sizes or all"),
    }
}

/// Speed over workers: what was measured, in a band what the law says, dashed what the baseline would come to by itself.
fn drawing(html: &mut Html, series: &Series) {
    let is_by_epochs = series.by == "epoch_seconds";
    let points = series.points.iter();
    let known: Vec<(&Point, f64)> = points
        .filter_map(|point| Some((point, point.speed?.mean)))
        .collect();
    let [first, .., last] = &known[..] else {
        return;
    };
    let ideal = known.iter().find_map(|(point, speed)| {
        let gain = point.from_one.as_ref().or(point.from_node.as_ref())?;
        (gain.baseline_workers == point.workers).then(|| speed / real(point.workers))
    });
    let end = real(last.0.workers);
    let most = known
        .iter()
        .map(|(point, speed)| speed.max(point.law_high.unwrap_or(0.0)));
    let most = most.chain(ideal.map(|each| each * end));
    let ticks = values(0.0, range(most).1);
    let line = |of: &dyn Fn(&Point, f64) -> Option<f64>| -> Vec<(f64, f64)> {
        let place =
            |(point, speed): &(&Point, f64)| Some((real(point.workers) / end, of(point, *speed)?));
        known.iter().filter_map(place).collect()
    };
    let mut band = line(&|point, _| point.law_high);
    band.extend(line(&|point, _| point.law_low).into_iter().rev());
    let perfect = ideal.map_or_else(Vec::new, |each| vec![(0.0, 0.0), (1.0, each * end)]);
    let lines = [
        ("area", band),
        ("ideal", perfect),
        ("line", line(&|_, speed| Some(speed))),
    ];
    let lines = lines.into_iter().filter(|(_, places)| places.len() > 1);
    let shape = |(class, places): (_, Vec<(f64, f64)>)| {
        let path = polyline(places.into_iter(), &ticks);
        Shape { class, path }
    };
    let shapes = lines.map(shape).collect();
    let of =
        |(point, speed): &(&Point, f64)| format!("{} on {}", short(*speed), count(point.workers));
    let panel = Panel {
        title: caption(series, "Speed"),
        unit: format!(
            "{} by {}",
            if is_by_epochs {
                "epochs/s"
            } else {
                "samples/s"
            },
            series.counted
        ),
        summary: format!("{}, {}", of(first), of(last)),
        class: "cpu",
        height: 160,
        shapes,
        ticks,
        limit: None,
    };
    let marks = known
        .iter()
        .map(|(point, _)| (real(point.workers), count(point.workers)));
    let axis = Ticks {
        begin: 0.0,
        end,
        marks: std::iter::once((0.0, "0".to_owned()))
            .chain(marks)
            .collect(),
    };
    html.element("figure", &[], |html| {
        panel.write(html);
        axis_below(html, &axis);
        let law = series
            .law
            .as_ref()
            .map_or("", |_| " Band: the law's interval.");
        let ideal = ideal.map_or(
            "",
            |_| " Dashed: as many times the baseline as there are workers.",
        );
        let text = format!("Line: measured.{law}{ideal}");
        html.leaf("figcaption", &[], &text);
    });
}

fn comparison(html: &mut Html, study: &Study) {
    if study.series.len() < 2 {
        return;
    }
    html.section("comparison", "Framework × device × ranks", |html| {
        let (heads, rows) = study.comparison_rows();
        table::write(
            html,
            "Samples a second; * not a scaling measurement",
            &heads,
            &rows,
        );
        if let Some(note) = study.comparison_note() {
            html.paragraph("remark", note);
        }
    });
}
