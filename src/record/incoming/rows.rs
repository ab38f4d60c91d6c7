//! The rows as they stand in a line, key by key as in [`Table::fields`]; what follows from other columns is not read.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::values::{
    amount, amount_or_none, change, key, name, name_or_none, node, rate_or_none, text, text_or_none,
};
use super::{Incoming, IncomingRun, IncomingUsage, Row, RowVersion};
use crate::job::{
    ArraySpec, Framework, JobId, JobState, Provenance, RunId, SchedulerKind, StorageClass, Workload,
};
use crate::record::timing::null_as_nan;
use crate::record::{
    ArrayPart, Cause, CauseKind, Conditions, ContainerRecord, ElementCounts, Epoch, EpochNumbering,
    Event, EventKind, ExitStatus, Forecast, Gap, GpuFacts, GpuReading, GpuUsage, HostFacts,
    Identity, MeasureKey, MetricPoint, Missing, NodeFigures, NodeRecord, NodeState, PointKind,
    ProcessReading, Progress, RunImage, RunRecord, Sample, Scope, Status, StepMark, StepTimes,
    Throughput, TimeSource, Usage, WatcherCost,
};

fn exit_of(code: Option<i32>, signal: Option<i32>) -> Option<ExitStatus> {
    code.map(ExitStatus::Code)
        .or(signal.map(ExitStatus::Signal))
}

/// A row below a run. Columns that may be null may also be missing: an older dlrun did not know them.
macro_rules! measured {
    ($name:ident { $($(#[$serde:meta])* $field:ident: $type:ty,)* }) => {
        #[derive(Deserialize)]
        pub(super) struct $name {
            #[serde(deserialize_with = "key")]
            store: String,
            #[serde(deserialize_with = "change")]
            seq: u64,
            run_id: RunId,
            element: u32,
            attempt: u32,
            #[serde(deserialize_with = "node")]
            node: String,
            step: u32,
            $($(#[$serde])* $field: $type,)*
        }

        impl $name {
            fn version(&self) -> RowVersion {
                RowVersion { seq: self.seq, store: self.store.clone() }
            }

            fn key(&self) -> MeasureKey {
                let Self { run_id, element, attempt, node, step, .. } = self;
                MeasureKey {
                    run_id: run_id.clone(), element: *element, attempt: *attempt, node: node.clone(), step: *step,
                }
            }
        }
    };
}

#[derive(Deserialize)]
pub(super) struct RunRow {
    #[serde(deserialize_with = "key")]
    store: String,
    #[serde(deserialize_with = "change")]
    seq: u64,
    run_id: RunId,
    #[serde(deserialize_with = "name")]
    name: String,
    #[serde(deserialize_with = "name")]
    user: String,
    uid: Option<u32>,
    submitted_at_ms: u64,
    #[serde(deserialize_with = "name")]
    submit_host: String,
    scheduler: SchedulerKind,
    #[serde(default, deserialize_with = "name_or_none")]
    job_id: Option<String>,
    state: JobState,
    #[serde(default, deserialize_with = "text_or_none")]
    raw_state: Option<String>,
    #[serde(default, deserialize_with = "text_or_none")]
    reason: Option<String>,
    cause: Option<CauseKind>,
    #[serde(default, deserialize_with = "text_or_none")]
    cause_text: Option<String>,
    exit_code: Option<i32>,
    exit_signal: Option<i32>,
    started_at_ms: Option<u64>,
    ended_at_ms: Option<u64>,
    stuck: bool,
    nodes: u32,
    array: Option<ArraySpec>,
    parts: Option<Vec<ArrayPart>>,
    elements: Option<ElementCounts>,
    #[serde(deserialize_with = "text")]
    workdir: String,
    #[serde(default, deserialize_with = "text_or_none")]
    job_file: Option<String>,
    #[serde(default, deserialize_with = "text_or_none")]
    output: Option<String>,
    #[serde(default, deserialize_with = "name_or_none")]
    framework: Option<String>,
    #[serde(default, deserialize_with = "name_or_none")]
    framework_version: Option<String>,
    #[serde(default, deserialize_with = "name_or_none")]
    framework_compiler: Option<String>,
    framework_provenance: Option<Provenance>,
    #[serde(default, deserialize_with = "name_or_none")]
    storage: Option<String>,
    storage_class: Option<StorageClass>,
    #[serde(default, deserialize_with = "text_or_none")]
    image: Option<String>,
    #[serde(default, deserialize_with = "name_or_none")]
    image_name: Option<String>,
    #[serde(default, deserialize_with = "name_or_none")]
    image_digest: Option<String>,
    #[serde(default, deserialize_with = "name_or_none")]
    model: Option<String>,
    parameters: Option<u64>,
    #[serde(default, deserialize_with = "name_or_none")]
    dataset: Option<String>,
    samples: Option<u64>,
    batch_size: Option<u64>,
    epochs: Option<u64>,
    #[serde(default, deserialize_with = "name_or_none")]
    precision: Option<String>,
    #[serde(default, deserialize_with = "name_or_none")]
    queue: Option<String>,
    tasks_per_node: Option<u32>,
    identity: Option<Identity>,
    forecast: Option<Forecast>,
    #[serde(deserialize_with = "name")]
    dlrun_version: String,
}

impl From<RunRow> for Incoming {
    fn from(row: RunRow) -> Self {
        let status = Status {
            expected_start_ms: None,
            state: row.state,
            raw_state: row.raw_state,
            reason: row.reason,
            exit: exit_of(row.exit_code, row.exit_signal),
            started_at_ms: row.started_at_ms,
            ended_at_ms: row.ended_at_ms,
            stuck: row.stuck,
            cause: row
                .cause
                .zip(row.cause_text)
                .map(|(kind, text)| Cause { kind, text }),
            elements: row.elements,
        };
        let (name, digest) = (row.image_name, row.image_digest);
        let record = RunRecord {
            format: RunRecord::FORMAT,
            run_id: row.run_id,
            name: row.name,
            submitted_at_ms: row.submitted_at_ms,
            user: row.user,
            submit_host: row.submit_host,
            scheduler: row.scheduler,
            job_id: row.job_id.map(JobId),
            output: row.output,
            workdir: row.workdir,
            job_file: row.job_file,
            nodes: row.nodes,
            array: row.array,
            parts: row.parts.unwrap_or_default(),
            framework: Framework {
                name: row.framework,
                version: row.framework_version,
                compiler: row.framework_compiler,
                provenance: row.framework_provenance,
            },
            storage: row.storage.zip(row.storage_class),
            image: row.image.map(|source| RunImage {
                source,
                name,
                digest,
            }),
            workload: Workload {
                model: row.model,
                parameters: row.parameters,
                dataset: row.dataset,
                samples: row.samples,
                batch_size: row.batch_size,
                epochs: row.epochs,
                precision: row.precision,
            },
            tasks_per_node: row.tasks_per_node,
            queue: row.queue,
            identity: row.identity,
            forecast: row.forecast,
            dlrun_version: row.dlrun_version,
        };
        let run = IncomingRun {
            record,
            status,
            uid: row.uid,
        };
        Self {
            version: RowVersion {
                seq: row.seq,
                store: row.store,
            },
            row: Row::Run(Box::new(run)),
        }
    }
}

measured!(UsageRow {
    #[serde(default, deserialize_with = "name_or_none")]
    job_id: Option<String>,
    state: NodeState,
    started_at_ms: u64,
    ended_at_ms: Option<u64>,
    updated_at_ms: u64,
    exit_code: Option<i32>,
    exit_signal: Option<i32>,
    #[serde(default, deserialize_with = "text_or_none")]
    output: Option<String>,
    #[serde(deserialize_with = "name")]
    hostname: String,
    #[serde(default, deserialize_with = "name_or_none")]
    kernel: Option<String>,
    #[serde(default, deserialize_with = "name_or_none")]
    cpu_model: Option<String>,
    cpus: Option<u64>,
    mem_total_bytes: Option<u64>,
    cpus_allowed: Option<u64>,
    #[serde(default, deserialize_with = "name_or_none")]
    omp_num_threads: Option<String>,
    conditions: Conditions,
    #[serde(default, deserialize_with = "name_or_none")]
    cgroup: Option<String>,
    container: Option<ContainerRecord>,
    #[serde(default, deserialize_with = "amount_or_none")]
    wall_seconds: Option<f64>,
    #[serde(default, deserialize_with = "amount_or_none")]
    cpu_user_seconds: Option<f64>,
    #[serde(default, deserialize_with = "amount_or_none")]
    cpu_system_seconds: Option<f64>,
    #[serde(default, deserialize_with = "amount_or_none")]
    cpu_throttled_seconds: Option<f64>,
    mem_peak_bytes: Option<u64>,
    mem_oom_kills: Option<u64>,
    io_read_bytes: Option<u64>,
    io_write_bytes: Option<u64>,
    processes_peak: Option<u64>,
    #[serde(default, deserialize_with = "name_or_none")]
    recogniser: Option<String>,
    epochs_announced: Option<u64>,
    epochs_completed: u64,
    epoch_numbering: Option<EpochNumbering>,
    restarts: u32,
    steps_per_epoch: Option<u64>,
    last_step_epoch: Option<u64>,
    last_step: Option<u64>,
    last_step_of: Option<u64>,
    #[serde(default, deserialize_with = "amount_or_none")]
    step_seconds: Option<f64>,
    step_source: Option<TimeSource>,
    steps_timed: Option<u64>,
    #[serde(default, deserialize_with = "amount_or_none")]
    step_median_seconds: Option<f64>,
    #[serde(default, deserialize_with = "amount_or_none")]
    step_p95_seconds: Option<f64>,
    #[serde(default, deserialize_with = "amount_or_none")]
    throughput: Option<f64>,
    #[serde(default, deserialize_with = "name_or_none")]
    throughput_unit: Option<String>,
    throughput_scope: Option<Scope>,
    #[serde(default, deserialize_with = "amount_or_none")]
    run_seconds: Option<f64>,
    #[serde(deserialize_with = "null_as_nan")]
    last_metrics: BTreeMap<String, f64>,
    segments: u32,
    watcher_cpu_us: u64,
    watcher_samples: u64,
    watcher_late_ticks: u64,
    gaps: Vec<Gap>,
    missing: Vec<Missing>,
    #[serde(default, deserialize_with = "name_or_none")]
    attempt_job_id: Option<String>,
    #[serde(default, deserialize_with = "name_or_none")]
    attempt_first_node: Option<String>,
    attempt_started_at_ms: Option<u64>,
    attempt_ended_at_ms: Option<u64>,
    attempt_exit_code: Option<i32>,
    #[serde(default, deserialize_with = "amount_or_none")]
    evaluation_outside_seconds: Option<f64>,
    #[serde(default, deserialize_with = "amount_or_none")]
    checkpoint_outside_seconds: Option<f64>,
    #[serde(default, deserialize_with = "rate_or_none")]
    core_gflops: Option<f64>,
    #[serde(default, deserialize_with = "rate_or_none")]
    node_gflops: Option<f64>,
    #[serde(default, deserialize_with = "rate_or_none")]
    memory_gb_per_second: Option<f64>,
    #[serde(default, deserialize_with = "rate_or_none")]
    disk_mb_per_second: Option<f64>,
    benched_at_ms: Option<u64>,
});

impl UsageRow {
    fn host(&self) -> HostFacts {
        HostFacts {
            hostname: self.hostname.clone(),
            cpu_model: self.cpu_model.clone(),
            cpus: self.cpus,
            cpus_allowed: self.cpus_allowed,
            mem_total_bytes: self.mem_total_bytes,
            kernel: self.kernel.clone(),
            omp_num_threads: self.omp_num_threads.clone(),
        }
    }

    /// What the kind of node was measured to do, where all but the disk is told.
    fn figures(&self) -> Option<NodeFigures> {
        Some(NodeFigures {
            core_gflops: self.core_gflops?,
            node_gflops: self.node_gflops?,
            memory_gb_per_second: self.memory_gb_per_second?,
            disk_mb_per_second: self.disk_mb_per_second,
            measured_at_ms: self.benched_at_ms?,
        })
    }

    fn usage(&self) -> Usage {
        Usage {
            wall_seconds: self.wall_seconds,
            cpu_user_seconds: self.cpu_user_seconds,
            cpu_system_seconds: self.cpu_system_seconds,
            mem_peak_bytes: self.mem_peak_bytes,
            io_read_bytes: self.io_read_bytes,
            io_write_bytes: self.io_write_bytes,
            processes_peak: self.processes_peak,
            cpu_throttled_seconds: self.cpu_throttled_seconds,
            mem_oom_kills: self.mem_oom_kills,
        }
    }

    fn progress(&self) -> Progress {
        let step = StepMark {
            epoch: self.last_step_epoch,
            step: self.last_step,
            of: self.last_step_of,
        };
        let seen = step.epoch.is_some() || step.step.is_some() || step.of.is_some();
        let figures = self
            .step_source
            .zip(self.step_median_seconds)
            .zip(self.step_p95_seconds);
        let scope = self.throughput_scope.unwrap_or_default();
        let rate = self.throughput.zip(self.throughput_unit.clone());
        Progress {
            recogniser: self.recogniser.clone(),
            epochs_announced: self.epochs_announced,
            epoch_numbering: self.epoch_numbering,
            epochs_completed: self.epochs_completed,
            epochs: Vec::new(),
            steps_per_epoch: self.steps_per_epoch,
            counts_samples: false,
            last_step: seen.then_some(step),
            step_seconds: self.step_seconds,
            step_times: figures.map(|((source, median_seconds), p95_seconds)| StepTimes {
                source,
                steps: self.steps_timed.unwrap_or(0),
                median_seconds,
                p95_seconds,
            }),
            throughput: rate.map(|(value, unit)| Throughput { value, unit, scope }),
            run_seconds: self.run_seconds,
            restarts: self.restarts,
            last_metrics: self.last_metrics.clone(),
            points: Vec::new(),
            evaluation_seconds: self.evaluation_outside_seconds,
            checkpoint_seconds: self.checkpoint_outside_seconds,
        }
    }
}

impl From<UsageRow> for Incoming {
    fn from(row: UsageRow) -> Self {
        let record = NodeRecord {
            format: NodeRecord::FORMAT,
            last_words: Vec::new(),
            key: row.key(),
            job_id: row.job_id.clone().map(JobId),
            state: row.state,
            started_at_ms: row.started_at_ms,
            ended_at_ms: row.ended_at_ms,
            updated_at_ms: row.updated_at_ms,
            exit: exit_of(row.exit_code, row.exit_signal),
            host: row.host(),
            usage: row.usage(),
            progress: row.progress(),
            segments: row.segments,
            watcher: WatcherCost {
                cpu_us: row.watcher_cpu_us,
                samples: row.watcher_samples,
                late_ticks: row.watcher_late_ticks,
            },
            gpus: Vec::new(),
            events: Vec::new(),
            conditions: row.conditions.clone(),
            output: row.output.clone(),
            cgroup: row.cgroup.clone(),
            gaps: row.gaps.clone(),
            missing: row.missing.clone(),
            container: row.container.clone(),
        };
        let version = row.version();
        let usage = IncomingUsage {
            record,
            figures: row.figures(),
            attempt_job_id: row.attempt_job_id.map(JobId),
            attempt_first_node: row.attempt_first_node,
            attempt_started_at_ms: row.attempt_started_at_ms,
            attempt_ended_at_ms: row.attempt_ended_at_ms,
            attempt_exit_code: row.attempt_exit_code,
        };
        Self {
            version,
            row: Row::Usage(Box::new(usage)),
        }
    }
}

measured!(EpochRow {
    place: u64,
    epoch: u64,
    #[serde(default, deserialize_with = "amount_or_none")]
    printed_seconds: Option<f64>,
    #[serde(default, deserialize_with = "amount_or_none")]
    clock_seconds: Option<f64>,
    ended_at_ms: Option<u64>,
    event: bool,
    warmup: bool,
    samples: Option<u64>,
    #[serde(default, deserialize_with = "amount_or_none")]
    evaluation_seconds: Option<f64>,
    #[serde(default, deserialize_with = "amount_or_none")]
    checkpoint_seconds: Option<f64>,
    #[serde(deserialize_with = "null_as_nan")]
    metrics: BTreeMap<String, f64>,
    clock_set: Option<bool>,
});

impl From<EpochRow> for Incoming {
    fn from(row: EpochRow) -> Self {
        let (version, key) = (row.version(), row.key());
        let epoch = Epoch {
            epoch: row.epoch,
            printed_seconds: row.printed_seconds,
            clock_seconds: row.clock_seconds,
            ended_at_ms: row.ended_at_ms,
            metrics: row.metrics,
            event: row.event,
            warmup: row.warmup,
            clock_set: row.clock_set.unwrap_or(false),
            samples: row.samples,
            evaluation_seconds: row.evaluation_seconds,
            checkpoint_seconds: row.checkpoint_seconds,
        };
        Self {
            version,
            row: Row::Timing(key, row.place, epoch),
        }
    }
}

measured!(GpuRow {
    #[serde(deserialize_with = "key")]
    uuid: String,
    #[serde(deserialize_with = "name")]
    gpu: String,
    minor: Option<u32>,
    #[serde(default, deserialize_with = "name_or_none")]
    pci_bus_id: Option<String>,
    mem_total_bytes: Option<u64>,
    power_limit_watts: Option<u32>,
    sm_clock_max_mhz: Option<u32>,
    mig: Option<bool>,
    #[serde(default, deserialize_with = "name_or_none")]
    parent: Option<String>,
    #[serde(default, deserialize_with = "name_or_none")]
    driver: Option<String>,
    readings: u64,
    #[serde(default, deserialize_with = "amount_or_none")]
    utilisation_mean_percent: Option<f64>,
    mem_peak_bytes: Option<u64>,
    #[serde(default, deserialize_with = "amount_or_none")]
    energy_joules: Option<f64>,
    #[serde(default, deserialize_with = "amount_or_none")]
    power_mean_watts: Option<f64>,
    temperature_peak_celsius: Option<u64>,
    #[serde(default, deserialize_with = "amount_or_none")]
    sm_clock_mean_mhz: Option<f64>,
    #[serde(deserialize_with = "amount")]
    throttled_seconds: f64,
    #[serde(deserialize_with = "amount")]
    idle_seconds: f64,
    xid_errors: u64,
});

impl From<GpuRow> for Incoming {
    fn from(row: GpuRow) -> Self {
        let (version, key) = (row.version(), row.key());
        let gpu = GpuFacts {
            uuid: row.uuid,
            name: row.gpu,
            minor: row.minor,
            pci_bus_id: row.pci_bus_id,
            mem_total_bytes: row.mem_total_bytes,
            power_limit_watts: row.power_limit_watts,
            sm_clock_max_mhz: row.sm_clock_max_mhz,
            mig: row.mig,
            parent: row.parent,
            driver: row.driver,
        };
        let usage = GpuUsage {
            readings: row.readings,
            utilisation_mean_percent: row.utilisation_mean_percent,
            mem_peak_bytes: row.mem_peak_bytes,
            energy_joules: row.energy_joules,
            power_mean_watts: row.power_mean_watts,
            temperature_peak_celsius: row.temperature_peak_celsius,
            sm_clock_mean_mhz: row.sm_clock_mean_mhz,
            throttled_seconds: row.throttled_seconds,
            idle_seconds: row.idle_seconds,
            xid_errors: row.xid_errors,
            ..GpuUsage::of(gpu)
        };
        Self {
            version,
            row: Row::Gpu(key, Box::new(usage)),
        }
    }
}

measured!(MetricRow {
    point: PointKind,
    place: u64,
    #[serde(deserialize_with = "key")]
    metric: String,
    epoch: Option<u64>,
    train_step: Option<u64>,
    at_ms: Option<u64>,
    value: Option<f64>,
});

impl From<MetricRow> for Incoming {
    fn from(row: MetricRow) -> Self {
        let (version, key) = (row.version(), row.key());
        let point = MetricPoint {
            kind: row.point,
            place: row.place,
            epoch: row.epoch,
            step: row.train_step,
            at_ms: row.at_ms,
            metrics: BTreeMap::from([(row.metric, row.value.unwrap_or(f64::NAN))]),
        };
        Self {
            version,
            row: Row::Metric(key, Box::new(point)),
        }
    }
}

measured!(EventRow {
    place: u64,
    at_ms: u64,
    event: EventKind,
    #[serde(deserialize_with = "text")]
    detail: String,
});

impl From<EventRow> for Incoming {
    fn from(row: EventRow) -> Self {
        let (version, key) = (row.version(), row.key());
        let event = Event {
            at_ms: row.at_ms,
            kind: row.event,
            detail: row.detail,
        };
        Self {
            version,
            row: Row::Event(key, row.place, event),
        }
    }
}

measured!(SampleRow {
    segment: u32,
    #[serde(flatten)]
    reading: Sample,
});

impl From<SampleRow> for Incoming {
    fn from(row: SampleRow) -> Self {
        let (version, key) = (row.version(), row.key());
        // Those of GPUs and processes have rows of their own.
        let reading = Sample {
            gpus: Vec::new(),
            commands: Vec::new(),
            ..row.reading
        };
        Self {
            version,
            row: Row::Sample(key, row.segment, Box::new(reading)),
        }
    }
}

measured!(GpuSampleRow {
    segment: u32,
    at_ms: u64,
    #[serde(flatten)]
    reading: GpuReading,
});

impl From<GpuSampleRow> for Incoming {
    fn from(row: GpuSampleRow) -> Self {
        let (version, key) = (row.version(), row.key());
        let reading = Sample {
            at_ms: row.at_ms,
            gpus: vec![row.reading],
            ..Sample::default()
        };
        Self {
            version,
            row: Row::Sample(key, row.segment, Box::new(reading)),
        }
    }
}

measured!(ProcessSampleRow {
    segment: u32,
    at_ms: u64,
    #[serde(deserialize_with = "name")]
    comm: String,
    #[serde(flatten)]
    reading: ProcessReading,
});

impl From<ProcessSampleRow> for Incoming {
    fn from(row: ProcessSampleRow) -> Self {
        let (version, key) = (row.version(), row.key());
        // The row's `name` is the job's.
        let reading = ProcessReading {
            name: row.comm.into(),
            ..row.reading
        };
        let reading = Sample {
            at_ms: row.at_ms,
            commands: vec![reading],
            ..Sample::default()
        };
        Self {
            version,
            row: Row::Sample(key, row.segment, Box::new(reading)),
        }
    }
}
