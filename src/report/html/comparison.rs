//! Several runs side by side: times with their bounds, ratios, scaling, and what is unlike between them.

use super::{Html, epochs, label, table};
use crate::foundation::statistics::Ratio;
use crate::report::compare::{RATIO_HEADS, Row, SIGNIFICANT};
use crate::report::number::{
    UNKNOWN, change, count, counted, interval, or_unknown, probability, range, short, three,
};
use crate::report::scaling::{Kind, NO_CLAIM, Scaling};
use crate::report::unlike::condition_text;
use crate::report::{Findings, Run};

/// Metrics that are compared.
const MOST_METRICS: usize = 8;

/// The sections about the runs together.
pub(super) fn write(html: &mut Html, findings: &Findings<'_>) {
    html.section("comparison", "Comparison", |html| {
        unlike(html, findings);
        metrics(html, findings);
        times(html, findings);
        ratios(html, findings);
    });
    if let Some(scaling) = &findings.scaling {
        html.section("scaling-of", "Scaling", |html| {
            self::scaling(html, findings, scaling)
        });
    }
}

fn runs<'a>(findings: &'a Findings<'_>) -> impl Iterator<Item = (String, &'a Run, &'a Row)> {
    let runs = findings.report.runs.iter().zip(&findings.rows).enumerate();
    runs.map(|(place, (run, row))| (label(place, run), run, row))
}

/// What must be known before any number: the conditions that differ.
fn unlike(html: &mut Html, findings: &Findings<'_>) {
    if findings.unlike.is_empty() {
        html.markup(
            "<p>The runs agree in arguments, code and every condition that was recorded.</p>",
        );
        return;
    }
    let labels: Vec<String> = runs(findings).map(|(label, ..)| label).collect();
    let (mut names, mut rows) = (Vec::new(), Vec::new());
    for unlike in &findings.unlike {
        let name = condition_text(&unlike.what);
        for (value, runs) in &unlike.values {
            let runs: Vec<&str> = runs.iter().map(|run| labels[*run].as_str()).collect();
            rows.push(vec![name.clone(), value.clone(), runs.join(", ")]);
        }
        names.push(name);
    }
    let text = format!(
        "These runs differ in {}: a difference in time may come from there.",
        names.join(", ")
    );
    html.paragraph("unlike", &text);
    html.markup("<h3>What differs</h3>");
    let caption = "Conditions in which a run differs from the first";
    table::write(html, caption, &["Condition", "Value", "Runs"], &rows);
}

fn times(html: &mut Html, findings: &Findings<'_>) {
    html.markup("<h3>Times of the epochs</h3>");
    let rows: Vec<Vec<String>> = runs(findings)
        .map(|(name, run, row)| time_cells(name, run, row))
        .collect();
    let heads = [
        "Run",
        "n",
        "Mean, s",
        "95 % interval, s",
        "Median, s",
        "p95, s",
        "First, s",
        "Step median, ms",
        "Samples/s",
        "Source",
    ];
    table::write(html, "Steady epochs: warm-up is left out", &heads, &rows);
    for (name, run, _) in runs(findings) {
        if run.epoch_times().is_some_and(|times| times.is_warmup) {
            let text = format!("{name}: nothing but warm-up has a time; its figures are of that.");
            html.paragraph("remark", &text);
        }
    }
}

fn time_cells(name: String, run: &Run, row: &Row) -> Vec<String> {
    let seconds = |value: Option<f64>| or_unknown(value, short);
    let (timing, times) = (run.timing(), run.epoch_times());
    let bounds = row.spread.and_then(|spread| spread.bounds());
    let step = timing.and_then(|timing| timing.steps);
    let rate = timing.and_then(|timing| timing.samples_per_second);
    vec![
        name,
        count(row.spread.map_or(0, |spread| spread.n as u64)),
        seconds(row.spread.map(|spread| spread.mean)),
        interval(bounds, short),
        seconds(times.map(|times| times.median_seconds)),
        seconds(times.and_then(|times| times.p95_seconds)),
        seconds(times.and_then(|times| times.first_seconds)),
        or_unknown(step, |steps| short(steps.median_seconds * 1e3)),
        or_unknown(rate, |rate| short(rate.value)),
        or_unknown(times, |times| times.source.as_str().to_owned()),
    ]
}

/// What the trainings came to.
fn metrics(html: &mut Html, findings: &Findings<'_>) {
    let known = || runs(findings).filter_map(|(label, run, _)| Some((label, run.progress()?)));
    let names = known().flat_map(|(_, progress)| progress.last_metrics.keys());
    let names = epochs::ranked(names.map(String::as_str).collect());
    let mut rows: Vec<Vec<String>> = Vec::new();
    for name in names.into_iter().take(MOST_METRICS) {
        for (label, progress) in known() {
            let last = progress.last_metrics.get(name).copied();
            let Some(last) = last.filter(|last| last.is_finite()) else {
                continue;
            };
            let epochs = progress.epochs.iter().map(|epoch| &epoch.metrics);
            let points = progress.points.iter().map(|point| &point.metrics);
            let values = epochs
                .chain(points)
                .filter_map(|metrics| metrics.get(name).copied());
            let (least, most) = range(values.chain([last]).filter(|value| value.is_finite()));
            let numbers = [last, least, most].map(short);
            rows.push(
                [name.to_owned(), label]
                    .into_iter()
                    .chain(numbers)
                    .collect(),
            );
        }
    }
    if rows.is_empty() {
        return;
    }
    html.markup("<h3>Losses and metrics</h3>");
    let caption = "The last value of each, and the least and the most on the way";
    let heads = ["Metric", "Run", "Last", "Least", "Most"];
    table::write(html, caption, &heads, &rows);
}

fn ratios(html: &mut Html, findings: &Findings<'_>) {
    let mut runs = runs(findings);
    let Some((first, ..)) = runs.next() else {
        return;
    };
    html.leaf("h3", &[], &format!("Against {first}"));
    let rows: Vec<Vec<String>> = runs
        .map(|(name, _, row)| {
            let times = ratio_cells(row.time_ratio);
            let rates = ratio_cells(row.rate_ratio);
            let last = [or_unknown(row.p, probability), verdict(row)];
            let cells = times.into_iter().chain(rates).chain(last);
            std::iter::once(name).chain(cells).collect()
        })
        .collect();
    let heads: Vec<&str> = ["Run"].into_iter().chain(RATIO_HEADS).collect();
    let caption = "Mean steady epoch over that of the first run; samples a second likewise";
    table::write(html, caption, &heads, &rows);
}

fn ratio_cells(ratio: Option<Ratio>) -> [String; 2] {
    [
        or_unknown(ratio, |ratio| three(ratio.ratio)),
        interval(ratio.and_then(|ratio| ratio.bounds), three),
    ]
}

/// The difference in words.
fn verdict(row: &Row) -> String {
    let Some(ratio) = row.time_ratio else {
        return "cannot be compared: no times that both have".to_owned();
    };
    let way = change(ratio.ratio);
    match row.p {
        None => format!("{way}, of too few epochs to know how much it varies"),
        Some(p) if p < SIGNIFICANT => format!("{way}: significant"),
        _ => "no difference that so few epochs could show".to_owned(),
    }
}

fn scaling(html: &mut Html, findings: &Findings<'_>, scaling: &Scaling) {
    let basis = basis(findings, scaling);
    html.leaf("p", &[], &format!("{basis} {}", kind(scaling.kind)));
    for point in scaling
        .points
        .iter()
        .filter(|point| !point.doubts.is_empty())
    {
        let name = label(point.run, &findings.report.runs[point.run]);
        let text = format!("{name} is {NO_CLAIM}: {}.", point.doubts.join("; "));
        html.paragraph("unlike", &text);
    }
    let rows: Vec<Vec<String>> = scaling
        .points
        .iter()
        .map(|point| {
            let run = &findings.report.runs[point.run];
            vec![
                label(point.run, run),
                run.nodes_used().to_string(),
                run.gpus_used().to_string(),
                short(point.seconds),
                format!("{:.2}", point.speed_up.ratio),
                interval(point.speed_up.bounds, |bound| format!("{bound:.2}")),
                match (point.efficiency, point.doubts.is_empty()) {
                    (Some(efficiency), _) => format!("{:.1} %", efficiency * 100.0),
                    (None, true) => UNKNOWN.to_owned(),
                    (None, false) => NO_CLAIM.to_owned(),
                },
                or_unknown(point.serial_fraction, three),
            ]
        })
        .collect();
    let heads = [
        "Run",
        "Nodes",
        "GPUs",
        "Epoch, s",
        "Speed-up",
        "95 % interval",
        "Efficiency",
        "Serial fraction",
    ];
    let caption = "Speed-up, efficiency and the serial fraction of Karp and Flatt";
    table::write(html, caption, &heads, &rows);
}

/// What the speed-up is compared with, and by what it is measured.
fn basis(findings: &Findings<'_>, scaling: &Scaling) -> String {
    let run = &findings.report.runs[scaling.baseline];
    let by = if scaling.is_by_epochs {
        "the mean steady epoch, as if each run had as many samples in it (not all say how many)"
    } else {
        "samples a second"
    };
    let gpus = match run.gpus_used() {
        0 => String::new(),
        gpus => format!(" and {}", counted(gpus, "GPU")),
    };
    let name = label(scaling.baseline, run);
    let workers = scaling.workers;
    format!(
        "Over {workers}. Baseline: {name} with {}{gpus}. Measured by {by}.",
        counted(run.nodes_used(), "node")
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
            "Whether it is strong or weak scaling is unknown: the batch sizes are not known, or grow otherwise than the workers."
        }
    }
}
