//! Rows of JSON Lines read back: what `dlrun export` wrote, here or elsewhere. What is read is checked: nobody knows who wrote a file.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::table::{Cells, VERSION, assemble, check};
use super::{
    AttemptMarks, Epoch, Event, GpuUsage, MeasureKey, Measurement, MetricValue, RankRecord, RunRow,
    Table,
};
use crate::job::RunId;

/// The longest line, in bytes. The longest that dlrun writes are those of epochs with hundreds of metrics.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// A row and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Incoming {
    /// The table that it is of.
    pub table: Table,
    /// The measurement that it is of; of a run only the run's id is meant, of a start also element and attempt.
    pub key: MeasureKey,
    /// Which version of the row it is.
    pub version: RowVersion,
    /// Its values.
    pub(super) cells: Cells,
}

/// Tells versions of one row apart.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RowVersion {
    /// Number of the row's last change in the database it comes from.
    pub seq: u64,
    /// Id of that database.
    pub store: String,
}

/// What decides how the rest of a line is read.
#[derive(Deserialize)]
struct Head {
    kind: String,
    format: u32,
}

impl Incoming {
    /// Reads a line, without its line break. Keys that no column has are ignored.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(line: &[u8]) -> Result<Self, String> {
        Self::from_line(line).map_err(|fault| fault.chars().take(300).collect())
    }

    fn from_line(line: &[u8]) -> Result<Self, String> {
        let cells: Cells = serde_json::from_slice(line)
            .map_err(|error| format!("not a row of `export --format jsonl`: {error}"))?;
        let head = Head::deserialize(Value::Object(cells.clone())).map_err(|e| e.to_string())?;
        if head.format != Table::FORMAT {
            let (format, known) = (head.format, Table::FORMAT);
            return Err(format!(
                "the row has format {format}, and this dlrun knows format {known}"
            ));
        }
        let table = Table::from_kind(&head.kind)
            .ok_or_else(|| format!("`{}` is not a kind of row", head.kind))?;
        check(VERSION, &cells)?;
        let version = assemble(VERSION, &json!({ "store": "", "seq": 0 }), &cells)?;
        check(&table.own_fields(), &cells)?;
        let blank = &Table::Usage.blank()["record"];
        check(table.key_fields(), &cells)?;
        let key = assemble(table.key_fields(), blank, &cells)?;
        let incoming = Self {
            table,
            key,
            version,
            cells,
        };
        match table {
            Table::Runs => incoming.check_uid(&incoming.record()?)?,
            Table::Attempts => drop(incoming.record::<AttemptMarks>()?),
            Table::Usage => drop(incoming.record::<Measurement>()?),
            Table::Timings => drop(incoming.record::<Epoch>()?),
            Table::Gpus => drop(incoming.record::<GpuUsage>()?),
            Table::Ranks => drop(incoming.record::<RankRecord>()?),
            Table::Metrics => drop(incoming.record::<MetricValue>()?),
            Table::Events => drop(incoming.record::<Event>()?),
            Table::Samples | Table::GpuSamples | Table::ProcessSamples => {}
        }
        Ok(incoming)
    }

    /// The record that the row is of.
    pub(super) fn record<T: DeserializeOwned>(&self) -> Result<T, String> {
        assemble(&self.table.own_fields(), &self.table.blank(), &self.cells)
    }

    /// Checks that the row is of a run of this user: a file of somebody else's is believed no more than that.
    ///
    /// # Errors
    /// What is wrong, where it is another's, or of an older dlrun whose ids do not show it.
    pub fn check_owner(&self, uid: u32) -> Result<(), String> {
        let run_id = &self.key.run_id;
        let whose = match run_id.owner() {
            Some(owner) if owner == uid => return Ok(()),
            Some(owner) => format!("is user {owner}'s"),
            None => "does not show its owner".to_owned(),
        };
        Err(format!(
            "the file is of user {uid}, and the id of run {run_id} {whose}; `dlrun import - < FILE` accepts it"
        ))
    }

    /// Refuses a run under the id of another user's: a node's database has the owner from the kernel.
    fn check_uid(&self, run: &RunRow) -> Result<(), String> {
        match run.uid.zip(RunId::owner(&self.key.run_id)) {
            Some((uid, owner)) if uid != owner => Err(format!(
                "`uid`: the run is of user {uid}, and its id is of user {owner}"
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
