//! Which of two versions of a row is the newer one.
//!
//! Of two versions from one database its numbers tell. Between databases the times of what is told count, and where these
//! are the same anything that always comes out the same.

use rusqlite::{Params, params};

use super::Writer;
use crate::job::{JobState, RunId};
use crate::record::store::ingest::NODE_OF;
use crate::record::store::integer;
use crate::record::store::open::StoreError;
use crate::record::{IncomingRun, MeasureKey, NodeRecord, NodeState, RowVersion};

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
    pub(super) fn of(version: &RowVersion, run: &IncomingRun) -> Self {
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
        let Some(store) = row.get::<_, Option<String>>(4)? else {
            return Ok(None);
        };
        let state = JobState::from_word(&row.get::<_, Option<String>>(0)?.unwrap_or_default());
        Ok(Some(RunVersion {
            is_over: state.is_final(),
            is_of_index: row.get::<_, Option<u32>>(1)?.is_none(),
            ended_at_ms: row.get(2)?,
            state,
            version: RowVersion {
                seq: seq(row.get(3)?),
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
    let of_key = params![
        key.run_id.as_str(),
        key.element,
        key.attempt,
        key.node,
        key.step
    ];
    let sql = format!(
        "SELECT node.id, node.state <> 'running', updated_at_ms, coalesce(origin_seq, 0), coalesce(store, '')
         FROM node LEFT JOIN origin ON origin.id = node.origin WHERE node.id = ({NODE_OF})"
    );
    writer.first(&sql, of_key, |row| {
        let version = RowVersion {
            seq: seq(row.get(3)?),
            store: row.get(4)?,
        };
        Ok((
            row.get(0)?,
            NodeVersion {
                is_over: row.get(1)?,
                updated_at_ms: row.get(2)?,
                version,
            },
        ))
    })
}

/// The version of a row, from its number and its database.
pub(super) fn row_version(
    writer: &Writer<'_>,
    sql: &str,
    values: impl Params,
) -> Result<Option<RowVersion>, StoreError> {
    writer.first(sql, values, |row| {
        Ok(RowVersion {
            seq: seq(row.get(0)?),
            store: row.get(1)?,
        })
    })
}

fn seq(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
