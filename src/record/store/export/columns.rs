//! Where each column of a table comes from, in SQL; in the order of [`Table::fields`] after the first, the database's name.

use crate::record::Table;

/// What every row below a run begins with; the number of the change comes before.
const MEASUREMENT: [&str; 7] = [
    "run.run_id",
    "attempt.element",
    "attempt.attempt",
    "node.node",
    "node.step",
    "run.name",
    "run.user",
];

/// A condition of a run: of the first of its measurements that knows it.
macro_rules! condition {
    ($of:literal) => {
        concat!(
            "(SELECT its.conditions ",
            $of,
            " FROM attempt AS start CROSS JOIN node AS its ON its.attempt = start.id
              WHERE start.run = run.id AND its.conditions ",
            $of,
            " IS NOT NULL LIMIT 1)"
        )
    };
}

const RUNS: &[&str] = &[
    "run.change_seq",
    "run_id",
    "name",
    "user",
    "uid",
    "submitted_at_ms",
    "submit_host",
    "scheduler",
    "job_id",
    "state",
    "raw_state",
    "reason",
    "cause",
    "cause_text",
    "exit_code",
    "exit_signal",
    "started_at_ms",
    "ended_at_ms",
    "stuck",
    "nodes",
    "array",
    "parts",
    "elements",
    "workdir",
    "job_file",
    "output",
    "framework",
    "framework_version",
    "framework_compiler",
    "framework_provenance",
    "storage",
    "storage_class",
    "image",
    "image_name",
    "image_digest",
    "model",
    "parameters",
    "dataset",
    "samples",
    "batch_size",
    "epochs",
    "precision",
    "queue",
    "tasks_per_node",
    "identity",
    "forecast",
    "dlrun_version",
    "identity -> '$.command'",
    "identity ->> '$.script'",
    "identity ->> '$.git.commit'",
    "identity ->> '$.git.branch'",
    "identity ->> '$.git.dirty'",
    "identity ->> '$.asked.account'",
    "identity ->> '$.asked.qos'",
    "identity ->> '$.asked.gpus'",
    "identity ->> '$.asked.cpus_per_task'",
    "identity ->> '$.asked.memory_bytes'",
    "identity ->> '$.asked.walltime_seconds'",
    condition!("->> '$.queue'"),
    condition!("->> '$.account'"),
    condition!("->> '$.qos'"),
    condition!("-> '$.software'"),
];

/// As [`crate::record::Epoch::time`].
const SECONDS: &str = "CASE WHEN clock_set THEN NULL WHEN printed_seconds IS NOT NULL AND clock_seconds IS NOT NULL AND NOT event
         AND printed_seconds < 100.0 AND printed_seconds = CAST(printed_seconds AS INTEGER) THEN clock_seconds
     ELSE coalesce(nullif(printed_seconds, 0.0), clock_seconds) END";
const SOURCE: &str = "CASE WHEN clock_set THEN NULL WHEN nullif(printed_seconds, 0.0) IS NULL THEN iif(clock_seconds IS NULL, NULL, 'clock')
     WHEN event THEN 'event'
     WHEN clock_seconds IS NOT NULL AND printed_seconds < 100.0 AND printed_seconds = CAST(printed_seconds AS INTEGER) THEN 'clock'
     ELSE 'stated' END";

const TIMINGS: &[&str] = &[
    "place",
    "epoch",
    SECONDS,
    SOURCE,
    "printed_seconds",
    "clock_seconds",
    "timing.ended_at_ms",
    "event",
    "warmup",
    "timing.samples",
    "evaluation_seconds",
    "checkpoint_seconds",
    "metrics",
    "nullif(clock_set, 0)",
];

const USAGE: &[&str] = &[
    "node.job_id",
    "node.state",
    "node.started_at_ms",
    "node.ended_at_ms",
    "updated_at_ms",
    "node.exit_code",
    "node.exit_signal",
    "node.output",
    "hostname",
    "kernel",
    "cpu_model",
    "cpus",
    "mem_total_bytes",
    "cpus_allowed",
    "omp_num_threads",
    "conditions ->> 'affinity'",
    "CAST(conditions ->> 'cpus_effective' AS REAL)",
    "CAST(conditions ->> 'others_cpus_busy' AS REAL)",
    "conditions",
    "cgroup",
    "container",
    "wall_seconds",
    "cpu_user_seconds",
    "cpu_system_seconds",
    "cpu_throttled_seconds",
    "mem_peak_bytes",
    "mem_oom_kills",
    "io_read_bytes",
    "io_write_bytes",
    "processes_peak",
    "recogniser",
    "epochs_announced",
    "epochs_completed",
    "epoch_numbering",
    "restarts",
    "steps_per_epoch",
    "last_step_epoch",
    "last_step",
    "last_step_of",
    "step_seconds",
    "step_source",
    "steps_timed",
    "step_median_seconds",
    "step_p95_seconds",
    "throughput",
    "throughput_unit",
    "throughput_scope",
    "run_seconds",
    "last_metrics",
    "segments",
    "watcher_cpu_us",
    "watcher_samples",
    "watcher_late_ticks",
    "(SELECT json_group_array(json_object('from_ms', from_ms, 'to_ms', to_ms, 'why', why) ORDER BY place)
         FROM gap WHERE gap.node = node.id)",
    "(SELECT json_group_array(json_object('what', what, 'why', why) ORDER BY place)
         FROM missing WHERE missing.node = node.id)",
    "attempt.job_id",
    "first_node",
    "attempt.started_at_ms",
    "attempt.ended_at_ms",
    "shell_code",
    "evaluation_outside_seconds",
    "checkpoint_outside_seconds",
    "core_gflops",
    "node_gflops",
    "memory_gb_per_second",
    "disk_mb_per_second",
    "benched_at_ms",
    "node.conditions -> '$.software'",
    "node.conditions ->> '$.queue'",
    "node.conditions ->> '$.account'",
    "node.conditions ->> '$.qos'",
];

const GPUS: &[&str] = &[
    "uuid",
    "gpu.name",
    "minor",
    "pci_bus_id",
    "mem_total_bytes",
    "power_limit_watts",
    "sm_clock_max_mhz",
    "mig",
    "parent",
    "driver",
    "readings",
    "utilisation_mean_percent",
    "mem_peak_bytes",
    "energy_joules",
    "power_mean_watts",
    "temperature_peak_celsius",
    "sm_clock_mean_mhz",
    "throttled_seconds",
    "idle_seconds",
    "xid_errors",
    "updated_at_ms",
];

const METRICS: &[&str] = &[
    "metric.kind",
    "metric.place",
    "metric.name",
    "metric.epoch",
    "metric.step",
    "metric.at_ms",
    "metric.value",
];

const EVENTS: &[&str] = &["place", "at_ms", "kind", "detail"];

/// Of a block; the readings in it become the rows.
const BLOCK: &[&str] = &["block.seq", "block.bytes"];

/// The expressions of a table's columns.
pub(super) fn of(table: Table) -> Vec<&'static str> {
    let below = |change: &'static str, rest: &[&'static str]| {
        [&[change][..], &MEASUREMENT[..], rest].concat()
    };
    match table {
        Table::Runs => RUNS.to_vec(),
        Table::Timings => below("timing.change_seq", TIMINGS),
        Table::Usage => below("node.change_seq", USAGE),
        Table::Gpus => below("gpu.change_seq", GPUS),
        Table::Metrics => below("metric.change_seq", METRICS),
        Table::Events => below("event.change_seq", EVENTS),
        Table::Samples | Table::GpuSamples | Table::ProcessSamples => {
            below("block.change_seq", BLOCK)
        }
    }
}
