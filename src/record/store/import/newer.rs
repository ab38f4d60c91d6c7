//! Which of two versions of a row is the newer one.
//!
//! Of two versions from one database its numbers tell. Between databases the times of what is told count, and where these
//! are the same anything that always comes out the same.

use rusqlite::Row;

use super::Writer;
use crate::job::{JobState, RunId};
use crate::record::store::error::StoreError;
use crate::record::store::sql::{OF_KEY, OF_RUN, integer, key_values, number};
use crate::record::{MeasureKey, NodeRecord, NodeState, RowVersion, RunRow};

/// What decides between two versions of a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RunVersion {
    is_over: bool,
    /// Users' indexes know the scheduler's word; a node's database knows what it saw itself.
    is_of_index: bool,
    ended_at_ms: Option<i64>,
    /// The worse one of those that ended at the same time.
    state: JobState,
    version: RowVersion,
}

impl RunVersion {
    pub(super) fn of(version: &RowVersion, run: &RunRow) -> Self {
        let status = &run.status;
        Self {
            is_over: status.state.is_final(),
            is_of_index: run.uid.is_none(),
            ended_at_ms: status.ended_at_ms.map(integer),
            state: status.state,
            version: version.clone(),
        }
    }

    pub(super) fn replaces(&self, known: &Self) -> bool {
        if self.version.store == known.version.store {
            return self.version.seq > known.version.seq;
        }
        self > known
    }
}

/// The version of a run that is there; `Some(None)` where the run is an own one.
pub(super) fn run_version(
    writer: &Writer<'_>,
    run_id: &RunId,
) -> Result<Option<Option<RunVersion>>, StoreError> {
    // What was told of its end, not what was made of several views.
    let sql = "SELECT told_state, uid, told_ended_at_ms, origin_seq, store
         FROM run LEFT JOIN origin ON origin.id = run.origin WHERE run_id = ?1";
    writer.first(sql, [run_id.as_str()], |row| {
        let Some(store) = row.get::<_, Option<String>>("store")? else {
            return Ok(None);
        };
        let told: Option<String> = row.get("told_state")?;
        let state = JobState::from_word(&told.unwrap_or_default());
        Ok(Some(RunVersion {
            is_over: state.is_final(),
            is_of_index: row.get::<_, Option<u32>>("uid")?.is_none(),
            ended_at_ms: row.get("told_ended_at_ms")?,
            state,
            version: RowVersion {
                seq: number(row, "origin_seq")?,
                store,
            },
        }))
    })
}

/// What decides between two versions of a measurement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeVersion {
    is_over: bool,
    updated_at_ms: i64,
    version: RowVersion,
}

impl NodeVersion {
    pub(super) fn of(version: &RowVersion, record: &NodeRecord) -> Self {
        Self {
            is_over: record.state != NodeState::Running,
            updated_at_ms: integer(record.updated_at_ms),
            version: version.clone(),
        }
    }

    pub(super) fn replaces(&self, known: &Self) -> bool {
        if self.version.store == known.version.store {
            return self.version.seq > known.version.seq;
        }
        self > known
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
            is_over: row.get("is_over")?,
            updated_at_ms: row.get("updated_at_ms")?,
            version: row_version(row)?,
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
