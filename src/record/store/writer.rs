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

/// When a row that is there takes the values of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replace<'a> {
    /// Always; these columns keep what they have where the new row has nothing.
    Keeping(&'a [&'a str]),
    /// Where it is as it was it stays: it would count as a change.
    Different,
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

    /// Puts a row in, or in the place of the one that has the same in the columns of `key`. `None`: it was not written. Returns
    /// its `id` where `replace` is [`Replace::NotOlder`].
    pub(super) fn put(
        &self,
        table: &str,
        key: &[&str],
        values: &[(&str, Value)],
        replace: Replace<'_>,
    ) -> Result<Option<i64>, StoreError> {
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        let places: Vec<String> = (1..=names.len()).map(|at| format!("?{at}")).collect();
        let is_other = |name: &&str| !key.contains(name);
        let others: Vec<&str> = names.iter().copied().filter(is_other).collect();
        let set = others.iter().map(|name| match replace {
            Replace::Keeping(kept) if kept.contains(name) => {
                format!("{name} = coalesce(excluded.{name}, {name})")
            }
            _ => format!("{name} = excluded.{name}"),
        });
        let mut set: Vec<String> = set.collect();
        let is_numbered = replace == Replace::Numbered;
        if is_numbered {
            set.push("change_seq = excluded.change_seq".to_owned());
        }
        let is_imported = names.contains(&ORIGIN_SEQ);
        let when = match replace {
            _ if is_imported => {
                let (old, new) = (
                    version_order(table, table),
                    version_order(table, "excluded"),
                );
                format!("WHERE {old} < {new}")
            }
            Replace::Keeping(_) => String::new(),
            Replace::NotOlder => "WHERE updated_at_ms <= excluded.updated_at_ms".to_owned(),
            Replace::Different | Replace::Numbered => {
                let (old, new) = (others.join(", "), others.join(", excluded."));
                format!("WHERE ({old}) IS NOT (excluded.{new})")
            }
        };
        let (number, next) = if is_numbered {
            (", change_seq", ", last + 1")
        } else {
            ("", "")
        };
        let returning = if replace == Replace::NotOlder {
            "RETURNING id"
        } else {
            ""
        };
        let sql = format!(
            "INSERT INTO {table} ({}{number}) SELECT {}{next} FROM change WHERE true
             ON CONFLICT ({}) DO UPDATE SET {} {when} {returning}",
            names.join(", "),
            places.join(", "),
            key.join(", "),
            set.join(", "),
        );
        let values = params_from_iter(values.iter().map(|(_, value)| column_value(value)));
        if replace == Replace::NotOlder {
            self.select(&sql, values)
        } else {
            let changed = self.execute(&sql, values)?;
            Ok((changed > 0).then_some(0))
        }
    }

    /// Sets columns of the rows that have this value in another; returns how many these are.
    pub(super) fn set(
        &self,
        table: &str,
        (key, is): (&str, &str),
        values: &[(&str, Value)],
    ) -> Result<usize, StoreError> {
        let set: Vec<String> = (2..)
            .zip(values)
            .map(|(at, (name, _))| format!("{name} = ?{at}"))
            .collect();
        let sql = format!("UPDATE {table} SET {} WHERE {key} = ?1", set.join(", "));
        let values = values.iter().map(|(_, value)| column_value(value));
        self.execute(
            &sql,
            params_from_iter([is.to_owned().into()].into_iter().chain(values)),
        )
    }

    pub(super) fn unknown(&self, run_id: &RunId) -> StoreError {
        let path = self.path.display();
        let message = format!("run `{run_id}` is not in the index `{path}`");
        StoreError::new(StoreFault::UnknownRun, message)
    }
}
