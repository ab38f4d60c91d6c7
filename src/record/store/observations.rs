//! The runs of the index as the performance model sees them.
//!
//! All epochs are gone through once in the order in which they lie, which is several times quicker than node by node; then come
//! the runs with their starts and nodes, some hundred at a time. What is kept of a node with a thousand epochs is bounded.

use std::collections::HashMap;

use rusqlite::{Row, Transaction};
use serde::Deserialize;

use super::open::{Store, StoreError};
use super::runs::{from_json, provenance, run_id, storage_class, unsigned};
use crate::job::{Framework, JobState, RunId, SchedulerKind, Workload};
use crate::learn::model::{
    Ending, EpochFigures, EpochTally, NodeMeasure, Observation, Situation, Start, Submitted,
};
use crate::record::{Epoch, Forecast, Identity, NodeFigures, NodeState};

/// Ids of runs that are read at once.
const AT_ONCE: i64 = 500;

/// What was gone through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Counted {
    /// Runs.
    pub runs: u64,
    /// Starts of them: elements of arrays and requeues count each.
    pub starts: u64,
    /// Starts that became observations.
    pub observations: u64,
    /// Starts that go on, or of which nobody knows that they ended.
    pub going_on: u64,
    /// Starts of which no node was measured.
    pub unmeasured: u64,
    /// Epochs.
    pub epochs: u64,
    /// Epochs without a time, or with one that is not positive.
    pub epochs_passed_over: u64,
}

/// The observations of an index, one after the other. What goes wrong ends them: [`Observations::finish`] tells.
#[derive(Debug)]
pub struct Observations<'a> {
    store: &'a Store,
    /// One state of the database for all of it.
    _reading: Transaction<'a>,
    epochs: HashMap<i64, EpochFigures>,
    gpus: HashMap<i64, Gpus>,
    ready: std::vec::IntoIter<Observation>,
    /// The last run that was read.
    after: i64,
    counted: Counted,
    failed: Option<StoreError>,
}

/// The GPUs of a node.
#[derive(Debug)]
struct Gpus {
    model: String,
    number: u32,
    throttled_seconds: f64,
}

impl Store {
    /// The runs as the performance model sees them: one observation for each start that is over and was measured, by the order
    /// in which the runs came here.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn observations(&self) -> Result<Observations<'_>, StoreError> {
        let begun = self.connection.unchecked_transaction();
        let reading = begun.map_err(|source| StoreError::of(&self.path, "read", source))?;
        let mut counted = Counted::default();
        let epochs = self.epoch_figures(&mut counted)?;
        let gpus = self.gpus_of_nodes()?;
        let ready = Vec::new().into_iter();
        let failed = None;
        Ok(Observations {
            store: self,
            _reading: reading,
            epochs,
            gpus,
            ready,
            after: i64::MIN,
            counted,
            failed,
        })
    }

    /// What was foretold of runs when they were submitted.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn forecasts(&self) -> Result<HashMap<RunId, Forecast>, StoreError> {
        let sql = "SELECT run_id, forecast FROM run WHERE forecast IS NOT NULL";
        let rows = self.rows(sql, [], |row| {
            Ok((run_id(row)?, from_json::<Forecast>(row, 1)?))
        })?;
        // What a newer dlrun may have written is passed over.
        Ok(rows
            .into_iter()
            .filter_map(|(run_id, forecast)| Some((run_id, forecast?)))
            .collect())
    }

    fn epoch_figures(
        &self,
        counted: &mut Counted,
    ) -> Result<HashMap<i64, EpochFigures>, StoreError> {
        let sql =
            "SELECT node, place, printed_seconds, clock_seconds, event, warmup, evaluation_seconds,
                 checkpoint_seconds, ended_at_ms, clock_set FROM timing ORDER BY change_seq";
        // The epochs of a node lie together, but for those of trainings that went on at the same time.
        let mut numbers: HashMap<i64, usize> = HashMap::new();
        let mut tallies: Vec<(i64, EpochTally)> = Vec::new();
        let mut last: Option<(i64, usize)> = None;
        self.each_row(sql, &mut |row| {
            let node: i64 = row.get(0)?;
            let at = match last {
                Some((same, at)) if same == node => at,
                _ => *numbers.entry(node).or_insert_with(|| {
                    tallies.push((node, EpochTally::default()));
                    tallies.len() - 1
                }),
            };
            last = Some((node, at));
            tallies[at]
                .1
                .add(unsigned(row, 1)?.unwrap_or(0), &epoch(row)?);
            Ok(())
        })?;
        drop(numbers);
        let mut figures = HashMap::with_capacity(tallies.len());
        for (node, tally) in tallies {
            let of_node = tally.figures();
            counted.epochs += u64::from(of_node.ended);
            counted.epochs_passed_over += u64::from(of_node.passed_over);
            figures.insert(node, of_node);
        }
        Ok(figures)
    }

    /// A GPU of which only slices were used is none beside them.
    fn gpus_of_nodes(&self) -> Result<HashMap<i64, Gpus>, StoreError> {
        let sql = "SELECT node, name, throttled_seconds FROM gpu
             WHERE NOT EXISTS (SELECT 1 FROM gpu AS slice WHERE slice.node = gpu.node AND slice.parent = gpu.uuid)
             ORDER BY node, uuid";
        let mut found: HashMap<i64, Gpus> = HashMap::new();
        self.each_row(sql, &mut |row| {
            let (node, throttled_seconds): (i64, f64) = (row.get(0)?, row.get(2)?);
            if let Some(known) = found.get_mut(&node) {
                known.number += 1;
                known.throttled_seconds = known.throttled_seconds.max(throttled_seconds);
            } else {
                found.insert(
                    node,
                    Gpus {
                        model: row.get(1)?,
                        number: 1,
                        throttled_seconds,
                    },
                );
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Hands out rows without keeping them.
    fn each_row(
        &self,
        sql: &str,
        each: &mut dyn FnMut(&Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        let mut read = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                each(row)?;
            }
            Ok(())
        };
        read().map_err(|source| StoreError::of(&self.path, "read", source))
    }
}

fn epoch(row: &Row<'_>) -> rusqlite::Result<Epoch> {
    Ok(Epoch {
        printed_seconds: row.get(2)?,
        clock_seconds: row.get(3)?,
        event: row.get(4)?,
        warmup: row.get(5)?,
        evaluation_seconds: row.get(6)?,
        checkpoint_seconds: row.get(7)?,
        ended_at_ms: unsigned(row, 8)?,
        clock_set: row.get(9)?,
        ..Epoch::default()
    })
}

impl Iterator for Observations<'_> {
    type Item = Observation;

    fn next(&mut self) -> Option<Observation> {
        loop {
            if let Some(observation) = self.ready.next() {
                self.counted.observations += 1;
                return Some(observation);
            }
            match self.read_more() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.failed = Some(error);
                    return None;
                }
            }
        }
    }
}

impl Observations<'_> {
    /// What was gone through.
    ///
    /// # Errors
    /// What ended them before their end; as [`Store::list`], and [`StoreError::Changed`].
    pub fn finish(mut self) -> Result<Counted, StoreError> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.store.verify_reading().map(|()| self.counted),
        }
    }

    /// Reads the next runs; false where there is none left.
    fn read_more(&mut self) -> Result<bool, StoreError> {
        if self.failed.is_some() {
            return Ok(false);
        }
        let first = self.store.rows(
            "SELECT min(id) FROM run WHERE id > ?1",
            [self.after],
            |row| row.get(0),
        )?;
        let Some(first) = first.into_iter().next().flatten() else {
            return Ok(false);
        };
        let last = i64::saturating_add(first, AT_ONCE - 1);
        self.after = last;
        let runs = self.store.rows(
            "SELECT count(*) FROM run WHERE id BETWEEN ?1 AND ?2",
            [first, last],
            |row| Ok(unsigned(row, 0)?.unwrap_or(0)),
        )?;
        self.counted.runs += runs.first().copied().unwrap_or(0);
        let mut page = Page {
            runs: Vec::new(),
            starts: Vec::new(),
        };
        let (epochs, gpus) = (&self.epochs, &self.gpus);
        self.store
            .rows(PAGE, [first, last], |row| page.take(row, epochs, gpus))?;
        self.ready = page.observations(&mut self.counted).into_iter();
        Ok(true)
    }
}

/// A row for each node of each start of these runs; for starts without nodes one with nulls. The joins are in the order in which
/// the tables lie, so nothing is sorted.
const PAGE: &str = "
    SELECT run.run_id, run.id, submitted_at_ms, scheduler, run.nodes, model, parameters, dataset, samples, batch_size,
        epochs, precision, framework, framework_version, framework_compiler, framework_provenance, storage_class,
        image, image_digest, queue, run.array IS NOT NULL, run.state, run.started_at_ms, run.ended_at_ms,
        attempt.id, attempt.element, attempt.attempt, attempt.started_at_ms, attempt.ended_at_ms, shell_code,
        element.state, element.attempt, element.started_at_ms, element.ended_at_ms,
        node.id, node.state, node.started_at_ms, node.ended_at_ms, node.updated_at_ms, node.exit_code,
        recogniser IS NOT NULL, epochs_completed, restarts, conditions, cpus_allowed, omp_num_threads,
        cpu_model, cpus, core_gflops, node_gflops, memory_gb_per_second, disk_mb_per_second, benched_at_ms,
        wall_seconds, mem_peak_bytes, cpu_throttled_seconds, EXISTS (SELECT 1 FROM gap WHERE gap.node = node.id),
        tasks_per_node, identity
    FROM run CROSS JOIN attempt ON attempt.run = run.id
        LEFT JOIN element ON element.run = run.id AND element.element = attempt.element
        LEFT JOIN node ON node.attempt = attempt.id
        LEFT JOIN target ON target.id = node.target
        LEFT JOIN usage ON usage.node = node.id
    WHERE run.id BETWEEN ?1 AND ?2
    ORDER BY run.id, attempt.element, attempt.attempt, node.node, node.step";

/// Some runs with their starts.
struct Page {
    runs: Vec<Run>,
    starts: Vec<Begun>,
}

/// What the starts of a run share.
struct Run {
    id: i64,
    submitted: Submitted,
    /// Where it stands, and when it began and ended; of an array its elements tell.
    stands: Option<Stands>,
}

/// How a run or an element stands, which holds for the last start of it.
#[derive(Clone, Copy)]
struct Stands {
    state: JobState,
    started_at_ms: Option<u64>,
    ended_at_ms: Option<u64>,
}

/// A start, before it is known whether another one followed.
struct Begun {
    /// Its place among the runs of the page.
    run: usize,
    id: i64,
    shell_code: Option<i32>,
    element: Option<Stands>,
    /// The start that the index notes as the one that ended.
    noted: Option<u32>,
    start: Start,
}

impl Page {
    fn take(
        &mut self,
        row: &Row<'_>,
        epochs: &HashMap<i64, EpochFigures>,
        gpus: &HashMap<i64, Gpus>,
    ) -> rusqlite::Result<()> {
        let id: i64 = row.get(1)?;
        if self.runs.last().is_none_or(|last| last.id != id) {
            let stands = if row.get(20)? {
                None
            } else {
                stands(row, [21, 22, 23])?
            };
            self.runs.push(Run {
                id,
                submitted: submitted(row)?,
                stands,
            });
        }
        let attempt: i64 = row.get(24)?;
        if self.starts.last().is_none_or(|last| last.id != attempt) {
            self.starts.push(Begun {
                run: self.runs.len() - 1,
                id: attempt,
                shell_code: row.get(29)?,
                element: stands(row, [30, 32, 33])?,
                noted: row.get(31)?,
                start: Start {
                    element: row.get(25)?,
                    attempt: row.get(26)?,
                    ending: Ending::GoesOn,
                    started_at_ms: unsigned(row, 27)?,
                    ended_at_ms: unsigned(row, 28)?,
                    nodes: Vec::new(),
                },
            });
        }
        if let (Some(node), Some(begun)) = (row.get::<_, Option<i64>>(34)?, self.starts.last_mut())
        {
            let of_epochs = epochs.get(&node).copied().unwrap_or_default();
            begun
                .start
                .nodes
                .push(node_measure(row, of_epochs, gpus.get(&node))?);
        }
        Ok(())
    }

    fn observations(self, counted: &mut Counted) -> Vec<Observation> {
        let whose: Vec<(usize, u32)> = self
            .starts
            .iter()
            .map(|begun| (begun.run, begun.start.element))
            .collect();
        let mut observations = Vec::with_capacity(self.starts.len());
        for (at, begun) in self.starts.into_iter().enumerate() {
            let run = &self.runs[begun.run];
            let is_last = whose.get(at + 1) != Some(&whose[at])
                && begun.noted.is_none_or(|noted| noted == begun.start.attempt);
            let stands = run.stands.or(begun.element).filter(|_| is_last);
            let mut start = begun.start;
            start.ending = Ending::of(
                stands.map(|stands| stands.state),
                is_last,
                begun.shell_code,
                &start.nodes,
            );
            start.started_at_ms = start
                .started_at_ms
                .or(stands.and_then(|stands| stands.started_at_ms));
            start.ended_at_ms = start
                .ended_at_ms
                .or(stands.and_then(|stands| stands.ended_at_ms));
            counted.starts += 1;
            counted.unmeasured += u64::from(start.nodes.is_empty());
            counted.going_on +=
                u64::from(start.ending == Ending::GoesOn && !start.nodes.is_empty());
            observations.extend(start.observe(&run.submitted));
        }
        observations
    }
}

/// The columns of a state, a start and an end.
fn stands(row: &Row<'_>, columns: [usize; 3]) -> rusqlite::Result<Option<Stands>> {
    let [state, started, ended] = columns;
    let Some(word) = row.get_ref(state)?.as_str_or_null()? else {
        return Ok(None);
    };
    Ok(Some(Stands {
        state: JobState::from_word(word),
        started_at_ms: unsigned(row, started)?,
        ended_at_ms: unsigned(row, ended)?,
    }))
}

fn submitted(row: &Row<'_>) -> rusqlite::Result<Submitted> {
    let digest: Option<String> = row.get(18)?;
    let declared = Workload {
        model: row.get(5)?,
        parameters: unsigned(row, 6)?,
        dataset: row.get(7)?,
        samples: unsigned(row, 8)?,
        batch_size: unsigned(row, 9)?,
        epochs: unsigned(row, 10)?,
        precision: row.get(11)?,
    };
    // Jobs that declare nothing are told apart by what they run.
    let identity: Option<Identity> = from_json(row, row.as_ref().column_index("identity")?)?;
    let workload = match &identity {
        Some(identity) => identity.completed(&declared),
        None => declared,
    };
    let situation = Situation {
        workload,
        framework: Framework {
            name: row.get(12)?,
            version: row
                .get::<_, Option<String>>(13)?
                .filter(|text| is_one_version(text)),
            compiler: row.get(14)?,
            provenance: row.get_ref(15)?.as_str_or_null()?.and_then(provenance),
        },
        image: match digest {
            Some(digest) => Some(digest),
            None => row.get(17)?,
        },
        nodes: row.get(4)?,
        tasks_per_node: row
            .get::<_, Option<u32>>("tasks_per_node")?
            .unwrap_or(1)
            .max(1),
        storage: row.get_ref(16)?.as_str_or_null()?.and_then(storage_class),
        ..Situation::default()
    };
    Ok(Submitted {
        run_id: run_id(row)?,
        at_ms: unsigned(row, 2)?.unwrap_or(0),
        scheduler: row
            .get_ref(3)?
            .as_str_or_null()?
            .and_then(SchedulerKind::from_word)
            .unwrap_or_default(),
        queue: row.get(19)?,
        situation,
    })
}

/// A range says only what was asked for.
fn is_one_version(text: &str) -> bool {
    !text.contains(['<', '>', '=', '~', '*', '!', '^', ',', ' '])
}

/// What is read of a node's conditions.
#[derive(Deserialize, Default)]
struct Conditions {
    cpus_effective: Option<f64>,
    others_cpus_busy: Option<f64>,
}

fn node_measure(
    row: &Row<'_>,
    epochs: EpochFigures,
    gpus: Option<&Gpus>,
) -> rusqlite::Result<NodeMeasure> {
    let time = |column| Ok::<_, rusqlite::Error>(unsigned(row, column)?.unwrap_or(0));
    let state = match row.get_ref(35)?.as_str_or_null()? {
        Some("running") => NodeState::Running,
        Some("ended") => NodeState::Ended,
        _ => NodeState::Interrupted,
    };
    let conditions = row.get_ref(43)?.as_str_or_null()?.unwrap_or("{}");
    let conditions: Conditions = serde_json::from_str(conditions).unwrap_or_default();
    Ok(NodeMeasure {
        state,
        went_well: row.get::<_, Option<i64>>(39)? == Some(0),
        started_at_ms: time(36)?,
        last_at_ms: unsigned(row, 37)?.unwrap_or(time(38)?),
        is_recognised: row.get(40)?,
        epochs_completed: time(41)?,
        restarts: row.get(42)?,
        epochs,
        cpu_model: row.get(46)?,
        cpus: unsigned(row, 47)?,
        cpus_allowed: unsigned(row, 44)?,
        cpus_effective: conditions.cpus_effective,
        others_cpus_busy: conditions.others_cpus_busy,
        omp_num_threads: row.get(45)?,
        gpu_model: gpus.map(|gpus| gpus.model.clone()),
        gpus: gpus.map_or(0, |gpus| gpus.number),
        gpu_throttled_seconds: gpus.map_or(0.0, |gpus| gpus.throttled_seconds),
        cpu_throttled_seconds: row.get(55)?,
        wall_seconds: row.get(53)?,
        mem_peak_bytes: unsigned(row, 54)?,
        has_gaps: row.get(56)?,
        figures: figures(row)?,
    })
}

fn figures(row: &Row<'_>) -> rusqlite::Result<Option<NodeFigures>> {
    let (core, node, memory): (Option<f64>, Option<f64>, Option<f64>) =
        (row.get(48)?, row.get(49)?, row.get(50)?);
    let (Some(core_gflops), Some(node_gflops), Some(memory_gb_per_second)) = (core, node, memory)
    else {
        return Ok(None);
    };
    let disk_mb_per_second = row.get(51)?;
    let measured_at_ms = unsigned(row, 52)?.unwrap_or(0);
    Ok(Some(NodeFigures {
        core_gflops,
        node_gflops,
        memory_gb_per_second,
        disk_mb_per_second,
        measured_at_ms,
    }))
}
