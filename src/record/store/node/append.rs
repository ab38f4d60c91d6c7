//! Samples of a tick into the spool.

use rusqlite::params;

use super::{NodeId, NodeStore, Safety, Work};
use crate::record::store::error::StoreError;
use crate::record::{RowLayout, Sample};

impl NodeStore {
    /// Takes the samples of a tick in, in one transaction: all of them, or none where it fails. One of the same time as the
    /// last of its node changes nothing, nor does one of a node that is not there (any more). A killed process loses
    /// nothing of it, a power failure may.
    ///
    /// # Errors
    /// [`StoreError::Full`], [`StoreError::Query`], [`StoreError::Damaged`]. The store can be used on.
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
        let row = match tail.coder.write(sample) {
            Some(row) => Some(row),
            None => {
                let layout = RowLayout::of(sample);
                let names = serde_json::to_string(&layout).expect("names and numbers");
                writer.execute(
                    "INSERT INTO spool_columns (node, names) VALUES (?1, ?2)",
                    params![node.0, names],
                )?;
                let turned = tail
                    .coder
                    .turn_to(writer.transaction.last_insert_rowid(), layout);
                turned.map_err(|source| StoreError::of(writer.path, "write", source))?;
                tail.coder.write(sample)
            }
        };
        let (columns, bytes) = row.expect("the layout is that of the sample");
        let insert = "INSERT INTO spool (node, columns, bytes) VALUES (?1, ?2, ?3)";
        writer.execute(insert, params![node.0, columns, bytes])?;
        tail.rows.push(writer.transaction.last_insert_rowid());
        tail.last_at_ms = Some(sample.at_ms);
        Ok(())
    }
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
            assert!(matches!(full, Err(StoreError::Full { .. })), "{full:?}");
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
