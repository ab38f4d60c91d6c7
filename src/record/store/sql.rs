//! SQL by the columns of tables, and its values as those of records.

use rusqlite::Row;
use rusqlite::types::{Type, Value as Column, ValueRef};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::job::RunId;
use crate::record::table::Cells;
use crate::record::{Event, EventKind, Field, FieldType, MeasureKey};

/// A number as SQLite holds it; what is beyond its 63 bits becomes the largest.
pub(super) fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn optional(value: Option<u64>) -> Option<i64> {
    value.map(integer)
}

/// A number that was stored by [`integer`].
pub(super) fn unsigned(
    row: &Row<'_>,
    column: impl rusqlite::RowIndex,
) -> rusqlite::Result<Option<u64>> {
    let value: Option<i64> = row.get(column)?;
    Ok(value.map(|value| u64::try_from(value).unwrap_or(0)))
}

/// As [`unsigned`], of a column that is never null.
pub(super) fn number(row: &Row<'_>, column: impl rusqlite::RowIndex) -> rusqlite::Result<u64> {
    Ok(unsigned(row, column)?.unwrap_or(0))
}

/// The value of a word; one of a later dlrun is unknown here.
pub(super) fn word<T: DeserializeOwned>(
    row: &Row<'_>,
    column: impl rusqlite::RowIndex,
) -> rusqlite::Result<Option<T>> {
    let word: Option<String> = row.get(column)?;
    Ok(word.and_then(|word| serde_json::from_value(word.into()).ok()))
}

/// What is stored as JSON; what a newer dlrun may write there is passed over.
pub(super) fn from_json<T: DeserializeOwned>(
    row: &Row<'_>,
    column: impl rusqlite::RowIndex,
) -> rusqlite::Result<Option<T>> {
    let text: Option<String> = row.get(column)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// An event of the columns `at_ms`, `kind` and `detail`.
pub(super) fn event(row: &Row<'_>) -> rusqlite::Result<Event> {
    Ok(Event {
        at_ms: number(row, "at_ms")?,
        // A kind of a later dlrun is a note here.
        kind: word(row, "kind")?.unwrap_or(EventKind::Note),
        detail: row.get("detail")?,
    })
}

/// A run id in the column `run_id`.
pub(super) fn run_id(row: &Row<'_>) -> rusqlite::Result<RunId> {
    let text: String = row.get("run_id")?;
    text.parse().map_err(damaged)
}

/// For what was found in the database and makes no sense.
pub(super) fn damaged(error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Blob, Box::new(error))
}

/// A value of a record as a column holds it.
pub(super) fn column_value(value: &Value) -> Column {
    match value {
        Value::Null => Column::Null,
        Value::Bool(flag) => Column::Integer(i64::from(*flag)),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(whole), ..) => Column::Integer(whole),
            (None, Some(_), _) => Column::Integer(i64::MAX),
            (None, None, real) => real.map_or(Column::Null, Column::Real),
        },
        Value::String(text) => Column::Text(text.clone()),
        Value::Array(_) | Value::Object(_) => Column::Text(value.to_string()),
    }
}

/// A column as a value of a record.
fn record_value(of: FieldType, column: ValueRef<'_>) -> Value {
    match (of, column) {
        (FieldType::Text, ValueRef::Text(bytes)) => String::from_utf8_lossy(bytes).into(),
        (FieldType::Json, ValueRef::Text(bytes)) => {
            serde_json::from_slice(bytes).unwrap_or_default()
        }
        (FieldType::Whole, ValueRef::Integer(number)) => number.into(),
        (FieldType::Flag, ValueRef::Integer(number)) => (number != 0).into(),
        (FieldType::Real, ValueRef::Real(number)) => number.into(),
        _ => Value::Null,
    }
}

/// Which columns of a table a record is made of.
fn is_read(field: &Field) -> bool {
    field.object.is_some() && !field.sql.is_empty()
}

/// What a query selects for [`cells`].
pub(super) fn selected(fields: &[Field]) -> String {
    let columns: Vec<&str> = fields
        .iter()
        .filter(|field| is_read(field))
        .map(|field| field.sql)
        .collect();
    columns.join(", ")
}

/// The values of a row that begins with what [`selected`] names.
pub(super) fn cells(fields: &[Field], row: &Row<'_>) -> rusqlite::Result<Cells> {
    let read = fields.iter().filter(|field| is_read(field)).enumerate();
    read.map(|(at, field)| {
        let value = record_value(field.of, row.get_ref(at)?);
        Ok((field.name.to_owned(), value))
    })
    .collect()
}

/// How the rows of each measurement are joined with the key of that.
pub(super) const OF_RUN: &str =
    "JOIN attempt ON node.attempt = attempt.id JOIN run ON attempt.run = run.id";

/// The names of a measurement's key as the parameters of a query.
pub(super) const OF_KEY: &str = "run.run_id = ?1 AND attempt.element = ?2 AND attempt.attempt = ?3 AND node.node = ?4 AND node.step = ?5";

/// What [`OF_KEY`] wants.
pub(super) fn key_values(key: &MeasureKey) -> (&str, u32, u32, &str, u32) {
    (
        key.run_id.as_str(),
        key.element,
        key.attempt,
        &key.node,
        key.step,
    )
}

/// The column of a row's number in the database that it comes from.
pub(super) const ORIGIN_SEQ: &str = "origin_seq";

/// What decides which of two versions of an imported row stays, the larger: a finished run before a running one, a user's index, which
/// knows what the scheduler reported, before a node's database, of two nodes the one that saw a failure; then the row's number.
pub(super) fn version_order(table: &str, of: &str) -> String {
    match table {
        "run" => format!(
            "({of}.state NOT IN ('pending', 'running', 'suspended', 'unknown'), {of}.uid IS NULL,
              {of}.uid IS NOT NULL AND {of}.state <> 'completed', {of}.origin_seq)"
        ),
        "node" => format!("({of}.state <> 'running', {of}.origin_seq)"),
        // Measurements tell times of their start, and nodes know nothing else of it.
        "attempt" => format!(
            "({of}.record ->> '$.end' IS NOT NULL, {of}.record IS NOT NULL, coalesce({of}.origin_seq, -1))"
        ),
        _ => format!("{of}.origin_seq"),
    }
}
