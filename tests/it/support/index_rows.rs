//! Rows of a database that dlrun writes for others and does not read itself: blocks of samples.

use dlrun::record::MeasureKey;
use dlrun::record::store::Store;
use rusqlite::{Connection, Params, Row, params};

/// A segment of samples as it was taken in.
pub(crate) struct Block {
    pub(crate) seq: u32,
    pub(crate) samples: u32,
    pub(crate) bytes: Vec<u8>,
}

const OF_KEY: &str = "JOIN attempt ON node.attempt = attempt.id JOIN run ON attempt.run = run.id
    WHERE run.run_id = ?1 AND attempt.element = ?2 AND attempt.attempt = ?3 AND node.node = ?4 AND node.step = ?5";

/// The segments of a measurement, ascending.
pub(crate) fn blocks(store: &Store, key: &MeasureKey) -> Vec<Block> {
    let sql = format!(
        "SELECT seq, block.samples AS samples, bytes FROM block JOIN node ON block.node = node.id {OF_KEY} ORDER BY seq"
    );
    let of_key = params![
        key.run_id.as_str(),
        key.element,
        key.attempt,
        key.node,
        key.step
    ];
    rows(store, &sql, of_key, |row| {
        Ok(Block {
            seq: row.get("seq")?,
            samples: row.get("samples")?,
            bytes: row.get("bytes")?,
        })
    })
}

fn rows<T>(
    store: &Store,
    sql: &str,
    values: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Vec<T> {
    let connection = Connection::open(store.path()).expect("opened");
    let mut statement = connection.prepare(sql).expect("a query");
    let rows = statement.query_map(values, read).expect("asked");
    rows.collect::<rusqlite::Result<_>>().expect("read")
}
