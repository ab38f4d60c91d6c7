//! Which of two versions of a row is the newer one.
//!
//! Of two versions from one database its numbers decide. Between databases the times of what is reported count, and where these
//! are the same anything that always comes out the same.

use rusqlite::Row;

use super::Writer;
use crate::job::{JobState, RunId};
use crate::record::store::error::StoreError;
use crate::record::store::sql::{OF_KEY, OF_RUN, integer, key_values, number};
use crate::record::{MeasureKey, NodeRecord, NodeState, RowVersion, RunRow};

/// A version of a row: what it reports, which decides between databases, and where it is from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version<T> {
    reported: T,
    row: RowVersion,
}

impl<T: Ord> Version<T> {
    pub(super) fn replaces(&self, known: &Self) -> bool {
        if self.row.store == known.row.store {
            return self.row.seq > known.row.seq;
        }
        self > known
    }
}

/// Of a run: whether it is over; whether an index says so, since users' indexes know the scheduler's word and a node's database
/// what it saw itself; when it ended; the worse state of those that ended at the same time.
pub(super) type RunVersion = Version<(bool, bool, Option<i64>, JobState)>;

impl RunVersion {
    pub(super) fn of_run(row: &RowVersion, run: &RunRow) -> Self {
        let ended_at_ms = run.status.ended_at_ms.map(integer);
        Self::reported(row.clone(), run.status.state, run.uid, ended_at_ms)
    }

    fn reported(
        row: RowVersion,
        state: JobState,
        uid: Option<u32>,
        ended_at_ms: Option<i64>,
    ) -> Self {
        let reported = (state.is_final(), uid.is_none(), ended_at_ms, state);
        Self { reported, row }
    }
}

/// The version of a run that is there; `Some(None)` where the run is an own one.
pub(super) fn run_version(
    writer: &Writer<'_>,
    run_id: &RunId,
) -> Result<Option<Option<RunVersion>>, StoreError> {
    // What was reported of its end, not what was derived from several views.
    let sql = "SELECT told_state, uid, told_ended_at_ms, origin_seq, store
         FROM run LEFT JOIN origin ON origin.id = run.origin WHERE run_id = ?1";
    writer.first(sql, [run_id.as_str()], |row| {
        let Some(store) = row.get::<_, Option<String>>("store")? else {
            return Ok(None);
        };
        let reported: Option<String> = row.get("told_state")?;
        let state = JobState::from_word(&reported.unwrap_or_default());
        let (seq, ended_at_ms) = (number(row, "origin_seq")?, row.get("told_ended_at_ms")?);
        let version = RowVersion { seq, store };
        Ok(Some(RunVersion::reported(
            version,
            state,
            row.get("uid")?,
            ended_at_ms,
        )))
    })
}

/// Of a measurement: whether it is over, and when it was written.
pub(super) type NodeVersion = Version<(bool, i64)>;

impl NodeVersion {
    pub(super) fn of_node(row: &RowVersion, record: &NodeRecord) -> Self {
        Self {
            reported: (
                record.state != NodeState::Running,
                integer(record.updated_at_ms),
            ),
            row: row.clone(),
        }
    }
}

/// The row of a measurement that is there, and its version.
pub(super) fn node_version(
    writer: &Writer<'_>,
    key: &MeasureKey,
) -> Result<Option<(i64, NodeVersion)>, StoreError> {
    let sql = format!(
        "SELECT node.id AS id, node.state <> 'running' AS is_over, updated_at_ms,
             coalesce(node.origin_seq, 0) AS seq, coalesce(store, '') AS store
         FROM node {OF_RUN} LEFT JOIN origin ON origin.id = node.origin WHERE {OF_KEY}"
    );
    writer.first(&sql, key_values(key), |row| {
        let version = NodeVersion {
            reported: (row.get("is_over")?, row.get("updated_at_ms")?),
            row: row_version(row)?,
        };
        Ok((row.get("id")?, version))
    })
}

/// The version of a row, of the columns `seq` and `store`.
pub(super) fn row_version(row: &Row<'_>) -> rusqlite::Result<RowVersion> {
    Ok(RowVersion {
        seq: number(row, "seq")?,
        store: row.get("store")?,
    })
}
