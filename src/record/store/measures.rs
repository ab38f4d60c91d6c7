//! Questions about what was measured in a run.

use std::collections::BTreeMap;

use rusqlite::{Row, params};
use serde::de::DeserializeOwned;

use super::open::{Store, StoreError};
use super::runs::unsigned;
use crate::job::RunId;
use crate::record::{
    Conditions, Epoch, Event, EventKind, GpuFacts, GpuSums, GpuUsage, MeasureKey, MetricPoint,
    PointKind, Progress, StepMark, StepTimes, Throughput, Usage,
};

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

/// How far one node came, and under what conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeProgress {
    /// Whose.
    pub key: MeasureKey,
    /// What was recognised, without the epochs: [`Store::timings`] has them.
    pub progress: Progress,
    /// Under what conditions.
    pub conditions: Conditions,
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

/// A series over one span of time, in few figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollup {
    /// The series: a column of the samples, or `gpu/UUID/COLUMN`.
    pub series: String,
    /// Where the span begins, in Unix milliseconds UTC.
    pub t0_ms: u64,
    /// Number of values.
    pub samples: u64,
    /// The least of them.
    pub minimum: u64,
    /// The largest.
    pub maximum: u64,
    /// Their sum.
    pub sum: f64,
    /// The last.
    pub last: u64,
}

/// Joins a table whose rows belong to a node with the key of that node, and keeps the order of keys.
pub(super) const KEY: &str = "attempt.element, attempt.attempt, node.node, node.step";
pub(super) const OF_RUN: &str = "JOIN attempt ON node.attempt = attempt.id JOIN run ON attempt.run = run.id WHERE run.run_id = ?1";

impl Store {
    /// The epochs of a run, by node.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn timings(&self, run_id: &RunId) -> Result<Vec<NodeTimings>, StoreError> {
        let sql = format!(
            "SELECT {KEY}, epoch, printed_seconds, clock_seconds, timing.ended_at_ms, metrics, event, warmup, timing.samples,
                 evaluation_seconds, checkpoint_seconds, clock_set
             FROM timing JOIN node ON timing.node = node.id {OF_RUN} ORDER BY {KEY}, place"
        );
        let rows = self.rows(&sql, [run_id.as_str()], |row| {
            Ok((key(run_id, row)?, epoch(row)?))
        })?;
        let mut found: Vec<NodeTimings> = Vec::new();
        for (key, epoch) in rows {
            match found.last_mut().filter(|last| last.key == key) {
                Some(last) => last.epochs.push(epoch),
                None => found.push(NodeTimings {
                    key,
                    epochs: vec![epoch],
                }),
            }
        }
        Ok(found)
    }

    /// What was recognised of a run but for its epochs, and its conditions, by node.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn progress(&self, run_id: &RunId) -> Result<Vec<NodeProgress>, StoreError> {
        let sql = format!(
            "SELECT {KEY}, recogniser, epochs_announced, epoch_numbering, epochs_completed, steps_per_epoch,
                 last_step_epoch, last_step, last_step_of, step_seconds, step_source, steps_timed, step_median_seconds,
                 step_p95_seconds, throughput, throughput_unit, throughput_scope, run_seconds, restarts, last_metrics,
                 conditions, evaluation_outside_seconds, checkpoint_outside_seconds
             FROM node {OF_RUN} ORDER BY {KEY}"
        );
        self.rows(&sql, [run_id.as_str()], |row| {
            let conditions = serde_json::from_str(&row.get::<_, String>(23)?).unwrap_or_default();
            Ok(NodeProgress {
                key: key(run_id, row)?,
                progress: progress(row)?,
                conditions,
            })
        })
    }

    /// The usage of a run, by node.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn usage(&self, run_id: &RunId) -> Result<Vec<NodeUsage>, StoreError> {
        let sql = format!(
            "SELECT {KEY}, wall_seconds, cpu_user_seconds, cpu_system_seconds, mem_peak_bytes, io_read_bytes,
                 io_write_bytes, processes_peak, cpu_throttled_seconds, mem_oom_kills
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
                cpu_throttled_seconds: row.get(11)?,
                mem_oom_kills: unsigned(row, 12)?,
            };
            Ok(NodeUsage {
                key: key(run_id, row)?,
                usage,
            })
        })
    }

    /// Losses and metrics of a run's steps and evaluations, by node, in the order of their points.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn points(&self, run_id: &RunId) -> Result<Vec<(MeasureKey, MetricPoint)>, StoreError> {
        let sql = format!(
            "SELECT {KEY}, kind, place, epoch, metric.step, at_ms, json_group_object(metric.name, value)
             FROM metric JOIN node ON metric.node = node.id {OF_RUN} AND kind <> 'epoch'
             GROUP BY metric.node, kind, place ORDER BY {KEY}, kind DESC, place"
        );
        self.rows(&sql, [run_id.as_str()], |row| {
            let kind = if row.get::<_, String>(4)? == "step" {
                PointKind::Step
            } else {
                PointKind::Evaluation
            };
            let point = MetricPoint {
                kind,
                place: unsigned(row, 5)?.unwrap_or(0),
                epoch: unsigned(row, 6)?,
                step: unsigned(row, 7)?,
                at_ms: unsigned(row, 8)?,
                metrics: metrics(row, 9)?,
            };
            Ok((key(run_id, row)?, point))
        })
    }

    /// What happened in a run, by node, oldest first.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn events(&self, run_id: &RunId) -> Result<Vec<(MeasureKey, Event)>, StoreError> {
        let sql = format!(
            "SELECT {KEY}, at_ms, kind, detail FROM event JOIN node ON event.node = node.id {OF_RUN}
             ORDER BY {KEY}, place"
        );
        self.rows(&sql, [run_id.as_str()], |row| {
            Ok((key(run_id, row)?, event(row, 4)?))
        })
    }

    /// The GPUs of a run, by node. The sums behind the means are in the node record alone.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn gpus(&self, run_id: &RunId) -> Result<Vec<(MeasureKey, GpuUsage)>, StoreError> {
        let sql = format!(
            "SELECT {KEY}, uuid, gpu.name, minor, pci_bus_id, mem_total_bytes, power_limit_watts, sm_clock_max_mhz, mig,
                 parent, driver, readings, utilisation_mean_percent, mem_peak_bytes, energy_joules, power_mean_watts,
                 temperature_peak_celsius, sm_clock_mean_mhz, throttled_seconds, idle_seconds, xid_errors
             FROM gpu JOIN node ON gpu.node = node.id {OF_RUN} ORDER BY {KEY}, uuid"
        );
        self.rows(&sql, [run_id.as_str()], |row| {
            Ok((key(run_id, row)?, gpu_usage(row)?))
        })
    }

    /// The series of a measurement over each 60 s or 3600 s, by time; empty for other spans.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn rollups(&self, key: &MeasureKey, span_seconds: u32) -> Result<Vec<Rollup>, StoreError> {
        let sql = format!(
            "SELECT series.name, t0_ms, rollup.samples, minimum, maximum, sum, last
             FROM rollup JOIN series ON rollup.series = series.id JOIN node ON rollup.node = node.id {OF_RUN}
                 AND attempt.element = ?2 AND attempt.attempt = ?3 AND node.node = ?4 AND node.step = ?5
                 AND span_seconds = ?6 ORDER BY t0_ms, rollup.series"
        );
        let of_key = params![
            key.run_id.as_str(),
            key.element,
            key.attempt,
            key.node,
            key.step,
            span_seconds
        ];
        self.rows(&sql, of_key, |row| {
            let number = |column| Ok::<_, rusqlite::Error>(unsigned(row, column)?.unwrap_or(0));
            Ok(Rollup {
                series: row.get(0)?,
                t0_ms: number(1)?,
                samples: number(2)?,
                minimum: number(3)?,
                maximum: number(4)?,
                sum: row.get(5)?,
                last: number(6)?,
            })
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
        let of_key = params![
            key.run_id.as_str(),
            key.element,
            key.attempt,
            key.node,
            key.step
        ];
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

pub(super) fn key(run_id: &RunId, row: &Row<'_>) -> rusqlite::Result<MeasureKey> {
    Ok(MeasureKey {
        run_id: run_id.clone(),
        element: row.get(0)?,
        attempt: row.get(1)?,
        node: row.get(2)?,
        step: row.get(3)?,
    })
}

/// An event whose columns begin at `first`.
pub(super) fn event(row: &Row<'_>, first: usize) -> rusqlite::Result<Event> {
    let kind: String = row.get(first + 1)?;
    // A kind of a later dlrun is a note here.
    let kind = serde_json::from_value(kind.into()).unwrap_or(EventKind::Note);
    Ok(Event {
        at_ms: unsigned(row, first)?.unwrap_or(0),
        kind,
        detail: row.get(first + 2)?,
    })
}

fn gpu_usage(row: &Row<'_>) -> rusqlite::Result<GpuUsage> {
    let gpu = GpuFacts {
        uuid: row.get(4)?,
        name: row.get(5)?,
        minor: row.get(6)?,
        pci_bus_id: row.get(7)?,
        mem_total_bytes: unsigned(row, 8)?,
        power_limit_watts: row.get(9)?,
        sm_clock_max_mhz: row.get(10)?,
        mig: row.get(11)?,
        parent: row.get(12)?,
        driver: row.get(13)?,
    };
    Ok(GpuUsage {
        gpu,
        readings: unsigned(row, 14)?.unwrap_or(0),
        utilisation_mean_percent: row.get(15)?,
        mem_peak_bytes: unsigned(row, 16)?,
        energy_joules: row.get(17)?,
        power_mean_watts: row.get(18)?,
        temperature_peak_celsius: unsigned(row, 19)?,
        sm_clock_mean_mhz: row.get(20)?,
        throttled_seconds: row.get(21)?,
        idle_seconds: row.get(22)?,
        xid_errors: unsigned(row, 23)?.unwrap_or(0),
        sums: GpuSums::default(),
    })
}

fn progress(row: &Row<'_>) -> rusqlite::Result<Progress> {
    let mark = StepMark {
        epoch: unsigned(row, 9)?,
        step: unsigned(row, 10)?,
        of: unsigned(row, 11)?,
    };
    let step_times = || -> rusqlite::Result<Option<StepTimes>> {
        let Some(source) = word(row, 13)? else {
            return Ok(None);
        };
        let (median, p95): (Option<f64>, Option<f64>) = (row.get(15)?, row.get(16)?);
        let steps = unsigned(row, 14)?.unwrap_or(0);
        let times = |(median_seconds, p95_seconds)| StepTimes {
            source,
            steps,
            median_seconds,
            p95_seconds,
        };
        Ok(median.zip(p95).map(times))
    };
    let (value, unit): (Option<f64>, Option<String>) = (row.get(17)?, row.get(18)?);
    let scope = word(row, 19)?.unwrap_or_default();
    Ok(Progress {
        recogniser: row.get(4)?,
        epochs_announced: unsigned(row, 5)?,
        epoch_numbering: word(row, 6)?,
        epochs_completed: unsigned(row, 7)?.unwrap_or(0),
        epochs: Vec::new(),
        steps_per_epoch: unsigned(row, 8)?,
        counts_samples: false,
        last_step: (mark
            != StepMark {
                epoch: None,
                step: None,
                of: None,
            })
        .then_some(mark),
        step_seconds: row.get(12)?,
        step_times: step_times()?,
        throughput: value
            .zip(unit)
            .map(|(value, unit)| Throughput { value, unit, scope }),
        run_seconds: row.get(20)?,
        restarts: row.get(21)?,
        last_metrics: metrics(row, 22)?,
        points: Vec::new(),
        evaluation_seconds: row.get(24)?,
        checkpoint_seconds: row.get(25)?,
    })
}

/// What a word stands for; one of a later dlrun is unknown here.
fn word<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    let word: Option<String> = row.get(column)?;
    Ok(word.and_then(|word| serde_json::from_value(word.into()).ok()))
}

/// A metric that was no finite number is `null` in JSON.
fn metrics(row: &Row<'_>, column: usize) -> rusqlite::Result<BTreeMap<String, f64>> {
    let metrics: BTreeMap<String, Option<f64>> =
        serde_json::from_str(&row.get::<_, String>(column)?).unwrap_or_default();
    Ok(metrics
        .into_iter()
        .map(|(name, value)| (name, value.unwrap_or(f64::NAN)))
        .collect())
}

fn epoch(row: &Row<'_>) -> rusqlite::Result<Epoch> {
    Ok(Epoch {
        epoch: unsigned(row, 4)?.unwrap_or(0),
        printed_seconds: row.get(5)?,
        clock_seconds: row.get(6)?,
        ended_at_ms: unsigned(row, 7)?,
        metrics: metrics(row, 8)?,
        event: row.get(9)?,
        warmup: row.get(10)?,
        samples: unsigned(row, 11)?,
        evaluation_seconds: row.get(12)?,
        checkpoint_seconds: row.get(13)?,
        clock_set: row.get(14)?,
    })
}
