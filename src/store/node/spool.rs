//! The spool: samples that are in no block yet, a row each.

use std::path::Path;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, params};

use super::{NodeId, Work};
use crate::record::{RowCoder, RowLayout, Sample};
use crate::store::open::{Store, StoreError};
use crate::store::runs::unsigned;

/// The end of a node's spool, where the next row goes.
#[derive(Debug)]
pub(super) struct Tail {
    /// The last sample of the node, in the spool or before it; `None` where there is none.
    pub(super) last_at_ms: Option<u64>,
    /// Its rows, ascending.
    pub(super) rows: Vec<i64>,
    /// Knows the last row.
    pub(super) rows_coder: Rows,
}

/// Reads rows one after another, and can go on writing after the last.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// The id of the layout and what codes its rows.
    current: Option<(i64, RowCoder)>,
}

impl Rows {
    /// Decodes the next row.
    fn read(&mut self, connection: &Connection, columns: i64, bytes: &[u8]) -> rusqlite::Result<Sample> {
        if self.current.as_ref().is_none_or(|(id, _)| *id != columns) {
            let mut statement = connection.prepare_cached("SELECT names FROM spool_columns WHERE id = ?1")?;
            let names: String = statement.query_row([columns], |row| row.get(0))?;
            let layout: RowLayout = serde_json::from_str(&names).map_err(damaged)?;
            self.current = Some((columns, RowCoder::new(layout).map_err(damaged)?));
        }
        let (_, coder) = self.current.as_mut().expect("it was just set");
        coder.decode(bytes).map_err(damaged)
    }

    /// Encodes the next row; `None` where it needs another layout.
    pub(super) fn write(&mut self, sample: &Sample) -> Option<(i64, Vec<u8>)> {
        let (id, coder) = self.current.as_mut()?;
        Some((*id, coder.encode(sample)?))
    }

    /// Goes on with another layout.
    pub(super) fn turn_to(&mut self, id: i64, layout: RowLayout) -> rusqlite::Result<()> {
        self.current = Some((id, RowCoder::new(layout).map_err(damaged)?));
        Ok(())
    }
}

/// The samples in the spool of a node, with the ids of their rows.
pub(super) fn spooled(
    connection: &Connection,
    node: NodeId,
    rows: &mut Rows,
) -> rusqlite::Result<Vec<(i64, Sample)>> {
    let mut statement =
        connection.prepare_cached("SELECT id, columns, bytes FROM spool WHERE node = ?1 ORDER BY id")?;
    let mut found = statement.query([node.0])?;
    let mut samples = Vec::new();
    while let Some(row) = found.next()? {
        let sample = rows.read(connection, row.get(1)?, row.get_ref(2)?.as_blob()?)?;
        samples.push((row.get(0)?, sample));
    }
    Ok(samples)
}

impl Work<'_> {
    /// The tail of a node's spool; `None` where there is no such node.
    pub(super) fn tail(&mut self, node: NodeId) -> Result<Option<&mut Tail>, StoreError> {
        if !self.tails.contains_key(&node) {
            let Some(tail) = self.reading(|connection| load(connection, node))? else { return Ok(None) };
            self.tails.insert(node, tail);
        }
        Ok(self.tails.get_mut(&node))
    }

    /// The samples of these rows.
    pub(super) fn samples_of(&self, rows: &[i64]) -> Result<Vec<Sample>, StoreError> {
        self.reading(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT columns, bytes FROM spool WHERE id = ?1")?;
            let mut coder = Rows::default();
            let one = |id: &i64| {
                statement
                    .query_row([id], |row| coder.read(connection, row.get(0)?, row.get_ref(1)?.as_blob()?))
            };
            rows.iter().map(one).collect()
        })
    }

    pub(super) fn reading<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        read(self.writer.transaction).map_err(|source| of_spool(self.writer.path, source))
    }
}

impl Store {
    pub(super) fn reading<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        read(&self.connection).map_err(|source| of_spool(&self.path, source))
    }
}

fn load(connection: &Connection, node: NodeId) -> rusqlite::Result<Option<Tail>> {
    let known = "SELECT last_at_ms FROM node LEFT JOIN live ON live.node = node.id WHERE node.id = ?1";
    let last = connection.query_row(known, params![node.0], |row| unsigned(row, 0)).optional()?;
    let Some(folded_at_ms) = last else { return Ok(None) };
    let mut rows_coder = Rows::default();
    let samples = spooled(connection, node, &mut rows_coder)?;
    let last_at_ms = samples.last().map(|(_, sample)| sample.at_ms).or(folded_at_ms);
    Ok(Some(Tail { last_at_ms, rows: samples.into_iter().map(|(id, _)| id).collect(), rows_coder }))
}

/// What cannot be decoded was not written so.
fn of_spool(path: &Path, source: rusqlite::Error) -> StoreError {
    match source {
        rusqlite::Error::FromSqlConversionFailure(..) => {
            StoreError::Damaged { path: path.to_owned(), source }
        }
        source => StoreError::of(path, "read", source),
    }
}

/// An error for bytes of the database that make no sense.
pub(super) fn undecodable(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    of_spool(path, damaged(error))
}

/// For what was found in the database and makes no sense.
pub(super) fn damaged(error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Blob, Box::new(error))
}
