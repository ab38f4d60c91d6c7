//! The spool into blocks.

use rusqlite::params;

use super::{NodeId, NodeStore, Safety, Work};
use crate::record::store::error::StoreError;
use crate::record::store::sql::{damaged, integer};
use crate::record::{ONE_MOMENT_MS, Sample, decode_segment, encode_segments};

/// Samples that are folded into one block: more than there should be, few enough to hold in memory.
const MAX_FOLDED: usize = 240;

impl NodeStore {
    /// Folds what is spooled of these nodes into blocks, in one transaction. It is on disk when this returns, with
    /// all that was written before. Worth it every 60 ticks, for all nodes at once: they share pages of the spool and the wait
    /// for the disk.
    ///
    /// # Errors
    /// As [`NodeStore::append`]. Where the journal could not be moved into the database the samples are folded none the less;
    /// trying again does no harm.
    pub fn fold(&mut self, nodes: &[NodeId]) -> Result<(), StoreError> {
        self.transact(Safety::PowerLoss, |work| {
            nodes.iter().try_for_each(|node| work.fold(*node))
        })?;
        self.checkpoint()
    }

    /// Takes samples in that somebody else took while nothing was written here; on disk when this returns. Those that fall
    /// into the time of a block that is there, or right beside it, change nothing.
    ///
    /// # Errors
    /// As [`NodeStore::fold`].
    pub fn backfill(&mut self, node: NodeId, samples: &[Sample]) -> Result<(), StoreError> {
        self.transact(Safety::PowerLoss, |work| {
            // What is spooled would be one block with what comes after the hole.
            work.fold(node)?;
            let covers = "SELECT 1 FROM block \
                WHERE node = ?1 AND ?2 BETWEEN t0_ms - ?3 AND t1_ms + ?3 LIMIT 1";
            let mut new = Vec::with_capacity(samples.len());
            for sample in samples {
                let (at_ms, beside) = (integer(sample.at_ms), integer(ONE_MOMENT_MS));
                let known: Option<i64> =
                    work.writer.select(covers, params![node.0, at_ms, beside])?;
                if known.is_none() {
                    new.push(sample.clone());
                }
            }
            if new.is_empty() {
                return Ok(());
            }
            work.add_blocks(node, &new)?;
            // The next reading here may be of the very millisecond of the last there.
            let newest = new.iter().map(|sample| sample.at_ms).max();
            if let Some(tail) = work.tail(node)? {
                tail.last_at_ms = tail.last_at_ms.max(newest);
            }
            Ok(())
        })?;
        self.checkpoint()
    }
}

impl Work<'_> {
    pub(super) fn fold(&mut self, node: NodeId) -> Result<(), StoreError> {
        let Some(tail) = self.tail(node)?.filter(|tail| !tail.rows.is_empty()) else {
            return Ok(());
        };
        let (rows, last_at_ms) = (std::mem::take(&mut tail.rows), tail.last_at_ms);
        for rows in rows.chunks(MAX_FOLDED) {
            self.add_blocks(node, &self.samples_of(rows)?)?;
        }
        for id in rows {
            self.writer
                .execute("DELETE FROM spool WHERE id = ?1", [id])?;
        }
        let last = "UPDATE live SET last_at_ms = ?2 WHERE node = ?1";
        self.writer
            .execute(last, params![node.0, last_at_ms.map(integer)])?;
        Ok(())
    }

    fn add_blocks(&self, node: NodeId, samples: &[Sample]) -> Result<(), StoreError> {
        let segments = encode_segments(samples);
        let mut rest = samples;
        for bytes in &segments {
            let count = match segments.len() {
                1 => rest.len(),
                _ => decode_segment(bytes)
                    .map_err(|e| StoreError::from_sqlite(self.writer.path, "read", damaged(e)))?
                    .len(),
            };
            let (of_block, after) = rest.split_at(count.min(rest.len()));
            rest = after;
            self.add_block(node, of_block, bytes)?;
        }
        Ok(())
    }

    /// The clock may jump: the times of a block are its earliest and its latest.
    fn add_block(&self, node: NodeId, samples: &[Sample], bytes: &[u8]) -> Result<(), StoreError> {
        let times = || samples.iter().map(|sample| sample.at_ms);
        self.writer.execute(
            "INSERT INTO block (node, seq, t0_ms, t1_ms, samples, bytes, change_seq)
             SELECT ?1, coalesce(max(seq) + 1, 0), ?2, ?3, ?4, ?5, (SELECT last + 1 FROM change) FROM block WHERE node = ?1",
            params![
                node.0,
                integer(times().min().unwrap_or(0)),
                integer(times().max().unwrap_or(0)),
                integer(samples.len() as u64),
                bytes
            ],
        )?;
        Ok(())
    }
}
