//! Rows as OpenMetrics: each number of a row is a point of a series, at the time of the row. `promtool tsdb create-blocks-from
//! openmetrics` puts them into a Prometheus.
//!
//! The format wants all points of a family together, and all of a series in the order of time: so the rows are gone through once
//! for each family.

use std::io::{self, Write};

use super::openmetrics::{Family, Flavour, MetricKind, write_end};
use crate::record::{COLUMNS, Cell, ColumnKind, Field, FieldType, Role, Table};

/// A family of a table: one of its columns, or its texts.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesFamily {
    /// Without points: those are read again for each family.
    family: Family,
    /// The column of the value; `None`: always 1.
    value: Option<usize>,
    /// The columns that are labels, with their names.
    labels: Vec<(usize, &'static str)>,
    /// The columns that may have the time; the first that has one counts.
    times: Vec<usize>,
}

/// Columns that say what a row is about, beside those of its key.
const NAMES: [&str; 3] = ["name", "user", "gpu"];
/// Texts of runs that are worth a label of their own; each run has one point with all of them.
const OF_RUNS: &str =
    "state scheduler job_id model dataset framework framework_version precision image";

/// The families of a table; none where its rows have no numbers, or none whose series can be distinguished.
#[must_use]
pub fn series_families(table: Table) -> Vec<SeriesFamily> {
    let times: &[&str] = match table {
        Table::Runs => &["ended_at_ms", "started_at_ms", "submitted_at_ms"],
        Table::Timings | Table::Attempts => &["ended_at_ms"],
        Table::Usage => &["ended_at_ms", "updated_at_ms"],
        Table::Gpus | Table::Ranks => &["updated_at_ms"],
        Table::Samples => &["at_ms"],
        Table::Events | Table::Metrics | Table::GpuSamples | Table::ProcessSamples => {
            return Vec::new();
        }
    };
    let fields = table.fields();
    let place = |name: &&str| fields.iter().position(|field| field.name == *name);
    let times: Vec<usize> = times.iter().filter_map(place).collect();
    let labels: Vec<(usize, &'static str)> = fields
        .iter()
        .enumerate()
        .filter(|(_, field)| is_label(field))
        .map(|(at, field)| (at, field.name))
        .collect();
    let mut families = Vec::new();
    if table == Table::Runs {
        let texts = OF_RUNS
            .split(' ')
            .filter_map(|name| Some((place(&name)?, name)));
        families.push(SeriesFamily {
            family: empty(
                "dlrun_run".to_owned(),
                MetricKind::Info,
                "What the run was.",
            ),
            value: None,
            labels: labels.iter().copied().chain(texts).collect(),
            times: times.clone(),
        });
    }
    for (at, field) in fields
        .iter()
        .enumerate()
        .filter(|(_, field)| is_number(field))
    {
        let name = format!("dlrun_{}_{}", table.kind(), field.name);
        families.push(SeriesFamily {
            family: empty(name, kind(table, field.name), field.about),
            value: Some(at),
            labels: labels.clone(),
            times: times.clone(),
        });
    }
    families
}

/// A time, an epoch's place or a segment's number is no label: it would make a series of every point.
fn is_label(field: &Field) -> bool {
    let is_order = matches!(field.name, "place" | "at_ms" | "segment");
    (field.role == Role::Key && !is_order) || NAMES.contains(&field.name)
}

fn is_number(field: &Field) -> bool {
    matches!(field.of, FieldType::Whole | FieldType::Real)
        && field.role != Role::Key
        && field.name != "seq"
}

fn empty(name: String, kind: MetricKind, help: &'static str) -> Family {
    Family {
        unit: unit(&name),
        name: name.into(),
        help,
        kind,
        points: Vec::new(),
    }
}

fn kind(table: Table, name: &str) -> MetricKind {
    let grows = COLUMNS
        .iter()
        .any(|column| column.name == name && column.kind == ColumnKind::Counter);
    if table == Table::Samples && grows {
        MetricKind::Counter
    } else {
        MetricKind::Gauge
    }
}

/// OpenMetrics wants the unit at the end of the name.
fn unit(name: &str) -> &'static str {
    let units = [
        "seconds", "bytes", "percent", "joules", "watts", "celsius", "mhz", "ms", "us",
    ];
    let is_unit = |unit: &&&str| {
        name.strip_suffix(**unit)
            .is_some_and(|before| before.ends_with('_'))
    };
    units.iter().find(is_unit).copied().unwrap_or("")
}

/// Writes families one after the other.
pub struct SeriesWriter<W: Write> {
    to: W,
    held: Vec<u8>,
    /// The labels and the time of the last point, for a series has one point a time and goes forwards.
    last: Option<(String, i64)>,
}

impl<W: Write> SeriesWriter<W> {
    /// Writes nothing yet.
    pub fn new(to: W) -> Self {
        Self {
            to,
            held: Vec::new(),
            last: None,
        }
    }

    /// Begins a family.
    ///
    /// # Errors
    /// None: it is held.
    pub fn begin(&mut self, family: &SeriesFamily) -> io::Result<()> {
        self.last = None;
        family
            .family
            .write_head(&mut self.held, Flavour::OpenMetrics)
    }

    /// Writes the point of a row; a row without the value or without a time has none, nor has one that is not later than
    /// the point before it of the same series.
    ///
    /// # Errors
    /// None: it is held.
    pub fn row(&mut self, family: &SeriesFamily, cells: &[Cell<'_>]) -> io::Result<()> {
        let Some(value) = family
            .value
            .map_or(Some(1.0), |column| number(&cells[column]))
        else {
            return Ok(());
        };
        let time = family.times.iter().find_map(|column| match cells[*column] {
            Cell::Whole(at_ms) => Some(at_ms),
            _ => None,
        });
        let Some(at_ms) = time else { return Ok(()) };
        let labels: Vec<(&str, String)> = family
            .labels
            .iter()
            .filter_map(|(column, name)| Some((*name, shown(&cells[*column])?)))
            .collect();
        let series = format!("{labels:?}");
        if self
            .last
            .as_ref()
            .is_some_and(|(last, last_ms)| *last == series && *last_ms >= at_ms)
        {
            return Ok(());
        }
        let labels = labels.iter().map(|(name, value)| (*name, value.as_str()));
        family
            .family
            .write_point(&mut self.held, labels, value, Some(at_ms))?;
        self.last = Some((series, at_ms));
        Ok(())
    }

    /// Writes out what is held.
    ///
    /// # Errors
    /// Those of the file.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.write_all(&self.held)?;
        self.held.clear();
        self.to.flush()
    }

    /// Writes the end mark.
    ///
    /// # Errors
    /// Those of the file.
    pub fn finish(&mut self) -> io::Result<()> {
        write_end(&mut self.held)?;
        self.flush()
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "Prometheus knows no other numbers"
)]
fn number(cell: &Cell<'_>) -> Option<f64> {
    match cell {
        Cell::Whole(number) => Some(*number as f64),
        Cell::Real(number) => Some(*number),
        _ => None,
    }
}

fn shown(cell: &Cell<'_>) -> Option<String> {
    match cell {
        Cell::Text(text) => Some(text.clone().into_owned()),
        Cell::Whole(number) => Some(number.to_string()),
        _ => None,
    }
}
