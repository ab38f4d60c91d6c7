//! Samples out of the database: for the watcher that takes them along, and for whoever looks.

use rusqlite::params;

use super::spool::sample;
use super::{NodeId, NodeStore, Safety};
use crate::record::store::error::StoreError;
use crate::record::store::sql::{damaged, integer};
use crate::record::{MAX_SEGMENT_SAMPLES, Sample, decode_segment, encode_segments, segment_cells};

/// Cells that are merged into one segment at most: more than ten minutes of 500 series, 8 MB in memory.
const MAX_MERGED: usize = 500_000;

/// Samples for somebody to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// The last block that is in it: to be acknowledged, and to go on after.
    pub through_seq: u32,
    /// One segment, for [`decode_segment`].
    pub bytes: Vec<u8>,
    /// Whether there are more blocks.
    pub more: bool,
}

/// A block, its number first.
type Numbered = (u32, Vec<u8>);

impl NodeStore {
    /// The samples after block `after_seq` (all, where it is `None`), as one segment of at most `max_bytes`; what is
    /// spooled is folded first. `None` where there are none. A block that is larger by itself is handed over all the same.
    ///
    /// # Errors
    /// As [`NodeStore::fold`].
    pub fn collect(
        &mut self,
        node: NodeId,
        after_seq: Option<u32>,
        max_bytes: usize,
    ) -> Result<Option<Collected>, StoreError> {
        self.fold(&[node])?;
        let blocks = self.blocks_after(node, after_seq, max_bytes)?;
        let Some((first_seq, first)) = blocks.first() else {
            return Ok(None);
        };
        let (through_seq, bytes) =
            merge(&blocks, max_bytes).unwrap_or_else(|| (*first_seq, first.clone()));
        let more = "SELECT 1 FROM block WHERE node = ?1 AND seq > ?2 LIMIT 1";
        let more = self.store.finds(more, params![node.0, through_seq])?;
        Ok(Some(Collected {
            through_seq,
            bytes,
            more,
        }))
    }

    /// Notes that somebody keeps the samples up to block `seq`. They stay here none the less.
    ///
    /// # Errors
    /// As [`NodeStore::append`].
    pub fn acknowledge(&mut self, node: NodeId, seq: u32) -> Result<(), StoreError> {
        let sql = "UPDATE live SET acknowledged_seq = max(coalesce(acknowledged_seq, ?2), ?2) WHERE node = ?1";
        self.transact(Safety::Kill, |work| {
            work.writer.execute(sql, params![node.0, seq]).map(drop)
        })
    }

    /// The samples of a measurement from a time on, in the order in which they were taken.
    ///
    /// # Errors
    /// `StoreFault::Damaged` where a block cannot be decoded; those of [`crate::record::store::Store::list`].
    pub fn read_samples(&self, node: NodeId, from_ms: u64) -> Result<Vec<Sample>, StoreError> {
        let sql = "SELECT bytes FROM block WHERE node = ?1 AND t1_ms >= ?2 ORDER BY seq";
        let blocks: Vec<Vec<u8>> =
            self.store
                .rows(sql, params![node.0, integer(from_ms)], |row| row.get(0))?;
        let mut samples = Vec::new();
        for bytes in blocks {
            let decoded = decode_segment(&bytes).map_err(damaged);
            samples
                .extend(decoded.map_err(|e| StoreError::from_sqlite(&self.store.path, "read", e))?);
        }
        let spooled = "SELECT bytes FROM spool WHERE node = ?1 ORDER BY id";
        samples.extend(self.store.rows(spooled, [node.0], sample)?);
        samples.retain(|sample| sample.at_ms >= from_ms);
        Ok(samples)
    }

    /// Blocks in a row whose bytes are `max_bytes` together, or the first alone.
    fn blocks_after(
        &self,
        node: NodeId,
        after_seq: Option<u32>,
        max_bytes: usize,
    ) -> Result<Vec<Numbered>, StoreError> {
        let sql = "SELECT seq, bytes FROM block WHERE node = ?1 AND seq > ?2 ORDER BY seq";
        self.store.reading(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query(params![node.0, after_seq.map_or(-1, i64::from)])?;
            let (mut blocks, mut length): (Vec<Numbered>, usize) = (Vec::new(), 0);
            while let Some(row) = rows.next()? {
                let bytes: Vec<u8> = row.get(1)?;
                length += bytes.len();
                if !blocks.is_empty() && length > max_bytes {
                    break;
                }
                blocks.push((row.get(0)?, bytes));
            }
            Ok(blocks)
        })
    }
}

/// As many of the blocks as make one segment, and the number of the last; `None` where the first is best left as it is.
fn merge(blocks: &[Numbered], max_bytes: usize) -> Option<Numbered> {
    let mut samples = Vec::new();
    // Where each block that was read ends.
    let mut ends: Vec<(u32, usize)> = Vec::new();
    for (seq, bytes) in blocks {
        // One that cannot be read goes by itself: whoever gets it will say so.
        let Ok(of_block) = decode_segment(bytes) else {
            break;
        };
        samples.extend(of_block);
        let is_full = samples.len() > MAX_SEGMENT_SAMPLES || segment_cells(&samples) > MAX_MERGED;
        if is_full && !ends.is_empty() {
            break;
        }
        ends.push((*seq, samples.len()));
    }
    while ends.len() > 1 {
        let (seq, end) = ends[ends.len() - 1];
        let mut segments = encode_segments(&samples[..end]);
        if segments.len() == 1 && segments[0].len() <= max_bytes {
            return Some((seq, segments.remove(0)));
        }
        ends.truncate(ends.len() / 2);
    }
    None
}
