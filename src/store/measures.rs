//! Questions about what was measured in a run.

use std::collections::BTreeMap;

use rusqlite::{Row, params};

use super::open::{Store, StoreError};
use super::runs::unsigned;
use crate::job::RunId;
use crate::record::{Epoch, MeasureKey, Usage};

/// The epochs of one node, in the order in which they ended.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeTimings {
    /// Whose.
    pub key: MeasureKey,
    /// The epochs.
    pub epochs: Vec<Epoch>,
}

/// The usage of one node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeUsage {
    /// Whose.
    pub key: MeasureKey,
    /// The usage.
    pub usage: Usage,
}

/// A segment of samples as it was taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its number.
    pub seq: u32,
    /// Its first sample, in Unix milliseconds UTC.
    pub t0_ms: u64,
    /// Its last sample.
    pub t1_ms: u64,
    /// Number of samples.
    pub samples: u32,
    /// For [`crate::record::decode_segment`].
    pub bytes: Vec<u8>,
}

/// Joins a table whose rows belong to a node with the key of that node, and keeps the order of keys.
const KEY: &str = "attempt.element, attempt.attempt, node.node, node.step";
const OF_RUN: &str =
    "JOIN attempt ON node.attempt = attempt.id JOIN run ON attempt.run = run.id WHERE run.run_id = ?1";

impl Store {
    /// The epochs of a run, by node.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn timings(&self, run_id: &RunId) -> Result<Vec<NodeTimings>, StoreError> {
        let sql = format!(
            "SELECT {KEY}, epoch, printed_seconds, clock_seconds, timing.ended_at_ms, metrics
             FROM timing JOIN node ON timing.node = node.id {OF_RUN} ORDER BY {KEY}, place"
        );
        let rows = self.rows(&sql, [run_id.as_str()], |row| Ok((key(run_id, row)?, epoch(row)?)))?;
        let mut found: Vec<NodeTimings> = Vec::new();
        for (key, epoch) in rows {
            match found.last_mut().filter(|last| last.key == key) {
                Some(last) => last.epochs.push(epoch),
                None => found.push(NodeTimings { key, epochs: vec![epoch] }),
            }
        }
        Ok(found)
    }

    /// The usage of a run, by node.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn usage(&self, run_id: &RunId) -> Result<Vec<NodeUsage>, StoreError> {
        let sql = format!(
            "SELECT {KEY}, wall_seconds, cpu_user_seconds, cpu_system_seconds, mem_peak_bytes, io_read_bytes,
                 io_write_bytes, processes_peak
             FROM usage JOIN node ON usage.node = node.id {OF_RUN} ORDER BY {KEY}"
        );
        self.rows(&sql, [run_id.as_str()], |row| {
            let usage = Usage {
                wall_seconds: row.get(4)?,
                cpu_user_seconds: row.get(5)?,
                cpu_system_seconds: row.get(6)?,
                mem_peak_bytes: unsigned(row, 7)?,
                io_read_bytes: unsigned(row, 8)?,
                io_write_bytes: unsigned(row, 9)?,
                processes_peak: unsigned(row, 10)?,
                ..Usage::default()
            };
            Ok(NodeUsage { key: key(run_id, row)?, usage })
        })
    }

    /// The segments of a measurement, ascending.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn blocks(&self, key: &MeasureKey) -> Result<Vec<Block>, StoreError> {
        let sql = format!(
            "SELECT seq, t0_ms, t1_ms, block.samples, bytes FROM block JOIN node ON block.node = node.id {OF_RUN}
                 AND attempt.element = ?2 AND attempt.attempt = ?3 AND node.node = ?4 AND node.step = ?5 ORDER BY seq"
        );
        let of_key = params![key.run_id.as_str(), key.element, key.attempt, key.node, key.step];
        self.rows(&sql, of_key, |row| {
            Ok(Block {
                seq: row.get(0)?,
                t0_ms: unsigned(row, 1)?.unwrap_or(0),
                t1_ms: unsigned(row, 2)?.unwrap_or(0),
                samples: row.get(3)?,
                bytes: row.get(4)?,
            })
        })
    }
}

fn key(run_id: &RunId, row: &Row<'_>) -> rusqlite::Result<MeasureKey> {
    Ok(MeasureKey {
        run_id: run_id.clone(),
        element: row.get(0)?,
        attempt: row.get(1)?,
        node: row.get(2)?,
        step: row.get(3)?,
    })
}

fn epoch(row: &Row<'_>) -> rusqlite::Result<Epoch> {
    // A metric that was no finite number is `null` in JSON.
    let metrics: BTreeMap<String, Option<f64>> =
        serde_json::from_str(&row.get::<_, String>(8)?).unwrap_or_default();
    Ok(Epoch {
        epoch: unsigned(row, 4)?.unwrap_or(0),
        printed_seconds: row.get(5)?,
        clock_seconds: row.get(6)?,
        ended_at_ms: unsigned(row, 7)?,
        metrics: metrics.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
    })
}
