//! Taking records in. Doing so twice changes nothing.

use rusqlite::{params, params_from_iter};
use serde_json::{Value, json};

use super::error::StoreError;
use super::sql::{OF_KEY, OF_RUN, column_value, integer, key_values, optional};
use super::writer::{Replace, Writer};
use crate::job::RunId;
use crate::record::table::stored_values;
use crate::record::{
    AttemptMarks, HostFacts, MeasureKey, NodeFigures, NodeRecord, Outcome, RunRecord, Status, Table,
};

/// A segment of samples and what it spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Its number.
    pub seq: u32,
    /// Its first sample, in Unix milliseconds UTC.
    pub t0_ms: u64,
    /// Its last sample.
    pub t1_ms: u64,
    /// Number of samples.
    pub samples: u32,
    /// As [`crate::record::encode_segments`] made them.
    pub bytes: &'a [u8],
}

impl Writer<'_> {
    /// Takes a run in, or what is new of it. A job id or output once known is not forgotten.
    ///
    /// # Errors
    /// `StoreFault::Query` and what the disk adds to it: `StoreFault::Full`, `StoreFault::Damaged`.
    pub fn upsert_run(&self, run: &RunRecord) -> Result<(), StoreError> {
        let values = stored_values(Table::Runs, "run", "/record", &json!({ "record": run }));
        let kept = Replace::Keeping(&["job_id", "output", "parts"]);
        self.put("run", &["run_id"], &values, kept).map(drop)
    }

    /// Writes the status of a run.
    ///
    /// # Errors
    /// `StoreFault::UnknownRun`, `StoreFault::Query` and what the disk adds to it.
    pub fn set_status(&self, run_id: &RunId, status: &Status) -> Result<(), StoreError> {
        let sql = "SELECT 1 FROM run WHERE run_id = ?1";
        if self.select(sql, [run_id.as_str()])?.is_none() {
            return Err(self.unknown(run_id));
        }
        let status = json!({ "status": status });
        let values = stored_values(Table::Runs, "run", "/status", &status);
        let (names, places): (Vec<&str>, Vec<String>) = (2..)
            .zip(&values)
            .map(|(at, (name, _))| (*name, format!("?{at}")))
            .unzip();
        let (names, places) = (names.join(", "), places.join(", "));
        let sql = format!(
            "UPDATE run SET ({names}) = ({places}) WHERE run_id = ?1 AND ({names}) IS NOT ({places})"
        );
        let values = values.iter().map(|(_, value)| column_value(value));
        let values = [run_id.as_str().to_owned().into()]
            .into_iter()
            .chain(values);
        self.execute(&sql, params_from_iter(values)).map(drop)
    }

    /// Takes in what an attempt left: its marks and the records of its nodes. A mark once seen is not forgotten.
    ///
    /// # Errors
    /// As [`Writer::set_status`].
    pub fn ingest_attempt(
        &self,
        run_id: &RunId,
        element: u32,
        attempt: u32,
        outcome: &Outcome,
    ) -> Result<(), StoreError> {
        self.put_marks((run_id, element, attempt), &AttemptMarks::from(outcome))?;
        outcome
            .nodes
            .iter()
            .try_for_each(|node| self.ingest_node(node))
    }

    /// Takes in what is known of a start beside what its nodes measured.
    pub(super) fn put_marks(
        &self,
        start: (&RunId, u32, u32),
        marks: &AttemptMarks,
    ) -> Result<(), StoreError> {
        let values = stored_values(Table::Attempts, "attempt", "", &json!(marks));
        self.put_attempt(start, values).map(drop)
    }

    /// Puts a start in, or what is new of it: what is known once is not forgotten.
    pub(super) fn put_attempt(
        &self,
        (run_id, element, attempt): (&RunId, u32, u32),
        mut values: Vec<(&'static str, Value)>,
    ) -> Result<bool, StoreError> {
        let run = self.select("SELECT id FROM run WHERE run_id = ?1", [run_id.as_str()])?;
        let run = run.ok_or_else(|| self.unknown(run_id))?;
        let kept: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        values.extend([
            ("run", run.into()),
            ("element", element.into()),
            ("attempt", attempt.into()),
        ]);
        let key = ["run", "element", "attempt"];
        self.put("attempt", &key, &values, Replace::Keeping(&kept))
    }

    /// Takes a node record in, with all that hangs on it; one that is older than what is there changes nothing.
    ///
    /// # Errors
    /// As [`Writer::set_status`].
    pub fn ingest_node(&self, record: &NodeRecord) -> Result<(), StoreError> {
        self.take_node(record).map(drop)
    }

    /// As [`Writer::ingest_node`]; returns the row, or `None` where a newer record is there.
    pub(super) fn take_node(&self, record: &NodeRecord) -> Result<Option<i64>, StoreError> {
        let key = &record.key;
        let attempt = self.attempt_row(&key.run_id, key.element, key.attempt)?;
        let Some(node) = self.node_row(attempt, record)? else {
            return Ok(None);
        };
        self.replace_usage(node, record)?;
        self.replace_epochs(node, &record.progress)?;
        self.replace_points(node, &record.progress.points)?;
        self.replace_holes(node, record)?;
        self.replace_events(node, &record.events)?;
        self.replace_gpus(node, &record.gpus)?;
        self.replace_ranks(node, &record.ranks)?;
        Ok(Some(node))
    }

    /// Takes a segment in; segments never change, so one that is there stays. `false` where the node's record is not
    /// there yet, and nothing was written.
    ///
    /// # Errors
    /// `StoreFault::Query` and what the disk adds to it.
    pub fn ingest_segment(
        &self,
        key: &MeasureKey,
        segment: Segment<'_>,
    ) -> Result<bool, StoreError> {
        let Some(node) = self.node_of(key)? else {
            return Ok(false);
        };
        let times = (integer(segment.t0_ms), integer(segment.t1_ms));
        self.execute(
            "INSERT OR IGNORE INTO block (node, seq, t0_ms, t1_ms, samples, bytes, change_seq)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, last + 1 FROM change",
            params![
                node,
                segment.seq,
                times.0,
                times.1,
                segment.samples,
                segment.bytes
            ],
        )?;
        Ok(true)
    }

    /// Forgets a run and all that was measured of it; an unknown run is no error.
    ///
    /// # Errors
    /// `StoreFault::Query` and what the disk adds to it.
    pub fn forget_run(&self, run_id: &RunId) -> Result<(), StoreError> {
        self.execute("DELETE FROM run WHERE run_id = ?1", [run_id.as_str()])?;
        Ok(())
    }

    /// Forgets everything, before a reindex.
    ///
    /// # Errors
    /// `StoreFault::Query` and what the disk adds to it.
    pub fn clear(&self) -> Result<(), StoreError> {
        // Children first: then each table is emptied in one go, without a look at every row.
        let tables = "import waiting live spool gpu rank event block usage missing gap timing metric node \
             element target attempt run origin";
        for table in tables.split(' ') {
            self.execute(&format!("DELETE FROM {table}"), [])?;
        }
        // All rows come again, with other numbers: who took those of before must not take them for news.
        self.execute("UPDATE change SET store = lower(hex(randomblob(8)))", [])?;
        Ok(())
    }

    /// The row of a measurement.
    pub(super) fn node_of(&self, key: &MeasureKey) -> Result<Option<i64>, StoreError> {
        let sql = format!("SELECT node.id FROM node {OF_RUN} WHERE {OF_KEY}");
        self.select(&sql, key_values(key))
    }

    pub(super) fn attempt_row(
        &self,
        run_id: &RunId,
        element: u32,
        attempt: u32,
    ) -> Result<i64, StoreError> {
        self.execute(
            "INSERT INTO attempt (run, element, attempt) SELECT id, ?2, ?3 FROM run WHERE run_id = ?1
             ON CONFLICT (run, element, attempt) DO NOTHING",
            params![run_id.as_str(), element, attempt],
        )?;
        let id = self.select(
            "SELECT attempt.id FROM attempt JOIN run ON attempt.run = run.id
             WHERE run.run_id = ?1 AND attempt.element = ?2 AND attempt.attempt = ?3",
            params![run_id.as_str(), element, attempt],
        )?;
        id.ok_or_else(|| self.unknown(run_id))
    }

    fn target_row(&self, host: &HostFacts) -> Result<Option<i64>, StoreError> {
        let Some(fingerprint) = host.fingerprint() else {
            return Ok(None);
        };
        self.execute(
            "INSERT OR IGNORE INTO target (fingerprint, cpu_model, cpus, mem_total_bytes) VALUES (?1, ?2, ?3, ?4)",
            params![fingerprint, host.cpu_model, optional(host.cpus), optional(host.mem_total_bytes)],
        )?;
        self.select(
            "SELECT id FROM target WHERE fingerprint = ?1",
            [fingerprint],
        )
    }

    /// Notes what a kind of node was measured to do. What was measured later stays, so files may come in any order. `false`
    /// where the kind has no name, the figures are none, or nothing is new.
    ///
    /// # Errors
    /// `StoreFault::Query` and what the disk adds to it.
    pub fn put_figures(&self, host: &HostFacts, figures: &NodeFigures) -> Result<bool, StoreError> {
        let Some(target) = self.target_row(host)?.filter(|_| figures.are_sound()) else {
            return Ok(false);
        };
        let changed = self.execute(
            "UPDATE target SET core_gflops = ?2, node_gflops = ?3, memory_gb_per_second = ?4,
                 disk_mb_per_second = ?5, benched_at_ms = ?6
             WHERE id = ?1 AND (coalesce(benched_at_ms, -1), coalesce(core_gflops, 0.0), coalesce(node_gflops, 0.0),
                     coalesce(memory_gb_per_second, 0.0)) < (?6, ?2, ?3, ?4)",
            params![
                target,
                figures.core_gflops,
                figures.node_gflops,
                figures.memory_gb_per_second,
                figures.disk_mb_per_second,
                integer(figures.measured_at_ms),
            ],
        )?;
        Ok(changed > 0)
    }

    fn node_row(&self, attempt: i64, record: &NodeRecord) -> Result<Option<i64>, StoreError> {
        let mut whole = json!({ "record": record });
        let progress = &mut whole["record"]["progress"];
        if record.progress.counts_samples {
            // The columns are of steps; numbers of samples stay in the record.
            progress["steps_per_epoch"] = Value::Null;
            progress["last_step"] = Value::Null;
        }
        if let Some(rate) = &record.progress.throughput {
            progress["throughput"]["scope"] = rate.scope.as_str().into();
        }
        let values = stored_values(Table::Usage, "node", "/record", &whole);
        self.put_node(attempt, &record.key, &record.host, values)?;
        let sql = "SELECT id FROM node WHERE attempt = ?1 AND node = ?2 AND step = ?3 AND updated_at_ms = ?4";
        let (key, at_ms) = (&record.key, integer(record.updated_at_ms));
        self.select(sql, params![attempt, key.node, key.step, at_ms])
    }

    /// Puts the row of a measurement in; `false` where a newer or the same record is there.
    pub(super) fn put_node(
        &self,
        attempt: i64,
        key: &MeasureKey,
        host: &HostFacts,
        mut values: Vec<(&'static str, Value)>,
    ) -> Result<bool, StoreError> {
        values.extend([
            ("attempt", attempt.into()),
            ("node", key.node.as_str().into()),
            ("step", key.step.into()),
            ("target", self.target_row(host)?.into()),
        ]);
        let key = ["attempt", "node", "step"];
        self.put("node", &key, &values, Replace::NotOlder)
    }
}
