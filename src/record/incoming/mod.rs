//! Rows of JSON Lines read back as records: what `dlrun export` wrote, here or elsewhere. What is read is checked: nobody
//! knows who wrote a file.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use serde_json::json;

use super::table::{Cells, ColumnFault, MEASUREMENT, VERSION, assemble, check};
use super::{Epoch, Event, GpuUsage, MeasureKey, Measurement, MetricValue, RunRow, Sample, Table};
use crate::job::RunId;

/// The longest line, in bytes. The longest that dlrun writes are those of epochs with hundreds of metrics.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// A row and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Incoming {
    /// The table that it is of.
    pub table: Table,
    /// Which version of the row it is.
    pub version: RowVersion,
    /// The row.
    pub row: Row,
}

/// Tells versions of one row apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct RowVersion {
    /// Number of the row's last change in the database it comes from.
    pub seq: u64,
    /// Id of that database.
    pub store: String,
}

/// A row of one of the tables.
#[derive(Debug, Clone, PartialEq)]
pub enum Row {
    /// Of [`Table::Runs`].
    Run(Box<RunRow>),
    /// Of [`Table::Usage`].
    Usage(Box<Measurement>),
    /// Of [`Table::Timings`]: which epoch of the measurement, and the epoch.
    Timing(MeasureKey, u64, Epoch),
    /// Of [`Table::Gpus`].
    Gpu(MeasureKey, Box<GpuUsage>),
    /// Of [`Table::Metrics`].
    Metric(MeasureKey, MetricValue),
    /// Of [`Table::Events`].
    Event(MeasureKey, Event),
    /// Of one of the three tables of samples: the segment, and a reading of which only this row's part is filled.
    Sample(MeasureKey, u32, Box<Sample>),
}

impl Row {
    /// The run that it is of.
    #[must_use]
    pub fn run_id(&self) -> &RunId {
        match self {
            Self::Run(run) => &run.record.run_id,
            Self::Usage(usage) => &usage.record.key.run_id,
            Self::Timing(key, ..)
            | Self::Gpu(key, _)
            | Self::Metric(key, _)
            | Self::Event(key, _)
            | Self::Sample(key, ..) => &key.run_id,
        }
    }
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct LineFault {
    /// Where in the line, in bytes from 1.
    pub column: usize,
    /// What is wrong there.
    pub message: String,
    /// The next step.
    pub hint: Option<String>,
}

/// What decides how the rest of a line is read.
#[derive(Deserialize)]
struct Head {
    kind: String,
    format: u32,
}

impl Incoming {
    /// Reads a line, without its line break.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(line: &[u8]) -> Result<Self, LineFault> {
        let text = std::str::from_utf8(line).map_err(|error| {
            fault(
                error.valid_up_to() + 1,
                "this byte is no UTF-8".to_owned(),
                packed(line),
            )
        })?;
        // Windows puts a mark before the first line.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        // serde would read the columns of a row from a list by position too.
        if !text.trim_start().starts_with('{') && !text.trim().is_empty() {
            let hint = "`dlrun export --format jsonl` writes such rows";
            return Err(fault(1, "a row is a JSON object".to_owned(), Some(hint)));
        }
        let head: Head = parse(text)?;
        if head.format != Table::FORMAT {
            let known = Table::FORMAT;
            let message = format!(
                "the row has format {}, and this dlrun knows format {known}",
                head.format
            );
            let hint = (head.format > known)
                .then_some("import it with the dlrun that exported it, or a newer one");
            return Err(fault(place_of(text, "format"), message, hint));
        }
        let Some(table) = Table::from_kind(&head.kind) else {
            let kinds = Table::ALL.map(Table::kind).join(", ");
            let message = format!(
                "`{}` is no kind of row; there are {kinds}",
                shortened(&head.kind)
            );
            return Err(fault(place_of(text, "kind"), message, None));
        };
        let cells: Cells = parse(text)?;
        Self::from_cells(table, &cells).map_err(|ColumnFault { column, message }| {
            let named = if column.is_empty() {
                String::new()
            } else {
                format!("`{column}`: ")
            };
            fault(place_of(text, column), named + &shortened(&message), None)
        })
    }

    /// Reads a row by the columns of its table.
    fn from_cells(table: Table, cells: &Cells) -> Result<Self, ColumnFault> {
        check(VERSION, cells)?;
        let version = assemble(VERSION, &json!({ "store": "", "seq": 0 }), cells)?;
        let (fields, blank) = (table.own_fields(), table.blank());
        if table == Table::Runs {
            check(&fields, cells)?;
            let run: RunRow = assemble(&fields, &blank, cells)?;
            check_uid(&run)?;
            let row = Row::Run(Box::new(run));
            return Ok(Self {
                table,
                version,
                row,
            });
        }
        check(MEASUREMENT, cells)?;
        check(&fields, cells)?;
        let key: MeasureKey = assemble(MEASUREMENT, &Table::Usage.blank()["record"], cells)?;
        let row = match table {
            Table::Usage => {
                let mut measurement: Measurement = assemble(&fields, &blank, cells)?;
                measurement.record.key = key;
                Row::Usage(Box::new(measurement))
            }
            Table::Gpus => Row::Gpu(key, Box::new(assemble(&fields, &blank, cells)?)),
            Table::Metrics => Row::Metric(key, assemble(&fields, &blank, cells)?),
            Table::Events => {
                number::<u64>(cells, "place")?;
                Row::Event(key, assemble(&fields, &blank, cells)?)
            }
            Table::Timings => {
                let place = number(cells, "place")?;
                Row::Timing(key, place, assemble(&fields, &blank, cells)?)
            }
            Table::Runs | Table::Samples | Table::GpuSamples | Table::ProcessSamples => {
                let mut sample = Sample {
                    at_ms: number(cells, "at_ms")?,
                    ..Sample::default()
                };
                match table {
                    Table::GpuSamples => sample.gpus.push(assemble(&fields, &blank, cells)?),
                    Table::ProcessSamples => {
                        sample.commands.push(assemble(&fields, &blank, cells)?)
                    }
                    _ => sample = assemble(&fields, &blank, cells)?,
                }
                Row::Sample(key, number(cells, "segment")?, Box::new(sample))
            }
        };
        Ok(Self {
            table,
            version,
            row,
        })
    }

    /// Says whether the row is of a run of this user: who may write a file only for themselves is believed no more than that.
    ///
    /// # Errors
    /// What is wrong, where it is another's, or of an older dlrun whose ids do not tell it.
    pub fn check_owner(&self, uid: u32) -> Result<(), LineFault> {
        let run_id = self.row.run_id();
        let whose = match run_id.owner() {
            Some(owner) if owner == uid => return Ok(()),
            Some(owner) => format!("is user {owner}'s"),
            None => "does not say whose it is".to_owned(),
        };
        let message = format!("the file is of user {uid}, and the id of run {run_id} {whose}");
        Err(fault(
            1,
            message,
            Some("where you vouch for the file: `dlrun import - < FILE`"),
        ))
    }
}

/// Refuses a run under the id of another user's: a node's database has the owner from the kernel.
fn check_uid(run: &RunRow) -> Result<(), ColumnFault> {
    match run.uid.zip(run.record.run_id.owner()) {
        Some((uid, owner)) if uid != owner => Err(ColumnFault {
            column: "uid",
            message: format!("the run is of user {uid}, and its id is of user {owner}"),
        }),
        _ => Ok(()),
    }
}

/// A whole number beside the record of a row.
fn number<T: DeserializeOwned>(cells: &Cells, column: &'static str) -> Result<T, ColumnFault> {
    let value = cells.get(column).cloned().unwrap_or_default();
    serde_json::from_value(value).map_err(|error| ColumnFault {
        column,
        message: error.to_string(),
    })
}

/// The next step with a file that is no text.
fn packed(line: &[u8]) -> Option<&'static str> {
    Some(match line {
        [0x1f, 0x8b, ..] => "it is compressed: `gzip -dc FILE | dlrun import -`",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "it is compressed: `zstd -dc FILE | dlrun import -`",
        [0xfd, b'7', b'z', b'X', b'Z', ..] => "it is compressed: `xz -dc FILE | dlrun import -`",
        _ => "`dlrun export --format jsonl` writes such rows",
    })
}

fn fault(column: usize, message: String, hint: Option<&str>) -> LineFault {
    LineFault {
        column,
        message,
        hint: hint.map(str::to_owned),
    }
}

/// Reads the JSON of a line.
fn parse<T: DeserializeOwned>(text: &str) -> Result<T, LineFault> {
    serde_json::from_str(text).map_err(|error| {
        if error.is_eof() {
            let hint = "the file was cut off, or is still being written";
            let message = "the line ends in the middle of a row".to_owned();
            return fault(text.len() + 1, message, Some(hint));
        }
        let message = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let message = message.strip_suffix(&place).unwrap_or(&message);
        fault(error.column().max(1), shortened(message), None)
    })
}

/// Values of a hostile file could be a megabyte long.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The position of a key, counted from 1.
fn place_of(text: &str, key: &str) -> usize {
    text.find(&format!("\"{key}\"")).map_or(1, |at| at + 1)
}

#[cfg(test)]
mod tests;
