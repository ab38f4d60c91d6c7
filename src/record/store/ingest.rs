//! Taking records in. Doing so twice changes nothing.

use std::path::Path;

use rusqlite::{OptionalExtension, Params, Transaction, params};

use super::open::StoreError;
use super::{integer, optional};
use crate::job::{Provenance, RunId};
use crate::record::{
    EpochNumbering, ExitStatus, HostFacts, MeasureKey, NodeFigures, NodeRecord, NodeState, Outcome,
    RunRecord, Status,
};

/// An older record changes nothing, and then there is no row to return.
const UPSERT_NODE: &str = "
    INSERT INTO node (attempt, node, step, job_id, state, started_at_ms, ended_at_ms, updated_at_ms, exit_code, exit_signal, output,
        target, hostname, kernel, cpus_allowed, omp_num_threads, recogniser, epochs_announced, epochs_completed,
        steps_per_epoch, step_seconds, throughput, throughput_unit, segments, watcher_cpu_us, watcher_samples,
        watcher_late_ticks, cgroup, container, epoch_numbering, restarts, last_step_epoch, last_step, last_step_of,
        step_source, steps_timed, step_median_seconds, step_p95_seconds, throughput_scope, run_seconds, last_metrics,
        conditions, evaluation_outside_seconds, checkpoint_outside_seconds)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24,
        ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39, ?40, ?41, ?42, ?43, ?44)
    ON CONFLICT (attempt, node, step) DO UPDATE SET job_id = ?4, state = ?5, started_at_ms = ?6, ended_at_ms = ?7, updated_at_ms = ?8, exit_code = ?9,
        exit_signal = ?10, output = ?11, target = ?12, hostname = ?13, kernel = ?14, cpus_allowed = ?15,
        omp_num_threads = ?16, recogniser = ?17, epochs_announced = ?18, epochs_completed = ?19,
        steps_per_epoch = ?20, step_seconds = ?21, throughput = ?22, throughput_unit = ?23, segments = ?24,
        watcher_cpu_us = ?25, watcher_samples = ?26, watcher_late_ticks = ?27, cgroup = ?28, container = ?29,
        epoch_numbering = ?30, restarts = ?31, last_step_epoch = ?32, last_step = ?33, last_step_of = ?34,
        step_source = ?35, steps_timed = ?36, step_median_seconds = ?37, step_p95_seconds = ?38,
        throughput_scope = ?39, run_seconds = ?40, last_metrics = ?41, conditions = ?42,
        evaluation_outside_seconds = ?43, checkpoint_outside_seconds = ?44
        WHERE updated_at_ms <= ?8
    RETURNING id";

/// The row of a measurement, by its key.
pub(super) const NODE_OF: &str = "
    SELECT node.id FROM node JOIN attempt ON node.attempt = attempt.id JOIN run ON attempt.run = run.id
    WHERE run.run_id = ?1 AND attempt.element = ?2 AND attempt.attempt = ?3 AND node.node = ?4 AND node.step = ?5";

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

/// Writes to the index, inside one transaction ([`super::Store::write`]).
#[derive(Debug)]
pub struct Writer<'a> {
    pub(super) transaction: &'a Transaction<'a>,
    pub(super) path: &'a Path,
}

impl Writer<'_> {
    /// Takes a run in, or what is new of it. A job id or output once known is not forgotten.
    ///
    /// # Errors
    /// [`StoreError::Query`] and what the disk adds to it: [`StoreError::Full`], [`StoreError::Damaged`].
    pub fn upsert_run(&self, run: &RunRecord) -> Result<(), StoreError> {
        let work = &run.workload;
        let parts = (!run.parts.is_empty()).then(|| json(&run.parts));
        self.execute(
            "INSERT INTO run (run_id, name, submitted_at_ms, user, submit_host, scheduler, job_id, output, workdir,
                 job_file, nodes, model, parameters, dataset, samples, batch_size, epochs, precision, dlrun_version,
                 array, parts, framework, framework_version, framework_compiler, storage, storage_class,
                 image, image_name, image_digest, framework_provenance, queue, forecast, tasks_per_node, identity)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
                 ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34)
             ON CONFLICT (run_id) DO UPDATE SET name = ?2, submitted_at_ms = ?3, user = ?4, submit_host = ?5,
                 scheduler = ?6, job_id = coalesce(?7, job_id), output = coalesce(?8, output), workdir = ?9,
                 job_file = ?10, nodes = ?11, model = ?12, parameters = ?13, dataset = ?14, samples = ?15,
                 batch_size = ?16, epochs = ?17, precision = ?18, dlrun_version = ?19, array = ?20,
                 parts = coalesce(?21, parts), framework = ?22, framework_version = ?23, framework_compiler = ?24,
                 storage = ?25, storage_class = ?26, image = ?27, image_name = ?28, image_digest = ?29,
                 framework_provenance = ?30, queue = ?31, forecast = ?32,
                 tasks_per_node = ?33, identity = ?34",
            params![
                run.run_id.as_str(),
                run.name,
                integer(run.submitted_at_ms),
                run.user,
                run.submit_host,
                run.scheduler.as_str(),
                run.job_id.as_ref().map(|id| &id.0),
                run.output,
                run.workdir,
                run.job_file,
                run.nodes,
                work.model,
                optional(work.parameters),
                work.dataset,
                optional(work.samples),
                optional(work.batch_size),
                optional(work.epochs),
                work.precision,
                run.dlrun_version,
                run.array.as_ref().map(ToString::to_string),
                parts,
                run.framework.name,
                run.framework.version,
                run.framework.compiler,
                run.storage.as_ref().map(|(name, _)| name),
                run.storage.as_ref().map(|(_, class)| class.as_str()),
                run.image.as_ref().map(|image| &image.source),
                run.image.as_ref().and_then(|image| image.name.as_ref()),
                run.image.as_ref().and_then(|image| image.digest.as_ref()),
                run.framework.provenance.map(Provenance::as_str),
                run.queue,
                run.forecast.as_ref().map(json),
                run.tasks_per_node,
                run.identity.as_ref().map(json),
            ],
        )?;
        Ok(())
    }

    /// Notes where a run stands.
    ///
    /// # Errors
    /// [`StoreError::UnknownRun`], [`StoreError::Query`] and what the disk adds to it.
    pub fn set_status(&self, run_id: &RunId, status: &Status) -> Result<(), StoreError> {
        let (code, signal) = exit_columns(status.exit);
        let changed = self.execute(
            "UPDATE run SET state = ?2, raw_state = ?3, reason = ?4, exit_code = ?5, exit_signal = ?6,
                 started_at_ms = ?7, ended_at_ms = ?8, stuck = ?9, cause = ?10, cause_text = ?11, elements = ?12
             WHERE run_id = ?1",
            params![
                run_id.as_str(),
                status.state.as_str(),
                status.raw_state,
                status.reason,
                code,
                signal,
                optional(status.started_at_ms),
                optional(status.ended_at_ms),
                status.stuck,
                status.cause.as_ref().map(|cause| cause.kind.as_str()),
                status.cause.as_ref().map(|cause| &cause.text),
                status.elements.as_ref().map(json),
            ],
        )?;
        if changed == 1 {
            Ok(())
        } else {
            Err(self.unknown(run_id))
        }
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
        let id = self.attempt_row(run_id, element, attempt)?;
        let (start, end) = (outcome.start.as_ref(), outcome.end.as_ref());
        let job_id = start.or(end).and_then(|mark| mark.job_id.as_ref());
        self.execute(
            "UPDATE attempt SET job_id = coalesce(?2, job_id), first_node = coalesce(?3, first_node),
                 started_at_ms = coalesce(?4, started_at_ms), ended_at_ms = coalesce(?5, ended_at_ms),
                 shell_code = coalesce(?6, shell_code)
             WHERE id = ?1",
            params![
                id,
                job_id.map(|id| &id.0),
                start.or(end).map(|mark| &mark.node),
                optional(start.map(|mark| mark.at_ms)),
                optional(end.map(|mark| mark.ended_at_ms(start))),
                end.and_then(|mark| mark.exit_code),
            ],
        )?;
        outcome
            .nodes
            .iter()
            .try_for_each(|node| self.ingest_node(node))
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
        let MeasureKey {
            run_id,
            element,
            attempt,
            ..
        } = &record.key;
        let attempt = self.attempt_row(run_id, *element, *attempt)?;
        let target = self.target_row(&record.host)?;
        let Some(node) = self.node_row(attempt, target, record)? else {
            return Ok(None);
        };
        self.replace_usage(node, record)?;
        self.replace_epochs(node, &record.progress)?;
        self.replace_points(node, &record.progress.points)?;
        self.replace_holes(node, record)?;
        self.replace_events(node, &record.events)?;
        self.replace_gpus(node, &record.gpus)?;
        Ok(Some(node))
    }

    /// Takes a segment in; segments never change, so one that is there stays. `false` where the node's record is not
    /// there yet, and nothing was written.
    ///
    /// # Errors
    /// [`StoreError::Query`] and what the disk adds to it.
    pub fn ingest_segment(
        &self,
        key: &MeasureKey,
        segment: Segment<'_>,
    ) -> Result<bool, StoreError> {
        let Some(node) = self.node_of(key)? else {
            return Ok(false);
        };
        let Segment {
            seq,
            t0_ms,
            t1_ms,
            samples,
            bytes,
        } = segment;
        self.execute(
            "INSERT OR IGNORE INTO block (node, seq, t0_ms, t1_ms, samples, bytes, change_seq)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, last + 1 FROM change",
            params![node, seq, integer(t0_ms), integer(t1_ms), samples, bytes],
        )?;
        Ok(true)
    }

    /// Forgets a run and all that was measured of it; one that is not there is none the less gone.
    ///
    /// # Errors
    /// [`StoreError::Query`] and what the disk adds to it.
    pub fn forget_run(&self, run_id: &RunId) -> Result<(), StoreError> {
        self.execute("DELETE FROM run WHERE run_id = ?1", [run_id.as_str()])?;
        Ok(())
    }

    /// Forgets everything, before a reindex.
    ///
    /// # Errors
    /// [`StoreError::Query`] and what the disk adds to it.
    pub fn clear(&self) -> Result<(), StoreError> {
        // Children first: then each table is emptied in one go, without a look at every row.
        for table in [
            "import",
            "waiting",
            "live",
            "spool",
            "spool_columns",
            "rollup",
            "series",
            "gpu",
            "event",
            "block",
            "usage",
            "missing",
            "gap",
            "timing",
            "metric",
            "node",
            "element",
            "target",
            "attempt",
            "run",
            "origin",
        ] {
            self.execute(&format!("DELETE FROM {table}"), [])?;
        }
        // All rows come again, with other numbers: who took those of before must not take them for news.
        self.execute("UPDATE change SET store = lower(hex(randomblob(8)))", [])?;
        Ok(())
    }

    /// The row of a measurement.
    pub(super) fn node_of(&self, key: &MeasureKey) -> Result<Option<i64>, StoreError> {
        self.select(
            NODE_OF,
            params![
                key.run_id.as_str(),
                key.element,
                key.attempt,
                key.node,
                key.step
            ],
        )
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

    pub(super) fn target_row(&self, host: &HostFacts) -> Result<Option<i64>, StoreError> {
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
    /// [`StoreError::Query`] and what the disk adds to it.
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

    /// `None` where a newer record is there.
    pub(super) fn node_row(
        &self,
        attempt: i64,
        target: Option<i64>,
        record: &NodeRecord,
    ) -> Result<Option<i64>, StoreError> {
        let (code, signal) = exit_columns(record.exit);
        let (host, progress, watcher) = (&record.host, &record.progress, &record.watcher);
        let throughput = progress.throughput.as_ref();
        // The columns are of steps; numbers of samples stay in the record.
        let steps = |number: Option<u64>| number.filter(|_| !progress.counts_samples);
        let last_step = progress
            .last_step
            .as_ref()
            .filter(|_| !progress.counts_samples);
        let step_times = progress.step_times.as_ref();
        self.select(
            UPSERT_NODE,
            params![
                attempt,
                record.key.node,
                record.key.step,
                record.job_id.as_ref().map(|id| &id.0),
                node_state(record.state),
                integer(record.started_at_ms),
                optional(record.ended_at_ms),
                integer(record.updated_at_ms),
                code,
                signal,
                record.output,
                target,
                host.hostname,
                host.kernel,
                optional(host.cpus_allowed),
                host.omp_num_threads,
                progress.recogniser,
                optional(progress.epochs_announced),
                integer(progress.epochs_completed),
                optional(steps(progress.steps_per_epoch)),
                progress.step_seconds,
                throughput.map(|rate| rate.value),
                throughput.map(|rate| &rate.unit),
                record.segments,
                integer(watcher.cpu_us),
                integer(watcher.samples),
                integer(watcher.late_ticks),
                record.cgroup,
                record.container.as_ref().map(json),
                progress.epoch_numbering.map(EpochNumbering::as_str),
                progress.restarts,
                optional(last_step.and_then(|mark| mark.epoch)),
                optional(last_step.and_then(|mark| mark.step)),
                optional(last_step.and_then(|mark| mark.of)),
                step_times.map(|times| times.source.as_str()),
                optional(step_times.map(|times| times.steps)),
                step_times.map(|times| times.median_seconds),
                step_times.map(|times| times.p95_seconds),
                throughput.map(|rate| rate.scope.as_str()),
                progress.run_seconds,
                json(&progress.last_metrics),
                json(&record.conditions),
                progress.evaluation_seconds,
                progress.checkpoint_seconds,
            ],
        )
    }

    pub(super) fn unknown(&self, run_id: &RunId) -> StoreError {
        StoreError::UnknownRun {
            path: self.path.to_owned(),
            run_id: run_id.clone(),
        }
    }

    pub(super) fn execute(&self, sql: &str, values: impl Params) -> Result<usize, StoreError> {
        let done = self
            .transaction
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute(values));
        done.map_err(|source| StoreError::of(self.path, "write", source))
    }

    /// The first column of the first row.
    pub(super) fn select(&self, sql: &str, values: impl Params) -> Result<Option<i64>, StoreError> {
        let statement = self.transaction.prepare_cached(sql);
        let found =
            statement.and_then(|mut found| found.query_row(values, |row| row.get(0)).optional());
        found.map_err(|source| StoreError::of(self.path, "write", source))
    }
}

fn node_state(state: NodeState) -> &'static str {
    match state {
        NodeState::Running => "running",
        NodeState::Ended => "ended",
        NodeState::Interrupted => "interrupted",
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("plain data with text keys")
}

pub(super) fn exit_columns(exit: Option<ExitStatus>) -> (Option<i32>, Option<i32>) {
    match exit {
        Some(ExitStatus::Code(code)) => (Some(code), None),
        Some(ExitStatus::Signal(signal)) => (None, Some(signal)),
        None => (None, None),
    }
}
