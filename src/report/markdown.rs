//! The report as Markdown: readable in a terminal as it is, and in a merge request.

use std::fmt::Write as _;

use super::compare::Row;
use super::html::{
    basis, compared, compared_cells, from, joules, kind, label, not_measured, rests_on,
    uneven_text, verdict,
};
use super::number::{UNKNOWN, bytes, count, duration, instant, percent, probability, short};
use super::timeline::{Curve, Timeline};
use super::unlike::words;
use super::{Findings, Run, facts, metrics};
use crate::foundation::diagnostic::is_deceptive;

/// Blocks of a curve in one line.
const BLOCKS: usize = 40;
/// Rows of a list.
const MOST_ROWS: usize = 40;

/// The whole report.
pub(super) fn page(findings: &Findings<'_>) -> String {
    let report = findings.report;
    let mut text = format!("# {}\n\n", inline(&report.title()));
    let written = instant(report.written_at_ms);
    let _ = writeln!(
        text,
        "Training report, written {written} UTC by dlrun {}.\n",
        env!("CARGO_PKG_VERSION")
    );
    for remark in &report.remarks {
        let _ = writeln!(text, "> {}\n", inline(remark));
    }
    if report.runs.len() > 1 {
        text.push_str(&comparison(findings));
    }
    for (place, run) in report.runs.iter().enumerate() {
        let title = if report.runs.len() > 1 {
            label(place, run)
        } else {
            "The run".to_owned()
        };
        let _ = writeln!(text, "## {}\n", inline(&title));
        text.push_str(&self::run(run));
    }
    text
}

fn comparison(findings: &Findings<'_>) -> String {
    let mut text = "## Comparison\n\n".to_owned();
    let runs: Vec<(String, &Run, &Row)> = findings
        .report
        .runs
        .iter()
        .zip(&findings.rows)
        .enumerate()
        .map(|(place, (run, row))| (label(place, run), run, row))
        .collect();
    if findings.unlike.is_empty() {
        text.push_str(
            "The runs are alike in arguments, code and every condition that was recorded.\n\n",
        );
    } else {
        let names: Vec<String> = findings
            .unlike
            .iter()
            .map(|unlike| words(&unlike.what))
            .collect();
        let _ = writeln!(
            text,
            "**These runs differ in {}**: a difference in time may come from there.\n",
            names.join(", ")
        );
    }
    text.push_str(&unlike(findings));
    text.push_str(&metrics(findings));
    text.push_str(
        "Steady epochs, warm-up left out; intervals hold the mean in 95 % of all cases; n counts epochs.\n\n",
    );
    let times = runs.iter().map(|(name, run, row)| {
        let spread = row.spread;
        let bounds = spread.and_then(|spread| spread.bounds());
        let times = run.timing().and_then(|timing| timing.epochs.as_ref());
        let rate = run.timing().and_then(|timing| timing.samples_per_second);
        vec![
            name.clone(),
            spread.map_or(0, |spread| spread.n).to_string(),
            spread.map_or_else(|| UNKNOWN.to_owned(), |spread| duration(spread.mean)),
            bounds.map_or_else(
                || UNKNOWN.to_owned(),
                |(low, high)| format!("{} – {}", duration(low), duration(high)),
            ),
            rate.map_or_else(|| UNKNOWN.to_owned(), |rate| short(rate.value)),
            times.map_or_else(
                || UNKNOWN.to_owned(),
                |times| times.source.as_str().to_owned(),
            ),
        ]
    });
    let heads = ["Run", "n", "Mean", "95 % interval", "Samples/s", "Source"];
    text.push_str(&table(&heads, &[1, 2, 3, 4], &times.collect::<Vec<_>>()));
    let ratios = runs.iter().skip(1).map(|(name, _, row)| {
        let time = row.time_ratio;
        let bounds = time.and_then(|ratio| ratio.bounds);
        vec![
            name.clone(),
            time.map_or_else(|| UNKNOWN.to_owned(), |ratio| format!("{:.3}", ratio.ratio)),
            bounds.map_or_else(
                || UNKNOWN.to_owned(),
                |(low, high)| format!("{low:.3} – {high:.3}"),
            ),
            row.rate_ratio
                .map_or_else(|| UNKNOWN.to_owned(), |ratio| format!("{:.3}", ratio.ratio)),
            row.p.map_or_else(|| UNKNOWN.to_owned(), probability),
            verdict(row),
        ]
    });
    let _ = writeln!(text, "Against {}:\n", inline(&runs[0].0));
    let heads = [
        "Run",
        "Time ratio",
        "95 % interval",
        "Rate ratio",
        "p",
        "In words",
    ];
    text.push_str(&table(&heads, &[1, 2, 3, 4], &ratios.collect::<Vec<_>>()));
    text + &scaling(findings)
}

fn unlike(findings: &Findings<'_>) -> String {
    let rows = findings.unlike.iter().flat_map(|unlike| {
        unlike.values.iter().map(|(value, runs)| {
            let runs: Vec<String> = runs.iter().map(|run| (run + 1).to_string()).collect();
            vec![words(&unlike.what), value.clone(), runs.join(", ")]
        })
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        String::new()
    } else {
        table(&["Differs", "Value", "Runs"], &[], &rows)
    }
}

fn metrics(findings: &Findings<'_>) -> String {
    let rows = metrics::compare(&findings.report.runs)
        .into_iter()
        .flat_map(|metric| {
            let name = metric.name;
            metric.runs.into_iter().map(move |of| {
                let (least, most) = of.bounds();
                vec![
                    name.clone(),
                    (of.run + 1).to_string(),
                    short(of.last),
                    short(least),
                    short(most),
                ]
            })
        });
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        String::new()
    } else {
        table(
            &["Metric", "Run", "Last", "Least", "Most"],
            &[1, 2, 3, 4],
            &rows,
        )
    }
}

fn scaling(findings: &Findings<'_>) -> String {
    let Some(scaling) = &findings.scaling else {
        return String::new();
    };
    let mut text = format!(
        "## Scaling\n\n{} {}\n\n",
        inline(&basis(findings, scaling)),
        kind(scaling.kind)
    );
    let rows = scaling.points.iter().map(|point| {
        vec![
            label(point.run, &findings.report.runs[point.run]),
            point.workers.to_string(),
            duration(point.seconds),
            format!("{:.2}", point.speed_up.ratio),
            percent(point.efficiency),
            point
                .serial_fraction
                .map_or_else(|| UNKNOWN.to_owned(), |serial| format!("{serial:.3}")),
        ]
    });
    let heads = [
        "Run",
        scaling.workers.as_str(),
        "Epoch",
        "Speed-up",
        "Efficiency",
        "Serial fraction",
    ];
    text.push_str(&table(&heads, &[1, 2, 3, 4, 5], &rows.collect::<Vec<_>>()));
    text
}

fn run(run: &Run) -> String {
    let mut rows = facts::of_run(run);
    rows.extend(figures(run));
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|(name, value)| vec![name.to_owned(), value])
        .collect();
    let mut text = table(&["", ""], &[], &rows);
    text.push_str(&curves(run));
    text.push_str(&list("What limited it", limits(run)));
    text.push_str(&list("Advice for the next run", advice(run)));
    let compared: Vec<Vec<String>> = compared(run).map(compared_cells).collect();
    if !compared.is_empty() {
        let _ = writeln!(text, "### Asked for and used\n");
        text.push_str(&table(
            &["What", "Asked for", "Used", "Used of it"],
            &[1, 2, 3],
            &compared,
        ));
    }
    let environment = facts::environment(run)
        .into_iter()
        .map(|(name, value)| vec![name.to_owned(), value]);
    let _ = writeln!(text, "### Environment\n");
    text.push_str(&table(&["", ""], &[], &environment.collect::<Vec<_>>()));
    let missing = not_measured(run)
        .into_iter()
        .map(|row| format!("{}: {}", inline(&row[0]), inline(&row[1])));
    text + &list("What could not be measured", missing.collect())
}

/// The figures that say most.
fn figures(run: &Run) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    let mut row =
        |name: &'static str, value: Option<String>| rows.extend(value.map(|value| (name, value)));
    row("ran for", facts::wall_seconds(run).map(duration));
    if let Some(timing) = run.timing() {
        let planned = timing
            .epochs_planned
            .map_or_else(String::new, |planned| format!(" of {planned}"));
        row(
            "epochs",
            Some(format!("{}{planned}", count(timing.epochs_completed))),
        );
        row(
            "steady epoch",
            timing.epochs.as_ref().map(|times| {
                let first = times
                    .first_seconds
                    .map_or_else(String::new, |first| format!("; first {}", duration(first)));
                let p95 = times
                    .p95_seconds
                    .map_or_else(String::new, |p95| format!(", p95 {}", duration(p95)));
                let median = duration(times.median_seconds);
                format!(
                    "{median} (median of {}, {}{p95}{first})",
                    times.count,
                    times.source.as_str()
                )
            }),
        );
        row(
            "step",
            timing.steps.map(|steps| {
                format!(
                    "{} (median), p95 {}",
                    duration(steps.median_seconds),
                    duration(steps.p95_seconds)
                )
            }),
        );
        let rate = timing.samples_per_second.as_ref();
        row(
            "samples a second",
            rate.map(|rate| format!("{} ({})", short(rate.value), from(rate.from))),
        );
    }
    let used = &run.insight.used;
    row("CPU efficiency", used.cpu_efficiency_ratio.map(percent));
    row(
        "most memory",
        used.nodes
            .iter()
            .filter_map(|node| node.mem_peak_bytes)
            .max()
            .map(|peak| bytes(super::number::real(peak))),
    );
    row(
        "GPUs busy",
        used.gpu_busy_mean_percent
            .map(|busy| format!("{} % of {} GPUs", short(busy), used.gpus_allocated)),
    );
    row("GPU energy", used.gpu_energy_joules.map(joules));
    row("energy of a sample", used.gpu_joules_per_sample.map(joules));
    rows
}

fn limits(run: &Run) -> Vec<String> {
    let limits = run
        .insight
        .limits
        .iter()
        .map(|limit| inline(&format!("{}{}", limit.text, rests_on(&limit.rests_on))));
    let uneven = run
        .insight
        .balance
        .iter()
        .filter(|balance| balance.is_uneven)
        .map(|uneven| inline(&uneven_text(uneven)));
    limits.chain(uneven).collect()
}

fn advice(run: &Run) -> Vec<String> {
    let each = run.insight.advice.iter().map(|advice| {
        let text = inline(&format!("{}{}", advice.text, rests_on(&advice.rests_on)));
        match &advice.paste {
            // What is ours and of the job file's grammar.
            Some(paste) => format!("{text}: {}", code(&paste.replace('\n', "; "))),
            None => text,
        }
    });
    each.collect()
}

fn list(title: &str, items: Vec<String>) -> String {
    if items.is_empty() {
        return String::new();
    }
    let mut text = format!("### {title}\n\n");
    for item in items.iter().take(MOST_ROWS) {
        let _ = writeln!(text, "- {item}");
    }
    if items.len() > MOST_ROWS {
        let _ = writeln!(text, "- and {} more", items.len() - MOST_ROWS);
    }
    text + "\n"
}

/// The curves that say most, as blocks.
fn curves(run: &Run) -> String {
    let mut lines = Vec::new();
    for node in run.nodes.iter().take(super::NODES_DRAWN) {
        let Some(timeline) = &node.timeline else {
            continue;
        };
        let name = if run.nodes.len() > 1 {
            format!("{} ", node.record.key.node)
        } else {
            String::new()
        };
        let mut line = |title: &str, curve: &Curve, shown: fn(f64) -> String| {
            lines.push(format!(
                "{name}{title:<8} {} peak {}",
                blocks(timeline, curve),
                shown(curve.peak())
            ));
        };
        for (title, column) in [("CPUs", "cpu_busy"), ("memory", "mem_used_bytes")] {
            let shown: fn(f64) -> String = if title == "CPUs" { short } else { bytes };
            timeline
                .curve(column)
                .into_iter()
                .for_each(|curve| line(title, curve, shown));
        }
        for (title, column) in [
            ("read/s", "io_read_bytes_per_second"),
            ("write/s", "io_write_bytes_per_second"),
        ] {
            timeline
                .curve(column)
                .into_iter()
                .for_each(|curve| line(title, curve, bytes));
        }
        let of_gpus = timeline.of_gpus("utilisation_percent");
        let of_all: Vec<&Curve> = of_gpus.iter().map(|(_, curve)| *curve).collect();
        if let Some(curve) = Curve::envelope(&of_all) {
            line("GPUs, %", &curve, short);
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    // In a block of code nothing is markup but its end.
    let text = lines.join("\n").replace('`', "'");
    format!(
        "```text\n{}\n```\n\n",
        text.chars()
            .map(|c| if c != '\n' && is_deceptive(c) {
                '\u{fffd}'
            } else {
                c
            })
            .collect::<String>()
    )
}

/// A curve in a few blocks, each the highest of its part.
fn blocks(timeline: &Timeline, curve: &Curve) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let each = timeline.points.div_ceil(BLOCKS).max(1);
    let top = curve.value.iter().flatten().copied().fold(0.0, f64::max);
    let block = |part: &[Option<f64>]| match part.iter().flatten().copied().reduce(f64::max) {
        Some(value) if top > 0.0 => {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between 0 and 7"
            )]
            let level = ((value / top * 7.0).round().clamp(0.0, 7.0)) as usize;
            LEVELS[level]
        }
        Some(_) => LEVELS[0],
        None => ' ',
    };
    curve.value.chunks(each).map(block).collect()
}

/// A table whose columns are as wide as their cells, so that it is one in a terminal too; those named are of numbers.
pub(super) fn table(heads: &[&str], numbers: &[usize], rows: &[Vec<String>]) -> String {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            row.iter()
                .map(|cell| inline(cell).replace('|', "\\|"))
                .collect()
        })
        .collect();
    let width = |column: usize| {
        let of = cells
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count());
        // One long cell must not widen all others.
        of.chain([heads[column].chars().count(), 3])
            .max()
            .unwrap_or(3)
            .min(60)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = String>| {
        for (column, (cell, width)) in cells.zip(&widths).enumerate() {
            let (cell, width) = (cell, *width);
            let _ = if numbers.contains(&column) {
                write!(text, "| {cell:>width$} ")
            } else {
                write!(text, "| {cell:<width$} ")
            };
        }
        text.push_str("|\n");
    };
    line(&mut heads.iter().map(ToString::to_string));
    let rule = |(column, width): (usize, &usize)| {
        if numbers.contains(&column) {
            format!("{}:", "-".repeat(width - 1))
        } else {
            "-".repeat(*width)
        }
    };
    line(&mut widths.iter().enumerate().map(rule));
    cells.iter().for_each(|row| line(&mut row.iter().cloned()));
    text + "\n"
}

/// Text of others within a line: what Markdown or HTML could take for markup stands in a code span.
pub(super) fn inline(text: &str) -> String {
    let text: String = text
        .chars()
        .take(1_000)
        .map(|c| {
            if c == '\n' || c == '\t' {
                ' '
            } else if is_deceptive(c) {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect();
    if is_plain(&text) { text } else { code(&text) }
}

/// Letters, digits and what never is markup within a line; an underscore within a word is none.
fn is_plain(text: &str) -> bool {
    let letters: Vec<char> = text.chars().collect();
    letters.iter().enumerate().all(|(place, c)| {
        let is_word = |at: Option<&char>| at.is_some_and(|c| c.is_alphanumeric());
        match c {
            '_' => {
                is_word(place.checked_sub(1).and_then(|at| letters.get(at)))
                    && is_word(letters.get(place + 1))
            }
            // Before a space it opens no element.
            '<' => letters.get(place + 1) == Some(&' '),
            c => c.is_alphanumeric() || " .,:;/+-–×%='’…!?()\u{202f}".contains(*c),
        }
    }) && !text.contains("://")
        && !text.contains("www.")
}

/// A code span around any text.
fn code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{space}{text}{space}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;
    use crate::report::example::{derived, timed, untimed};

    #[test]
    fn plain_text_stays_and_all_else_is_code() {
        for plain in [
            "resnet50-imagenet",
            "mem_used_bytes 12.3 GiB",
            "1 run (k7f2)",
            "95 % interval",
        ] {
            assert_eq!(inline(plain), plain);
        }
        for (evil, shown) in [
            ("<script>", "`<script>`"),
            ("@all #12", "`@all #12`"),
            ("[x](http://evil)", "`[x](http://evil)`"),
            ("http://evil", "`http://evil`"),
            ("_a_ *b*", "`_a_ *b*`"),
            ("a`b``c", "```a`b``c```"),
            ("`", "`` ` ``"),
            ("a\n# b\u{202e}", "`a # b\u{fffd}`"),
        ] {
            assert_eq!(inline(evil), shown);
        }
    }

    #[test]
    fn every_line_of_a_table_has_its_columns() {
        let mut run = timed(&[9.5, 3.25, 3.5]);
        run.record.name = "a|b\n| c | d |".into();
        let report = Report {
            runs: vec![derived(run), timed(&[3.5]), untimed()],
            written_at_ms: 0,
            remarks: Vec::new(),
        };
        let text = report.to_markdown();
        for block in text.split("\n\n").filter(|block| block.starts_with('|')) {
            let columns: Vec<usize> = block
                .lines()
                .map(|line| line.replace("\\|", "").matches('|').count())
                .collect();
            assert!(columns.windows(2).all(|pair| pair[0] == pair[1]), "{block}");
        }
        assert!(text.contains("cannot be compared"), "{text}");
    }
}
