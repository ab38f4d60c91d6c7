//! The spool: samples that are in no block yet, a row each.

use rusqlite::{Connection, OptionalExtension, params};

use super::{NodeId, NodeStore, Safety, Work};
use crate::record::store::error::StoreError;
use crate::record::store::open::Store;
use crate::record::store::sql::{damaged, unsigned};
use crate::record::{Sample, decode_row, encode_row};

/// The end of a node's spool, where the next row goes.
#[derive(Debug)]
pub(super) struct Tail {
    /// The last sample of the node, in the spool or before it; `None` where there is none.
    pub(super) last_at_ms: Option<u64>,
    /// Its rows, ascending.
    pub(super) rows: Vec<i64>,
}

impl NodeStore {
    /// Takes the samples of a tick in, in one transaction: all of them, or none where it fails. One of the same time as the
    /// last of its node changes nothing, nor does one of a node that does not exist (any more). A killed process loses
    /// nothing of it, a power failure may.
    ///
    /// # Errors
    /// `StoreFault::Full`, `StoreFault::Query`, `StoreFault::Damaged`. The store can be used on.
    pub fn append(&mut self, tick: &[(NodeId, &Sample)]) -> Result<(), StoreError> {
        if tick.is_empty() {
            return Ok(());
        }
        self.transact(Safety::Kill, |work| {
            tick.iter()
                .try_for_each(|(node, sample)| work.spool(*node, sample))
        })
    }
}

impl Work<'_> {
    fn spool(&mut self, node: NodeId, sample: &Sample) -> Result<(), StoreError> {
        let writer = self.writer;
        let Some(tail) = self
            .tail(node)?
            .filter(|tail| tail.last_at_ms != Some(sample.at_ms))
        else {
            return Ok(());
        };
        let insert = "INSERT INTO spool (node, columns, bytes) VALUES (?1, 0, ?2)";
        writer.execute(insert, params![node.0, encode_row(sample)])?;
        tail.rows.push(writer.transaction.last_insert_rowid());
        tail.last_at_ms = Some(sample.at_ms);
        Ok(())
    }

    /// The end of a node's spool; `None` where the node does not exist (any more).
    pub(super) fn tail(&mut self, node: NodeId) -> Result<Option<&mut Tail>, StoreError> {
        if !self.tails.contains_key(&node) {
            let loaded = load(self.writer.transaction, node);
            let Some(tail) = loaded
                .map_err(|source| StoreError::from_sqlite(self.writer.path, "read", source))?
            else {
                return Ok(None);
            };
            self.tails.insert(node, tail);
        }
        Ok(self.tails.get_mut(&node))
    }

    /// The samples of these rows.
    pub(super) fn samples_of(&self, rows: &[i64]) -> Result<Vec<Sample>, StoreError> {
        let connection = self.writer.transaction;
        let found = connection
            .prepare_cached("SELECT bytes FROM spool WHERE id = ?1")
            .and_then(|mut statement| {
                let read = rows.iter().map(|id| statement.query_row([id], sample));
                read.collect()
            });
        found.map_err(|source| StoreError::from_sqlite(self.writer.path, "read", source))
    }
}

impl Store {
    pub(super) fn reading<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        read(&self.connection).map_err(|source| StoreError::from_sqlite(&self.path, "read", source))
    }
}

pub(super) fn sample(row: &rusqlite::Row<'_>) -> rusqlite::Result<Sample> {
    decode_row(row.get_ref("bytes")?.as_blob()?).map_err(damaged)
}

/// Reads the spool of a node; `None` where the node does not exist.
pub(super) fn load(connection: &Connection, node: NodeId) -> rusqlite::Result<Option<Tail>> {
    // A run that is not live any more has its last block.
    let known = "
        SELECT coalesce(last_at_ms, (SELECT t1_ms FROM block WHERE block.node = node.id ORDER BY seq DESC LIMIT 1))
        FROM node LEFT JOIN live ON live.node = node.id WHERE node.id = ?1";
    let folded = connection
        .query_row(known, [node.0], |row| unsigned(row, 0))
        .optional()?;
    let Some(mut last_at_ms) = folded else {
        return Ok(None);
    };
    let mut statement =
        connection.prepare_cached("SELECT id, bytes FROM spool WHERE node = ?1 ORDER BY id")?;
    let mut found = statement.query([node.0])?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        rows.push(row.get(0)?);
        last_at_ms = Some(sample(row)?.at_ms);
    }
    Ok(Some(Tail { last_at_ms, rows }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::store::node::open::tests::with_node;

    fn sample(at_ms: u64) -> Sample {
        Sample::from_values(at_ms, std::array::from_fn(|_| Some(at_ms << 40)))
    }

    #[test]
    fn a_full_disk_takes_nothing_and_later_all_goes_on() {
        let (_tmp, mut store, node) = with_node();
        store.append(&[(node, &sample(1))]).expect("there is room");
        // The limit may be no less than what there is.
        store.pragma("PRAGMA max_page_count = 1").expect("set");
        let tick: Vec<Sample> = (2..500).map(sample).collect();
        let tick: Vec<_> = tick.iter().map(|sample| (node, sample)).collect();
        for _ in 0..2 {
            let full = store.append(&tick);
            assert!(
                matches!(full, Err(ref error) if error.kind == crate::record::store::StoreFault::Full),
                "{full:?}"
            );
            assert_eq!(store.read_samples(node, 0).expect("read"), [sample(1)]);
        }
        store.pragma("PRAGMA max_page_count = 100000").expect("set");
        store.append(&tick).expect("there is room again");
        store.fold(&[node]).expect("folded");
        let all: Vec<Sample> = (1..500).map(sample).collect();
        assert_eq!(store.read_samples(node, 0).expect("read"), all);
    }

    #[test]
    fn samples_of_nobody_are_passed_over() {
        let (_tmp, mut store, node) = with_node();
        let nobody = NodeId(node.0 + 1);
        store
            .append(&[(nobody, &sample(1)), (node, &sample(1))])
            .expect("appended");
        assert_eq!(store.read_samples(node, 0).expect("read").len(), 1);
        assert_eq!(store.read_samples(nobody, 0).expect("read"), []);
    }
}
