//! The spool: samples that are in no block yet, a row each.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension};

use super::{NodeId, Work};
use crate::record::store::error::StoreError;
use crate::record::store::open::Store;
use crate::record::store::sql::{damaged, unsigned};
use crate::record::{RowCoder, RowLayout, Sample};

/// The end of a node's spool, where the next row goes.
#[derive(Debug)]
pub(super) struct Tail {
    /// The last sample of the node, in the spool or before it; `None` where there is none.
    pub(super) last_at_ms: Option<u64>,
    /// Its rows, ascending.
    pub(super) rows: Vec<i64>,
    /// Knows the last row.
    pub(super) coder: Rows,
}

/// Reads rows one after another, and can go on writing after the last.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// The id of the layout and what codes its rows.
    current: Option<(i64, RowCoder)>,
}

impl Rows {
    /// Decodes the next row.
    fn read(
        &mut self,
        connection: &Connection,
        columns: i64,
        bytes: &[u8],
    ) -> rusqlite::Result<Sample> {
        if self.current.as_ref().is_none_or(|(id, _)| *id != columns) {
            let mut statement =
                connection.prepare_cached("SELECT names FROM spool_columns WHERE id = ?1")?;
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

/// Shows each sample in the spool of a node, with the id of its row.
pub(super) fn each_spooled(
    connection: &Connection,
    node: NodeId,
    rows: &mut Rows,
    mut show: impl FnMut(i64, Sample),
) -> rusqlite::Result<()> {
    let mut statement = connection
        .prepare_cached("SELECT id, columns, bytes FROM spool WHERE node = ?1 ORDER BY id")?;
    let mut found = statement.query([node.0])?;
    while let Some(row) = found.next()? {
        show(
            row.get(0)?,
            rows.read(connection, row.get(1)?, row.get_ref(2)?.as_blob()?)?,
        );
    }
    Ok(())
}

impl Work<'_> {
    /// The tail of a node's spool; `None` where there is no such node.
    pub(super) fn tail(&mut self, node: NodeId) -> Result<Option<&mut Tail>, StoreError> {
        if !self.tails.contains_key(&node) {
            let Some(tail) = self.reading(|connection| load(connection, node))? else {
                return Ok(None);
            };
            self.tails.insert(node, tail);
        }
        Ok(self.tails.get_mut(&node))
    }

    /// The samples of these rows, which come after those that `coder` read before.
    pub(super) fn samples_of(
        &self,
        rows: &[i64],
        coder: &mut Rows,
    ) -> Result<Vec<Sample>, StoreError> {
        self.reading(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT columns, bytes FROM spool WHERE id = ?1")?;
            let one = |id: &i64| {
                statement.query_row([id], |row| {
                    coder.read(connection, row.get(0)?, row.get_ref(1)?.as_blob()?)
                })
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

/// The tail of a node's spool, read anew; `None` where there is no such node.
pub(super) fn load(connection: &Connection, node: NodeId) -> rusqlite::Result<Option<Tail>> {
    // A run that is not live any more has its last block.
    let known = "
        SELECT coalesce(last_at_ms, (SELECT t1_ms FROM block WHERE block.node = node.id ORDER BY seq DESC LIMIT 1))
        FROM node LEFT JOIN live ON live.node = node.id WHERE node.id = ?1";
    let folded = connection
        .query_row(known, [node.0], |row| unsigned(row, 0))
        .optional()?;
    let Some(last_at_ms) = folded else {
        return Ok(None);
    };
    let mut tail = Tail {
        last_at_ms,
        rows: Vec::new(),
        coder: Rows::default(),
    };
    each_spooled(connection, node, &mut tail.coder, |id, sample| {
        tail.rows.push(id);
        tail.last_at_ms = Some(sample.at_ms);
    })?;
    Ok(Some(tail))
}

/// What cannot be decoded was not written so.
fn of_spool(path: &Path, source: rusqlite::Error) -> StoreError {
    match source {
        rusqlite::Error::FromSqlConversionFailure(..) => StoreError::Damaged {
            path: path.to_owned(),
            source,
        },
        source => StoreError::of(path, "read", source),
    }
}

/// An error for bytes of the database that make no sense.
pub(super) fn undecodable(
    path: &Path,
    error: impl std::error::Error + Send + Sync + 'static,
) -> StoreError {
    of_spool(path, damaged(error))
}
