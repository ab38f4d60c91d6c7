//! Measurements that others have published, out of a TOML file: `docs/report.md` lists its keys.

use super::sample::{Group, Sample};
use crate::foundation::diagnostic::{Problem, sort_problems};
use crate::foundation::toml_reader::{Fields, parse_document};
use crate::job::{line_of_text, name_in_small_letters};

/// The version of the form that is read.
const FORMAT: u64 = 1;
/// More than this is a mistake.
const MOST: u64 = 1 << 40;
const TIMES: std::ops::RangeInclusive<f64> = 1e-9..=1e15;

/// Reads the text of a file.
///
/// # Errors
/// Everything that is wrong with it, each with its place.
pub fn read_published(text: &str) -> Result<Vec<Sample>, Vec<Problem>> {
    let document = parse_document(text)?;
    let mut problems = Vec::new();
    let mut fields = Fields::of_document(&document, &mut problems);
    let mut series = Vec::new();
    if fields.has_format(FORMAT) {
        fields.require(&["series"], "a file of published series");
        series = fields.tables("series", false, |fields| Some(read_series(fields)));
        fields.finish();
    }
    if problems.is_empty() {
        return Ok(series.into_iter().flatten().collect());
    }
    sort_problems(&mut problems);
    Err(problems)
}

fn read_series(fields: &mut Fields<'_>) -> Vec<Sample> {
    fields.require(
        &["name", "source", "device", "points"],
        "a published series",
    );
    let name = fields.parsed("name", name_in_small_letters);
    let model = fields.parsed("model", line_of_text);
    let is_gpu = fields.word("device", &[("cpu", false), ("gpu", true)]) == Some(true);
    let hardware = fields.parsed("hardware", line_of_text);
    let device = if is_gpu { "GPU" } else { "CPU" };
    let group = Group {
        program: model.or(name).unwrap_or_default(),
        framework: fields.parsed("framework", line_of_text),
        device: match hardware {
            Some(hardware) => format!("{device} {hardware}"),
            None => device.to_owned(),
        },
        image: fields.parsed("image", line_of_text),
        launcher: fields.parsed("launcher", line_of_text),
        source: fields.parsed("source", line_of_text),
    };
    let has_fixed_work = fields.boolean("fixed_work").unwrap_or_default();
    let batch = fields.number("batch", 1..=MOST);
    let of_worker = fields.number("batch_per_rank", 1..=MOST);
    fields.tables("points", true, |fields| {
        fields.require(&["ranks", "nodes"], "a point");
        let ranks = fields.number("ranks", 1..=MOST)?;
        let nodes = fields.number("nodes", 1..=ranks)?;
        let seconds = fields.decimal("seconds", TIMES);
        let rate = fields.decimal("rate", TIMES);
        if seconds.is_none() && rate.is_none() {
            let message = "a point needs `seconds` of an epoch or run, or `rate`, samples a second";
            fields.problem(Problem::at(fields.own_span(), message));
        }
        Some(Sample {
            group: group.clone(),
            nodes,
            ranks,
            gpus: if is_gpu { ranks } else { 0 },
            batch: batch.or(of_worker.and_then(|each| each.checked_mul(ranks))),
            has_fixed_work,
            seconds,
            rate,
            ..Sample::default()
        })
    })
}
