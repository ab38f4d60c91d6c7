//! What was recorded of a run: in its directory, and in a node's database.

use std::fs;
use std::path::{Path, PathBuf};

use dlrun::record::{EventKind, NodeRecord, Sample, decode_segment};
use rusqlite::types::Value;

/// All files below a directory, in order.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let mut found: Vec<_> = entries
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect();
    found.sort();
    found
}

/// The record of the only node of a run, or of the first one below `dir`.
pub(crate) fn record(dir: &Path) -> Option<NodeRecord> {
    let path = files(dir)
        .into_iter()
        .find(|path| path.ends_with("record.json"))?;
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// The samples below `dir`, in the order of their files.
pub(crate) fn series(dir: &Path) -> Vec<Sample> {
    let segments = files(dir)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "seg"));
    let read = |path| decode_segment(&fs::read(path).expect("a file")).expect("a segment");
    segments.flat_map(read).collect()
}

/// True once the record says that a daemon watches.
pub(crate) fn is_adopted(dir: &Path) -> bool {
    record(dir).is_some_and(|record| {
        record
            .events
            .iter()
            .any(|event| event.kind == EventKind::Adopted)
    })
}

/// The longest time between two samples, in ms.
pub(crate) fn longest_hole(samples: &[Sample]) -> u64 {
    let mut times: Vec<u64> = samples.iter().map(|sample| sample.at_ms).collect();
    times.sort_unstable();
    times
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .max()
        .unwrap_or(0)
}

/// Rows of a database, values as text.
#[track_caller]
pub(crate) fn rows(database: &Path, sql: &str) -> Vec<Vec<String>> {
    let connection = rusqlite::Connection::open(database).expect("a database");
    let mut statement = connection.prepare(sql).expect("a statement");
    let columns = statement.column_count();
    let text = |value: Value| match value {
        Value::Integer(value) => value.to_string(),
        Value::Real(value) => value.to_string(),
        Value::Text(value) => value,
        Value::Null | Value::Blob(_) => String::new(),
    };
    let row = |row: &rusqlite::Row<'_>| (0..columns).map(|at| row.get(at).map(text)).collect();
    statement
        .query_map([], row)
        .expect("rows")
        .collect::<Result<_, _>>()
        .expect("text")
}
