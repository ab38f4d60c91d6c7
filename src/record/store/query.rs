//! Rows of the index as records.

use rusqlite::{Params, Row};
use serde::de::DeserializeOwned;

use super::error::StoreError;
use super::open::Store;
use super::sql::{OF_RUN, cells, damaged, selected};
use crate::job::RunId;
use crate::record::table::assemble_known;
use crate::record::{MeasureKey, Table};

impl Store {
    pub(super) fn rows<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let statement = self.connection.prepare_cached(sql);
        let rows = statement.and_then(|mut statement| statement.query_map(values, read)?.collect());
        rows.map_err(|source| StoreError::from_sqlite(&self.path, "read", source))
    }

    /// Whether a query finds a row.
    pub(super) fn finds(&self, sql: &str, values: impl Params) -> Result<bool, StoreError> {
        Ok(!self.rows(sql, values, |_| Ok(()))?.is_empty())
    }

    /// Records of rows without a measurement: of a table, where and in which order `rest` says.
    pub(super) fn records<T: DeserializeOwned>(
        &self,
        table: Table,
        rest: &str,
        values: impl Params,
    ) -> Result<Vec<T>, StoreError> {
        let (fields, blank) = (table.own_fields(), table.blank());
        let sql = format!("SELECT {} {rest}", selected(&fields));
        self.rows(&sql, values, |row| {
            assemble_known(&fields, &blank, &cells(&fields, row)?).map_err(damaged)
        })
    }

    /// The records of a run's starts or measurements, each with its key and in the order of these, then in that of `place`.
    pub(super) fn measured<T: DeserializeOwned>(
        &self,
        table: Table,
        from: &str,
        place: &str,
        run_id: &RunId,
    ) -> Result<Vec<(MeasureKey, T)>, StoreError> {
        let (own, blank) = (table.own_fields(), table.blank());
        let fields = [table.key_fields(), &own].concat();
        let (to_run, of_node) = match table {
            Table::Attempts => ("JOIN run ON attempt.run = run.id", ""),
            _ => (OF_RUN, ", node.node, node.step"),
        };
        let sql = format!(
            "SELECT {} FROM {from} {to_run} WHERE run.run_id = ?1
             ORDER BY attempt.element, attempt.attempt{of_node}, {place}",
            selected(&fields)
        );
        let key_blank = &Table::Usage.blank()["record"];
        self.rows(&sql, [run_id.as_str()], |row| {
            let cells = cells(&fields, row)?;
            let key = assemble_known(table.key_fields(), key_blank, &cells).map_err(damaged)?;
            let record = assemble_known(&own, &blank, &cells).map_err(damaged)?;
            Ok((key, record))
        })
    }
}
