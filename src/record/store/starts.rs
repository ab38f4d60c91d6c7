//! The starts of runs, for those who learn from them.

use std::collections::HashMap;

use rusqlite::{Params, Row, Transaction};

use super::error::StoreError;
use super::open::Store;
use super::sql::{from_json, number, run_id, unsigned, word};
use crate::job::{Framework, JobState, RunId, Workload, is_share};
use crate::record::{
    Conditions, Epoch, EpochFigures, Forecast, Hardware, Identity, NodeFigures, NodeMeasure,
    NodeState, Progress, Situation, Start, Submitted, Training,
};

/// Ids of runs that are read at once.
const AT_ONCE: i64 = 500;

/// A row for each node of each start of these runs; for starts without nodes one with nulls. The joins are in the order in which
/// the tables lie, so nothing is sorted.
const STARTS: &str = "
    SELECT run.run_id AS run_id, run.id AS run, submitted_at_ms, scheduler,
        coalesce(attempt.record ->> '$.nodes', run.nodes) AS nodes, model, parameters, dataset,
        samples, flops_per_sample, batch_size, epochs, precision, framework, framework_version,
        coalesce(node.trial ->> '$.compiler', framework_compiler) AS framework_compiler, framework_provenance,
        storage_class, coalesce(image_digest, image) AS image, queue, tasks_per_node, identity,
        attempt.id AS start, attempt.element AS element, attempt.attempt AS attempt,
        attempt.started_at_ms AS started_at_ms, attempt.ended_at_ms AS ended_at_ms, shell_code,
        iif(run.array IS NULL, run.state, element.state) AS noted_state,
        iif(run.array IS NULL, run.started_at_ms, element.started_at_ms) AS noted_start_ms,
        iif(run.array IS NULL, run.ended_at_ms, element.ended_at_ms) AS noted_end_ms,
        coalesce(element.attempt = attempt.attempt, true) AND NOT EXISTS (SELECT 1 FROM attempt AS other WHERE other.run = run.id
            AND other.element = attempt.element AND other.attempt > attempt.attempt) AS is_last,
        node.id AS node, node.state AS node_state, node.started_at_ms AS node_start_ms,
        coalesce(node.ended_at_ms, node.updated_at_ms) AS node_last_ms, node.exit_code AS node_code,
        recogniser IS NOT NULL AS is_recognised, epochs_completed, restarts, conditions, cpus_allowed, omp_num_threads,
        cpu_model, cpus, core_gflops, node_gflops, memory_gb_per_second, disk_mb_per_second, benched_at_ms,
        wall_seconds, iif(watcher_samples BETWEEN 1 AND 3, NULL, mem_peak_bytes) AS mem_peak_bytes, cpu_throttled_seconds,
        EXISTS (SELECT 1 FROM gap WHERE gap.node = node.id) AS has_gaps
    FROM run CROSS JOIN attempt ON attempt.run = run.id
        LEFT JOIN element ON element.run = run.id AND element.element = attempt.element
        LEFT JOIN node ON node.attempt = attempt.id
        LEFT JOIN target ON target.id = node.target
        LEFT JOIN usage ON usage.node = node.id
    WHERE run.id BETWEEN ?1 AND ?2
    ORDER BY run.id, attempt.element, attempt.attempt, node.node, node.step";

/// A row for each epoch of a training that ended well in its first start; its last epoch by its place is its last.
const TRAININGS: &str = "
    SELECT node.attempt AS start, node.started_at_ms AS started_at_ms, coalesce(node.epochs_announced, run.epochs) AS planned,
        node.epochs_completed AS epochs_completed, node.epoch_numbering AS epoch_numbering,
        timing.epoch AS epoch, timing.ended_at_ms AS ended_at_ms, timing.clock_set AS clock_set
    FROM node JOIN attempt ON attempt.id = node.attempt JOIN run ON run.id = attempt.run JOIN timing ON timing.node = node.id
    WHERE node.exit_code = 0 AND node.restarts = 0 AND attempt.attempt = 0 AND planned IS NOT NULL
        AND node.id = (SELECT best.id FROM node AS best WHERE best.attempt = node.attempt
            ORDER BY best.epochs_completed DESC, best.id LIMIT 1)
    ORDER BY node.attempt, timing.place";

/// The GPUs of a node.
#[derive(Debug)]
struct Gpus {
    model: String,
    number: u32,
    throttled_seconds: f64,
}

/// One state of the database, for questions that belong together.
#[derive(Debug)]
pub struct Snapshot<'a> {
    store: &'a Store,
    _reading: Transaction<'a>,
    gpus: HashMap<i64, Gpus>,
}

/// The starts of some runs.
#[derive(Debug)]
pub struct Starts {
    /// By run.
    pub runs: Vec<(Submitted, Vec<Start>)>,
    /// The last row that was looked at.
    pub last: i64,
    /// How many runs were looked at.
    pub count: u64,
}

impl Store {
    /// The state of the database now.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn snapshot(&self) -> Result<Snapshot<'_>, StoreError> {
        let begun = self.connection.unchecked_transaction();
        let reading =
            begun.map_err(|source| StoreError::from_sqlite(&self.path, "read", source))?;
        Ok(Snapshot {
            store: self,
            _reading: reading,
            gpus: self.gpus_of_nodes()?,
        })
    }

    /// What was forecast of runs when they were submitted.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn forecasts(&self) -> Result<HashMap<RunId, Forecast>, StoreError> {
        let sql = "SELECT run_id, forecast FROM run WHERE forecast IS NOT NULL";
        let mut forecasts = HashMap::new();
        self.each_row(sql, [], |row| {
            if let Some(forecast) = from_json(row, "forecast")? {
                forecasts.insert(run_id(row)?, forecast);
            }
            Ok(())
        })?;
        Ok(forecasts)
    }

    /// Trainings that ended well, with their epochs, for a judgement of what was forecast of their ends: of each start that was the only
    /// one the node whose log has most of them.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn each_training(&self, mut each: impl FnMut(Training)) -> Result<(), StoreError> {
        let mut current: Option<(i64, Training)> = None;
        self.each_row(TRAININGS, [], |row| {
            let start: i64 = row.get("start")?;
            if current.as_ref().is_none_or(|(known, _)| *known != start) {
                let progress = Progress {
                    epochs_completed: number(row, "epochs_completed")?,
                    epoch_numbering: word(row, "epoch_numbering")?,
                    ..Progress::default()
                };
                let next = Training {
                    started_at_ms: number(row, "started_at_ms")?,
                    planned: number(row, "planned")?,
                    progress,
                };
                if let Some((_, whole)) = current.replace((start, next)) {
                    each(whole);
                }
            }
            if let Some((_, training)) = &mut current {
                training.progress.epochs.push(Epoch {
                    epoch: number(row, "epoch")?,
                    ended_at_ms: unsigned(row, "ended_at_ms")?,
                    clock_set: row.get("clock_set")?,
                    ..Epoch::default()
                });
            }
            Ok(())
        })?;
        if let Some((_, last)) = current {
            each(last);
        }
        Ok(())
    }

    /// A GPU of which only slices were used is none beside them.
    fn gpus_of_nodes(&self) -> Result<HashMap<i64, Gpus>, StoreError> {
        let sql = "SELECT node, name, throttled_seconds FROM gpu
             WHERE NOT EXISTS (SELECT 1 FROM gpu AS slice WHERE slice.node = gpu.node AND slice.parent = gpu.uuid)
             ORDER BY node, uuid";
        let mut found: HashMap<i64, Gpus> = HashMap::new();
        self.each_row(sql, [], |row| {
            let first = Gpus {
                model: row.get("name")?,
                number: 0,
                throttled_seconds: 0.0,
            };
            let gpus = found.entry(row.get("node")?).or_insert(first);
            gpus.number += 1;
            gpus.throttled_seconds = gpus.throttled_seconds.max(row.get("throttled_seconds")?);
            Ok(())
        })?;
        Ok(found)
    }

    /// Hands out rows without keeping them.
    fn each_row(
        &self,
        sql: &str,
        values: impl Params,
        mut each: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        let read = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query(values)?;
            while let Some(row) = rows.next()? {
                each(row)?;
            }
            Ok(())
        };
        read().map_err(|source| StoreError::from_sqlite(&self.path, "read", source))
    }
}

impl Snapshot<'_> {
    /// Hands out all epochs in the order in which they were written: the row of their node, their place among those of the node, and
    /// what is known of their times.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn each_epoch(&self, mut each: impl FnMut(i64, u64, Epoch)) -> Result<(), StoreError> {
        let sql =
            "SELECT node, place, printed_seconds, clock_seconds, event, warmup, evaluation_seconds,
                 checkpoint_seconds, ended_at_ms, clock_set FROM timing ORDER BY change_seq";
        self.store.each_row(sql, [], |row| {
            let epoch = Epoch {
                printed_seconds: row.get("printed_seconds")?,
                clock_seconds: row.get("clock_seconds")?,
                event: row.get("event")?,
                warmup: row.get("warmup")?,
                evaluation_seconds: row.get("evaluation_seconds")?,
                checkpoint_seconds: row.get("checkpoint_seconds")?,
                ended_at_ms: unsigned(row, "ended_at_ms")?,
                clock_set: row.get("clock_set")?,
                ..Epoch::default()
            };
            each(row.get("node")?, number(row, "place")?, epoch);
            Ok(())
        })
    }

    /// The starts of some runs after the one in row `after`, by element and attempt; `None` where there were none left. `epochs` are
    /// what those of each node's row come to.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn starts(
        &self,
        after: i64,
        epochs: &HashMap<i64, EpochFigures>,
    ) -> Result<Option<Starts>, StoreError> {
        let sql = "SELECT min(id) FROM run WHERE id > ?1";
        let first = self.store.rows(sql, [after], |row| row.get(0))?;
        let Some(first) = first.into_iter().next().flatten() else {
            return Ok(None);
        };
        let last = i64::saturating_add(first, AT_ONCE - 1);
        let sql = "SELECT count(*) FROM run WHERE id BETWEEN ?1 AND ?2";
        let count = self.store.rows(sql, [first, last], |row| number(row, 0))?;
        let mut runs: Vec<(Submitted, Vec<Start>)> = Vec::new();
        // The starts of an elastic run may have other sizes than it was submitted with: those of one size are taken together.
        let (mut last_run, mut last_start) = (None, None);
        self.store.each_row(STARTS, [first, last], |row| {
            let (run, row_of_start): (i64, i64) = (row.get("run")?, row.get("start")?);
            let sized = (run, row.get::<_, i64>("nodes")?);
            if last_run.replace(sized) != Some(sized) {
                runs.push((submitted(row)?, Vec::new()));
            }
            let Some((_, starts)) = runs.last_mut() else {
                return Ok(());
            };
            if last_start.replace(row_of_start) != Some(row_of_start) {
                starts.push(start(row)?);
            }
            if let (Some(node), Some(start)) = (row.get("node")?, starts.last_mut()) {
                let epochs = epochs.get(&node).copied().unwrap_or_default();
                let measured = node_measure(row, self.gpus.get(&node), epochs)?;
                start.nodes.push(measured);
            }
            Ok(())
        })?;
        Ok(Some(Starts {
            runs,
            last,
            count: count.first().copied().unwrap_or(0),
        }))
    }
}

/// A start without its nodes. What was noted of its run or element holds for the last one.
fn start(row: &Row<'_>) -> rusqlite::Result<Start> {
    let is_last: bool = row.get("is_last")?;
    let noted: Option<String> = row.get("noted_state")?;
    let noted = noted.filter(|_| is_last);
    let time = |marked, reported| match (unsigned(row, marked)?, &noted) {
        (None, Some(_)) => unsigned(row, reported),
        (marked, _) => Ok(marked),
    };
    Ok(Start {
        element: row.get("element")?,
        attempt: row.get("attempt")?,
        is_last,
        started_at_ms: time("started_at_ms", "noted_start_ms")?,
        ended_at_ms: time("ended_at_ms", "noted_end_ms")?,
        shell_code: row.get("shell_code")?,
        state: noted.map(|state| JobState::from_word(&state).unwrap_or_default()),
        nodes: Vec::new(),
    })
}

fn submitted(row: &Row<'_>) -> rusqlite::Result<Submitted> {
    let workload = Workload {
        model: row.get("model")?,
        parameters: unsigned(row, "parameters")?,
        dataset: row.get("dataset")?,
        samples: unsigned(row, "samples")?,
        flops_per_sample: unsigned(row, "flops_per_sample")?,
        batch_size: unsigned(row, "batch_size")?,
        epochs: unsigned(row, "epochs")?,
        precision: row.get("precision")?,
    };
    let version: Option<String> = row.get("framework_version")?;
    let framework = Framework {
        name: row.get("framework")?,
        // A range says only what was asked for.
        version: version
            .filter(|text| !text.contains(['<', '>', '=', '~', '*', '!', '^', ',', ' '])),
        compiler: row.get("framework_compiler")?,
        provenance: word(row, "framework_provenance")?,
    };
    let identity: Option<Identity> = from_json(row, "identity")?;
    let asked = identity
        .as_ref()
        .and_then(|identity| identity.asked.gpus_per_node.clone());
    let share = asked.filter(|gpus| is_share(gpus));
    let tasks_per_node: Option<u32> = row.get("tasks_per_node")?;
    let numbers = identity.as_ref().map(Identity::other_numbers);
    Ok(Submitted {
        run_id: run_id(row)?,
        at_ms: number(row, "submitted_at_ms")?,
        scheduler: word(row, "scheduler")?.unwrap_or_default(),
        queue: row.get("queue")?,
        situation: Situation {
            // Jobs that declare nothing are distinguished by what they run.
            workload: match identity {
                Some(identity) => identity.completed(&workload),
                None => workload,
            },
            framework,
            image: row.get("image")?,
            // A share of a GPU is no whole one; which GPU it was the nodes say.
            hardware: Hardware {
                gpu_model: share,
                ..Hardware::default()
            },
            nodes: row.get("nodes")?,
            tasks_per_node: tasks_per_node.unwrap_or(1).max(1),
            storage: word(row, "storage_class")?,
            numbers: numbers.unwrap_or_default(),
        },
    })
}

fn node_measure(
    row: &Row<'_>,
    gpus: Option<&Gpus>,
    epochs: EpochFigures,
) -> rusqlite::Result<NodeMeasure> {
    let conditions: Conditions = from_json(row, "conditions")?.unwrap_or_default();
    Ok(NodeMeasure {
        state: word(row, "node_state")?.unwrap_or(NodeState::Interrupted),
        went_well: row.get::<_, Option<i64>>("node_code")? == Some(0),
        started_at_ms: number(row, "node_start_ms")?,
        last_at_ms: number(row, "node_last_ms")?,
        is_recognised: row.get("is_recognised")?,
        epochs_completed: number(row, "epochs_completed")?,
        restarts: row.get("restarts")?,
        epochs,
        cpu_model: row.get("cpu_model")?,
        cpus: unsigned(row, "cpus")?,
        cpus_allowed: unsigned(row, "cpus_allowed")?,
        cpus_effective: conditions.cpus_effective,
        others_cpus_busy: conditions.others_cpus_busy,
        omp_num_threads: row.get("omp_num_threads")?,
        gpu_model: gpus.map(|gpus| gpus.model.clone()),
        gpus: gpus.map_or(0, |gpus| gpus.number),
        gpu_throttled_seconds: gpus.map_or(0.0, |gpus| gpus.throttled_seconds),
        cpu_throttled_seconds: row.get("cpu_throttled_seconds")?,
        wall_seconds: row.get("wall_seconds")?,
        mem_peak_bytes: unsigned(row, "mem_peak_bytes")?,
        has_gaps: row.get("has_gaps")?,
        figures: figures(row)?,
    })
}

/// What the kind of node was measured to do, where all but the disk is known.
fn figures(row: &Row<'_>) -> rusqlite::Result<Option<NodeFigures>> {
    let figure = |name| row.get::<_, Option<f64>>(name);
    let (Some(core_gflops), Some(node_gflops), Some(memory_gb_per_second)) = (
        figure("core_gflops")?,
        figure("node_gflops")?,
        figure("memory_gb_per_second")?,
    ) else {
        return Ok(None);
    };
    Ok(Some(NodeFigures {
        core_gflops,
        node_gflops,
        memory_gb_per_second,
        disk_mb_per_second: figure("disk_mb_per_second")?,
        measured_at_ms: number(row, "benched_at_ms")?,
    }))
}
