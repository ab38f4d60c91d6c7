//! What the database holds no longer.

use rusqlite::{Row, params};

use super::{NodeId, NodeStore, Safety};
use crate::job::RunId;
use crate::record::store::error::StoreError;
use crate::record::store::sql::{integer, number, run_id};

/// What went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Retained {
    /// The runs that were forgotten, oldest first.
    pub forgotten: Vec<RunId>,
    /// Of live runs the oldest samples that were forgotten.
    pub shortened: Vec<Shortened>,
    /// Bytes in use before.
    pub before_bytes: u64,
    /// Bytes in use after; more than was asked for where the records of live runs need them.
    pub after_bytes: u64,
    /// There may be more to forget: ask again.
    pub more: bool,
}

/// Samples of a live run that are there no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortened {
    /// Whose they were.
    pub node: NodeId,
    /// When the first of them was taken, in Unix milliseconds UTC.
    pub from_ms: u64,
    /// Likewise the last.
    pub to_ms: u64,
    /// How many there were.
    pub samples: u64,
    /// The client has them all.
    pub collected: bool,
}

/// Runs that are forgotten at once, and live ones that are shortened; samples wait meanwhile.
const BATCH: usize = 32;
/// Blocks that a live run loses at once: an hour of samples at one a second.
const BLOCKS: u32 = 60;

/// Runs of which nothing is live, and when they were last updated, oldest first.
const OLDEST: &str = "
    SELECT run_id, max(coalesce(node.ended_at_ms, node.updated_at_ms)) AS heard_ms
    FROM run JOIN attempt ON attempt.run = run.id JOIN node ON node.attempt = attempt.id
    GROUP BY run.id HAVING max(node.id IN (SELECT node FROM live)) = 0
    ORDER BY heard_ms, run_id LIMIT ?1";

/// The same in the order in which they make room: the oldest of the user who has most of them, so that nobody's many runs
/// send another's away.
const LARGEST_SHARE: &str = "
    SELECT run_id, heard_ms FROM (
        SELECT run_id, max(coalesce(node.ended_at_ms, node.updated_at_ms)) AS heard_ms, row_number() OVER (
            PARTITION BY uid ORDER BY max(coalesce(node.ended_at_ms, node.updated_at_ms)) DESC, run_id DESC) AS place
        FROM run JOIN attempt ON attempt.run = run.id JOIN node ON node.attempt = attempt.id
        GROUP BY run.id HAVING max(node.id IN (SELECT node FROM live)) = 0)
    ORDER BY place DESC, heard_ms, run_id LIMIT ?1";

/// Of the user whose live runs have most bytes, the measurement that has most. Its newest block stays: the next may go on in it.
const LONGEST: &str = "
    WITH share AS (
        SELECT live.uid AS uid, block.node AS node, sum(length(block.bytes)) AS bytes, count(*) AS blocks
        FROM block JOIN live ON live.node = block.node GROUP BY block.node)
    SELECT node FROM share WHERE blocks > 1
    ORDER BY sum(bytes) OVER (PARTITION BY uid) DESC, uid, bytes DESC, node LIMIT 1";

/// The oldest blocks of a measurement.
const FIRST_BLOCKS: &str = "
    SELECT seq, t0_ms, t1_ms, samples FROM block
    WHERE node = ?1 AND seq < (SELECT max(seq) FROM block WHERE node = ?1) ORDER BY seq LIMIT ?2";

impl NodeStore {
    /// Forgets runs that are over: those that ended more than `max_age_ms` before `now_ms`, oldest first, then more until
    /// `max_bytes` suffice, of the user who has most. Each goes in its own transaction, and no more than some at once.
    /// A live run never goes; where only live ones are left, the one with most samples loses its oldest.
    ///
    /// # Errors
    /// As [`NodeStore::append`].
    pub fn retain(
        &mut self,
        now_ms: u64,
        max_age_ms: u64,
        max_bytes: u64,
    ) -> Result<Retained, StoreError> {
        let before_bytes = self.used_bytes()?;
        let mut retained = Retained {
            before_bytes,
            after_bytes: before_bytes,
            ..Retained::default()
        };
        for (run, heard_ms) in self.over(OLDEST)? {
            if heard_ms >= now_ms.saturating_sub(max_age_ms) {
                break;
            }
            self.forget(run, &mut retained)?;
        }
        if retained.after_bytes > max_bytes && retained.forgotten.len() < BATCH {
            for (run, _) in self.over(LARGEST_SHARE)? {
                if retained.after_bytes <= max_bytes {
                    break;
                }
                self.forget(run, &mut retained)?;
            }
        }
        while retained.after_bytes > max_bytes
            && retained.forgotten.len() + retained.shortened.len() < BATCH
        {
            let Some(shortened) = self.shorten()? else {
                break;
            };
            retained.shortened.push(shortened);
            retained.after_bytes = self.used_bytes()?;
        }
        retained.more = retained.forgotten.len() + retained.shortened.len() >= BATCH;
        if !retained.forgotten.is_empty() || !retained.shortened.is_empty() {
            self.give_pages_back()?;
            self.checkpoint()?;
        }
        Ok(retained)
    }

    /// The pragma gives one page back at every step.
    fn give_pages_back(&self) -> Result<(), StoreError> {
        let statement = self.store.connection.prepare("PRAGMA incremental_vacuum");
        let done = statement.and_then(|mut statement| {
            let mut rows = statement.query([])?;
            while rows.next()?.is_some() {}
            Ok(())
        });
        done.map_err(|source| StoreError::from_sqlite(&self.store.path, "write", source))
    }

    fn forget(&mut self, run: RunId, retained: &mut Retained) -> Result<(), StoreError> {
        self.transact(Safety::Kill, |work| {
            work.writer.forget_run(&run)?;
            work.tails.clear();
            Ok(())
        })?;
        retained.forgotten.push(run);
        retained.after_bytes = self.used_bytes()?;
        Ok(())
    }

    /// Takes the oldest samples from the live run that has most; `None` where none has any to give.
    fn shorten(&mut self) -> Result<Option<Shortened>, StoreError> {
        let Some(node) = self
            .store
            .rows(LONGEST, [], |row| row.get(0).map(NodeId))?
            .pop()
        else {
            return Ok(None);
        };
        let read = |row: &Row<'_>| {
            let gone = Shortened {
                node,
                from_ms: number(row, "t0_ms")?,
                to_ms: number(row, "t1_ms")?,
                samples: number(row, "samples")?,
                collected: false,
            };
            Ok((number(row, "seq")?, gone))
        };
        let blocks = self
            .store
            .rows(FIRST_BLOCKS, params![node.0, BLOCKS], read)?;
        let Some((last_seq, mut gone)) = blocks.last().copied() else {
            return Ok(None);
        };
        gone.from_ms = blocks
            .iter()
            .map(|(_, block)| block.from_ms)
            .min()
            .unwrap_or(gone.from_ms);
        gone.samples = blocks.iter().map(|(_, block)| block.samples).sum();
        let collected = "SELECT 1 FROM live WHERE node = ?1 AND acknowledged_seq >= ?2";
        let sent = params![node.0, integer(last_seq)];
        gone.collected = self.store.finds(collected, sent)?;
        self.transact(Safety::Kill, |work| {
            let sql = "DELETE FROM block WHERE node = ?1 AND seq <= ?2";
            work.writer
                .execute(sql, params![node.0, integer(last_seq)])
                .map(drop)
        })?;
        Ok(Some(gone))
    }

    fn over(&self, sql: &str) -> Result<Vec<(RunId, u64)>, StoreError> {
        let read = |row: &Row<'_>| Ok((run_id(row)?, number(row, "heard_ms")?));
        self.store.rows(sql, [integer(BATCH as u64)], read)
    }
}
