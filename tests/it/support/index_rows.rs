//! Rows of a database that dlrun writes for others and does not read itself: blocks of samples and roll-ups.

use dlrun::record::MeasureKey;
use dlrun::record::store::Store;
use rusqlite::{Connection, Params, Row, params};

/// A segment of samples as it was taken in.
pub(crate) struct Block {
    pub(crate) seq: u32,
    pub(crate) samples: u32,
    pub(crate) bytes: Vec<u8>,
}

/// A series over one span of time, in few figures.
pub(crate) struct Rollup {
    pub(crate) series: String,
    pub(crate) t0_ms: u64,
    pub(crate) samples: u64,
    pub(crate) minimum: u64,
    pub(crate) maximum: u64,
    pub(crate) sum: f64,
    pub(crate) last: u64,
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

/// The series of a measurement over each 60 s or 3600 s, by time.
pub(crate) fn rollups(store: &Store, key: &MeasureKey, span_seconds: u32) -> Vec<Rollup> {
    let sql = format!(
        "SELECT series.name AS name, t0_ms, rollup.samples AS samples, minimum, maximum, sum, last
         FROM rollup JOIN series ON rollup.series = series.id JOIN node ON rollup.node = node.id {OF_KEY}
         AND span_seconds = ?6 ORDER BY t0_ms, rollup.series"
    );
    let of_key = params![
        key.run_id.as_str(),
        key.element,
        key.attempt,
        key.node,
        key.step,
        span_seconds
    ];
    let number = |row: &Row<'_>, name: &str| {
        let value: i64 = row.get(name)?;
        Ok::<_, rusqlite::Error>(u64::try_from(value).expect("not negative"))
    };
    rows(store, &sql, of_key, |row| {
        Ok(Rollup {
            series: row.get("name")?,
            t0_ms: number(row, "t0_ms")?,
            samples: number(row, "samples")?,
            minimum: number(row, "minimum")?,
            maximum: number(row, "maximum")?,
            sum: row.get("sum")?,
            last: number(row, "last")?,
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
