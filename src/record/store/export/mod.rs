//! Rows for other programs, page by page in the order of their changes.
//!
//! A page is one short transaction, so that an export of any length keeps no writer waiting. A row that changes between two pages
//! gets a number beyond all that were there before: it is missed as it was and found as it is by whoever asks from there on.

mod samples;

use std::borrow::Cow;

use rusqlite::types::ValueRef;
use rusqlite::{Row, params};

use super::error::StoreError;
use super::open::Store;
use super::sql::{integer, number};
use crate::job::RunId;
use crate::record::{Cell, Field, FieldType, Table};

/// Rows in a page; what is written of them is held in memory.
const PAGE_ROWS: u32 = 2_000;
/// Blocks of samples in a page: each has up to some thousand rows.
const PAGE_BLOCKS: u32 = 4;

/// Which database it is, and how far it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its random name, 16 hexadecimal digits. A rebuilt one has another.
    pub store: String,
    /// The number of its last change.
    pub last: u64,
}

/// In which order rows come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By the number of their last change.
    #[default]
    ByChange,
    /// Those of a measurement together, by time.
    ByMeasurement,
}

/// Which rows; the default is all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Of which table.
    pub table: Table,
    /// Changed after this number.
    pub after: u64,
    /// Changed up to this number.
    pub upto: u64,
    /// Only those that are settled: runs and starts that are over, usage and GPUs of measurements that are over, all epochs, events and
    /// blocks of samples.
    pub settled: bool,
    /// Only those of this user's runs.
    pub user: Option<String>,
    /// Only those of these runs; empty for any.
    pub runs: Vec<RunId>,
    /// Only those of this time and later, in Unix milliseconds UTC.
    pub since_ms: Option<u64>,
    /// Only those before this time.
    pub until_ms: Option<u64>,
    /// In which order.
    pub order: Order,
}

impl Selection {
    /// All rows of a table.
    #[must_use]
    pub fn all(table: Table) -> Self {
        Self {
            table,
            after: 0,
            upto: u64::MAX,
            settled: false,
            user: None,
            runs: Vec::new(),
            since_ms: None,
            until_ms: None,
            order: Order::ByChange,
        }
    }

    /// Whether a row of this time is wanted.
    pub(super) fn is_in_time(&self, at_ms: u64) -> bool {
        self.since_ms.is_none_or(|since| at_ms >= since)
            && self.until_ms.is_none_or(|until| at_ms < until)
    }
}

/// Rows of a database, one page after the other.
#[derive(Debug)]
pub struct Pages {
    selection: Selection,
    store: String,
    fields: Vec<Field>,
    sql: String,
    runs: Option<String>,
    /// Where the last page ended: number of the change, or node and place.
    reached: (i64, i64),
    damaged: u64,
}

impl Pages {
    /// Begins before the first row.
    ///
    /// # Errors
    /// Those of [`Store::list`].
    pub fn new(store: &Store, selection: Selection) -> Result<Self, StoreError> {
        let runs = (!selection.runs.is_empty())
            .then(|| serde_json::to_string(&selection.runs).expect("ids are text"));
        let reached = match selection.order {
            Order::ByChange => (integer(selection.after), 0),
            Order::ByMeasurement => (-1, -1),
        };
        let sql = query(selection.table, selection.order, selection.settled);
        let (store, fields) = (store.identity()?.store, selection.table.fields());
        Ok(Self {
            selection,
            store,
            fields,
            sql,
            runs,
            reached,
            damaged: 0,
        })
    }

    /// Hands the rows of the next page to `each`, values in the order of [`Table::fields`]; false where there were none left.
    ///
    /// # Errors
    /// Those of `each` and of [`Store::list`].
    pub fn next<E: From<StoreError>>(
        &mut self,
        store: &Store,
        mut each: impl FnMut(&[Cell<'_>]) -> Result<(), E>,
    ) -> Result<bool, E> {
        let failed = |source| StoreError::from_sqlite(&store.path, "read", source);
        let Self {
            selection,
            store: name,
            fields,
            sql,
            runs,
            reached,
            damaged,
        } = self;
        let mut statement = store.connection.prepare_cached(sql).map_err(failed)?;
        let limit = if selection.table.is_of_samples() {
            PAGE_BLOCKS
        } else {
            PAGE_ROWS
        };
        let values = params![
            reached.0,
            reached.1,
            integer(selection.after),
            integer(selection.upto),
            selection.user,
            runs.as_deref(),
            selection.since_ms.map(integer),
            selection.until_ms.map(integer),
            limit,
        ];
        let mut rows = statement.query(values).map_err(failed)?;
        let mut any = false;
        while let Some(row) = rows.next().map_err(failed)? {
            *reached = (row.get(0).map_err(failed)?, row.get(1).map_err(failed)?);
            any = true;
            if selection.table.is_of_samples() {
                let begun = cells(name, &fields[..samples::BEFORE], row).map_err(failed)?;
                match samples::readings(row).map_err(failed)? {
                    Some(readings) => samples::each(begun, &readings, selection, &mut each)?,
                    None => *damaged += 1,
                }
            } else {
                each(&cells(name, fields, row).map_err(failed)?)?;
            }
        }
        Ok(any)
    }
}

impl Pages {
    /// Blocks of samples that could not be decoded so far. They are passed over, as everywhere: users write them, and one that
    /// is damaged must not keep all others back.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        self.damaged
    }
}

/// The values of a row whose first two columns are its position.
fn cells<'r>(
    store: &'r str,
    fields: &[Field],
    row: &'r Row<'_>,
) -> rusqlite::Result<Vec<Cell<'r>>> {
    let mut cells = Vec::with_capacity(fields.len());
    cells.push(Cell::Text(Cow::Borrowed(store)));
    for (column, field) in fields.iter().enumerate().skip(1) {
        cells.push(cell(field.of, row.get_ref(column + 1)?));
    }
    Ok(cells)
}

fn cell(of: FieldType, value: ValueRef<'_>) -> Cell<'_> {
    match (of, value) {
        (FieldType::Text | FieldType::Json, ValueRef::Text(bytes)) => {
            Cell::Text(String::from_utf8_lossy(bytes))
        }
        (FieldType::Whole, ValueRef::Integer(value)) => Cell::Whole(value),
        (FieldType::Flag, ValueRef::Integer(value)) => Cell::Flag(value != 0),
        (FieldType::Real, ValueRef::Real(value)) => Cell::Real(value),
        // Not what the column is declared for: STRICT tables hold nothing else.
        _ => Cell::Null,
    }
}

/// The states of runs that are over, as [`crate::job::JobState::is_final`] has them; and `unknown` where a node's database, whose
/// runs have a `uid`, closed a run whose end it did not see: it asks no scheduler, so nothing else will ever come. One that it has
/// not closed is `unknown` too, and without a start.
const RUN_IS_OVER: &str =
    "(run.state IN ('completed', 'failed', 'timeout', 'out_of_memory', 'preempted', 'node_fail', 'cancelled')
         OR run.state = 'unknown' AND run.uid IS NOT NULL AND run.started_at_ms IS NOT NULL)";
const NODE_IS_OVER: &str = "node.state <> 'running'";

/// `CROSS`: in this order, or SQLite would sort all rows for each page.
const RUN_OF_NODE: &str =
    "CROSS JOIN attempt ON attempt.id = node.attempt CROSS JOIN run ON run.id = attempt.run";

/// The table of the index whose changes are those of a table's rows.
fn changed_in(table: Table) -> &'static str {
    match table {
        Table::Usage => "node",
        samples if samples.is_of_samples() => "block",
        other => other.kind(),
    }
}

/// The question for a page: after ?1 and ?2, of changes after ?3 and up to ?4, of user ?5, of runs ?6, from time ?7, before time
/// ?8, at most ?9.
fn query(table: Table, order: Order, settled: bool) -> String {
    let measured =
        "LEFT JOIN usage ON usage.node = node.id LEFT JOIN target ON target.id = node.target";
    let timed = "coalesce(timing.ended_at_ms, node.started_at_ms)";
    let started = "coalesce(attempt.started_at_ms, run.submitted_at_ms)";
    let noted = "coalesce(metric.at_ms, node.started_at_ms)";
    let of = changed_in(table);
    // What else is joined, the earliest time of a row, and when it is settled.
    let start_is_over = format!(
        "(attempt.ended_at_ms IS NOT NULL OR attempt.record ->> '$.end' IS NOT NULL OR {RUN_IS_OVER})"
    );
    let (joined, earliest, when_settled) = match table {
        Table::Runs => ("", "run.submitted_at_ms", RUN_IS_OVER),
        Table::Attempts => ("", started, &*start_is_over),
        Table::Usage => (measured, "node.started_at_ms", NODE_IS_OVER),
        Table::Gpus | Table::Ranks => ("", "node.started_at_ms", NODE_IS_OVER),
        Table::Timings => ("", timed, "true"),
        Table::Metrics => ("", noted, "true"),
        Table::Events => ("", "event.at_ms", "true"),
        Table::Samples | Table::GpuSamples | Table::ProcessSamples => ("", "block.t0_ms", "true"),
    };
    let latest = if table.is_of_samples() {
        "block.t1_ms"
    } else {
        earliest
    };
    let columns = table.fields().into_iter().map(|field| field.sql);
    let columns: Vec<&str> = columns.filter(|sql| !sql.is_empty()).collect();
    let columns = columns.join(", ");
    let to_run = match of {
        "run" => String::new(),
        "attempt" => "CROSS JOIN run ON run.id = attempt.run".to_owned(),
        "node" => RUN_OF_NODE.to_owned(),
        _ => format!("CROSS JOIN node ON node.id = {of}.node {RUN_OF_NODE}"),
    };
    // In the others each row is independent.
    let place = match (order, table) {
        (Order::ByMeasurement, Table::Timings) => Some("place"),
        (Order::ByMeasurement, Table::Samples) => Some("seq"),
        _ => None,
    };
    let (position, after, sorted, change) = match place {
        Some(place) => {
            let position = format!("{of}.node, {of}.{place}");
            // A `+` keeps SQLite from going by the changes, and sorting then.
            (
                position.clone(),
                format!("({position}) > (?1, ?2)"),
                position,
                format!("+{of}.change_seq"),
            )
        }
        None => {
            let change = format!("{of}.change_seq");
            (
                format!("{change}, 0"),
                format!("{change} > ?1"),
                change.clone(),
                change,
            )
        }
    };
    let settled = if settled { when_settled } else { "true" };
    format!(
        "SELECT {position}, {of}.change_seq, {columns} FROM {of} {to_run} {joined}
         WHERE {after} AND {change} > ?3 AND {change} <= ?4 AND {settled}
             AND (?5 IS NULL OR run.user = ?5)
             AND (?6 IS NULL OR run.run_id IN (SELECT value FROM json_each(?6)))
             AND (?7 IS NULL OR {latest} >= ?7) AND (?8 IS NULL OR {earliest} < ?8)
         ORDER BY {sorted} LIMIT ?9"
    )
}

impl Store {
    /// Which database this is, and how far it came.
    ///
    /// # Errors
    /// Those of [`Store::list`].
    pub fn identity(&self) -> Result<Identity, StoreError> {
        let read = |row: &Row<'_>| {
            Ok(Identity {
                store: row.get("store")?,
                last: number(row, "last")?,
            })
        };
        let found = self.rows("SELECT store, last FROM change", [], read)?.pop();
        found.ok_or_else(|| {
            StoreError::from_sqlite(&self.path, "read", rusqlite::Error::QueryReturnedNoRows)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobState;

    #[test]
    fn every_table_has_an_expression_for_each_column_and_a_query_that_sqlite_takes() {
        let store = Store::in_memory().expect("memory");
        for table in Table::ALL {
            for order in [Order::ByChange, Order::ByMeasurement] {
                let selection = Selection {
                    order,
                    settled: true,
                    ..Selection::all(table)
                };
                let mut pages = Pages::new(&store, selection).expect("identity");
                let any = pages
                    .next::<StoreError>(&store, |_| Ok(()))
                    .expect("a query");
                assert!(!any, "{table:?}");
            }
        }
    }

    #[test]
    fn pages_are_read_along_an_index_and_never_sorted() {
        let store = Store::in_memory().expect("memory");
        for table in Table::ALL {
            for order in [Order::ByChange, Order::ByMeasurement] {
                let sql = format!("EXPLAIN QUERY PLAN {}", query(table, order, true));
                let none = rusqlite::params![
                    0,
                    0,
                    0,
                    0,
                    None::<String>,
                    None::<String>,
                    None::<i64>,
                    None::<i64>,
                    1
                ];
                let plan = store
                    .rows(&sql, none, |row| row.get::<_, String>(3))
                    .expect("a plan");
                assert!(
                    !plan
                        .iter()
                        .any(|step| step == "USE TEMP B-TREE FOR ORDER BY"),
                    "{table:?}: {plan:?}"
                );
                let source = changed_in(table);
                assert!(
                    plan[0].starts_with(&format!("SEARCH {source}")),
                    "{table:?}: {plan:?}"
                );
            }
        }
    }

    #[test]
    fn runs_are_settled_where_their_state_is_final() {
        let words = "pending running suspended completed failed timeout out_of_memory preempted node_fail cancelled unknown";
        for word in words.split(' ') {
            let state = JobState::from_word(word).unwrap_or_default();
            let listed = RUN_IS_OVER
                .split_once(" OR ")
                .is_some_and(|(list, _)| list.contains(&format!("'{word}'")));
            assert_eq!(listed, state.is_final(), "{word}");
        }
    }

    #[test]
    fn a_negative_infinity_is_no_null() {
        assert_eq!(
            cell(FieldType::Real, ValueRef::Real(f64::NEG_INFINITY)),
            Cell::Real(f64::NEG_INFINITY)
        );
        assert_eq!(cell(FieldType::Whole, ValueRef::Text(b"7")), Cell::Null);
        assert_eq!(
            cell(FieldType::Flag, ValueRef::Integer(1)),
            Cell::Flag(true)
        );
    }
}
