//! The runs that are being watched, from their registration to their end.

use rusqlite::{Row, params};

use super::spool::load;
use super::{NodeId, NodeStore, Safety, Work};
use crate::job::JobState;
use crate::record::store::error::{StoreError, StoreFault};
use crate::record::store::sql::{OF_KEY, OF_RUN, damaged, event, integer, key_values, number};
use crate::record::{Event, Gap, MeasureKey, NodeRecord, RunRecord, Status};

/// How to find the watched process again after a restart of the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    /// Its pid.
    pub pid: u32,
    /// When it was started, in clock ticks since boot: with the pid this names it.
    pub start_time_ticks: u64,
    /// Which boot those ticks count from.
    pub boot_id: String,
    /// What else the daemon wants to know then, as JSON.
    pub state: String,
}

/// A run that was being watched when the database was last written.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveRun {
    /// Its measurement.
    pub node: NodeId,
    /// Whose it is.
    pub uid: u32,
    /// Its process.
    pub live: Live,
    /// The record as last written, with all gaps and events.
    pub record: NodeRecord,
    /// The last sample, in Unix milliseconds UTC.
    pub last_at_ms: Option<u64>,
}

const LIVE: &str = "SELECT live.node, uid, pid, start_time_ticks, boot_id, state, record FROM live";

impl NodeStore {
    /// Takes a run in that is to be watched; on disk when this returns. The same measurement again is the same row, and an older
    /// record changes nothing.
    ///
    /// # Errors
    /// [`StoreFault::OtherUser`] where the run is of another user than `uid`, [`StoreFault::UnknownRun`] where the record is of
    /// another run; those of [`NodeStore::append`].
    pub fn register(
        &mut self,
        run: &RunRecord,
        uid: u32,
        record: &NodeRecord,
        live: &Live,
    ) -> Result<NodeId, StoreError> {
        self.transact(Safety::PowerLoss, |work| {
            let (writer, run_id) = (work.writer, &run.run_id);
            if record.key.run_id != *run_id {
                return Err(writer.unknown(&record.key.run_id));
            }
            let owner = writer.select(
                "SELECT coalesce(uid, ?2) FROM run WHERE run_id = ?1",
                params![run_id.as_str(), uid],
            )?;
            if owner.is_some_and(|owner| owner != i64::from(uid)) {
                let message = format!("run `{run_id}` is not of user id {uid}");
                return Err(StoreError::new(StoreFault::OtherUser, message));
            }
            writer.upsert_run(run)?;
            writer.execute(
                "UPDATE run SET uid = ?2 WHERE run_id = ?1 AND uid IS NOT ?2",
                params![run_id.as_str(), uid],
            )?;
            let taken = writer.take_node(record)?;
            let node = taken.map_or_else(|| writer.node_of(&record.key), |node| Ok(Some(node)))?;
            let node = node.ok_or_else(|| writer.unknown(run_id))?;
            writer.execute(
                "INSERT INTO live (node, uid, pid, start_time_ticks, boot_id, state, record)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (node) DO UPDATE
             SET uid = ?2, pid = ?3, start_time_ticks = ?4, boot_id = ?5, state = ?6,
                 record = CASE WHEN ?8 THEN ?7 ELSE record END",
                params![
                    node,
                    uid,
                    live.pid,
                    integer(live.start_time_ticks),
                    live.boot_id,
                    live.state,
                    to_json(record),
                    taken.is_some(),
                ],
            )?;
            Ok(NodeId(node))
        })
    }

    /// Writes a record again. The caller's is the newest, whatever the clock says.
    ///
    /// # Errors
    /// [`StoreFault::UnknownRun`] where the record is not of this node; those of [`NodeStore::append`].
    pub fn update(&mut self, node: NodeId, record: &NodeRecord) -> Result<(), StoreError> {
        self.transact(Safety::Kill, |work| work.put_record(node, record))
    }

    /// Keeps what the daemon wants to know after a restart, of live runs.
    ///
    /// # Errors
    /// As [`NodeStore::append`].
    pub fn remember(&mut self, states: &[(NodeId, String)]) -> Result<(), StoreError> {
        self.transact(Safety::Kill, |work| {
            let sql = "UPDATE live SET state = ?2 WHERE node = ?1";
            states.iter().try_for_each(|(node, state)| {
                work.writer.execute(sql, params![node.0, state]).map(drop)
            })
        })
    }

    /// The last segment of a live run that somebody took.
    ///
    /// # Errors
    /// As [`crate::record::store::Store::list`].
    pub fn acknowledged(&self, node: NodeId) -> Result<Option<u32>, StoreError> {
        let sql = "SELECT acknowledged_seq FROM live WHERE node = ?1";
        Ok(self
            .store
            .rows(sql, [node.0], |row| row.get(0))?
            .pop()
            .flatten())
    }

    /// Writes the last records of measurements and folds what is spooled of them; on disk when this returns. These runs are live
    /// no more. All of them, or none where it fails.
    ///
    /// # Errors
    /// As [`NodeStore::update`] and [`NodeStore::fold`].
    pub fn end(&mut self, ended: &[(NodeId, &NodeRecord)]) -> Result<(), StoreError> {
        self.transact(Safety::PowerLoss, |work| {
            ended
                .iter()
                .try_for_each(|(node, record)| work.end(*node, record))
        })?;
        ended
            .iter()
            .for_each(|(node, _)| drop(self.tails.remove(node)));
        self.checkpoint()
    }

    /// The runs that were being watched and are not known to be over.
    ///
    /// # Errors
    /// As [`crate::record::store::Store::list`].
    pub fn live(&self) -> Result<Vec<LiveRun>, StoreError> {
        let mut found = self.store.rows(LIVE, [], live_run)?;
        for run in &mut found {
            run.record.gaps = self.gaps(run.node)?;
            run.record.events = self.events(run.node)?;
            let tail = self
                .store
                .reading(|connection| load(connection, run.node))?;
            run.last_at_ms = tail.and_then(|tail| tail.last_at_ms);
        }
        Ok(found)
    }

    /// The measurement of this key.
    ///
    /// # Errors
    /// As [`crate::record::store::Store::list`].
    pub fn node_id(&self, key: &MeasureKey) -> Result<Option<NodeId>, StoreError> {
        let sql = format!("SELECT node.id FROM node {OF_RUN} WHERE {OF_KEY}");
        let found = self.store.rows(&sql, key_values(key), |row| row.get(0))?;
        Ok(found.first().copied().map(NodeId))
    }

    fn gaps(&self, node: NodeId) -> Result<Vec<Gap>, StoreError> {
        let sql = "SELECT from_ms, to_ms, why FROM gap WHERE node = ?1 ORDER BY place";
        self.store.rows(sql, [node.0], |row| {
            Ok(Gap {
                from_ms: number(row, "from_ms")?,
                to_ms: number(row, "to_ms")?,
                why: row.get("why")?,
            })
        })
    }

    fn events(&self, node: NodeId) -> Result<Vec<Event>, StoreError> {
        let sql = "SELECT at_ms, kind, detail FROM event WHERE node = ?1 ORDER BY place";
        self.store.rows(sql, [node.0], event)
    }
}

impl Work<'_> {
    fn end(&mut self, node: NodeId, record: &NodeRecord) -> Result<(), StoreError> {
        self.fold(node)?;
        self.put_record(node, record)?;
        self.writer
            .set_status(&record.key.run_id, &status_of(record))?;
        self.writer
            .execute("DELETE FROM live WHERE node = ?1", [node.0])
            .map(drop)
    }

    fn put_record(&self, node: NodeId, record: &NodeRecord) -> Result<(), StoreError> {
        let writer = self.writer;
        if writer.node_of(&record.key)? != Some(node.0) {
            return Err(writer.unknown(&record.key.run_id));
        }
        // The clock may have been set back.
        let before = "UPDATE node SET updated_at_ms = ?2 WHERE id = ?1 AND updated_at_ms > ?2";
        writer.execute(before, params![node.0, integer(record.updated_at_ms)])?;
        writer.take_node(record)?;
        let live = "UPDATE live SET record = ?2 WHERE node = ?1";
        writer.execute(live, params![node.0, to_json(record)])?;
        Ok(())
    }
}

/// The state of the run as this node knows it: a node daemon asks no scheduler.
fn status_of(record: &NodeRecord) -> Status {
    let state = match record.exit {
        Some(exit) if exit.is_success() => JobState::Completed,
        Some(_) => JobState::Failed,
        None => JobState::Unknown,
    };
    Status {
        exit: record.exit,
        started_at_ms: Some(record.started_at_ms),
        ended_at_ms: record.ended_at_ms,
        ..Status::of(state)
    }
}

fn to_json(record: &NodeRecord) -> String {
    serde_json::to_string(record).expect("a record is plain data")
}

/// Reads [`LIVE`].
fn live_run(row: &Row<'_>) -> rusqlite::Result<LiveRun> {
    Ok(LiveRun {
        node: NodeId(row.get("node")?),
        uid: row.get("uid")?,
        live: Live {
            pid: row.get("pid")?,
            start_time_ticks: number(row, "start_time_ticks")?,
            boot_id: row.get("boot_id")?,
            state: row.get("state")?,
        },
        record: serde_json::from_str(&row.get::<_, String>("record")?).map_err(damaged)?,
        last_at_ms: None,
    })
}
