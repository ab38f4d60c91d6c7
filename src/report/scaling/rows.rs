//! A study as text: tables that all forms share, Markdown, CSV.

use serde_json::Value;

use super::study::{Gain, Point, Series, Study};
use crate::record::export::csv_text;
use crate::report::bench::Rows;
use crate::report::number::{count, instant, interval, or_unknown, short, three};

/// What stands where a figure would claim that a training scales.
pub(in crate::report) const NO_CLAIM: &str = "not a scaling measurement";

/// Keys of a gain, in the order of JSON.
const GAIN_KEYS: [&str; 5] = [
    "baseline_workers",
    "efficiency_ratio",
    "speed_up",
    "speed_up_high",
    "speed_up_low",
];

type Column = (String, fn(&Point) -> Option<String>);

impl Series {
    /// Its points as a table; columns of which nothing is known are left out.
    #[must_use]
    pub fn rows(&self) -> Rows {
        let columns = self.columns().into_iter().filter_map(|(head, of)| {
            let cells: Vec<Option<String>> = self.points.iter().map(of).collect();
            let is_known = cells.iter().any(Option::is_some);
            is_known.then_some((head, cells))
        });
        let (heads, columns): (Vec<String>, Vec<Vec<Option<String>>>) = columns.unzip();
        let row = |at: usize| {
            columns
                .iter()
                .map(|cells| or_unknown(cells[at].clone(), |text| text))
                .collect()
        };
        (heads, (0..self.points.len()).map(row).collect())
    }

    fn columns(&self) -> Vec<Column> {
        let each = format!("Each {}/s", self.worker());
        let one = format!("1 {}", self.worker());
        // Closures without captures are functions.
        macro_rules! column {
            ($head:expr, $point:ident => $cell:expr) => {
                ($head.into(), |$point: &Point| $cell)
            };
        }
        vec![
            column!(self.counted, point => Some(count(point.workers))),
            column!("Nodes", point => Some(count(point.nodes))),
            column!("Processes", point => (point.workers != point.ranks).then(|| count(point.ranks))),
            column!("n", point => Some(count(point.n as u64))),
            column!("Samples/s", point => point.samples_per_second.map(two_decimals)),
            column!("95 % interval", point => {
                let bounds = point.samples_per_second_low.zip(point.samples_per_second_high);
                bounds.map(|bounds| interval(Some(bounds), short))
            }),
            column!(each, point => point.samples_per_second_each.map(short)),
            column!("Epoch, s", point => point.epoch_seconds.map(short)),
            column!("Batch, ms", point => point.batch_seconds.map(|seconds| short(seconds * 1e3))),
            column!("Step median, ms", point => point.step_median_seconds.map(|seconds| short(seconds * 1e3))),
            column!("Step p95, ms", point => point.step_p95_seconds.map(|seconds| short(seconds * 1e3))),
            column!("Data wait", point => point.data_wait_ratio.map(|ratio| format!("{:.1} %", ratio * 100.0))),
            column!("First epoch longer by, s", point => point.first_extra_seconds.map(short)),
            column!("Slowest rank", point => point.straggler_ratio.map(|ratio| format!("{ratio:.2}×"))),
            column!(format!("Speed-up from {one}"), point => gain(point, point.from_one.as_ref())),
            column!(format!("Efficiency from {one}"), point => efficiency(point.from_one.as_ref())),
            column!("Speed-up from 1 node", point => gain(point, point.from_node.as_ref())),
            column!("Efficiency from 1 node", point => efficiency(point.from_node.as_ref())),
            column!("Karp–Flatt", point => point.serial_fraction.map(three)),
            column!("Law", point => point.law.map(short)),
            column!("Law, 90 %", point => {
                let bounds = point.law_low.zip(point.law_high);
                bounds.map(|bounds| interval(Some(bounds), short))
            }),
            column!("GPU energy, kJ", point => point.gpu_energy_joules.map(|joules| short(joules / 1e3))),
            column!("Metric", point => {
                let (name, value) = point.metric.as_ref().zip(point.metric_last)?;
                Some(format!("{name} {}", short(value)))
            }),
            column!("To target, s", point => point.seconds_to_target.map(short)),
            column!("Validity", point => {
                (!point.not_a_scaling_measurement.is_empty()).then(|| NO_CLAIM.to_owned())
            }),
        ]
    }

    /// What supports its figures: pairs of a name and what it is.
    #[must_use]
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let validity = &self.validity;
        let of = |count: usize| format!("{count} of {} runs", validity.runs);
        let others = validity
            .others_cpus_busy_median
            .zip(validity.others_cpus_busy_most);
        let listed = |list: &[String]| (!list.is_empty()).then(|| list.join(", "));
        let measurements = format!(
            "{}, at least {} of a size; intervals: 95 %, Student's t over the runs",
            validity.runs, validity.least_repeats
        );
        let facts = [
            ("Measurements", Some(measurements)),
            ("Published", self.group.source.clone()),
            (
                "Whole nodes",
                validity
                    .exclusive_runs
                    .map(|count| format!("asked for by {}", of(count))),
            ),
            (
                "CPUs kept busy by others",
                others.map(|(median, most)| format!("{median:.2} (median), {most:.2} at most")),
            ),
            (
                "Held down by quota, heat or power",
                validity.throttled_runs.map(of),
            ),
            ("Image", self.group.image.clone()),
            ("Software", listed(&validity.software)),
            ("Nodes", listed(&validity.nodes)),
            (
                "Machines",
                validity
                    .machines
                    .map(|count| format!("{count}, by the boot id")),
            ),
            ("Differs between runs", listed(&validity.unlike)),
            (
                "Not recorded",
                Some(validity.not_recorded.join(", ")).filter(|names| !names.is_empty()),
            ),
        ];
        facts
            .into_iter()
            .filter_map(|(name, fact)| Some((name, fact?)))
            .collect()
    }
}

/// Rates as they are published.
fn two_decimals(rate: f64) -> String {
    if rate < 1e4 {
        format!("{rate:.2}")
    } else {
        short(rate)
    }
}

fn gain(point: &Point, gain: Option<&Gain>) -> Option<String> {
    if !point.not_a_scaling_measurement.is_empty() {
        return None;
    }
    let gain = gain?;
    let bounds = gain.speed_up_low.zip(gain.speed_up_high);
    let bounds = bounds.map(|bounds| {
        format!(
            " ({})",
            interval(Some(bounds), |bound| format!("{bound:.2}"))
        )
    });
    Some(format!(
        "{:.2}×{}",
        gain.speed_up,
        bounds.unwrap_or_default()
    ))
}

fn efficiency(gain: Option<&Gain>) -> Option<String> {
    gain.map(|gain| format!("{:.1} %", gain.efficiency_ratio * 100.0))
}

impl Study {
    /// Framework × device × ranks: samples a second of every series at every size; of several points of a size the quickest.
    #[must_use]
    pub fn comparison_rows(&self) -> Rows {
        let has_rates = |series: &&Series| series.by == "samples_per_second";
        let all = || self.series.iter().filter(has_rates);
        let points = all().flat_map(|series| &series.points);
        let mut sizes: Vec<u64> = points.map(|point| point.workers).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let heads = ["Series", "Kind", "Counted"].map(str::to_owned).into_iter();
        let heads = heads.chain(sizes.iter().map(|size| count(*size))).collect();
        let row = |series: &Series| {
            let best = |size: &u64| {
                let points = series.points.iter().filter(|point| point.workers == *size);
                points
                    .filter_map(|point| point.samples_per_second)
                    .reduce(f64::max)
            };
            let mark = if series.not_a_scaling_measurement.is_empty() {
                ""
            } else {
                " *"
            };
            let kind = format!("{}{mark}", series.kind.as_str());
            let cells = sizes.iter().map(|size| or_unknown(best(size), short));
            [series.title(), kind, series.counted.to_owned()]
                .into_iter()
                .chain(cells)
                .collect()
        };
        (heads, all().map(row).collect())
    }

    /// What is said below the comparison.
    #[must_use]
    pub fn comparison_note(&self) -> Option<&'static str> {
        let mut series = self.series.iter();
        series
            .any(|series| !series.not_a_scaling_measurement.is_empty())
            .then_some("* Not a scaling measurement, at some of its sizes or all: rates only, which say nothing about scaling.")
    }

    /// As Markdown.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut text = format!(
            "# Scaling\n\nWritten {} UTC by dlrun {}.\n",
            instant(self.written_at_ms),
            env!("CARGO_PKG_VERSION")
        );
        let paragraph =
            |text: &mut String, words: &str| text.push_str(&format!("\n{}\n", escaped(words)));
        self.remarks
            .iter()
            .for_each(|remark| paragraph(&mut text, remark));
        for series in &self.series {
            text.push_str(&format!("\n## {}\n", escaped(&series.heading())));
            series
                .notes()
                .iter()
                .for_each(|note| paragraph(&mut text, note));
            text.push_str(&table(&series.rows()));
            text.push('\n');
            for (name, fact) in series.facts() {
                text.push_str(&format!("- {name}: {}\n", escaped(&fact)));
            }
        }
        if self.series.len() > 1 {
            text.push_str("\n## Framework × device × ranks, samples/s\n");
            text.push_str(&table(&self.comparison_rows()));
            self.comparison_note()
                .iter()
                .for_each(|note| paragraph(&mut text, note));
        }
        text
    }

    /// As CSV: a row for each point, with its series; the columns are the keys of `--json`.
    ///
    /// # Errors
    /// Those of the serialiser.
    pub fn to_csv(&self) -> serde_json::Result<String> {
        let mut rows: Vec<Vec<(String, Value)>> = Vec::new();
        for series in &self.series {
            let Value::Object(mut of_series) = serde_json::to_value(series)? else {
                continue;
            };
            let points = of_series.remove("points");
            for key in ["validity", "law"] {
                of_series.remove(key);
            }
            // That of the point counts.
            of_series.remove("not_a_scaling_measurement");
            for point in points
                .as_ref()
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                let mut row = Vec::new();
                flat("", &Value::Object(of_series.clone()), &mut row);
                flat("", point, &mut row);
                rows.push(row);
            }
        }
        let line = |cells: Vec<String>| format!("{}\r\n", cells.join(","));
        let heads = rows.first().into_iter().flatten();
        let mut text = line(heads.map(|(key, _)| key.clone()).collect());
        for row in &rows {
            text.push_str(&line(
                row.iter().map(|(_, value)| csv_cell(value)).collect(),
            ));
        }
        Ok(text)
    }
}

/// The values of an object, those of objects in it under both names.
fn flat(prefix: &str, value: &Value, row: &mut Vec<(String, Value)>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let key = format!("{prefix}{key}");
        match value {
            Value::Object(_) => flat(&format!("{key}_"), value, row),
            Value::Null if key.starts_with("from_") => {
                let keys = GAIN_KEYS.iter().map(|of| format!("{key}_{of}"));
                row.extend(keys.map(|key| (key, Value::Null)));
            }
            value => row.push((key, value.clone())),
        }
    }
}

/// Null is nothing; a list is its items; a text is as in exports.
fn csv_cell(value: &Value) -> String {
    let text = match value {
        Value::Null => return String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            items.join("; ")
        }
        number => return number.to_string(),
    };
    let mut cell = Vec::new();
    csv_text(&mut cell, &text);
    String::from_utf8_lossy(&cell).into_owned()
}

fn table((heads, rows): &Rows) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells
            .iter()
            .map(|cell| escaped(cell).replace('|', "\\|"))
            .collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = vec!["---".to_owned(); heads.len()];
    let rows: String = rows.iter().map(|row| line(row)).collect();
    format!("\n{}{}{rows}", line(heads), line(&rule))
}

/// Text of others on one line, without what Markdown or HTML would obey.
fn escaped(text: &str) -> String {
    let text = crate::foundation::diagnostic::printable(text).replace(['\n', '\r', '\t'], " ");
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('[', "\\[")
        .replace('`', "'")
}
