//! Several runs side by side: times with their bounds, ratios, scaling, and what is unlike between them.

use super::{Html, label};
use crate::foundation::statistics::Ratio;
use crate::report::chart::panel::{Panel, Path, Shape};
use crate::report::chart::speed_up;
use crate::report::chart::strip::{self, Strip};
use crate::report::chart::ticks::values;
use crate::report::chart::{HEIGHT, WIDTH};
use crate::report::compare::{Basis, Row, SIGNIFICANT};
use crate::report::html::table::{self, number, text};
use crate::report::metrics::{self, Metric, Of};
use crate::report::number::{
    change, count, counted, decimals, fixed, interval, or_unknown, probability, short, three,
};
use crate::report::scaling::{Kind, Scaling};
use crate::report::unlike::{Unlike, words};
use crate::report::{Findings, Run};

/// Says whether there is anything to compare.
pub(super) fn has_comparison(findings: &Findings<'_>) -> bool {
    findings.report.runs.len() > 1
}

/// The sections about the runs together.
pub(super) fn write(html: &mut Html, findings: &Findings<'_>) {
    html.element("section", &[("aria-labelledby", "comparison")], |html| {
        html.markup("<h2 id=\"comparison\">Comparison</h2>");
        warning(html, findings);
        unlike(html, findings);
        self::metrics(html, findings);
        times(html, findings);
        ratios(html, findings);
    });
    if let Some(scaling) = &findings.scaling {
        html.element("section", &[("aria-labelledby", "scaling-of")], |html| {
            self::scaling(html, findings, scaling)
        });
    }
}

/// What must be said before any number.
fn warning(html: &mut Html, findings: &Findings<'_>) {
    if findings.unlike.is_empty() {
        html.markup(
            "<p>The runs are alike in arguments, code and every condition that was recorded.</p>",
        );
        return;
    }
    let names: Vec<String> = findings
        .unlike
        .iter()
        .map(|unlike| words(&unlike.what))
        .collect();
    let text = format!(
        "These runs differ in {}: a difference in time may come from there. The table below says which has what.",
        names.join(", ")
    );
    html.leaf("p", &[("class", "unlike")], &text);
}

fn runs<'a>(findings: &'a Findings<'_>) -> impl Iterator<Item = (String, &'a Run, &'a Row)> {
    let runs = findings.report.runs.iter().zip(&findings.rows).enumerate();
    runs.map(|(place, (run, row))| (label(place, run), run, row))
}

fn times(html: &mut Html, findings: &Findings<'_>) {
    html.markup("<h3>Times of the epochs</h3>");
    let strips: Vec<Strip> = runs(findings)
        .enumerate()
        .map(|(place, (name, run, row))| Strip {
            id: format!("s{place}"),
            name,
            of: "epochs",
            epochs: epochs(run),
            spread: row.spread,
        })
        .collect();
    html.element("figure", &[], |html| {
        html.markup(
            "<figcaption>Each tick is an epoch (dashed: warm-up); the dot is the mean of the steady ones, with its 95 % interval.",
        );
        let scale = strip::scale(strips.iter());
        if scale.begin > 0.0 {
            html.markup(" <strong>The axis does not begin at 0</strong>; warm-up beyond it is not drawn.");
        }
        html.markup("</figcaption>");
        strip::write(html, &strips, &scale);
    });
    let least = runs(findings)
        .filter_map(|(_, _, row)| row.spread)
        .map(|spread| spread.mean)
        .reduce(f64::min);
    let digits = least.map_or(2, decimals) + 1;
    let seconds = |value: f64| fixed(value, digits);
    let rows: Vec<Vec<String>> = runs(findings)
        .map(|(name, run, row)| time_cells(name, run, row, &seconds))
        .collect();
    let columns = [
        text("Run"),
        number("n"),
        number("Mean, s"),
        number("95 % interval, s"),
        number("Median, s"),
        number("p95, s"),
        number("First, s"),
        number("Step median, ms"),
        number("Samples/s"),
        text("Source"),
    ];
    table::write(html, "Steady epochs: warm-up is left out", &columns, &rows);
    for (name, run, _) in runs(findings) {
        if run
            .timing()
            .and_then(|timing| timing.epochs.as_ref())
            .is_some_and(|times| times.is_warmup)
        {
            let text = format!("{name}: nothing but warm-up has a time; its figures are of that.");
            html.leaf("p", &[("class", "remark")], &text);
        }
    }
}

/// Colours of runs, in turn.
const COLOURS: [(&str, &str); 6] = [
    ("cpu", "line cpu"),
    ("read", "line read"),
    ("memory", "line memory"),
    ("gpu", "line gpu"),
    ("metric", "line metric"),
    ("write", "line write"),
];
/// Metrics whose curves are drawn.
const MOST_CURVES: usize = 4;

/// What the trainings came to: curves over each other, then the numbers.
fn metrics(html: &mut Html, findings: &Findings<'_>) {
    let compared = metrics::compare(&findings.report.runs);
    if compared.is_empty() {
        return;
    }
    html.markup("<h3>Losses and metrics</h3>");
    let names: Vec<String> = runs(findings).map(|(name, ..)| name).collect();
    let drawn = compared
        .iter()
        .filter(|metric| metric.runs.iter().any(|of| of.curve.len() > 1));
    let panels: Vec<Panel<'_>> = drawn
        .take(MOST_CURVES)
        .enumerate()
        .map(|(place, metric)| overlaid(place, metric))
        .collect();
    if !panels.is_empty() {
        html.element("figure", &[], |html| {
            html.element("figcaption", &[], |html| {
                for (place, name) in names.iter().enumerate() {
                    html.leaf(
                        "span",
                        &[("class", COLOURS[place % COLOURS.len()].0)],
                        "\u{25a0} ",
                    );
                    html.leaf("span", &[], &format!("{name} "));
                }
            });
            panels.iter().for_each(|panel| panel.write(html));
        });
    }
    let group = |metric: &Metric| {
        let row = |of: &Of| {
            let (least, most) = of.bounds();
            vec![
                names[of.run].clone(),
                short(of.last),
                short(least),
                short(most),
            ]
        };
        (metric.name.clone(), metric.runs.iter().map(row).collect())
    };
    let groups: Vec<(String, Vec<Vec<String>>)> = compared.iter().map(group).collect();
    let columns = [
        text("Metric"),
        text("Run"),
        number("Last"),
        number("Least"),
        number("Most"),
    ];
    table::groups(
        html,
        "The last value of each, and the least and the most on the way",
        &columns,
        &groups,
    );
}

/// The curves of one metric over each other.
fn overlaid(place: usize, metric: &Metric) -> Panel<'static> {
    let all = || metric.runs.iter().map(Of::bounds);
    let least = all().map(|(least, _)| least).fold(f64::INFINITY, f64::min);
    let most = all()
        .map(|(_, most)| most)
        .fold(f64::NEG_INFINITY, f64::max);
    let (ticks, points) = (values(least, most), || {
        metric.runs.iter().flat_map(|of| &of.curve)
    });
    let (from, to) = points().fold((f64::INFINITY, f64::NEG_INFINITY), |(from, to), (x, _)| {
        (from.min(*x), to.max(*x))
    });
    let span = if to > from { to - from } else { 1.0 };
    let x = |at: f64| WIDTH * (at - from) / span;
    let y = |value: f64| HEIGHT * (1.0 - ticks.place(value));
    let curve = |of: &Of| {
        let mut path = Path::default();
        let (first, rest) = of.curve.split_first()?;
        path.begin(x(first.0), y(first.1));
        rest.iter()
            .for_each(|(at, value)| path.to(x(*at), y(*value)));
        Some(Shape {
            class: COLOURS[of.run % COLOURS.len()].1,
            path: path.into_text(),
        })
    };
    let said = format!("{} {} to {}", metric.along, short(from), short(to));
    Panel {
        id: format!("overlaid{place}"),
        title: metric.name.chars().take(60).collect(),
        unit: format!("over {}", metric.along),
        description: format!("{} of {} runs, {said}.", metric.name, metric.runs.len()),
        said,
        class: "metric",
        height: 96,
        limit: None,
        shapes: metric.runs.iter().filter_map(curve).collect(),
        backdrop: None,
        marks: Vec::new(),
        ticks,
    }
}

/// Times of the epochs of a run, each with whether it is warm-up.
pub(super) fn epochs(run: &Run) -> Vec<(f64, bool)> {
    let Some(progress) = run.progress() else {
        return Vec::new();
    };
    let is_noted = progress.epochs.iter().any(|epoch| epoch.warmup);
    let known = progress
        .epochs
        .iter()
        .enumerate()
        .filter_map(|(place, epoch)| {
            let is_warmup = if is_noted { epoch.warmup } else { place == 0 };
            Some((
                epoch
                    .seconds()
                    .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)?,
                is_warmup,
            ))
        });
    known.collect()
}

fn time_cells(name: String, run: &Run, row: &Row, seconds: &impl Fn(f64) -> String) -> Vec<String> {
    let timing = run.timing();
    let times = timing.and_then(|timing| timing.epochs.as_ref());
    let bounds = row.spread.and_then(|spread| spread.bounds());
    let step = timing
        .and_then(|timing| timing.steps)
        .map(|steps| steps.median_seconds * 1e3);
    let rate = timing
        .and_then(|timing| timing.samples_per_second)
        .map(|rate| rate.value);
    vec![
        name,
        count(row.spread.map_or(0, |spread| spread.n as u64)),
        or_unknown(row.spread.map(|spread| spread.mean), seconds),
        interval(bounds, seconds),
        or_unknown(times.map(|times| times.median_seconds), seconds),
        or_unknown(times.and_then(|times| times.p95_seconds), seconds),
        or_unknown(times.and_then(|times| times.first_seconds), seconds),
        or_unknown(step, short),
        or_unknown(rate, short),
        or_unknown(times, |times| times.source.as_str().to_owned()),
    ]
}

fn ratios(html: &mut Html, findings: &Findings<'_>) {
    let Some(first) = findings.report.runs.first() else {
        return;
    };
    html.leaf("h3", &[], &format!("Against {}", label(0, first)));
    let rows: Vec<Vec<String>> = runs(findings)
        .skip(1)
        .map(|(name, _, row)| ratio_cells(name, row))
        .collect();
    let columns = [
        text("Run"),
        number("Time ratio"),
        number("95 % interval"),
        number("Rate ratio"),
        number("95 % interval"),
        number("p"),
        text("In words"),
    ];
    table::write(
        html,
        "Mean steady epoch over that of the first run; samples a second likewise",
        &columns,
        &rows,
    );
}

fn ratio_cells(name: String, row: &Row) -> Vec<String> {
    let value = |ratio: Option<Ratio>| or_unknown(ratio.map(|ratio| ratio.ratio), three);
    let bounds = |ratio: Option<Ratio>| interval(ratio.and_then(|ratio| ratio.bounds), three);
    vec![
        name,
        value(row.time_ratio),
        bounds(row.time_ratio),
        value(row.rate_ratio),
        bounds(row.rate_ratio),
        or_unknown(row.p, probability),
        verdict(row),
    ]
}

/// The difference in words.
fn verdict(row: &Row) -> String {
    let Some(ratio) = row.time_ratio else {
        return "cannot be compared: no times that both have".to_owned();
    };
    let way = change(ratio.ratio);
    match (row.basis, row.p) {
        (Basis::Steps, _) => format!("{way}, by medians of steps: no interval can be given"),
        (_, None) => format!("{way}, of too few epochs to tell by how much it varies"),
        (_, Some(p)) if p < SIGNIFICANT => format!("{way}: significant"),
        _ => "no difference that so few epochs could show".to_owned(),
    }
}

fn unlike(html: &mut Html, findings: &Findings<'_>) {
    if findings.unlike.is_empty() {
        return;
    }
    html.markup("<h3>What differs</h3>");
    let names: Vec<String> = findings
        .report
        .runs
        .iter()
        .enumerate()
        .map(|(place, run)| label(place, run))
        .collect();
    let group = |unlike: &Unlike| {
        let row = |(value, runs): &(String, Vec<usize>)| {
            let of: Vec<&str> = runs.iter().map(|run| names[*run].as_str()).collect();
            vec![value.clone(), of.join(", ")]
        };
        (words(&unlike.what), unlike.values.iter().map(row).collect())
    };
    let groups: Vec<(String, Vec<Vec<String>>)> = findings.unlike.iter().map(group).collect();
    let columns = [text("Condition"), text("Value"), text("Runs")];
    table::groups(
        html,
        "Conditions in which a run differs from the first",
        &columns,
        &groups,
    );
}

fn scaling(html: &mut Html, findings: &Findings<'_>, scaling: &Scaling) {
    html.markup("<h2 id=\"scaling-of\">Scaling</h2>");
    let of = scaling.workers.as_str();
    html.leaf(
        "p",
        &[],
        &format!("{} {}", basis(findings, scaling), kind(scaling.kind)),
    );
    html.element("figure", &[], |html| {
        html.leaf(
            "figcaption",
            &[],
            &format!("Speed-up over {of}, with 95 % intervals."),
        );
        speed_up::write(html, scaling);
    });
    let rows: Vec<Vec<String>> = scaling
        .points
        .iter()
        .map(|point| {
            let bounds = point.speed_up.bounds;
            let run = &findings.report.runs[point.run];
            vec![
                label(point.run, run),
                run.nodes_used().to_string(),
                run.gpus_used().to_string(),
                short(point.seconds),
                format!("{:.2}", point.speed_up.ratio),
                interval(bounds, |bound| format!("{bound:.2}")),
                format!("{:.1} %", point.efficiency * 100.0),
                or_unknown(point.serial_fraction, three),
            ]
        })
        .collect();
    let columns = [
        text("Run"),
        number("Nodes"),
        number("GPUs"),
        number("Epoch, s"),
        number("Speed-up"),
        number("95 % interval"),
        number("Efficiency"),
        number("Serial fraction"),
    ];
    table::write(
        html,
        "Speed-up, efficiency and the serial fraction of Karp and Flatt",
        &columns,
        &rows,
    );
}

/// What the speed-up is held against, and by what it is measured.
fn basis(findings: &Findings<'_>, scaling: &Scaling) -> String {
    let run = &findings.report.runs[scaling.baseline];
    let (nodes, gpus) = (run.nodes_used(), run.gpus_used());
    let by = if scaling.is_by_epochs {
        "the mean steady epoch, as if each run had as many samples in it (not all say how many)"
    } else {
        "samples a second"
    };
    let gpus = if gpus > 0 {
        format!(" and {}", counted(gpus, "GPU"))
    } else {
        String::new()
    };
    let name = label(scaling.baseline, run);
    let workers = scaling.workers.as_str();
    format!(
        "Over {workers}. Baseline: {name} with {}{gpus}. Measured by {by}.",
        counted(nodes, "node")
    )
}

/// What kind of scaling it is.
fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Strong => {
            "Strong scaling: the global batch is the same everywhere. A serial fraction that rises with the workers means \
             communication."
        }
        Kind::Weak => {
            "Weak scaling: the batch of a worker is the same everywhere, so the global batch grows, which may change the accuracy."
        }
        Kind::Unknown => {
            "Whether it is strong or weak scaling cannot be told: the batch sizes are not known, or grow otherwise than the workers."
        }
    }
}
