//! Rows of JSON Lines read back as records: what `dlrun export` wrote, here or elsewhere. What is read is checked: nobody
//! knows who wrote a file.

mod place;
mod rows;
mod values;

pub use values::MAX_NAME_BYTES;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{
    Epoch, Event, GpuUsage, MeasureKey, MetricPoint, NodeFigures, NodeRecord, RunRecord, Sample,
    Status, Table,
};
use crate::job::{JobId, RunId};
use rows::{
    EpochRow, EventRow, GpuRow, GpuSampleRow, MetricRow, ProcessSampleRow, RunRow, SampleRow,
    UsageRow,
};

/// The longest line, in bytes. The longest that dlrun writes are those of epochs with hundreds of metrics.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// A row and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Incoming {
    /// Which version of the row it is.
    pub version: RowVersion,
    /// The row.
    pub row: Row,
}

/// Tells versions of one row apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
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
    Run(Box<IncomingRun>),
    /// Of [`Table::Usage`].
    Usage(Box<IncomingUsage>),
    /// Of [`Table::Timings`]: which epoch of the measurement, and the epoch.
    Timing(MeasureKey, u64, Epoch),
    /// Of [`Table::Gpus`].
    Gpu(MeasureKey, Box<GpuUsage>),
    /// Of [`Table::Metrics`]: one value of a point.
    Metric(MeasureKey, Box<MetricPoint>),
    /// Of [`Table::Events`]: which event of the measurement, and the event.
    Event(MeasureKey, u64, Event),
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
            | Self::Event(key, ..)
            | Self::Sample(key, ..) => &key.run_id,
        }
    }
}

/// A run as a row tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct IncomingRun {
    /// Who submitted what.
    pub record: RunRecord,
    /// Where it stood.
    pub status: Status,
    /// Its owner, where a node's database told it: what that knows of the run's end is one node's view.
    pub uid: Option<u32>,
}

/// A measurement as a row tells it, with what is known of its attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct IncomingUsage {
    /// The record, without epochs, GPUs and events: those have rows of their own.
    pub record: NodeRecord,
    /// What this kind of node was measured to do.
    pub figures: Option<NodeFigures>,
    /// The job of the attempt, by the marks of its batch script.
    pub attempt_job_id: Option<JobId>,
    /// The node of its batch shell.
    pub attempt_first_node: Option<String>,
    /// When the batch script began, in Unix milliseconds UTC.
    pub attempt_started_at_ms: Option<u64>,
    /// When it ended.
    pub attempt_ended_at_ms: Option<u64>,
    /// The batch shell's exit code, 128 + n for signal n.
    pub attempt_exit_code: Option<i32>,
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

/// What tells how to read the rest of a line.
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
        // By position the columns of a row could be told by a list too.
        if !text.trim_start().starts_with('{') && !text.trim().is_empty() {
            let hint = "`dlrun export --format jsonl` writes such rows";
            return Err(fault(1, "a row is a JSON object".to_owned(), Some(hint)));
        }
        let head: Head = parse(text, None)?;
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
        match table {
            Table::Runs => Self::from(parse::<RunRow>(text, Some(table))?).of_its_owner(text),
            Table::Usage => parse::<UsageRow>(text, Some(table)).map(Self::from),
            Table::Timings => parse::<EpochRow>(text, Some(table)).map(Self::from),
            Table::Gpus => parse::<GpuRow>(text, Some(table)).map(Self::from),
            Table::Metrics => parse::<MetricRow>(text, Some(table)).map(Self::from),
            Table::Events => parse::<EventRow>(text, Some(table)).map(Self::from),
            Table::Samples => parse::<SampleRow>(text, Some(table)).map(Self::from),
            Table::GpuSamples => parse::<GpuSampleRow>(text, Some(table)).map(Self::from),
            Table::ProcessSamples => parse::<ProcessSampleRow>(text, Some(table)).map(Self::from),
        }
    }

    /// Refuses a run under the id of another user's: a node's database has the owner from the kernel.
    fn of_its_owner(self, text: &str) -> Result<Self, LineFault> {
        let Row::Run(run) = &self.row else {
            return Ok(self);
        };
        match run.uid.zip(run.record.run_id.owner()) {
            Some((uid, owner)) if uid != owner => {
                let message =
                    format!("`uid`: the run is of user {uid}, and its id is of user {owner}");
                Err(fault(place_of(text, "uid"), message, None))
            }
            _ => Ok(self),
        }
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

    /// The table that the row is of.
    #[must_use]
    pub fn table(&self) -> Table {
        match &self.row {
            Row::Run(_) => Table::Runs,
            Row::Usage(_) => Table::Usage,
            Row::Timing(..) => Table::Timings,
            Row::Gpu(..) => Table::Gpus,
            Row::Metric(..) => Table::Metrics,
            Row::Event(..) => Table::Events,
            Row::Sample(_, _, sample) if !sample.gpus.is_empty() => Table::GpuSamples,
            Row::Sample(_, _, sample) if !sample.commands.is_empty() => Table::ProcessSamples,
            Row::Sample(..) => Table::Samples,
        }
    }
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

/// Reads a row, or what is told of all rows alike.
fn parse<T: DeserializeOwned>(text: &str, table: Option<Table>) -> Result<T, LineFault> {
    serde_json::from_str(text).map_err(|error| {
        if error.is_eof() {
            let hint = "the file was cut off, or is still being written";
            return fault(
                text.len() + 1,
                "the line ends in the middle of a row".to_owned(),
                Some(hint),
            );
        }
        let message = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let message = message.strip_suffix(&place).unwrap_or(&message);
        let column = error.column().max(1);
        let key = if table.is_some_and(Table::is_of_samples) {
            table
                .and_then(|table| place::unlike(table, text))
                .or_else(|| place::key_at(text, column))
        } else if message.starts_with("missing field") {
            place::key_at(text, column)
        } else {
            place::key_of_value(text, column)
        };
        let named = key.map_or_else(String::new, |key| format!("`{key}`: "));
        fault(column, named + &shortened(message), None)
    })
}

/// Values of a hostile file could be a megabyte long.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Where a key stands, counted from 1.
fn place_of(text: &str, key: &str) -> usize {
    text.find(&format!("\"{key}\"")).map_or(1, |at| at + 1)
}

#[cfg(test)]
mod tests;
