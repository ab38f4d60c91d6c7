//! A sweep as a page: how the best came about, the metric over each parameter, and all trials.

use std::collections::BTreeMap;

use super::{Html, head, table};
use crate::learn::sweep::{
    Metric, Parameter, Study, Sweep, Trial, front, importance, importance_text,
};
use crate::report::chart::panel::{Panel, Shape, axis_below, polyline};
use crate::report::chart::ticks::{Ticks, values};
use crate::report::chart::{HEIGHT, WIDTH};
use crate::report::number::{
    counted, duration, instant, or_unknown, range, real, short, short_or_tiny,
};

/// Trials in the table; the rest is in the CSV.
const MOST_ROWS: usize = 500;
/// Trials that the parallel coordinates show as the best: one in so many.
const BEST_PART: usize = 10;
/// The scale ends here among the values, so that a few very bad ones do not hide the others.
const SHOWN_PART: f64 = 0.8;

/// One file of HTML, with all that it shows in it. `reports`: files beside it of runs, by the first letters of the run.
#[must_use]
pub fn sweep_page(
    sweep: &Sweep,
    study: &Study,
    trials: &[Trial<'_>],
    reports: &BTreeMap<String, String>,
    written_at_ms: u64,
) -> String {
    let mut html = Html::default();
    html.markup("<!DOCTYPE html>\n");
    html.element("html", &[("lang", "en")], |html| {
        html.element("head", &[], |html| head(html, &sweep.name));
        html.element("body", &[], |html| {
            html.markup("<a class=\"skip\" href=\"#main\">Skip to the report</a>\n");
            html.element("header", &[], |html| {
                header(html, sweep, study, written_at_ms)
            });
            html.element("main", &[("id", "main")], |html| {
                match &sweep.second {
                    Some(second) => html.section("front", "Pareto front", |html| {
                        pareto(html, (sweep, second), trials)
                    }),
                    None => html.section("best", "Best so far", |html| {
                        best_so_far(html, sweep, study)
                    }),
                }
                html.section("parameters", "Parameters", |html| {
                    parameters(html, sweep, trials);
                    coordinates(html, sweep, trials);
                });
                let order = match sweep.second {
                    Some(_) => "Trials, those of the front first",
                    None => "Trials, best first",
                };
                html.section("trials", order, |html| all(html, sweep, trials, reports));
            });
        });
    });
    html.into_text()
}

fn header(html: &mut Html, sweep: &Sweep, study: &Study, written_at_ms: u64) {
    html.paragraph("kind", "Sweep");
    html.leaf("h1", &[], &sweep.name);
    let (written, version) = (instant(written_at_ms), env!("CARGO_PKG_VERSION"));
    html.paragraph(
        "muted",
        &format!("Written {written} UTC by dlrun {version}."),
    );
    let over = study.trials().filter(Trial::is_over).count();
    let text = format!(
        "{} of {} finished, by {}, early stopping {}; {} node hours.",
        over,
        counted(sweep.trials.into(), "trial"),
        sweep.sampler.as_str(),
        sweep.stop.as_str(),
        short(study.node_hours())
    );
    html.paragraph("muted", &text);
    if let Some(best) = study.best(&sweep.metric).filter(|_| sweep.second.is_none()) {
        let value = or_unknown(value_of(&best), short_or_tiny);
        let number = best.number + 1;
        let text = format!(
            "Best: trial {number}, {} {value}, with {}.",
            sweep.metric.name,
            sweep.label(best.values)
        );
        html.paragraph("remark", &text);
    }
    if let Some(known) = sweep.speed_up(study) {
        html.paragraph("remark", &format!("Speed-up: {}.", known.text()));
    }
}

fn value_of(trial: &Trial<'_>) -> Option<f64> {
    trial
        .outcome
        .filter(|outcome| outcome.failure.is_none())?
        .value
}

/// The trials as points of both metrics, and the front as a line.
fn pareto(html: &mut Html, (sweep, second): (&Sweep, &Metric), trials: &[Trial<'_>]) {
    let on_front: Vec<(f64, f64)> = front(sweep, trials)
        .into_iter()
        .filter_map(|number| {
            trials
                .iter()
                .find(|trial| trial.number == number)?
                .both_values()
        })
        .collect();
    let all: Vec<(f64, f64)> = trials.iter().filter_map(Trial::both_values).collect();
    if all.len() < 2 {
        html.paragraph("muted", "Two trials with both values are needed.");
        return;
    }
    // All of the front is within the scale.
    let scale = |of: fn(&(f64, f64)) -> f64| {
        let (least, most) = shown_of(all.iter().map(of));
        let (_, of_front) = range(on_front.iter().map(of));
        values(least, most.max(of_front))
    };
    let (across, ticks) = (scale(|point| point.0), scale(|point| point.1));
    let at = |(one, other): &(f64, f64)| (across.place(*one), *other);
    let dots = all.iter().map(at).map(|(x, other)| {
        let (x, y) = (x * WIDTH, (1.0 - ticks.place(other)) * HEIGHT);
        format!("M{x:.0} {y:.0}h1")
    });
    let dots = Shape {
        class: "dots",
        path: dots.collect(),
    };
    let line = Shape {
        class: "line",
        path: polyline(on_front.iter().map(at), &ticks),
    };
    let marks = across
        .marks
        .iter()
        .map(|(value, text)| (across.place(*value), text.clone()));
    let summary = format!("{} on the front", counted(on_front.len() as u64, "trial"));
    let unit = format!("by {}", sweep.metric.name);
    let marks = marks.collect();
    drawing(
        html,
        &second.name,
        &unit,
        summary,
        (vec![dots, line], ticks),
        marks,
    );
}

fn best_so_far(html: &mut Html, sweep: &Sweep, study: &Study) {
    let mut best: Option<f64> = None;
    let mut line: Vec<(f64, f64)> = Vec::new();
    let last = real(study.next_number().saturating_sub(1).max(1) as u64);
    for trial in study.trials() {
        let Some(value) = value_of(&trial) else {
            continue;
        };
        if best.is_none_or(|best| sweep.metric.is_better(value, best)) {
            best = Some(value);
        }
        line.push((real(trial.number as u64) / last, best.unwrap_or(value)));
    }
    let Some(best) = best.filter(|_| line.len() > 1) else {
        html.paragraph("muted", "Two trials with a value are needed.");
        return;
    };
    let ticks = values_of(line.iter().map(|(_, value)| *value));
    let shape = Shape {
        class: "line",
        path: polyline(line.into_iter(), &ticks),
    };
    let marks = vec![
        (0.0, "1".to_owned()),
        (1.0, study.next_number().to_string()),
    ];
    drawing(
        html,
        &sweep.metric.name,
        "by trial",
        format!("best {}", short_or_tiny(best)),
        (vec![shape], ticks),
        marks,
    );
}

fn parameters(html: &mut Html, sweep: &Sweep, trials: &[Trial<'_>]) {
    for parameter in &sweep.space {
        let place =
            |trial: &Trial<'_>| Some((parameter.part_of_trial(trial.values)?, value_of(trial)?));
        let points: Vec<(f64, f64)> = trials.iter().filter_map(place).collect();
        if points.len() > 1 {
            let share = importance(sweep, parameter, trials);
            points_over(html, sweep, (parameter, share), &points);
        }
    }
}

/// Parallel coordinates: a line for each trial through its place in each parameter and in the metric, with the best ones in colour.
/// `trials`: the best first. Where a parameter is not searched in a trial, the line passes it by.
fn coordinates(html: &mut Html, sweep: &Sweep, trials: &[Trial<'_>]) {
    let values: Vec<f64> = trials.iter().filter_map(value_of).collect();
    if sweep.space.len() < 2 || values.len() < 2 || sweep.second.is_some() {
        return;
    }
    let (ticks, last) = (
        values_of(values.into_iter()),
        real(sweep.space.len() as u64),
    );
    let unit = Ticks {
        begin: 0.0,
        end: 1.0,
        marks: Vec::new(),
    };
    let line = |trial: &Trial<'_>| {
        let end = (1.0, ticks.place(value_of(trial)?).clamp(0.0, 1.0));
        let parameters = sweep.space.iter().enumerate();
        let parts = parameters.filter_map(|(at, parameter)| {
            Some((
                real(at as u64) / last,
                parameter.part_of_trial(trial.values)?,
            ))
        });
        Some(polyline(parts.chain([end]), &unit))
    };
    let lines: Vec<String> = trials.iter().filter_map(line).collect();
    let best = lines.len().div_ceil(BEST_PART);
    let shape = |class, lines: &[String]| Shape {
        class,
        path: lines.concat(),
    };
    let shapes = vec![
        shape("others", &lines[best..]),
        shape("line", &lines[..best]),
    ];
    let names = sweep.space.iter().map(|parameter| parameter.short.clone());
    let names = names.chain([sweep.metric.name.clone()]).enumerate();
    let marks = names.map(|(at, name)| (real(at as u64) / last, name));
    let summary = format!("in colour: the best {}", counted(best as u64, "trial"));
    let marks = marks.collect();
    drawing(
        html,
        "All trials",
        "from the lowest to the highest value",
        summary,
        (shapes, unit),
        marks,
    );
}

fn points_over(
    html: &mut Html,
    sweep: &Sweep,
    (parameter, share): (&Parameter, Option<f64>),
    points: &[(f64, f64)],
) {
    let ticks = values_of(points.iter().map(|(_, value)| *value));
    let path = points.iter().map(|(part, value)| {
        let (x, y) = (part * WIDTH, (1.0 - ticks.place(*value)) * HEIGHT);
        format!("M{x:.0} {y:.0}h1")
    });
    let shape = Shape {
        class: "dots",
        path: path.collect(),
    };
    let marks = parameter.marks();
    let share = share.map(|share| format!(", importance {}", importance_text(Some(share))));
    let trials = counted(points.len() as u64, "trial");
    let summary = trials + &share.unwrap_or_default();
    drawing(
        html,
        &parameter.name,
        &format!("{} by {}", sweep.metric.name, parameter.short),
        summary,
        (vec![shape], ticks),
        marks,
    );
}

fn values_of(all: impl Iterator<Item = f64>) -> Ticks {
    let (least, most) = shown_of(all);
    values(least, most)
}

/// From the least value to where most of them are.
fn shown_of(all: impl Iterator<Item = f64>) -> (f64, f64) {
    let mut all: Vec<f64> = all.collect();
    all.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of a length"
    )]
    let shown = ((all.len() as f64 * SHOWN_PART).ceil() as usize).clamp(1, all.len().max(1));
    range(all.iter().take(shown).copied())
}

fn drawing(
    html: &mut Html,
    title: &str,
    unit: &str,
    summary: String,
    (shapes, ticks): (Vec<Shape>, Ticks),
    marks: Vec<(f64, String)>,
) {
    let panel = Panel {
        title: title.to_owned(),
        unit: unit.to_owned(),
        summary,
        class: "cpu",
        height: 140,
        shapes,
        ticks,
        limit: None,
    };
    let axis = Ticks {
        begin: 0.0,
        end: 1.0,
        marks,
    };
    html.element("figure", &[], |html| {
        panel.write(html);
        axis_below(html, &axis);
    });
}

fn all(html: &mut Html, sweep: &Sweep, trials: &[Trial<'_>], reports: &BTreeMap<String, String>) {
    let mut heads: Vec<&str> = vec!["Trial"];
    match &sweep.second {
        None => heads.push("Value"),
        Some(second) => heads.extend([sweep.metric.name.as_str(), second.name.as_str()]),
    }
    heads.extend(["Epochs", "Time"]);
    heads.extend(sweep.space.iter().map(|parameter| parameter.short.as_str()));
    heads.extend(["Run", "State"]);
    let row = |trial: &Trial<'_>| -> Vec<String> {
        let outcome = trial.outcome;
        let mut row = vec![
            (trial.number + 1).to_string(),
            or_unknown(value_of(trial), short_or_tiny),
        ];
        if sweep.second.is_some() {
            let second = outcome.and_then(|outcome| outcome.second_value);
            row.push(or_unknown(second, short_or_tiny));
        }
        row.push(or_unknown(outcome.map(|_| trial.spent.epochs), |epochs| {
            epochs.to_string()
        }));
        row.push(or_unknown(trial.spent.wall_seconds, duration));
        row.extend(
            sweep
                .space
                .iter()
                .map(|parameter| trial.values.text(&parameter.name).unwrap_or_default()),
        );
        row.push(or_unknown(trial.run_id, |run| run.as_str().to_owned()));
        row.push(trial.state_text());
        row
    };
    let rows: Vec<Vec<String>> = trials.iter().take(MOST_ROWS).map(row).collect();
    let caption = match trials.len() {
        count if count > MOST_ROWS => format!("The best {MOST_ROWS} of {count}"),
        _ => "All trials".to_owned(),
    };
    let report = |cell: &str| {
        let (run, file) = reports.range(..=cell.to_owned()).next_back()?;
        cell.starts_with(run).then_some(file.as_str())
    };
    table::write_linked(html, &caption, &heads, &rows, &report);
}
