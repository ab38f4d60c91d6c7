//! What the database holds no longer.

use rusqlite::Row;

use super::{NodeStore, Safety};
use crate::job::RunId;
use crate::store::integer;
use crate::store::open::StoreError;
use crate::store::runs::{run_id, unsigned};

/// What went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Retained {
    /// The runs that were forgotten, oldest first.
    pub forgotten: Vec<RunId>,
    /// Bytes in use before.
    pub before_bytes: u64,
    /// Bytes in use after; more than was asked for where live runs need them.
    pub after_bytes: u64,
    /// There may be more to forget: ask again.
    pub more: bool,
}

/// Runs that are forgotten at once; samples wait meanwhile.
const BATCH: usize = 32;

/// Runs of which nothing is live, and when they were last heard of, oldest first.
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

impl NodeStore {
    /// Forgets runs that are over: those that ended more than `max_age_ms` before `now_ms`, oldest first, then more until
    /// `max_bytes` suffice, of the user who has most. Each goes in a transaction of its own, and no more than some at once.
    /// A live run never goes.
    ///
    /// # Errors
    /// As [`NodeStore::append`].
    pub fn retain(&mut self, now_ms: u64, max_age_ms: u64, max_bytes: u64) -> Result<Retained, StoreError> {
        let before_bytes = self.used_bytes()?;
        let mut retained = Retained { before_bytes, after_bytes: before_bytes, ..Retained::default() };
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
        retained.more = retained.forgotten.len() >= BATCH;
        if !retained.forgotten.is_empty() {
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
        done.map_err(|source| StoreError::of(&self.store.path, "write", source))
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

    fn over(&self, sql: &str) -> Result<Vec<(RunId, u64)>, StoreError> {
        let read = |row: &Row<'_>| Ok((run_id(row)?, unsigned(row, 1)?.unwrap_or(0)));
        self.store.rows(sql, [integer(BATCH as u64)], read)
    }
}
