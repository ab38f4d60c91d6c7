//! Writing to the index, inside one transaction.

use std::path::Path;

use rusqlite::{OptionalExtension, Params, Row, Transaction, params_from_iter};
use serde_json::Value;

use super::error::{StoreError, StoreFault};
use super::sql::{ORIGIN_SEQ, column_value, version_order};
use crate::job::RunId;

/// Writes to the index, inside one transaction ([`super::Store::write`]).
#[derive(Debug)]
pub struct Writer<'a> {
    pub(super) transaction: &'a Transaction<'a>,
    pub(super) path: &'a Path,
}

/// When a row that exists takes the values of another. One that is as it was stays: it would count as a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replace<'a> {
    /// Always; these columns keep what they have where the new row has nothing.
    Keeping(&'a [&'a str]),
    /// The same, and its table leaves the numbers of changes to the writer.
    Numbered,
    /// Where the new row is not older.
    NotOlder,
}

impl Writer<'_> {
    pub(super) fn execute(&self, sql: &str, values: impl Params) -> Result<usize, StoreError> {
        let done = self
            .transaction
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute(values));
        done.map_err(|source| StoreError::from_sqlite(self.path, "write", source))
    }

    /// The first column of the first row.
    pub(super) fn select(&self, sql: &str, values: impl Params) -> Result<Option<i64>, StoreError> {
        self.first(sql, values, |row| row.get(0))
    }

    /// All rows of a question.
    pub(super) fn query<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let statement = self.transaction.prepare_cached(sql);
        let rows = statement.and_then(|mut statement| statement.query_map(values, read)?.collect());
        rows.map_err(|source| StoreError::from_sqlite(self.path, "read", source))
    }

    /// The first row of a question.
    pub(super) fn first<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        let statement = self.transaction.prepare_cached(sql);
        let found =
            statement.and_then(|mut statement| statement.query_row(values, read).optional());
        found.map_err(|source| StoreError::from_sqlite(self.path, "write", source))
    }

    /// Puts a row in, or in the place of the one that has the same in the columns of `key`. `false`: it was not written.
    pub(super) fn put(
        &self,
        table: &str,
        key: &[&str],
        values: &[(&str, Value)],
        replace: Replace<'_>,
    ) -> Result<bool, StoreError> {
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        let places: Vec<String> = (1..=names.len()).map(|at| format!("?{at}")).collect();
        let (mut set, mut old, mut new) = (Vec::new(), Vec::new(), Vec::new());
        for name in names.iter().copied().filter(|name| !key.contains(name)) {
            let value = match replace {
                Replace::Keeping(kept) if kept.contains(&name) => {
                    format!("coalesce(excluded.{name}, {name})")
                }
                _ => format!("excluded.{name}"),
            };
            set.push(format!("{name} = {value}"));
            old.push(name);
            new.push(value);
        }
        let mut when = format!("({}) IS NOT ({})", old.join(", "), new.join(", "));
        if names.contains(&ORIGIN_SEQ) {
            let (old, new) = (
                version_order(table, table),
                version_order(table, "excluded"),
            );
            when = format!("{old} < {new}");
        } else if replace == Replace::NotOlder {
            when += " AND updated_at_ms <= excluded.updated_at_ms";
        }
        let (number, next) = if replace == Replace::Numbered {
            set.push("change_seq = excluded.change_seq".to_owned());
            (", change_seq", ", last + 1")
        } else {
            ("", "")
        };
        let sql = format!(
            "INSERT INTO {table} ({}{number}) SELECT {}{next} FROM change WHERE true
             ON CONFLICT ({}) DO UPDATE SET {} WHERE {when}",
            names.join(", "),
            places.join(", "),
            key.join(", "),
            set.join(", "),
        );
        let values = values.iter().map(|(_, value)| column_value(value));
        Ok(self.execute(&sql, params_from_iter(values))? > 0)
    }

    pub(super) fn unknown(&self, run_id: &RunId) -> StoreError {
        let path = self.path.display();
        let message = format!("run `{run_id}` is not in the index `{path}`");
        StoreError::new(StoreFault::UnknownRun, message)
    }
}
