//! What the database holds no longer.

use rusqlite::Row;

use super::{NodeStore, Safety};
use crate::job::RunId;
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
}

/// Runs of which nothing is live, and when they were last heard of.
const OVER: &str = "
    SELECT run_id, max(coalesce(node.ended_at_ms, node.updated_at_ms)) AS heard_ms
    FROM run JOIN attempt ON attempt.run = run.id JOIN node ON node.attempt = attempt.id
    GROUP BY run.id HAVING max(node.id IN (SELECT node FROM live)) = 0
    ORDER BY heard_ms, run_id LIMIT 1";

impl NodeStore {
    /// Forgets runs that are over, oldest first: those that ended more than `max_age_ms` before `now_ms`, and more until
    /// `max_bytes` suffice. Each goes in a transaction of its own. A live run never goes.
    ///
    /// # Errors
    /// As [`NodeStore::append`].
    pub fn retain(&mut self, now_ms: u64, max_age_ms: u64, max_bytes: u64) -> Result<Retained, StoreError> {
        let before_bytes = self.used_bytes()?;
        let mut retained = Retained { before_bytes, after_bytes: before_bytes, forgotten: Vec::new() };
        while let Some((run, heard_ms)) = self.oldest()? {
            if heard_ms >= now_ms.saturating_sub(max_age_ms) && retained.after_bytes <= max_bytes {
                break;
            }
            self.transact(Safety::Kill, |work| {
                work.writer.forget_run(&run)?;
                work.tails.clear();
                Ok(())
            })?;
            retained.forgotten.push(run);
            retained.after_bytes = self.used_bytes()?;
        }
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

    fn oldest(&self) -> Result<Option<(RunId, u64)>, StoreError> {
        let read = |row: &Row<'_>| Ok((run_id(row)?, unsigned(row, 1)?.unwrap_or(0)));
        Ok(self.store.rows(OVER, [], read)?.pop())
    }
}
