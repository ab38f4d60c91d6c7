//! Readings that were exported as rows become blocks again.
//!
//! The rows of a segment come one behind another, those of its GPUs and processes later in the same way: so one segment is
//! held at a time, and put together with what is there of it.

use std::collections::BTreeMap;

use rusqlite::params;

use super::{Taken, Writer};
use crate::record::store::error::StoreError;
use crate::record::store::sql::integer;
use crate::record::{MAX_SEGMENT_SAMPLES, RowVersion, Sample, decode_segment, encode_segments};

/// A segment that is being put together.
#[derive(Debug)]
pub(super) struct Segment {
    node: i64,
    seq: u32,
    store: String,
    origin: i64,
    /// Readings by their time, each with as much of it as came.
    samples: BTreeMap<u64, Sample>,
    changed: bool,
}

impl Segment {
    /// Begins with what is there of a segment. `None` where the node's series comes from another database, whose segments are
    /// not these: the one whose name is the larger stays, whichever comes first.
    pub(super) fn begin(
        writer: &Writer<'_>,
        version: &RowVersion,
        node: i64,
        seq: u32,
    ) -> Result<Option<Self>, StoreError> {
        let sql = "SELECT store FROM block JOIN origin ON origin.id = block.origin WHERE node = ?1 LIMIT 1";
        let other = writer.first(sql, [node], |row| row.get::<_, String>(0))?;
        match other.filter(|other| *other != version.store) {
            Some(other) if other > version.store => return Ok(None),
            Some(_) => writer
                .execute("DELETE FROM block WHERE node = ?1", [node])
                .map(drop)?,
            None => {}
        }
        let Some(origin) = writer.origin(version)? else {
            return Ok(None);
        };
        let sql = "SELECT bytes FROM block WHERE node = ?1 AND seq = ?2";
        let bytes = writer.first(sql, params![node, seq], |row| row.get::<_, Vec<u8>>(0))?;
        let known = bytes
            .and_then(|bytes| decode_segment(&bytes).ok())
            .unwrap_or_default();
        let samples = known
            .into_iter()
            .map(|sample| (sample.at_ms, sample))
            .collect();
        Ok(Some(Self {
            node,
            seq,
            store: version.store.clone(),
            origin,
            samples,
            changed: false,
        }))
    }

    pub(super) fn is(&self, version: &RowVersion, node: i64, seq: u32) -> bool {
        (self.node, self.seq) == (node, seq) && self.store == version.store
    }

    /// Adds a row's part of a reading. What is beyond the most that a segment holds was written by no dlrun.
    pub(super) fn add(&mut self, part: Sample) -> Taken {
        if self.samples.len() >= MAX_SEGMENT_SAMPLES && !self.samples.contains_key(&part.at_ms) {
            return Taken::Known;
        }
        let known = self.samples.get(&part.at_ms).cloned();
        let sample = self.samples.entry(part.at_ms).or_default();
        sample.at_ms = part.at_ms;
        let (of_run, added) = (sample.values(), part.values());
        sample.set_values(std::array::from_fn(|column| {
            of_run[column].or(added[column])
        }));
        for gpu in part.gpus {
            if !sample.gpus.iter().any(|known| known.uuid == gpu.uuid) {
                sample.gpus.push(gpu);
            }
        }
        for process in part.commands {
            let same = |pid, start| (pid, start) == (process.pid, process.start_time_ticks);
            if !sample
                .commands
                .iter()
                .any(|known| same(known.pid, known.start_time_ticks))
            {
                sample.commands.push(process);
            }
        }
        match known {
            Some(known) if known == *sample => Taken::Known,
            _ => {
                self.changed = true;
                Taken::New
            }
        }
    }

    /// Writes the segment, where anything was added. What does not fit into one was written by no dlrun, and stays out.
    pub(super) fn write(self, writer: &Writer<'_>) -> Result<(), StoreError> {
        if !self.changed {
            return Ok(());
        }
        let samples: Vec<Sample> = self.samples.into_values().collect();
        let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
            return Ok(());
        };
        let encoded = encode_segments(&samples);
        let [bytes] = &encoded[..] else { return Ok(()) };
        writer.execute(
            "DELETE FROM block WHERE node = ?1 AND seq = ?2",
            params![self.node, self.seq],
        )?;
        writer.execute(
            "INSERT INTO block (change_seq, node, seq, t0_ms, t1_ms, samples, bytes, origin)
             SELECT last + 1, ?1, ?2, ?3, ?4, ?5, ?6, ?7 FROM change",
            params![
                self.node,
                self.seq,
                integer(first.at_ms),
                integer(last.at_ms),
                integer(samples.len() as u64),
                bytes,
                self.origin,
            ],
        )?;
        Ok(())
    }
}
