//! Taking in rows that another database exported.
//!
//! Files may come in any order, and more than once: of two versions of a row the one with the larger number stays. A run that has its
//! own directory here is left alone. Rows that come before what they belong to (an epoch is exported when it ends, its run when
//! that is over) wait in a table of their own.

use std::collections::HashSet;

use rusqlite::params;

use super::error::StoreError;
use super::open::Store;
use super::sql::{ORIGIN_SEQ, integer};
use super::views;
use super::writer::{Replace, Writer};
use crate::job::RunId;
use crate::record::table::imported_values;
use crate::record::{Event, Incoming, Measurement, Table};

/// What became of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is new, or replaces an older version.
    New,
    /// This version, or a newer one, is known.
    Known,
    /// Its run is one of this state directory's own, which knows better.
    Own,
    /// What it belongs to did not come yet.
    Waits,
    /// Samples are not imported.
    Skipped,
}

impl Store {
    /// The names of the imports that the index took in.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn known_imports(&self) -> Result<HashSet<String>, StoreError> {
        Ok(self
            .rows("SELECT name FROM import", [], |row| row.get(0))?
            .into_iter()
            .collect())
    }

    /// Says whether a run came from another database.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn is_imported(&self, run_id: &RunId) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM run WHERE run_id = ?1 AND origin IS NOT NULL";
        self.finds(sql, [run_id.as_str()])
    }

    /// Says whether the database is a node daemon's: those have a journal that others may read beside.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn is_of_a_node(&self) -> Result<bool, StoreError> {
        let journal = self.rows("PRAGMA journal_mode", [], |row| row.get::<_, String>(0))?;
        Ok(journal.first().is_some_and(|mode| mode == "wal"))
    }
}

impl Writer<'_> {
    /// Notes that an import of this name was taken in.
    ///
    /// # Errors
    /// `StoreFault::Query` and what the disk adds to it.
    pub fn note_import(&self, name: &str, at_ms: u64, rows: u64) -> Result<(), StoreError> {
        let sql = "INSERT OR IGNORE INTO import (name, at_ms, lines) VALUES (?1, ?2, ?3)";
        self.execute(sql, params![name, integer(at_ms), integer(rows)])
            .map(drop)
    }

    /// Forgets a run that was imported, since it has its own directory now.
    ///
    /// # Errors
    /// `StoreFault::Query` and what the disk adds to it.
    pub fn forget_imported(&self, run_id: &RunId) -> Result<(), StoreError> {
        self.execute(
            "DELETE FROM run WHERE run_id = ?1 AND origin IS NOT NULL",
            [run_id.as_str()],
        )?;
        self.execute("DELETE FROM waiting WHERE run_id = ?1", [run_id.as_str()])
            .map(drop)
    }

    /// Takes a row in; `line` is what it was read from, and is kept where the row has to wait.
    ///
    /// # Errors
    /// `StoreFault::Query` and what the disk adds to it.
    pub fn import(&self, row: &Incoming, line: &str) -> Result<Taken, StoreError> {
        let taken = self.place(row)?;
        if taken == Taken::Waits {
            let sql = "INSERT OR IGNORE INTO waiting (run_id, measure, line) VALUES (?1, '', ?2)";
            let is_new = self.execute(sql, params![row.key.run_id.as_str(), line])? > 0;
            return Ok(if is_new { Taken::Waits } else { Taken::Known });
        }
        Ok(taken)
    }

    /// Takes a row in where what it belongs to is known.
    fn place(&self, row: &Incoming) -> Result<Taken, StoreError> {
        let sql = "SELECT origin IS NOT NULL FROM run WHERE run_id = ?1";
        let known = self.select(sql, [row.key.run_id.as_str()])?;
        let is_new = match (row.table, known) {
            (_, Some(0)) => return Ok(Taken::Own),
            (Table::Samples | Table::GpuSamples | Table::ProcessSamples, _) => {
                return Ok(Taken::Skipped);
            }
            (Table::Runs, _) => {
                let kept = Replace::Keeping(&["job_id", "output", "parts"]);
                let values = self.imported_values(row, "run")?;
                self.put("run", &["run_id"], &values, kept)?
            }
            (_, None) => return Ok(Taken::Waits),
            (Table::Attempts, _) => {
                let (key, values) = (&row.key, self.imported_values(row, "attempt")?);
                self.put_attempt((&key.run_id, key.element, key.attempt), values)?
            }
            (Table::Usage, _) => self.import_usage(row)?,
            (table, _) => {
                let Some(node) = self.node_of(&row.key)? else {
                    return Ok(Taken::Waits);
                };
                match row.record::<Event>() {
                    Ok(event) if table == Table::Events => self.add_new_event(node, &event)?,
                    _ => self.put_part(node, table, self.imported_values(row, table.kind())?)?,
                }
            }
        };
        if is_new && matches!(row.table, Table::Runs | Table::Usage) {
            views::settle(self, &row.key.run_id)?;
        }
        Ok(if is_new { Taken::New } else { Taken::Known })
    }

    /// Takes in the waiting rows whose run or measurement came since. Returns how many of those that began to wait after row `after`.
    ///
    /// # Errors
    /// As [`Writer::import`].
    pub fn import_waiting(&self, after: i64) -> Result<u64, StoreError> {
        // A few at a time: a line may have a mebibyte. By another index each query would read and sort all of them.
        let sql =
            "SELECT id, line FROM waiting NOT INDEXED WHERE id > ?1 AND run_id IN (SELECT run_id FROM run)
            ORDER BY id LIMIT 500";
        let (mut imported, mut last, mut placed) = (0, 0, false);
        loop {
            let waiting: Vec<(i64, String)> =
                self.query(sql, [last], |row| Ok((row.get(0)?, row.get(1)?)))?;
            match waiting.last() {
                Some((id, _)) => last = *id,
                // A row that was placed may be what another one waits for.
                None if placed => (last, placed) = (0, false),
                None => return Ok(imported),
            }
            for (id, line) in waiting {
                // It was read when it came.
                let row = Incoming::read(line.as_bytes()).ok();
                let taken = row.map(|row| self.place(&row)).transpose()?;
                if taken != Some(Taken::Waits) {
                    self.execute("DELETE FROM waiting WHERE id = ?1", [id])?;
                    imported += u64::from(id > after);
                    placed = true;
                }
            }
        }
    }

    /// The last row that waits.
    ///
    /// # Errors
    /// `StoreFault::Query` and what the disk adds to it.
    pub fn last_waiting(&self) -> Result<i64, StoreError> {
        let last = self.select("SELECT max(id) FROM waiting HAVING max(id) IS NOT NULL", [])?;
        Ok(last.unwrap_or(0))
    }

    fn import_usage(&self, row: &Incoming) -> Result<bool, StoreError> {
        let Ok(usage) = row.record::<Measurement>() else {
            return Ok(false);
        };
        let (key, record) = (&row.key, &usage.record);
        let attempt = self.attempt_row(&key.run_id, key.element, key.attempt)?;
        self.put_marks((&key.run_id, key.element, key.attempt), &usage.attempt)?;
        if let Some(figures) = &usage.figures {
            self.put_figures(&record.host, figures)?;
        }
        let values = self.imported_values(row, "node")?;
        if !self.put_node(attempt, key, &record.host, values)? {
            return Ok(false);
        }
        let Some(node) = self.node_of(key)? else {
            return Ok(false);
        };
        self.replace_usage(node, record)?;
        self.replace_holes(node, record)?;
        Ok(true)
    }

    /// Events never change, and databases number those that they know: the same event has another place in another one.
    fn add_new_event(&self, node: i64, event: &Event) -> Result<bool, StoreError> {
        let same =
            "SELECT 1 FROM event WHERE node = ?1 AND at_ms = ?2 AND kind = ?3 AND detail = ?4";
        let (at_ms, kind) = (integer(event.at_ms), event.kind.as_str());
        let known = self.select(same, params![node, at_ms, kind, event.detail])?;
        if known.is_none() {
            self.add_event(node, event)?;
        }
        Ok(known.is_none())
    }

    /// The values of a row for a table of the index, and where they come from.
    fn imported_values(
        &self,
        row: &Incoming,
        stored_in: &str,
    ) -> Result<Vec<(&'static str, serde_json::Value)>, StoreError> {
        let version = &row.version;
        self.execute(
            "INSERT OR IGNORE INTO origin (store) VALUES (?1)",
            [&version.store],
        )?;
        let sql = "SELECT id FROM origin WHERE store = ?1";
        let origin = self.select(sql, [&version.store])?;
        let mut values = imported_values(row.table, stored_in, &row.cells);
        values.extend([("origin", origin.into()), (ORIGIN_SEQ, version.seq.into())]);
        Ok(values)
    }
}
